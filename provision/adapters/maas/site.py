"""What would stop every deployment, asked once before anything is written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from provision.adapters.maas.answers import CLOCK_SKEW
from provision.adapters.maas.transport import Transport
from provision.errors import CredentialRefusedError, GarbledError, RefusedError
from provision.model.node import Node
from provision.model.profile import Profile

# MAAS itself accepts 300 s; a machine's own certificates and apt do not.
_MOST_SKEW_S = 60.0
_OLDEST = (3, 4)


async def complaints(transport: Transport, profiles: Sequence[Profile], nodes: Sequence[Node]) -> tuple[str, ...]:
    """One sentence per obstacle, the nearest to the root first; empty if none.

    Raises:
        UnavailableError, GarbledError: MAAS could not be asked.
    """
    try:
        me = await transport.read("Users.whoami", "log in")
    except (CredentialRefusedError, RefusedError) as error:
        if isinstance(error, CredentialRefusedError) or error.code == CLOCK_SKEW:
            return (str(error),)
        raise
    if not isinstance(me, dict):
        raise GarbledError(transport.peer, "log in", "no user in the answer", payload=repr(me).encode())
    found = _clock(transport)
    if me.get("is_superuser") is not True:
        found.append(
            f"{transport.peer}: the API key belongs to {me.get('username')}, who is not an administrator: MAAS lets "
            "nobody else commission machines or choose disks; take an administrator's key"
        )
    found += _version(transport, await transport.read("Version.read", "read the version"))
    listed = await transport.read("BootResources.read", "list the boot images")
    found += _images(transport, listed, profiles)
    found += await _unfinished(transport, listed, profiles)
    for call, noun, wanted in (
        ("Zones.read", "zone", {node.zone for node in nodes if node.zone}),
        ("ResourcePools.read", "pool", {node.pool for node in nodes if node.pool}),
    ):
        if wanted:
            found += _named(transport, noun, await transport.read(call, f"list the {noun}s"), wanted, nodes)
    if await transport.read("RackControllers.read", "list the rack controllers") == []:
        found.append(
            f"{transport.peer}: no rack controller is registered: nobody can serve DHCP, boot machines or reach their "
            "BMCs; register one (maas init rack)"
        )
    return tuple(found)


async def unknown_scripts(transport: Transport, names: Sequence[str]) -> list[str]:
    """One sentence per script or tag of scripts that the region does not have; a commission would be refused."""
    wanted = [name for name in dict.fromkeys(names) if name != "none"]
    if not wanted or not await transport.offers("NodeScripts.read"):
        return []
    body = await transport.read("NodeScripts.read", "list the scripts")
    scripts = [one for one in body if isinstance(one, dict)] if isinstance(body, list) else []
    there = {str(one.get("name")) for one in scripts}
    there |= {str(tag) for one in scripts for tag in one.get("tags") or []}
    return [
        f"{transport.peer}: there is no script {name}, with which machines are to be commissioned or tested: upload "
        "it to MAAS, or take it out of commissioning_scripts and testing_scripts"
        for name in wanted
        if name not in there
    ]


def _clock(transport: Transport) -> list[str]:
    skew = transport.skew_s
    if skew is None or abs(skew) <= _MOST_SKEW_S:
        return []
    way = "ahead of" if skew > 0 else "behind"
    return [
        f"{transport.peer}: its clock is {abs(skew):.0f} s {way} this machine's: one of the two is wrong; set it (NTP)"
    ]


def _version(transport: Transport, body: Any) -> list[str]:
    text = str(body.get("version", "")) if isinstance(body, dict) else ""
    number = re.match(r"(\d+)\.(\d+)", text)
    if number is not None and (int(number[1]), int(number[2])) >= _OLDEST:
        return []
    oldest = ".".join(map(str, _OLDEST))
    return [f"{transport.peer}: it is MAAS {text or 'of an unknown version'}; {oldest} or later is needed"]


def _images(transport: Transport, body: Any, profiles: Sequence[Profile]) -> list[str]:
    """MAAS names an image ``ubuntu/jammy`` for ``amd64/ga-22.04``; an uploaded one may have no system before it."""
    images = [one for one in body if isinstance(one, dict)] if isinstance(body, list) else []
    found = []
    for profile in profiles:
        cpu = profile.architecture.partition("/")[0]
        series = profile.image.series.rpartition("/")[2]
        ours = [one for one in images if str(one.get("architecture", "")).partition("/")[0] == cpu]
        same = [one for one in ours if str(one.get("name", "")).rpartition("/")[2] == series]
        kernels = {kernel for one in same for kernel in str(one.get("subarches", "")).split(",")}
        if not same:
            there = ", ".join(sorted({str(one.get("name")) for one in ours})) or "none at all"
            found.append(
                f"{transport.peer}: no image of {series} for {cpu}, which profile {profile.name} wants (there is "
                f"{there}): import it in MAAS, or change the profile"
            )
        elif profile.image.kernel and kernels != {""} and profile.image.kernel not in kernels:
            found.append(
                f"{transport.peer}: the image of {series} for {cpu} has no kernel {profile.image.kernel}, which "
                f"profile {profile.name} wants (there is {', '.join(sorted(kernels))}): change the profile"
            )
    return found


async def _unfinished(transport: Transport, body: Any, profiles: Sequence[Profile]) -> list[str]:
    """Wanted images of which MAAS has no whole set yet: a deployment would wait for it, or fail."""
    if not await transport.offers("BootResource.read"):
        return []
    wanted = {(profile.image.series.rpartition("/")[2], profile.architecture.partition("/")[0]) for profile in profiles}
    found = []
    for one in [one for one in body if isinstance(one, dict)] if isinstance(body, list) else []:
        name, cpu = str(one.get("name", "")), str(one.get("architecture", "")).partition("/")[0]
        if (name.rpartition("/")[2], cpu) not in wanted:
            continue
        try:
            image = await transport.read("BootResource.read", f"read the image {name}", id=str(one.get("id")))
        except (RefusedError, GarbledError):
            # It is in the list; not to know how whole it is stops nobody.
            continue
        sets = image.get("sets") if isinstance(image, dict) else None
        sets = [each for each in sets.values() if isinstance(each, dict)] if isinstance(sets, dict) else []
        if sets and not any(each.get("complete") for each in sets):
            told = [each["progress"] for each in sets if isinstance(each.get("progress"), int | float)]
            done = max(told, default=0.0)
            found.append(
                f"{transport.peer}: the image of {name.rpartition('/')[2]} for {cpu} is still being imported "
                f"({done:.0f} %): wait until MAAS shows it as synced"
            )
    return found


def _named(transport: Transport, noun: str, body: Any, wanted: set[str], nodes: Sequence[Node]) -> list[str]:
    there = {str(one.get("name")) for one in body if isinstance(one, dict)} if isinstance(body, list) else set()
    found = []
    for name in sorted(wanted - there):
        who = next(node.name for node in nodes if getattr(node, noun) == name)
        found.append(
            f"{transport.peer}: there is no {noun} {name}, which {who} is to be in (there is "
            f"{', '.join(sorted(there))}): make it in MAAS, or change the inventory"
        )
    return found
