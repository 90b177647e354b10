"""What an apt repository offers: its signed index, read over HTTP as a host's apt would read it."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urljoin

from provision.errors import GarbledError, RefusedError, UnavailableError

_LARGEST = 512 * 1024 * 1024
_READERS: Mapping[str, Callable[[bytes], bytes]] = {".xz": lzma.decompress, ".gz": gzip.decompress, "": bytes}


@dataclass(frozen=True, slots=True)
class Offer:
    """What a repository has. ``packages`` maps a name to its versions; ``notes`` are sentences about its index.

    ``sizes`` maps (name, version) to bytes, for an estimate of what an installation downloads.
    """

    packages: Mapping[str, tuple[str, ...]]
    sizes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_repository(
    name: str,
    url: str,
    suite: str = "./",
    components: tuple[str, ...] = (),
    *,
    key_file: Path | None = None,
    architecture: str = "amd64",
    proxy: str | None = None,
    timeout_s: float = 30,
) -> Offer:
    """Read one repository. Without ``gpgv`` or ``key_file`` its signature is not checked, and a note says so.

    Raises:
        UnavailableError: the mirror does not answer.
        RefusedError: it says no, or its signature is not of the given key.
        GarbledError: its index does not hold together.
    """
    peer = f"mirror {name}"
    base = url if url.endswith("/") else url + "/"
    flat = suite.endswith("/")
    root = urljoin(base, suite) if flat else urljoin(base, f"dists/{suite}/")
    reader = _Reader(peer, proxy, timeout_s)
    signed = reader.get(urljoin(root, "InRelease"))
    notes = list(_signature(peer, signed, key_file))
    release = _release(peer, signed)
    notes += _age(release)
    paths = ["Packages"] if flat else [f"{part}/binary-{architecture}/Packages" for part in components or ("main",)]
    packages: dict[str, list[str]] = {}
    sizes: dict[tuple[str, str], int] = {}
    for path in paths:
        for stanza in parse_packages(_index(reader, root, path, release)):
            if stanza.get("Architecture") not in {architecture, "all", None}:
                continue
            packages.setdefault(stanza["Package"], []).append(stanza["Version"])
            sizes[stanza["Package"], stanza["Version"]] = int(stanza.get("Size", "0") or 0)
    return Offer({key: tuple(dict.fromkeys(value)) for key, value in packages.items()}, sizes, tuple(notes))


def parse_packages(text: str) -> Iterator[dict[str, str]]:
    """Stanzas of a Packages file with the fields that matter here; one without name or version is left out."""
    for block in text.split("\n\n"):
        fields = dict(re.findall(r"(?m)^(Package|Version|Architecture|Size): *(\S.*?)\s*$", block))
        if "Package" in fields and "Version" in fields:
            yield fields


class _Reader:
    def __init__(self, peer: str, proxy: str | None, timeout_s: float) -> None:
        proxies = {"http": proxy, "https": proxy} if proxy else {}
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
        self.peer, self._timeout_s = peer, timeout_s

    def get(self, url: str) -> bytes:
        operation = f"GET {url}"
        try:
            with self._opener.open(url, timeout=self._timeout_s) as answer:
                data: bytes = answer.read(_LARGEST)
                return data
        except urllib.error.HTTPError as error:
            detail = f"status {error.code}; is the address right, and does the mirror carry this suite?"
            raise RefusedError(self.peer, operation, detail, code=str(error.code)) from error
        except (OSError, ValueError) as error:
            raise UnavailableError(self.peer, operation, f"{getattr(error, 'reason', error)}") from error


def _release(peer: str, signed: bytes) -> dict[str, str]:
    """Fields of the Release file, with its SHA-256 sums under ``sha256:PATH``."""
    text = signed.decode("utf-8", errors="replace")
    fields = dict(re.findall(r"(?m)^([A-Z][A-Za-z-]+): *(\S.*?)\s*$", text))
    sums = text.partition("\nSHA256:")[2]
    for line in sums.splitlines()[1:]:
        if not line.startswith(" "):
            break
        digest, _, path = line.split()[:3]
        fields[f"sha256:{path}"] = digest
    if not any(key.startswith("sha256:") for key in fields):
        raise GarbledError(peer, "read InRelease", "it lists no SHA-256 sums", payload=signed)
    return fields


def _index(reader: _Reader, root: str, path: str, release: Mapping[str, str]) -> str:
    for ending, unpack in _READERS.items():
        digest = release.get(f"sha256:{path}{ending}")
        if digest is None:
            continue
        data = reader.get(urljoin(root, path + ending))
        if hashlib.sha256(data).hexdigest() != digest:
            detail = (
                "it is not the one that InRelease lists: the mirror changed while it was read, or is being synchronised"
            )
            raise GarbledError(reader.peer, f"GET {path}{ending}", detail)
        try:
            return unpack(data).decode("utf-8", errors="replace")
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise GarbledError(reader.peer, f"GET {path}{ending}", f"it cannot be unpacked: {error}") from error
    raise GarbledError(reader.peer, "read InRelease", f"it lists no {path} in a form that is known here")


def _signature(peer: str, signed: bytes, key_file: Path | None) -> Iterator[str]:
    if key_file is None or shutil.which("gpgv") is None:
        yield "the signature was not checked: " + ("no key is given" if key_file is None else "gpgv is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        ring, message = Path(folder) / "key.gpg", Path(folder) / "InRelease"
        ring.write_bytes(_binary(key_file.read_bytes()))
        message.write_bytes(signed)
        done = subprocess.run(
            ["gpgv", "--homedir", folder, "--keyring", str(ring), str(message)], capture_output=True, check=False
        )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        detail = f"not signed by the key in {key_file}: {said[-1] if said else 'gpgv gives no reason'}"
        raise RefusedError(peer, "check the signature", detail)


def _binary(key: bytes) -> bytes:
    """An armoured key without its armour. Source: RFC 9580, 6.2."""
    import base64

    if not key.startswith(b"-----BEGIN"):
        return key
    lines = key.decode("ascii", errors="ignore").splitlines()
    body = [line.strip() for line in lines[lines.index("") + 1 if "" in lines else 1 :]]
    return base64.b64decode("".join(line for line in body if line and not line.startswith(("-", "="))))


def _age(release: Mapping[str, str]) -> Iterator[str]:
    for key, late in (("Valid-Until", True), ("Date", False)):
        try:
            moment = parsedate_to_datetime(release[key].replace("UTC", "+0000"))
        except (KeyError, ValueError):
            continue
        seconds = (moment - datetime.now(UTC)).total_seconds()
        if late and seconds < 0:
            yield f"the index has expired on {release[key]}: apt will refuse it"
        if not late and seconds > 0:
            yield f"the index is from the future ({release[key]}): apt will refuse it; check the clocks"
    if release.get("Acquire-By-Hash", "no").lower() != "yes":
        yield "no Acquire-By-Hash: while the mirror is synchronised, hosts may see a hash sum mismatch"
