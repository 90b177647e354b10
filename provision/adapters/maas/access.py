"""What the site gave to reach its region, checked before anything is sent: URL, API key, CA file, proxy."""

from __future__ import annotations

import re
import ssl
from urllib.parse import urlsplit

from maas.client.utils import api_url

from provision.errors import MisconfiguredError
from provision.model.secret import Secret

VERSION_MARK = "/api/2.0/"


def base_url(url: str) -> str:
    """The API's root under the operator's URL: ``http://maas.example:5240/MAAS/api/2.0/``.

    Raises:
        MisconfiguredError: not an http(s) URL with a host alone, or of another API version.
    """
    parts = urlsplit(url.strip())
    try:
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise MisconfiguredError(
            f"MAAS URL {_shown(url)}: expected http:// or https:// with a host, like http://maas.example:5240/MAAS"
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise MisconfiguredError(
            f"MAAS URL {_shown(url)}: no user, query or fragment belongs there; the key has its own setting"
        )
    base = str(api_url(parts.geturl()))
    if not base.endswith(VERSION_MARK):
        raise MisconfiguredError(f"MAAS URL {_shown(url)}: only API version 2.0 is spoken; leave {VERSION_MARK} out")
    return base


def _shown(url: str) -> str:
    return repr(re.sub(r"//[^/@]*@", "//***@", url))


def checked_key(key: Secret) -> Secret:
    """The key, if it has the form ``consumer:token:secret``.

    Raises:
        MisconfiguredError: not three parts of plain characters; the sentence does not quote them.
    """
    text = key.reveal().strip()
    if re.fullmatch(r"[!-9;-~]+:[!-9;-~]+:[!-9;-~]+", text):
        return Secret(text)
    raise MisconfiguredError(
        "MAAS API key: expected three parts with colons between them (consumer:token:secret), "
        "as MAAS shows it under the user's API keys"
    )


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Trust in the system's authorities, or in the site's alone.

    Raises:
        MisconfiguredError: the file cannot be read or holds no certificate.
    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        why = "there is no PEM certificate in it"
    except OSError as error:
        why = error.strerror or "it cannot be read"
    raise MisconfiguredError(f"CA file of MAAS {ca_file}: {why}")


def proxy_url(proxy: str) -> str:
    """The proxy's URL.

    Raises:
        MisconfiguredError: not ``http://host:port``.
    """
    if urlsplit(proxy).scheme != "http" or not urlsplit(proxy).hostname:
        raise MisconfiguredError(f"proxy for MAAS {_shown(proxy)}: expected http://host:port")
    return proxy
