"""Does the site's mirror have what the profiles need? Compared before any node is touched."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from provision.adapters.ansible.mirror import Offer, read_repository
from provision.app.wiring import Wiring, builtin_playbook
from provision.config.settings import MirrorSettings, Repository
from provision.errors import MisconfiguredError, PeerError
from provision.model.node import Node


def package_names(playbook: Path) -> Any:
    """The playbooks' own table of package names: one table for the roles and for this command."""
    for folder in (playbook.parent, builtin_playbook().parent):
        path = folder / "module_utils" / "provision_names.py"
        spec = importlib.util.spec_from_file_location("provision_names", path)
        if path.exists() and spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise MisconfiguredError(f"the table of package names is missing beside {playbook}; install provision again")


async def check(wiring: Wiring, nodes: Sequence[Node]) -> tuple[list[dict[str, Any]], list[str]]:
    """One row per package that a profile of ``nodes`` needs, and sentences about the mirror itself.

    Raises:
        MisconfiguredError: the site names no mirror, or a profile's packages contradict themselves.
    """
    mirror = wiring.settings.mirror
    if mirror is None or not mirror.repositories:
        raise MisconfiguredError(
            f"group var provision: mirror is missing in {wiring.settings.inventory}: expected repositories with "
            "name, url and key_file; see docs/how-to/mirror.md"
        )
    offers, notes = await _offers(mirror, wiring.settings.apt_proxy)
    names = package_names(wiring.settings.playbook or builtin_playbook())
    profiles: dict[str, int] = {}
    for node in nodes:
        profiles[node.profile] = profiles.get(node.profile, 0) + 1
    rows: list[dict[str, Any]] = []
    for profile, count in sorted(profiles.items()):
        try:
            wants = names.wants(wiring.site.profiles[profile].packages)
        except names.NamesError as error:
            raise MisconfiguredError(f"group var profiles: {profile}: {error}") from None
        found = compare(names, profile, wants, offers)
        rows += found
        notes += _estimate(profile, count, found, mirror)
    return rows, notes


def compare(
    names: Any, profile: str, wants: Sequence[Mapping[str, Any]], offers: Mapping[str, Offer]
) -> list[dict[str, Any]]:
    """One row per want: what was found, and where. ``ok`` False: no repository has it."""
    rows = []
    for want in wants:
        row = {
            "profile": profile,
            "role": want["role"],
            "package": " or ".join(want["names"]),
            "wanted": want["version"] or "any",
            "found": None,
            "repository": None,
            "bytes": 0,
            "ok": False,
        }
        for repository, offer in offers.items():
            resolved, _ = names.resolve([want], offer.packages)
            for name, version in resolved.items():
                better = row["found"] is None or names.compare(version, row["found"]) > 0
                if better:
                    size = offer.sizes.get((name, version), 0)
                    row |= {"package": name, "found": version, "repository": repository, "bytes": size, "ok": True}
        if row["found"] is None:
            others = [v for offer in offers.values() for name in want["names"] for v in offer.packages.get(name, ())]
            row["others"] = sorted(set(others))[:5]
        rows.append(row)
    return rows


async def _offers(mirror: MirrorSettings, proxy: str | None) -> tuple[dict[str, Offer], list[str]]:
    async def one(each: Repository) -> Offer | PeerError:
        try:
            return await asyncio.to_thread(
                read_repository, each.name, each.url, each.suite, each.components, key_file=each.key_file, proxy=proxy
            )
        except PeerError as error:
            return error
        except OSError as error:
            raise MisconfiguredError(f"mirror {each.name}: {error}") from error

    answers = await asyncio.gather(*(one(each) for each in mirror.repositories))
    offers, notes = {}, []
    for each, answer in zip(mirror.repositories, answers, strict=True):
        if isinstance(answer, PeerError):
            raise answer
        avoided = {name: versions for name, versions in answer.packages.items() if name not in each.avoid}
        offers[each.name] = Offer(avoided, answer.sizes, answer.notes)
        notes += [f"{each.name}: {note}" for note in answer.notes]
    return offers, notes


def _estimate(profile: str, count: int, rows: Sequence[Mapping[str, Any]], mirror: MirrorSettings) -> list[str]:
    """How long the downloads take at least: nodes × bytes over the mirror's bandwidth."""
    size = sum(row["bytes"] for row in rows)
    if not size or mirror.mbit_s is None:
        return []
    minutes = count * size * 8 / (mirror.mbit_s * 1e6) / 60
    return [
        f"{profile}: {size / 1e6:.0f} MB a node without what these packages depend on; {count} nodes at "
        f"{mirror.mbit_s:g} Mbit/s, {mirror.slots} at once: {minutes:.1f} min at least"
    ]
