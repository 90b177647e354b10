"""cloud-init user data: what a host is told at its first boot. Pure.

The document is JSON under cloud-init's header line: JSON is YAML, so no quoting rule of YAML can be got wrong.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from collections.abc import Sequence
from typing import Any

from provision.errors import MisconfiguredError
from provision.model.node import Node
from provision.model.secret import Secret

_KEY_NAMES = {"ssh-ed25519": "ed25519", "ssh-rsa": "rsa"}
_MAGIC = b"openssh-key-v1\0"
_TIME_SERVER = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]*")
# Characters that YAML 1.1 does not take raw (5.1), or folds as line breaks; JSON only escapes those below the blank.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def user_data(
    node: Node,
    host_key: Secret,
    *,
    ntp: Sequence[str] = (),
    ca_pem: str | None = None,
    apt_proxy: str | None = None,
    authorized_keys: Sequence[str] = (),
) -> Secret:
    """The user data of one deployment; a secret, for it holds the host's private key.

    Args:
        host_key: private SSH host key in OpenSSH or PEM form. Keys of the image are deleted.
        ntp: time servers, set and waited for (60 s at most) before apt runs: a clock years off makes every package
            signature invalid.
        ca_pem: the site's certificate authority, trusted by the whole host.
        apt_proxy: proxy for packages.
        authorized_keys: public keys for the image's default user.

    Raises:
        MisconfiguredError: the key's type cannot be told, a time server's name is none, or the CA is no PEM.
    """
    private = host_key.reveal().strip() + "\n"
    kind, public = _kind_of(private, node.name)
    keys = {f"{kind}_private": private}
    if public is not None:
        keys[f"{kind}_public"] = public
    document: dict[str, Any] = {
        "hostname": node.name,
        "preserve_hostname": False,
        "ssh_deletekeys": True,
        "ssh_keys": keys,
        "ssh_authorized_keys": list(authorized_keys),
    }
    if ntp:
        document |= _clock(ntp)
    if ca_pem is not None:
        if "-----BEGIN CERTIFICATE-----" not in ca_pem:
            raise MisconfiguredError(
                f"{node.name}: the site's CA is not a PEM certificate (BEGIN CERTIFICATE expected)"
            )
        document["ca_certs"] = {"trusted": [ca_pem.strip() + "\n"]}
    if apt_proxy:
        document["apt"] = {"http_proxy": apt_proxy, "https_proxy": apt_proxy}
    text = json.dumps({name: value for name, value in document.items() if value != []}, indent=1, ensure_ascii=False)
    return Secret("#cloud-config\n" + _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def _clock(ntp: Sequence[str]) -> dict[str, Any]:
    for server in ntp:
        if not _TIME_SERVER.fullmatch(server):
            raise MisconfiguredError(f"time server {server!r}: expected a host name or an address")
    # cloud-init sets NTP up after apt (module order of cloud.cfg), but bootcmd runs before both.
    script = (
        "mkdir -p /etc/systemd/timesyncd.conf.d && "
        f"printf '[Time]\\nNTP={' '.join(ntp)}\\n' > /etc/systemd/timesyncd.conf.d/provision.conf && "
        "systemctl restart systemd-timesyncd || exit 0\n"
        'for i in $(seq 60); do [ "$(timedatectl show -p NTPSynchronized --value)" = yes ] && break; sleep 1; done'
    )
    return {
        "bootcmd": [["cloud-init-per", "instance", "provision-clock", "sh", "-c", script]],
        "ntp": {"enabled": True, "servers": list(ntp)},
    }


def _kind_of(private: str, name: str) -> tuple[str, str | None]:
    """cloud-init's name of the key's type, and the public half where it can be read without mathematics."""
    if "BEGIN RSA PRIVATE KEY" in private:
        return "rsa", None
    if "BEGIN EC PRIVATE KEY" in private:
        return "ecdsa", None
    body = re.search(r"BEGIN OPENSSH PRIVATE KEY-+\s(.*?)\s-+END", private, re.DOTALL)
    if body is not None:
        try:
            public = _public_part(base64.b64decode("".join(body[1].split()), validate=True))
            algorithm = public[4 : 4 + struct.unpack_from(">I", public)[0]].decode("ascii")
        except (binascii.Error, ValueError, struct.error):
            pass
        else:
            kind = "ecdsa" if algorithm.startswith("ecdsa-sha2-") else _KEY_NAMES.get(algorithm)
            if kind is not None:
                return kind, f"{algorithm} {base64.b64encode(public).decode()}"
    raise MisconfiguredError(
        f"{name}: the SSH host key is not one that cloud-init takes: expected an OpenSSH or PEM private key, "
        "Ed25519, ECDSA or RSA"
    )


def _public_part(blob: bytes) -> bytes:
    """The public key inside an ``openssh-key-v1`` blob (PROTOCOL.key: cipher, kdf, its options, count, public key)."""
    if not blob.startswith(_MAGIC):
        raise ValueError("not an openssh-key-v1 blob")
    at = len(_MAGIC)
    for skip in (True, True, True, False, True):
        if not skip:
            at += 4
            continue
        length = struct.unpack_from(">I", blob, at)[0]
        part = blob[at + 4 : at + 4 + length]
        if len(part) != length:
            raise ValueError("cut short")
        at += 4 + length
    return part
