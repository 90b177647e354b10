"""What MAAS is to know of a machine, in the form that every version takes, and how what it knows differs."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping
from typing import Any

from provision.errors import MisconfiguredError, RefusedError
from provision.model.machine import MachineSpec
from provision.model.secret import Secret
from provision.model.site import PowerBy


async def identity(peer: str, spec: MachineSpec) -> list[tuple[str, str | Secret]]:
    """The fields that create and edit share.

    Raises:
        MisconfiguredError: MAAS is to press the button and there is no credential.
        RefusedError: the BMC's name has no address.
    """
    form: list[tuple[str, str | Secret]] = [("hostname", spec.hostname), ("architecture", spec.architecture)]
    if spec.power_by is PowerBy.PROVISION:
        form.append(("power_type", "manual"))
    elif spec.credential is None:
        raise MisconfiguredError(
            f"{spec.hostname}: MAAS is to press the power button, but no BMC credential was found for it"
        )
    else:
        form += [
            ("power_type", "redfish"),
            ("power_parameters_power_address", await power_address(peer, spec)),
            ("power_parameters_power_user", spec.credential.user),
            ("power_parameters_power_pass", spec.credential.password),
        ]
    form += [(name, value) for name, value in (("zone", spec.zone), ("pool", spec.pool)) if value]
    return form


async def power_address(peer: str, spec: MachineSpec) -> str:
    """A bare address with an optional port: MAAS 3.6.0 to 3.6.4 and 3.7.0 refuse names and URLs, all take this.

    Raises:
        RefusedError: the BMC's name cannot be resolved here.
    """
    bare = (spec.bmc_address.partition("://")[2] or spec.bmc_address).rstrip("/")
    host, port = _parted(bare)
    try:
        ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        return bare
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise RefusedError(
            peer,
            f"give the power address of {spec.hostname}",
            f"MAAS 3.6 takes an address only, and the name {host} has none here: write the BMC's address into the "
            "inventory, or mend DNS",
            code="power-address",
        ) from error
    # IPv4 first: rack controllers seldom have a route to both.
    address = min(found, key=lambda one: one[0] != socket.AF_INET)[4][0]
    if not port:
        return str(address)
    return f"[{address}]:{port}" if ":" in str(address) else f"{address}:{port}"


def _parted(bare: str) -> tuple[str, str]:
    """Host and port of ``host``, ``host:port``, ``[v6]:port`` or a bare v6 address."""
    if bare.startswith("["):
        host, _, rest = bare[1:].partition("]")
        return host, rest.removeprefix(":")
    if bare.count(":") == 1:
        host, _, port = bare.partition(":")
        return host, port
    return bare, ""


async def drift(peer: str, spec: MachineSpec, known: Mapping[str, Any]) -> str:
    """How MAAS's power parameters differ, in words; a password is only said to differ."""
    if spec.credential is None:
        return ""
    pairs = (
        ("power address", known.get("power_address"), await power_address(peer, spec)),
        ("power user", known.get("power_user"), spec.credential.user),
    )
    found = [f"{what} {has or 'empty'} → {wants}" for what, has, wants in pairs if has != wants]
    if known.get("power_pass") != spec.credential.password.reveal():
        found.append("power password differs")
    return "; ".join(found)
