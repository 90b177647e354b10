"""What MAAS is to know of a machine, in the form that every version takes, and how what it knows differs."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping
from typing import Any

from provision.adapters.maas.transport import Transport
from provision.errors import MisconfiguredError, RefusedError
from provision.model.machine import MachineSpec
from provision.model.secret import Secret
from provision.model.site import PowerBy

_GATHER_S = 0.01
# 100 ids are 1 kB of address.
_AT_ONCE = 100


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
        if spec.node_id:
            form.append(("power_parameters_node_id", spec.node_id))
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
    if spec.node_id and known.get("node_id") != spec.node_id:
        # Without a wish of ours, whoever wrote one there knows why.
        found.append(f"node id {known.get('node_id') or 'empty'} → {spec.node_id}")
    password = str(known.get("power_pass") or "")
    # A region that hides it (or shows stars) says nothing about it: asking for the same change again helps nobody.
    if password.strip("*") and password != spec.credential.password.reveal():
        found.append("power password differs")
    return "; ".join(found)


class Powers:
    """MAAS's power parameters of the machines of a run: read once each, many in one request where MAAS offers that.

    They hold the BMC's password and stay in here.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._known: dict[str, Mapping[str, Any]] = {}
        self._waiting: set[str] = set()
        self._round: asyncio.Task[None] | None = None

    def forget(self, system_id: str) -> None:
        """They are being changed."""
        self._known.pop(system_id, None)

    async def of(self, system_id: str) -> Mapping[str, Any]:
        """The parameters of one machine; empty if MAAS shows none.

        Raises:
            UnavailableError, RefusedError, GarbledError: MAAS could not be asked.
        """
        while system_id not in self._known:
            self._waiting.add(system_id)
            if self._round is None or self._round.done():
                self._round = asyncio.create_task(self._ask())
            await asyncio.shield(self._round)
        return self._known[system_id]

    async def _ask(self) -> None:
        # Nodes of a rack come within a few milliseconds of one another.
        await asyncio.sleep(_GATHER_S)
        asked, self._waiting = sorted(self._waiting), set()
        if await self._transport.offers("Machines.power_parameters"):
            for start in range(0, len(asked), _AT_ONCE):
                some = asked[start : start + _AT_ONCE]
                query = [("id", one) for one in some]
                body = await self._transport.read("Machines.power_parameters", "read power parameters", query)
                self._take({one: _map(body).get(one) for one in some})
            return
        for one in asked:
            body = await self._transport.read("Machine.power_parameters", "read power parameters", system_id=one)
            self._take({one: body})

    def _take(self, found: Mapping[str, Any]) -> None:
        self._known |= {system_id: _map(body) for system_id, body in found.items()}


def _map(raw: Any) -> Mapping[str, Any]:
    return raw if isinstance(raw, Mapping) else {}
