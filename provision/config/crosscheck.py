"""What no single host can know: two of them with one address, one rack unit, one switch port; secrets in the open."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path

from provision.config.complaints import Complaints, near
from provision.config.settings import Settings
from provision.model.node import Node

_LARGEST_TEXT_BYTES = 4 * 1024 * 1024


def check_nodes(nodes: Iterable[Node], profiles: frozenset[str], complaints: Complaints) -> None:
    """Complain of everything that two nodes share and may not, and of profiles that nobody described."""
    nodes = tuple(nodes)
    for node in nodes:
        if node.profile not in profiles:
            known = ", ".join(sorted(profiles)) or "none"
            hint = near(node.profile, profiles) or f"; known are: {known}"
            complaints.host(node.name, f"profile: {node.profile} is not in the group var profiles{hint}")
    _unique("BMC address", ((node.bmc_address, node.name) for node in nodes), complaints)
    _unique("service tag", ((n.service_tag.upper(), n.name) for n in nodes if n.service_tag), complaints)
    _unique("asset tag", ((n.asset_tag.upper(), n.name) for n in nodes if n.asset_tag), complaints)
    _unique("MAC address", ((str(mac), node.name) for node in nodes for mac in node.macs), complaints)
    _unique("rack unit", _units(nodes), complaints)
    _unique("switch port", _switch_ports(nodes), complaints)
    _unique("cable label", _labels(nodes), complaints)
    for node in nodes:
        _unique("cabled NIC port", ((cable.nic, node.name) for cable in node.cabling), complaints)


def _units(nodes: Iterable[Node]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if node.unit is not None:
            place = " ".join(part for part in (node.site, node.room, node.rack) if part)
            yield f"{place} U{node.unit}", node.name


def _switch_ports(nodes: Iterable[Node]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        for cable in node.cabling:
            yield f"{cable.switch} port {cable.port}", f"{node.name} {cable.nic}"


def _labels(nodes: Iterable[Node]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        for cable in node.cabling:
            if cable.label:
                yield cable.label, f"{node.name} {cable.nic}"


def _unique(what: str, pairs: Iterable[tuple[Hashable, str]], complaints: Complaints) -> None:
    owners: dict[Hashable, list[str]] = defaultdict(list)
    for value, owner in pairs:
        owners[value].append(owner)
    for value, names in owners.items():
        if len(names) > 1:
            listed = " and ".join(dict.fromkeys(names)) if len(set(names)) > 1 else f"{names[0]} (twice)"
            complaints.add(f"{what} {value} is given to {listed}: it belongs to one; correct the other")


def plain_secrets(path: Path, settings: Settings, complaints: Complaints) -> None:
    """Refuse secrets that stand readable in a file of the inventory.

    ``ansible-inventory`` does not say whether a text came from a file that Vault encrypts, from a plugin, or
    from the open; so look for it in the files.
    """
    refs = {ref.same_as: ref for ref in settings.secret_refs() if ref.scheme == "plain"}
    if not refs:
        return
    files = [path] if path.is_file() else sorted(item for item in path.rglob("*") if item.is_file())
    for ref in refs.values():
        value = re.escape(ref.resolve().reveal())
        pattern = re.compile(rf"(?:password|key)['\"]?\s*[:=]\s*(?:['\"]?){value}(?:['\"]|\s|,|}}|$)", re.MULTILINE)
        for file in files:
            line = _line_of(pattern, file)
            if line is not None:
                complaints.add(
                    f"{file}:{line}: {ref.variable} stands there in plain text: write env:NAME, file:PATH, "
                    f"cmd:PROGRAM … or encrypt it with ansible-vault"
                )
                break


def _line_of(pattern: re.Pattern[str], file: Path) -> int | None:
    try:
        if file.stat().st_size > _LARGEST_TEXT_BYTES:
            return None
        text = file.read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
    match = pattern.search(text)
    return None if match is None else text.count("\n", 0, match.start()) + 1
