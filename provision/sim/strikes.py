"""What faults do to a machine, or to the rack and the cables around it. Rows of the table in ``faults`` name these."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.sim import find
from provision.sim.parts import Fault, SimDrive, SimError, SimGpu, SimNic, SimPcieSlot

if TYPE_CHECKING:
    from provision.sim.machine import SimMachine


def unplug(machine: SimMachine, name: str) -> None:
    """A cable is out."""
    find.nic(machine, name).cabled = False


def swap(machine: SimMachine, name: str) -> None:
    """A cable ends 24 ports away."""
    port = find.nic(machine, name)
    head = port.planned_port.rstrip("0123456789")
    # 24 ports away: the other half of the switch, which lies in another VLAN.
    port.actual_port = f"{head}{int(port.planned_port.removeprefix(head) or 0) + 24}"


def cord_out(machine: SimMachine, number: str) -> None:
    """A cord is out."""
    find.psu(machine, number).cord = False


def psu_dies(machine: SimMachine, number: str) -> None:
    """A supply gives nothing."""
    find.psu(machine, number).failed = True


def drive_gone(machine: SimMachine, bay: str) -> None:
    """A drive is out of its bay."""
    find.drive(machine, bay).present = False


def drive_fails(machine: SimMachine, bay: str) -> None:
    """A drive announces its failure."""
    find.drive(machine, bay).failing = True


def narrow(machine: SimMachine, number: str) -> None:
    """A link trains with four lanes."""
    find.slot(machine, number).width = 4


def gpu_gone(machine: SimMachine, number: str) -> None:
    """A GPU is not detected."""
    find.gpu(machine, number).present = False


def card_gone(machine: SimMachine, adapter: str) -> None:
    """A card and its ports are not detected."""
    for port in machine.nics:
        if port.adapter == adapter:
            port.present = False
            find.slot(machine, str(port.slot)).present = False


def riser_off(machine: SimMachine, number: str) -> None:
    """Everything on a riser is gone."""
    hanging: list[SimGpu | SimNic | SimPcieSlot | SimDrive]
    hanging = [*machine.gpus, *machine.nics, *machine.slots, *machine.drives]
    for part in hanging:
        if str(part.riser) == number:
            part.present = False


def dimm_errs(machine: SimMachine, label: str) -> None:
    """A module has errors."""
    find.dimm(machine, label).errors = True


def busy(machine: SimMachine, seconds: str) -> None:
    """The BMC answers 503 from this moment on."""
    machine.bmc_busy_until = machine.world.clock.seconds() + float(seconds)


def not_busy(machine: SimMachine, seconds: str) -> None:
    """The BMC answers again."""
    machine.bmc_busy_until = 0.0


def clock_off(machine: SimMachine, count: str) -> None:
    """The BMC's clock is ahead."""
    machine.bmc_clock_offset_s = float(count) * 3600


def clock_right(machine: SimMachine, count: str) -> None:
    """The BMC's clock is right."""
    machine.bmc_clock_offset_s = 0.0


def pxe_off(machine: SimMachine, arg: str) -> None:
    """No network boot device is enabled."""
    machine.bios |= {"PxeDev1EnDis": "Disabled", "HttpDev1EnDis": "Disabled"}


def pxe_on(machine: SimMachine, arg: str) -> None:
    """Network boot is enabled."""
    machine.bios |= {"PxeDev1EnDis": "Enabled", "HttpDev1EnDis": "Enabled"}


def dhcp_off(machine: SimMachine, arg: str) -> None:
    """Nobody answers DHCP in the rack."""
    machine.world.dhcp_dead_racks.add(machine.rack)


def dhcp_on(machine: SimMachine, arg: str) -> None:
    """DHCP answers, unless another machine of the rack has the fault too."""
    others = (m for m in machine.world.machines.values() if m.rack == machine.rack and m is not machine)
    if not any(other.has_fault("no_dhcp") for other in others):
        machine.world.dhcp_dead_racks.discard(machine.rack)


def sicken(machine: SimMachine, name: str) -> None:
    """The BMC forgets what it had of an earlier ailment."""
    machine.sick.clear()
    if name == "job_pending":
        machine.queue_job({"ProcVirtualization": "Enabled"})
    elif name == "ntp_on":
        machine.ntp = True


def heal(machine: SimMachine, name: str) -> None:
    """What the ailment left is put right."""
    if name == "job_pending":
        machine.jobs = [job for job in machine.jobs if "ProcVirtualization" not in job.attributes]
    elif name == "ntp_on":
        machine.ntp = False


def pdu_of(feed: str) -> str:
    """The PDU of an outlet: ``pdu-12a`` of ``pdu-12a-7``."""
    return feed.rpartition("-")[0]


def pdu_name(machine: SimMachine, arg: str) -> str:
    """A PDU that feeds the machine; the first supply's by default."""
    names = {pdu_of(psu.feed): pdu_of(psu.feed) for psu in machine.psus}
    return find.choose(arg or next(iter(names)), names, "PDU")


def pdu_off(machine: SimMachine, pdu: str) -> None:
    """Every supply that hangs on the PDU gets no input."""
    for psu in machine.psus:
        psu.cord = psu.cord and pdu_of(psu.feed) != pdu


def everywhere(machine: SimMachine, kind: str, pdu: str) -> None:
    """A PDU feeds a rack: the fault strikes every machine on it."""
    for other in machine.world.machines.values():
        fed = any(pdu_of(psu.feed) == pdu for psu in other.psus)
        if fed and not any((fault.kind, fault.arg) == (kind, pdu) for fault in other.faults):
            other.inject(kind, pdu)


def nowhere(machine: SimMachine, kind: str, pdu: str) -> None:
    """The PDU gives power again, to every machine on it."""
    for other in machine.world.machines.values():
        for fault in [fault for fault in other.faults if (fault.kind, fault.arg) == (kind, pdu)]:
            other.repair(fault)


def partner(machine: SimMachine, arg: str) -> str:
    """Another machine of the world; any by default. Raises SimError."""
    arg = arg or next((name for name in machine.world.machines if name != machine.name), machine.name)
    if arg == machine.name:
        raise SimError("a machine cannot be swapped with itself; name another one")
    return machine.world.by_name(arg).name


def into_each_others(machine: SimMachine, other: str) -> None:
    """The boot port's cable ends where that of the other machine should."""
    there = machine.world.by_name(other).boot_nic
    port = machine.boot_nic
    port.actual_switch, port.actual_port = there.planned_switch, there.planned_port


def both(machine: SimMachine, other: str) -> None:
    """It takes two to swap."""
    if not machine.world.by_name(other).has_fault("cables_swapped"):
        machine.world.inject(other, "cables_swapped", machine.name)


def neither(machine: SimMachine, other: str) -> None:
    """Both cables are where they belong."""
    there = machine.world.by_name(other)
    for fault in [fault for fault in there.faults if fault == Fault("cables_swapped", machine.name)]:
        there.repair(fault)
