"""The site: nodes, groups, profiles and settings, read through ``ansible-inventory`` and checked as a whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from provision.config.complaints import Complaints, InventoryError, near, sentences, shown
from provision.config.crosscheck import check_nodes, plain_secrets
from provision.config.diagnose import broken_files, check_path, why_unreadable
from provision.config.hostvars import HostSchema, is_host_name, parse_host
from provision.config.logins import overrides
from provision.config.profile import ProfileSchema
from provision.config.remembered import list_inventory
from provision.config.settings import Settings, SettingsSchema
from provision.errors import MisconfiguredError
from provision.model.node import Node
from provision.model.profile import Profile

# Their variables begin with their name.
ROLES = frozenset(
    (
        "base",
        "apt",
        "clock",
        "kernel",
        "ofed",
        "gpu",
        "reboot",
        "docker",
        "dcgm",
        "exporters",
        "zfs",
        "tuning",
        "verify",
    )
)
_UNMATCHED = re.compile(r"Could not match supplied host pattern, ignoring: (.+)")


@dataclass(frozen=True)
class SiteInventory:
    """An inventory that has been checked.

    ``nodes`` by name in natural order (2 before 10); ``groups`` map every group to all its hosts, those of its
    children too, nodes or not; ``warnings`` are sentences for the operator; ``role_variables`` are those of each node
    that belong to a role of the playbooks (by their first word), as they stand: encrypted and with their templates.
    """

    path: Path
    nodes: Mapping[str, Node]
    groups: Mapping[str, tuple[str, ...]]
    profiles: Mapping[str, Profile]
    settings: Settings
    warnings: tuple[str, ...] = ()
    role_variables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def load(inventory: Path) -> SiteInventory:
    """Read and check an inventory (a directory, or one file).

    Raises:
        InventoryError: everything that is wrong with it, sorted, one line each.
        MisconfiguredError: ``ansible-inventory`` cannot be run or gives no answer.
    """
    path = check_path(inventory)
    listing = _list(path)
    hosts: dict[str, dict[str, Any]] = listing["_meta"]["hostvars"]
    groups = _groups(listing)
    ours = {name: hosts[name] for name in sorted(hosts, key=natural) if _is_node(hosts[name])}
    strange = [name for name in hosts if name not in ours and not is_host_name(name)]
    # Ansible takes nearly every text for an INI file, a binary one for a host of that name.
    if (not ours or strange) and (broken := broken_files(path)):
        raise InventoryError(broken)
    if not ours:
        raise InventoryError([_empty(path, groups)])
    complaints = Complaints()
    parsed = {name: found for name in ours if (found := parse_host(name, ours[name], complaints)) is not None}
    nodes = {name: node for name, (node, _) in parsed.items()}
    profiles, described = _profiles(ours, complaints)
    settings = _settings(path, ours, {name: host for name, (_, host) in parsed.items()}, complaints)
    check_nodes(nodes.values(), described, complaints)
    if settings is not None:
        plain_secrets(path, settings, complaints)
    complaints.raise_if_any()
    assert settings is not None  # noqa: S101 - without settings there was a complaint
    roles = {name: _of_roles(ours[name]) for name in nodes}
    return SiteInventory(path, nodes, groups, profiles, settings, _warnings(hosts, ours), roles)


def select(site: SiteInventory, pattern: str) -> tuple[Node, ...]:
    """The nodes that an Ansible host pattern names (``rack-12:!gpu-12-03``), in natural order.

    Raises:
        MisconfiguredError: a part of the pattern names nothing, or all of it selects no node.
    """
    pattern = pattern.strip()
    if not pattern or pattern.startswith("@"):
        raise MisconfiguredError("the target is empty: expected a node, a group or an Ansible host pattern")
    if pattern in site.groups or pattern in site.nodes:
        names = set(site.groups.get(pattern, (pattern,)))
    else:
        names = _match(site, pattern)
    chosen = tuple(node for name, node in site.nodes.items() if name in names)
    if not chosen:
        what = f"{pattern} selects {len(names)} hosts, but none is a node" if names else f"{pattern} selects no host"
        raise MisconfiguredError(f"{what} of {site.path}; nodes are hosts with bmc_address and profile")
    return chosen


def _match(site: SiteInventory, pattern: str) -> set[str]:
    done = list_inventory(site.path, f"--limit={pattern}")
    # A slip in an exclusion would include the node that was to be left alone, so every term must match.
    if unmatched := sorted({match.strip() for match in _UNMATCHED.findall(done.stderr)}):
        known = {*site.groups, *site.nodes}
        hints = "; ".join(f"no host or group matches {term}{near(term, known)}" for term in unmatched)
        raise MisconfiguredError(f"target {pattern}: {hints}")
    if done.status != 0:
        raise MisconfiguredError(f"target {shown(pattern)} is not a host pattern; expected such as rack-12:!gpu-12-03")
    return set(json.loads(done.stdout)["_meta"]["hostvars"])


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """Sort key: ``gpu-2`` before ``gpu-10``."""
    parts = re.split(r"(\d+)", name)
    return tuple((0, int(part)) if part.isdecimal() else (1, part) for part in parts if part)


def _list(path: Path) -> dict[str, Any]:
    done = list_inventory(path)
    if done.status != 0:
        raise InventoryError(why_unreadable(path, done.stderr))
    try:
        listing = json.loads(done.stdout)
        listing["_meta"]["hostvars"].items()
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InventoryError([f"{path}: ansible-inventory printed no inventory; run it by hand"]) from None
    return dict(listing)


def _of_roles(variables: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in sorted(variables.items()) if key.split("_", 1)[0] in ROLES and "_" in key}


def _is_node(variables: Mapping[str, Any]) -> bool:
    return "bmc_address" in variables or "profile" in variables


def _empty(path: Path, groups: Mapping[str, tuple[str, ...]]) -> str:
    count = len(groups.get("all", ()))
    if count:
        return f"{path} has {count} hosts, but none with bmc_address and profile: add these variables to the nodes"
    return f"{path} names no host: expected an Ansible inventory; see docs/reference/inventory.md for an example"


def _groups(listing: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """All hosts of every group. Ansible has refused loops already; ``seen`` keeps a plugin's from hanging us."""

    def hosts(group: str, seen: frozenset[str]) -> Iterator[str]:
        entry = listing.get(group, {})
        yield from entry.get("hosts", ())
        for child in entry.get("children", ()):
            if child not in seen:
                yield from hosts(child, seen | {child})

    names = {name for name in listing if name != "_meta"}
    names |= {child for name in names for child in listing[name].get("children", ())}
    return {
        name: tuple(sorted(set(hosts(name, frozenset({name}))), key=natural)) for name in sorted(names, key=natural)
    }


def _profiles(
    hosts: Mapping[str, Mapping[str, Any]], complaints: Complaints
) -> tuple[dict[str, Profile], frozenset[str]]:
    """The profiles, and the names of all that are described, well or not."""
    found: dict[str, tuple[str, Any]] = {}
    for host, variables in hosts.items():
        profiles = variables.get("profiles", {})
        if not isinstance(profiles, dict):
            complaints.add(f"group var profiles: expected a mapping from name to profile, found {shown(profiles)}")
            continue
        for name, raw in profiles.items():
            first, known = found.setdefault(str(name), (host, raw))
            if known != raw:
                complaints.add(
                    f"group var profiles: {name} differs between host {first} and host {host}: "
                    f"keep profiles in one place, group_vars/all"
                )
    parsed = {}
    for name, (_, raw) in found.items():
        try:
            parsed[name] = ProfileSchema.model_validate(raw).to_model(name)
        except ValidationError as error:
            for sentence in sentences(error, ProfileSchema):
                complaints.add(f"group var profiles: {name}: {sentence}")
    return parsed, frozenset(found)


def _settings(
    path: Path, hosts: Mapping[str, Mapping[str, Any]], parsed: Mapping[str, HostSchema], complaints: Complaints
) -> Settings | None:
    base = path if path.is_dir() else path.parent
    first, raw = next((host, variables.get("provision", {})) for host, variables in hosts.items())
    for host, variables in hosts.items():
        if variables.get("provision", {}) != raw:
            complaints.add(
                f"group var provision differs between host {first} and host {host}: keep it in one place, "
                f"group_vars/all (bmc_user and bmc_password may differ by group or host)"
            )
            return None
    logins = overrides(parsed, raw, base, complaints)
    try:
        return SettingsSchema.model_validate(raw).to_settings(base, logins)
    except ValidationError as error:
        for sentence in sentences(error, SettingsSchema):
            complaints.add(f"group var provision: {sentence}")
    except ValueError as error:
        complaints.add(f"group var {error}")
    return None


def _warnings(hosts: Mapping[str, Any], ours: Mapping[str, Any]) -> tuple[str, ...]:
    others = sorted(set(hosts) - set(ours), key=natural)
    if not others:
        return ()
    listed = ", ".join(others[:5]) + (", …" if len(others) > 5 else "")
    return (f"{len(others)} hosts without bmc_address and profile are left alone: {listed}",)
