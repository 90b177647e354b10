"""Folders of captured BMCs: which trees lie in them, and what a person would count in their JSON."""

from __future__ import annotations

import functools
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from provision.model.node import MacAddress

_MAC_KEYS = {
    "MACAddress", "PermanentMACAddress", "AssociatedMACAddresses", "AssociatedNetworkAddresses",
    "MacAddress", "FactoryMacAddress",
}  # fmt: skip
# Where a port of the host may be told of; what stands elsewhere (managers, switches, sensors) is no port of the host.
_HOST = re.compile(
    r"/Systems/[^/]+/(EthernetInterfaces|BaseNetworkAdapters|NetworkAdapters)/"
    r"|/(NetworkAdapters|NetworkInterfaces)/.*/(NetworkDeviceFunctions|Ports|NetworkPorts)/",
    re.IGNORECASE,
)
_NETWORK = re.compile(
    r"/(EthernetInterfaces|NetworkAdapters|BaseNetworkAdapters|NetworkInterfaces|BootOptions|Bios)/", re.IGNORECASE
)
# The ends of pipes to a BMC or a DPU have the same address in every machine.
_PIPES = ("00:1a:ca:ff:ff:", "0a:ca:fe:f0:0d:", "be:3a:f2:")
_DEEPEST = 6


def trees_in(folder: Path) -> list[Path]:
    """Trees in a folder (the folder itself, folders and tar files in it, at any depth), or the tar file that it is."""
    if is_tree(folder):
        return [folder]
    if not folder.is_dir():
        return []
    found: list[Path] = []
    for item in sorted(folder.iterdir()):
        if item.is_dir() or re.search(r"\.tar(\.\w+)?$", item.name):
            found += trees_in(item) if len(item.relative_to(folder).parts) <= _DEEPEST else []
    return found


def is_tree(source: Path) -> bool:
    """True for one service: its root is the ``index.json`` at the top or below ``redfish/v1``, or one in a tar file."""
    if source.is_dir():
        return any(_is_root(_json(top)) for top in (source / "index.json", source / "redfish/v1/index.json"))
    if not source.is_file() or not re.search(r"\.tar(\.\w+)?$", source.name):
        return False
    roots = (body for path, body in _tar(source) if path.strip("./").count("/") <= 3)
    return sum(_is_root(body) for body in roots) == 1


def _is_root(body: Any) -> bool:
    return isinstance(body, dict) and "#ServiceRoot." in str(body.get("@odata.type")) and "Links" in body


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _tar(source: Path, wanted: re.Pattern[str] | None = None) -> Iterator[tuple[str, Any]]:
    if not tarfile.is_tarfile(source):
        return
    with tarfile.open(source) as tar:
        for member in tar:
            name = "/" + member.name.removeprefix("./").removesuffix("index.json")
            if member.isfile() and member.name.endswith("index.json") and (wanted is None or wanted.search(name)):
                file = tar.extractfile(member)
                try:
                    yield name, json.loads(file.read() if file else b"null")
                except ValueError:
                    continue


def _folder(source: Path, wanted: re.Pattern[str] | None = None) -> Iterator[tuple[str, Any]]:
    for file in source.rglob("index.json"):
        path = "/" + file.parent.relative_to(source).as_posix() + "/"
        if wanted is None or wanted.search(path):
            yield path, _json(file)


def ready(source: Path, place: Path) -> Path:
    """The tree under a name of its own, without what the server cannot load: broken JSON, schemas posing as roots."""
    name = re.sub(r"\W", "-", "-".join(source.parts[-2:]))[-80:]
    if source.is_file():
        copy = place / f"{name}{''.join(source.suffixes[-2:])}"
        copy.symlink_to(source.resolve())
        return copy
    top = source / "index.json"
    main = top if _is_root(_json(top)) else source / "redfish/v1/index.json"
    bad = [file for file in source.rglob("index.json") if _bad(file, main)]
    copy = place / name
    if not bad:
        copy.symlink_to(source.resolve(), target_is_directory=True)
        return copy
    for file in set(source.rglob("index.json")) - set(bad):
        target = copy / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    return copy


def _bad(file: Path, main: Path) -> bool:
    body = _json(file)
    return body is None or (file != main and isinstance(body, dict) and "#ServiceRoot." in str(body.get("@odata.type")))


@functools.cache
def _bodies(source: Path) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Path and JSON of every resource of a tree that may tell a MAC, those that stand inside a collection too."""
    found: dict[str, dict[str, Any]] = {}
    for path, body in (_folder if source.is_dir() else _tar)(source, _NETWORK):
        if not isinstance(body, dict):
            continue
        found[path] = body
        members = body.get("Members")
        for item in members if isinstance(members, list) else ():
            if isinstance(item, dict) and len(item) > 1 and isinstance(item.get("@odata.id"), str):
                found.setdefault(item["@odata.id"].rstrip("/") + "/", item)
    return tuple(found.items())


def read_by_eye(source: Path, *, hosts_left_out: tuple[str, ...] = (), among: set[str] | None = None) -> set[str]:
    """MACs that stand in the host's network resources, the BMC's own and virtual interfaces left out.

    ``hosts_left_out`` are ids of other hosts behind the same BMC; ``among`` are the paths to look at, None for all.
    """
    found: set[str] = set()
    for path, body in _bodies(source):
        if among is not None and path not in among:
            continue
        if path.endswith("/Settings/"):
            continue  # what somebody wishes for the next start is no port
        if not _HOST.search(path) or _is_other(body) or any(f"/{host}/" in path for host in hosts_left_out):
            continue
        ports = body.get("PhysicalPorts")
        for holder in (body, body.get("Ethernet"), *(ports if isinstance(ports, list) else ())):
            for key in _MAC_KEYS & set(holder if isinstance(holder, dict) else ()):
                found |= _macs(holder[key])
    return {mac for mac in found if not mac.startswith(_PIPES)}


def _is_other(body: dict[str, Any]) -> bool:
    words = json.dumps([body.get(key) for key in ("Id", "Name", "EthernetInterfaceType")]).lower()
    links = body.get("Links")
    towards_bmc = isinstance(links, dict) and "HostInterface" in links
    return towards_bmc or bool(re.search(r"manager|virtual|usb\d|tmfifo|\"(bond|vlan|br-|docker|veth)", words))


def _macs(values: Any) -> set[str]:
    found = set()
    for value in values if isinstance(values, list) else [values]:
        try:
            found.add(str(MacAddress.parse(value or "")))
        except (ValueError, AttributeError):
            continue
    return found


def in_names(source: Path) -> set[str]:
    """MACs in device paths and names of boot options, and in names of BIOS attributes."""
    found: set[str] = set()
    for path, body in _bodies(source):
        if re.search(r"/(BootOptions|Bios)/", path, re.IGNORECASE):
            text = json.dumps(body).upper()
            for raw in re.findall(r"(?<![0-9A-F])(?:[0-9A-F]{12}|(?:[0-9A-F]{2}[:-]){5}[0-9A-F]{2})(?![0-9A-F])", text):
                found |= _macs(raw)
    return found


def reached(source: Path) -> set[str]:
    """Paths that some link leads to from the root, or that stand in a collection so reached.

    A capture may hold files that nothing names; they are asked of no BMC.
    """
    bodies = dict((_folder if source.is_dir() else _tar)(source))
    prefix = next(path for path, body in bodies.items() if _is_root(body)).rstrip("/").removesuffix("/redfish/v1")
    known = {_key(path.removeprefix(prefix)): body for path, body in bodies.items()}
    waiting, seen = [""], set()
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += [_key(link) for link in _links(known.get(path))]
    return {path for path, _ in _bodies(source) if _key(path.removeprefix(prefix)) in seen}


def _key(path: str) -> str:
    return path.partition("#")[0].partition("?")[0].rstrip("/").lower().removeprefix("/redfish/v1")


def _links(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str) and key in {"@odata.id", "href", "Members@odata.nextLink"}:
                yield item
            else:
                yield from _links(item)
    elif isinstance(value, list):
        for item in value:
            yield from _links(item)


def systems(source: Path) -> list[dict[str, Any]]:
    """The systems of a tree, as captured."""
    found = (_folder if source.is_dir() else _tar)(source, re.compile(r"/Systems/[^/]+/$"))
    return [body for _, body in found if isinstance(body, dict) and "error" not in body]


def written(tree: dict[str, Any], place: Path, *, prefix: str = "redfish/v1") -> Path:
    """Write a tree as captures are laid out; ``prefix`` is empty for the layout that begins at the service root."""
    for path, body in tree.items():
        below = path.removeprefix("/redfish/v1").strip("/")
        file = place / prefix / below / "index.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(body))
    return place
