"""Starting a whole simulated fleet: machines, BMCs, MAAS, hosts, an inventory for them and the control channel."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from provision.sim.bmc import BmcServers
from provision.sim.build import build_machine
from provision.sim.control import Control, running_in, split_fault
from provision.sim.control_server import ControlServer, write_private
from provision.sim.inventory import PLAYBOOK, pace_for, write_inventory
from provision.sim.world import SimClock, SimError, SimMachine, World

FIRST_RACK = 12
NODES_PER_RACK = 8
_HIGHEST_UNIT = 60

PowerBy = Literal["maas", "provision"]


@dataclass
class Fleet:
    """A running simulation. ``world`` is for tests in the same process, ``control`` for everybody else."""

    world: World
    directory: Path
    inventory: Path
    bmcs: BmcServers
    control: Control
    maas_url: str
    maas: Any
    hosts: Any
    _server: ControlServer

    def machine(self, name: str) -> SimMachine:
        """A machine by name. Raises SimError."""
        return self.world.by_name(name)

    async def until_stopped(self) -> None:
        """Wait until ``provision sim stop`` is asked."""
        await self._server.stop_asked.wait()


def build_machines(
    nodes: int,
    racks: int | None,
    seed: int,
    families: Sequence[str] = ("idrac9",),
    families_at: Mapping[str, str] | None = None,
) -> list[SimMachine]:
    """``nodes`` machines over ``racks`` racks (as many as they need, if not given), named ``gpu-12-01`` onwards.

    ``families`` are makers of BMCs, dealt out in turn; ``families_at`` the makers of single nodes and racks by name.

    Raises:
        SimError: no nodes, more than the racks hold, an unknown family, or a place that is not there.
    """
    if nodes < 1 or (racks is not None and racks < 1):
        raise SimError("a fleet has at least one node and one rack")
    racks = -(-nodes // NODES_PER_RACK) if racks is None else racks
    per_rack = -(-nodes // racks)
    if per_rack > _HIGHEST_UNIT:
        raise SimError(f"{nodes} nodes do not fit into {racks} racks: a rack holds {_HIGHEST_UNIT}; give more racks")
    units = max(1, min(6, _HIGHEST_UNIT // per_rack))
    left = dict(families_at or {})
    machines = []
    for index in range(nodes):
        rack, number = FIRST_RACK + index // per_rack, index % per_rack + 1
        place, name = f"rack-{rack}", f"gpu-{rack:02d}-{number:02d}"
        at = (families_at or {}).get(name) or (families_at or {}).get(place) or families[index % len(families)]
        machines.append(build_machine(rack, number, seed=seed, units=units, family=at))
        left.pop(name, None)
        left.pop(place, None)
    if left:
        racked = f"rack-{FIRST_RACK} to rack-{FIRST_RACK + racks - 1}" if racks > 1 else f"rack-{FIRST_RACK}"
        raise SimError(f"no node or rack is called {next(iter(left))!r}; there are {nodes} nodes in {racked}")
    return machines


@asynccontextmanager
async def start_fleet(
    directory: Path,
    *,
    nodes: int = 8,
    racks: int | None = None,
    seed: int = 1,
    speed: float = 600.0,
    power_by: PowerBy = "maas",
    faults: Iterable[tuple[str, str]] = (),
    pace: float | None = None,
    settings: dict[str, Any] | None = None,
    with_maas: bool = True,
    family: str | Sequence[str] = "idrac9",
    families_at: Mapping[str, str] | None = None,
) -> AsyncIterator[Fleet]:
    """Run a fleet for as long as the context lasts.

    ``faults`` are (node, ``kind[:arg]``) that strike before anybody looks. ``settings`` are laid over the group var
    ``provision``. Certificates, keys and passwords in ``directory`` are kept from one run to the next, because
    clients pin them. ``with_maas`` False leaves out MAAS and hosts: BMCs alone.
    ``family`` is the maker of every BMC, or several that are dealt out in turn; ``families_at`` as in
    ``build_machines``.

    Raises:
        SimError: a simulation runs in this folder already, a fault is unknown, or an address cannot be had.
    """
    directory = _ours(directory)
    # aiohttp tells of every request that a client cut off; here that is everyday life.
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    families = (family,) if isinstance(family, str) else family
    world = World(SimClock(speed), build_machines(nodes, racks, seed, families, families_at), seed)
    world.bmc_password = _kept_secret(directory / "secrets" / "bmc-password", lambda: secrets.token_urlsafe(12))
    key = _kept_secret(directory / "secrets" / "maas-key", _maas_key)
    world.authorized_keys = (_ssh_key(directory / "secrets" / "ssh-key"),)
    for name, fault in faults:
        world.inject(name, *split_fault(fault))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(world.stop)
        bmcs = BmcServers(world, directory / "certificates")
        stack.push_async_callback(bmcs.stop)
        await bmcs.start()
        url, maas, hosts = "", None, None
        if with_maas:
            from provision.sim.host import HostServers
            from provision.sim.maas import MaasServer

            maas = MaasServer(world, api_key=key, ssh_keys=world.authorized_keys)
            stack.push_async_callback(maas.stop)
            url = await maas.start()
            hosts = HostServers(world)
            stack.push_async_callback(hosts.stop)
            await hosts.start()
        inventory = directory / "inventory"
        site = _settings(url, power_by, pace_for(speed) if pace is None else pace) | (settings or {})
        write_inventory(inventory, world.machines.values(), site)
        about = {"directory": str(directory), "inventory": str(inventory), "maas": url, "speed": speed, "seed": seed}
        server = ControlServer(world, directory, about)
        stack.push_async_callback(server.stop)
        await server.start()
        yield Fleet(world, directory, inventory, bmcs, Control.open(directory), url, maas, hosts, server)


def _ours(directory: Path) -> Path:
    """Make the folder and see that no other simulation lives in it. Raises SimError."""
    directory = directory.absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimError(f"{directory} cannot be made ({error.strerror}): give another folder with --dir") from None
    if (other := running_in(directory)) is not None:
        raise SimError(
            f"a simulation runs in {directory} already (process {other.pid}); "
            f"end it with: provision sim stop --dir {directory}"
        )
    return directory


def _settings(maas_url: str, power_by: PowerBy, pace: float) -> dict[str, Any]:
    """The group var ``provision``. Paths are relative to the inventory's folder."""
    site: dict[str, Any] = {
        "power_by": power_by,
        "pace": pace,
        "bmc": {"user": "provision", "password": "file:../secrets/bmc-password"},
        "ssh": {"user": "root", "key_file": "../secrets/ssh-key"},
        "playbook": str(PLAYBOOK),
    }
    if maas_url:
        site["maas"] = {"url": maas_url, "key": "file:../secrets/maas-key"}
    return site


def _maas_key() -> str:
    return ":".join(secrets.token_hex(9) for _ in range(3))


def _kept_secret(path: Path, make: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        write_private(path, make() + "\n")
    return path.read_text(encoding="utf-8").strip()


def _ssh_key(path: Path) -> str:
    """Make the client's key if there is none; returns the public half in OpenSSH's form."""

    def make() -> str:
        return (
            ed25519.Ed25519PrivateKey.generate()
            .private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
            )
            .decode()
        )

    private = serialization.load_ssh_private_key((_kept_secret(path, make) + "\n").encode(), password=None)
    public = private.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return f"{public.decode()} provision-sim"
