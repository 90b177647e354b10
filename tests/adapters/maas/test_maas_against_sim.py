"""Two readings of one recording meet: the client and the simulated region. Nothing of either is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from maas_lab import LabClock, spec_of

from provision.adapters.maas import MaasRegion, user_data
from provision.errors import CredentialRefusedError, RefusedError, UnavailableError
from provision.model.machine import DeploySpec, Machine, Receipt, Status
from provision.model.node import MacAddress, Node
from provision.model.profile import DiskRule, Image, Profile
from provision.model.secret import Secret
from provision.sim.build import build_machine
from provision.sim.maas import MaasServer
from provision.sim.maas.state import Record
from provision.sim.world import BootOverride, SimClock, SimMachine, World

PROFILE = Profile("h100-8gpu", Image("jammy"), DiskRule(model="BOSS"))


class Finger:
    """Presses the simulated buttons without a BMC in between (the BMC has tests of its own)."""

    def __init__(self) -> None:
        self.server: MaasServer

    def _of(self, record: Record) -> SimMachine:
        machine = self.server.boots.machine_of(record)
        assert machine is not None
        return machine

    async def on(self, record: Record) -> None:
        machine = self._of(record)
        machine.power_off()
        machine.boot_override = BootOverride("Pxe", "Once")
        machine.power_on()

    async def off(self, record: Record) -> None:
        self._of(record).power_off()

    async def query(self, record: Record) -> str:
        return "on" if self._of(record).powered else "off"

    async def close(self) -> None:
        return


class Site:
    """A simulated rack and a client of its region."""

    def __init__(self, server: MaasServer, world: World) -> None:
        self.server, self.world = server, world
        self.sim = world.by_name("gpu-12-03")
        self.sim.ssh_address = "127.0.12.3"
        self.node = Node(name="gpu-12-03", profile="h100-8gpu", bmc_address="10.1.12.3", rack="rack-12", unit=3)
        ethernet = [nic for nic in self.sim.nics if nic.kind == "ethernet"]
        boot_first = sorted(ethernet, key=lambda nic: nic is not self.sim.boot_nic)
        self.macs = tuple(MacAddress.parse(nic.mac) for nic in boot_first)
        self.made: list[MaasRegion] = []

    def client(self, key: str = "") -> MaasRegion:
        interval_s = 10 / self.world.clock.speed
        secret = Secret(key or self.server.api_key)
        self.made.append(
            MaasRegion(self.server.url, secret, [self.node], clock=LabClock(), interval_s=interval_s, run="r1")
        )
        return self.made[-1]

    async def until(self, maas: MaasRegion, is_so: Callable[[Machine], bool]) -> Machine:
        for _ in range(400):
            seen = await maas.machine(self.node, self.macs)
            assert seen is not None
            if is_so(seen):
                return seen
            await asyncio.sleep(0.02)
        raise AssertionError(f"still {seen.status.label}: {seen.status_message}")


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    world = World(SimClock(speed=2000), [build_machine(12, number) for number in range(1, 5)])
    finger = Finger()
    server = MaasServer(world, driver=finger)
    finger.server = server
    await server.start()
    site = Site(server, world)
    yield site
    for one in site.made:
        await one.close()
    await server.stop()
    await world.stop()
    assert world.problems == []


async def test_a_machine_goes_all_the_way(site: Site) -> None:
    maas = site.client()
    assert await maas.check_site([PROFILE]) == ()
    assert await maas.machine(site.node, site.macs) is None
    await maas.create(spec_of(site.node, *site.macs, tags=("h100",)))
    made = await maas.machine(site.node, site.macs)
    assert made is not None
    assert (made.status, made.macs, made.boot_mac) == (Status.NEW, site.macs, site.macs[0])
    assert made.tags == ("h100",)

    await maas.commission(made.system_id, scripts=(), tests=())
    ready = await site.until(maas, lambda seen: seen.status is Status.READY)
    assert all(one.status in {"passed", "skipped"} for one in await maas.results(made.system_id))
    [boss] = [one for one in ready.disks if PROFILE.boot_disk.matches(one.facts)]
    assert len(ready.disks) == 9
    assert ready.root_disk_ids != (boss.id,), "MAAS's own choice is the first drive it saw"
    await maas.set_boot_disk(ready.system_id, boss.id)
    await maas.set_layout(ready.system_id, "flat", boss.id)
    laid = await maas.fresh(site.node, site.macs)
    assert laid is not None
    assert (laid.boot_disk_id, laid.root_disk_ids) == (boss.id, (boss.id,))

    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    await maas.allocate(ready.system_id)
    await maas.write_receipt(ready.system_id, Receipt(4, "jammy"))
    spec = DeploySpec("jammy", None, user_data(site.node, Secret(private), ntp=("10.0.0.1",)))
    await maas.deploy(ready.system_id, spec)
    deployed = await site.until(maas, lambda seen: seen.status is Status.DEPLOYED)
    assert (deployed.series, deployed.receipt) == ("jammy", Receipt(4, "jammy"))
    assert deployed.addresses == ("127.0.12.3",)
    assert site.sim.installed is not None
    assert site.sim.installed.disk_serial == boss.facts.serial
    assert site.sim.installed.host_private_key == private
    assert (site.sim.installed.epoch, site.sim.deployed_count) == (4, 1)
    assert any(line.type == "Deployed" for line in await maas.events(ready.system_id))

    await maas.release(ready.system_id, "reimage")
    free = await site.until(maas, lambda seen: seen.status is Status.READY)
    assert (free.receipt, free.owner, free.series) == (None, None, "")


async def test_503_but_created_and_self_enlisted(site: Site) -> None:
    maas = site.client()
    site.server.faults.create_503_but_created = 1
    with pytest.raises(UnavailableError):
        await maas.create(spec_of(site.node, *site.macs))
    made = await maas.machine(site.node, site.macs)
    assert made is not None
    with pytest.raises(UnavailableError) as caught:
        await maas.create(spec_of(site.node, *site.macs))
    assert caught.value.code in {"mac-in-use", "hostname-in-use"}

    other = site.world.by_name("gpu-12-04")
    node = Node(name="gpu-12-04", profile="h100-8gpu", bmc_address="10.1.12.4", rack="rack-12", unit=4)
    macs = tuple(MacAddress.parse(nic.mac) for nic in other.nics if nic.kind == "ethernet")
    other.boot_override = BootOverride("Pxe", "Once")
    other.power_on()
    for _ in range(200):
        found = await maas.fresh(node, macs)
        if found is not None:
            break
        await asyncio.sleep(0.02)
    assert found is not None
    assert found.hostname != node.name
    await maas.adopt(found.system_id, spec_of(node, *macs, tags=("h100",)))
    adopted = await maas.fresh(node, macs)
    assert adopted is not None
    assert (adopted.hostname, adopted.power_type, adopted.tags) == (node.name, "redfish", ("h100",))


async def test_the_region_says_no(site: Site) -> None:
    maas = site.client()
    await maas.create(spec_of(site.node, *site.macs))
    made = await maas.machine(site.node, site.macs)
    assert made is not None
    with pytest.raises(RefusedError) as caught:
        await maas.deploy(made.system_id, DeploySpec("jammy", None, Secret("#cloud-config\n")))
    assert caught.value.code == "409"
    secret = site.server.api_key.rpartition(":")[2]
    with pytest.raises(CredentialRefusedError, match="third part") as wrong:
        await site.client(site.server.api_key + "x").fresh(site.node, site.macs)
    assert secret not in f"{wrong.value} {wrong.value!r}"
    site.server.faults.clock_skew_s = 4000
    with pytest.raises(RefusedError) as late:
        await maas.fresh(site.node, site.macs)
    assert late.value.code == "clock-skew"
    assert "the clock of this machine is behind by 4000 s" in str(late.value) or "by 3999 s" in str(late.value)
    site.server.faults.clock_skew_s = 0
    site.server.faults.down = True
    with pytest.raises(UnavailableError):
        await maas.fresh(site.node, site.macs)
