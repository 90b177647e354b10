"""The port ``Bmc`` over Redfish: one object per node and run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from provision.adapters.redfish import bios, boot, care, clock, power
from provision.adapters.redfish.answers import Json
from provision.adapters.redfish.boot_jobs import JobWatch
from provision.adapters.redfish.health import read_health
from provision.adapters.redfish.limits import BmcLimits
from provision.adapters.redfish.net import read_network
from provision.adapters.redfish.netfacts import NetworkFacts
from provision.adapters.redfish.parse_ports import Ports, network_ports
from provision.adapters.redfish.pinning import read_fingerprint
from provision.adapters.redfish.service import Service, identity, survey
from provision.adapters.redfish.session import RedfishSession
from provision.adapters.redfish.turnstile import Turnstile
from provision.adapters.redfish.values import health, moment, text, texts, word
from provision.adapters.redfish.walk import Expand, Reader
from provision.model.bmc import (
    BmcClock,
    BmcIdentity,
    BmcSession,
    BmcStatus,
    BootReadiness,
    Button,
    Firmware,
    Harvest,
    Health,
)
from provision.model.evidence import Gap
from provision.model.node import Node
from provision.model.profile import BootMethod
from provision.model.secret import Credential
from provision.ports import Clock, Pins


class RedfishBmc:
    """One BMC for one run. The session opens at the first call; ``close`` logs out on every path.

    ``profile_boot_nic`` is the profile's ``boot_nic``: a port by id, printed place or MAC; ``boot_method`` its method,
    None if PXE and HTTP are equally welcome. ``clock`` gives pauses and deadlines. With ``guids`` the harvest reads
    InfiniBand GUIDs also where they cost requests of their own; ``ntp`` are servers for the BMC's clock. Writes go out
    once; reads are repeated for as long as ``limits`` say. ``turnstile`` is asked before the credential is tried.

    Raises:
        MisconfiguredError: the node's ``bmc_fingerprint`` is no SHA-256.
    """

    def __init__(
        self,
        node: Node,
        credential: Credential,
        pins: Pins,
        *,
        clock: Clock,
        profile_boot_nic: str | None = None,
        boot_method: BootMethod | None = None,
        limits: BmcLimits | None = None,
        guids: bool = False,
        ntp: Sequence[str] = (),
        turnstile: Turnstile | None = None,
    ) -> None:
        fixed = node.bmc_fingerprint
        self._node = node
        self._boot_nic = profile_boot_nic
        self._boot_method = boot_method
        self._guids = guids
        self._ntp = tuple(ntp)
        self._session = RedfishSession(
            node.bmc_address,
            credential,
            pins,
            clock,
            fingerprint=read_fingerprint(fixed, f"host {node.name}") if fixed else None,
            limits=limits,
            turnstile=turnstile,
        )
        self._service: Service | None = None
        self._expand: Expand | None = None
        self._harvest: Harvest | None = None
        self._watch = JobWatch()
        self._harvesting = asyncio.Lock()
        self._surveying = asyncio.Lock()

    @property
    def requests(self) -> int:
        """How many requests were sent so far, login and logout included."""
        return self._session.requests

    async def harvest(self) -> Harvest:
        """Identity and ports; kept for the run once nothing is missing that may still come."""
        async with self._harvesting:
            if self._harvest is None:
                service = await self._surveyed(whole=True)
                reader = self._reader(service)
                _, ports = await self._ports(reader, service, guids=self._guids)
                harvest = Harvest(identity(service), ports.ports, (*service.gaps, *reader.gaps))
                if reader.transient:
                    return harvest
                self._harvest = harvest
            return self._harvest

    async def status(self) -> BmcStatus:
        """Power, override and progress: one read, two where the override waits in a settings resource.

        After an override was sent, the job queue beside it: some BMCs make a job of it (R16).
        """
        service = await self._surveyed()
        reader = self._reader(service)
        system, jobs = await reader.gather(self._system(service), self._watch.look(reader, service))
        override = await boot.read_override(self._session, service, system)
        said = health(system)
        return BmcStatus(
            power=power.power_of(system),
            boot_target=word(override, "BootSourceOverrideTarget"),
            boot_enabled=word(override, "BootSourceOverrideEnabled"),
            boot_mode=word(override, "BootSourceOverrideMode"),
            progress=power.progress(system),
            progress_at=moment(text(system, "BootProgress", "LastStateTime")),
            last_reset=moment(power.last_reset(system)),
            healthy=None if not said else said == "ok",
            boot_jobs=jobs,
        )

    async def readiness(self) -> BootReadiness:
        """What would stop a network boot."""
        service = await self._surveyed()
        readiness, jobs = await boot.read_readiness(self._reader(service), service, self._boot_method)
        self._watch.knew(jobs)
        return readiness

    async def health(self) -> Health:
        """Evidence of every part, read afresh: links and states may have changed since the harvest."""
        service = await self._again(await self._surveyed(whole=True))
        reader = self._reader(service)
        facts, ports = await self._ports(reader, service, guids=True)
        evidence = await read_health(reader, service, self._node.name, facts, ports, self._session.clock)
        return Health(tuple(evidence), tuple(dict.fromkeys((*service.gaps, *reader.gaps))))

    async def clock(self) -> BmcClock:
        """The BMC's clock against ours."""
        return await clock.read_clock(self._session, await self._surveyed())

    async def set_network_boot_once(self, method: BootMethod) -> None:
        """Write: the next boot goes to the network."""
        reply = await boot.set_network_boot_once(self._session, await self._only("set network boot"), method)
        if reply is not None:
            self._watch.sent(reply)

    async def press(self, button: Button) -> None:
        """Write: the power button."""
        await power.press(self._session, await self._only("press the power button"), button)

    async def set_clock(self) -> None:
        """Write: our time into the BMC."""
        await clock.set_clock(self._session, await self._surveyed(), self._ntp)

    async def enable_network_device(self, methods: Sequence[BootMethod]) -> None:
        """Write: BIOS settings for the next start, pointing at the network-boot port of the harvest."""
        service = await self._only("enable network boot in BIOS")
        port = next((port.name for port in (await self.harvest()).ports if port.network_boot), self._boot_nic)
        await bios.enable_network_device(self._session, self._reader(service), service, methods, port)

    async def reset_bmc(self) -> None:
        """Write: restart the BMC itself; the host goes on."""
        await care.reset_bmc(self._session, await self._surveyed())

    async def still_there(self) -> bool:
        """True while the login of before a reset works; asked once, without a fresh login."""
        return await care.still_there(self._session, await self._surveyed())

    async def sessions(self) -> tuple[BmcSession, ...]:
        """Who is logged in to the BMC, we ourselves included."""
        service = await self._surveyed()
        return await care.read_sessions(self._session, self._reader(service), service)

    async def end_stale_sessions(self) -> int:
        """Write: end our own sessions whose process is gone. How many were ended."""
        return await care.end_stale(self._session)

    async def firmware(self, *, baseboard: bool = False) -> tuple[tuple[Firmware, ...], tuple[Gap, ...]]:
        """Versions of BMC, BIOS, cards, drives and GPUs, and what could not be read; see ``care.read_firmware``."""
        health = await self.health()
        service = await self._surveyed()
        reader = self._reader(service)
        found = await care.read_firmware(reader, service, health.evidence, baseboard=baseboard)
        return found, tuple(dict.fromkeys((*health.gaps, *reader.gaps)))

    async def identity(self) -> BmcIdentity:
        """Who the machine says it is."""
        return identity(await self._surveyed())

    async def close(self) -> None:
        """Log out and drop connections. Never raises an error; a cancellation is passed on after the logout."""
        await self._session.close()

    async def _surveyed(self, *, whole: bool = False) -> Service:
        """The service's shape, read once; with ``whole`` again while a system beside the host did not answer."""
        async with self._surveying:
            if self._service is None or (whole and self._service.gaps):
                self._service = await survey(self._session, self._until(), service_tag=self._node.service_tag)
            return self._service

    async def _only(self, operation: str) -> Service:
        """The service before a write to the host, which must be the only one that can be meant."""
        service = await self._surveyed()
        service.sole_host(self._session.peer, operation)
        return service

    async def _again(self, service: Service) -> Service:
        """The service with the system as it is at this moment (power, last reset)."""
        fresh = await self._system(service)
        return replace(service, system=fresh)

    async def _system(self, service: Service) -> Json:
        return (await self._session.get(service.path)).json(self._session.peer)

    async def _ports(self, reader: Reader, service: Service, *, guids: bool) -> tuple[NetworkFacts, Ports]:
        facts = await read_network(reader, service, guids=guids)
        ports = network_ports(
            facts,
            service.quirks,
            boot_order=texts(service.system, "Boot", "BootOrder"),
            own=service.own_macs,
            profile_boot_nic=self._boot_nic,
            boot_method=self._boot_method,
        )
        if service.doubt:
            reader.gap("redfish/host", service.path, service.doubt)
        for complaint in ports.complaints:
            reader.gap("redfish/ports", "network-boot port", complaint)
        return facts, ports

    def _reader(self, service: Service) -> Reader:
        if self._expand is None:
            self._expand = Expand.offered(service.root, most=service.quirks.expand)
        return Reader(self._session, self._expand, self._until())

    def _until(self) -> float:
        return self._session.clock.monotonic() + self._session.limits.operation_s
