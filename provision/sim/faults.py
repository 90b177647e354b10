"""Faults as data: what each does to a machine, what the BMC logs of it, and what repair undoes.

A fault never changes parts for good: a machine's parts are derived from its healthy parts and its active faults, so
repair is taking the fault away. The few that act on something else (a clock, a rack) name how they are undone.

Message ids are Dell's (message registry 2.9, iDRAC9); the texts are our own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from provision.sim.parts import Fault, SimDimm, SimDrive, SimError, SimGpu, SimNic, SimPcieSlot, SimPsu

if TYPE_CHECKING:
    from provision.sim.machine import SimMachine


@dataclass(frozen=True)
class Line:
    """A log line as the BMC will write it."""

    message_id: str
    text: str
    severity: str = "Critical"
    args: tuple[str, ...] = ()
    fqdd: str = ""
    clears: bool = False


Act = Callable[["SimMachine", str], None]
Says = Callable[["SimMachine", str], tuple[Line, ...]]


def _nothing(machine: SimMachine, arg: str) -> None:
    """Changes nothing by itself; another part of the simulator asks ``has_fault``."""


def _silent(machine: SimMachine, arg: str) -> tuple[Line, ...]:
    return ()


def _as_is(machine: SimMachine, arg: str) -> str:
    if arg:
        raise SimError("it takes no argument")
    return ""


@dataclass(frozen=True)
class FaultKind:
    """One row: ``about`` for people, ``argument`` what may stand after the colon.

    ``resolve`` turns the argument into its one spelling (or raises SimError), ``apply`` acts on the derived parts,
    ``strike`` and ``mend`` act once on anything else, ``says`` and ``ends`` are the BMC's log lines, ``at_post``
    repeats ``says`` at every POST.
    """

    about: str
    argument: str = ""
    resolve: Callable[[SimMachine, str], str] = _as_is
    apply: Act = _nothing
    strike: Act = _nothing
    mend: Act = _nothing
    says: Says = _silent
    ends: Says = _silent
    at_post: bool = False


def resolve(machine: SimMachine, kind: str, arg: str) -> Fault:
    """Check a fault before it strikes. Raises SimError with a sentence that lists what is possible."""
    row = FAULTS.get(kind)
    if row is None:
        raise SimError(f"there is no fault {kind!r}; the kinds are {', '.join(FAULTS)}")
    try:
        return Fault(kind, row.resolve(machine, arg))
    except SimError as error:
        raise SimError(f"fault {kind} with {arg!r} on {machine.name}: {error}") from None


def hours(count: float) -> timedelta:
    """A time span."""
    return timedelta(hours=count)


def healthy_bios(nics: Iterable[SimNic]) -> dict[str, str]:
    """BIOS attributes as a well-prepared server has them: the boot port is the first PXE and HTTP device."""
    boot = next((nic.name for nic in nics if nic.boot), "")
    return {
        "BootMode": "Uefi",
        "PxeDev1EnDis": "Enabled",
        "PxeDev1Interface": boot,
        "PxeDev2EnDis": "Disabled",
        "HttpDev1EnDis": "Enabled",
        "HttpDev1Interface": boot,
        "HttpDev1Uri": "",
    }


def _choose(wanted: str, names: dict[str, str], what: str) -> str:
    if wanted not in names:
        raise SimError(f"no such {what}; there are {', '.join(dict.fromkeys(names.values()))}")
    return names[wanted]


def _number(
    default: str, numbers: Callable[[SimMachine], Iterable[int]], what: str
) -> Callable[[SimMachine, str], str]:
    def resolve_number(machine: SimMachine, arg: str) -> str:
        return _choose(arg or default, {str(n): str(n) for n in numbers(machine)}, what)

    return resolve_number


def _port(machine: SimMachine, arg: str) -> str:
    names = {n.name: n.name for n in machine.nics} | {n.slot_label: n.name for n in machine.nics}
    return _choose(arg or machine.boot_nic.name, names, "port")


def _card(machine: SimMachine, arg: str) -> str:
    default = next((n.adapter for n in reversed(machine.nics) if not n.boot), machine.boot_nic.adapter)
    names = {n.adapter: n.adapter for n in machine.nics} | {n.name: n.adapter for n in machine.nics}
    return _choose(arg or default, names, "network card")


def _socket(machine: SimMachine, arg: str) -> str:
    return _choose(arg or "A1", {dimm.label: dimm.label for dimm in machine.dimms}, "memory socket")


def _amount(default: str, unit: str) -> Callable[[SimMachine, str], str]:
    def resolve_amount(machine: SimMachine, arg: str) -> str:
        try:
            return f"{float(arg or default):g}"
        except ValueError:
            raise SimError(f"a number of {unit} was expected, such as {default}") from None

    return resolve_amount


def _silence(machine: SimMachine, arg: str) -> str:
    return _choose(arg or "refused", {"refused": "refused", "hang": "hang"}, "kind of silence")


def nic(machine: SimMachine, name: str) -> SimNic:
    """The port of this FQDD."""
    return next(item for item in machine.nics if item.name == name)


def drive(machine: SimMachine, bay: str) -> SimDrive:
    """The data drive in this bay."""
    return next(item for item in machine.drives if str(item.bay) == bay and not item.boot)


def psu(machine: SimMachine, number: str) -> SimPsu:
    """The power supply of this number."""
    return next(item for item in machine.psus if str(item.number) == number)


def gpu(machine: SimMachine, number: str) -> SimGpu:
    """The GPU of this number."""
    return next(item for item in machine.gpus if str(item.number) == number)


def dimm(machine: SimMachine, label: str) -> SimDimm:
    """The memory module in this socket."""
    return next(item for item in machine.dimms if item.label == label)


def slot(machine: SimMachine, number: str) -> SimPcieSlot:
    """The PCIe slot of this number."""
    return next(item for item in machine.slots if str(item.number) == number)


def _unplug(machine: SimMachine, name: str) -> None:
    nic(machine, name).cabled = False


def _swap(machine: SimMachine, name: str) -> None:
    port = nic(machine, name)
    head = port.planned_port.rstrip("0123456789")
    # 24 ports away: the other half of the switch, which lies in another VLAN.
    port.actual_port = f"{head}{int(port.planned_port.removeprefix(head) or 0) + 24}"


def _cord_out(machine: SimMachine, number: str) -> None:
    psu(machine, number).cord = False


def _psu_dies(machine: SimMachine, number: str) -> None:
    psu(machine, number).failed = True


def _drive_gone(machine: SimMachine, bay: str) -> None:
    drive(machine, bay).present = False


def _drive_fails(machine: SimMachine, bay: str) -> None:
    drive(machine, bay).failing = True


def _narrow(machine: SimMachine, number: str) -> None:
    slot(machine, number).width = 4


def _gpu_gone(machine: SimMachine, number: str) -> None:
    gpu(machine, number).present = False


def _card_gone(machine: SimMachine, adapter: str) -> None:
    for port in machine.nics:
        if port.adapter == adapter:
            port.present = False
            slot(machine, str(port.slot)).present = False


def _riser_off(machine: SimMachine, number: str) -> None:
    hanging: list[SimGpu | SimNic | SimPcieSlot | SimDrive]
    hanging = [*machine.gpus, *machine.nics, *machine.slots, *machine.drives]
    for part in hanging:
        if str(part.riser) == number:
            part.present = False


def _dimm_errs(machine: SimMachine, label: str) -> None:
    dimm(machine, label).errors = True


def _busy(machine: SimMachine, seconds: str) -> None:
    machine.bmc_busy_until = machine.world.clock.seconds() + float(seconds)


def _not_busy(machine: SimMachine, seconds: str) -> None:
    machine.bmc_busy_until = 0.0


def _clock_off(machine: SimMachine, count: str) -> None:
    machine.bmc_clock_offset_s = float(count) * 3600


def _clock_right(machine: SimMachine, count: str) -> None:
    machine.bmc_clock_offset_s = 0.0


def _dhcp_off(machine: SimMachine, arg: str) -> None:
    machine.world.dhcp_dead_racks.add(machine.rack)


def _dhcp_on(machine: SimMachine, arg: str) -> None:
    others = (m for m in machine.world.machines.values() if m.rack == machine.rack and m is not machine)
    if not any(other.has_fault("no_dhcp") for other in others):
        machine.world.dhcp_dead_racks.discard(machine.rack)


def _line(message_id: str, text: str, severity: str = "Critical", *, fqdd: str = "", clears: bool = False) -> Says:
    """A log line whose text and FQDD may hold ``{arg}``; the argument is its only message argument."""

    def write(machine: SimMachine, arg: str) -> tuple[Line, ...]:
        return (Line(message_id, text.format(arg=arg), severity, (arg,), fqdd.format(arg=arg), clears),)

    return write


def _link_line(message_id: str, word: str, severity: str, *, clears: bool = False) -> Says:
    def write(machine: SimMachine, name: str) -> tuple[Line, ...]:
        port = nic(machine, name)
        text = f"The {port.slot_label} network link is {word}."
        return (Line(message_id, text, severity, (port.adapter, name.split("-")[1]), name, clears),)

    return write


def _gone_line(what: str, fqdds: Callable[[SimMachine, str], list[str]]) -> Says:
    def write(machine: SimMachine, arg: str) -> tuple[Line, ...]:
        return tuple(
            Line("PR8", f"{what} {fqdd} is no longer detected.", "Informational", (fqdd,), fqdd)
            for fqdd in fqdds(machine, arg)
        )

    return write


def _back_line(what: str, fqdds: Callable[[SimMachine, str], list[str]]) -> Says:
    def write(machine: SimMachine, arg: str) -> tuple[Line, ...]:
        return tuple(
            Line("PR7", f"{what} {fqdd} is newly detected.", "Informational", (fqdd,), fqdd, clears=True)
            for fqdd in fqdds(machine, arg)
        )

    return write


def _gpu_fqdd(machine: SimMachine, number: str) -> list[str]:
    return [gpu(machine, number).name]


def _card_fqdd(machine: SimMachine, adapter: str) -> list[str]:
    return [port.name for port in machine.nics if port.adapter == adapter]


def _psu_numbers(machine: SimMachine) -> list[int]:
    return [item.number for item in machine.psus]


def _bays(machine: SimMachine) -> list[int]:
    return [item.bay for item in machine.drives if not item.boot]


def _slot_numbers(machine: SimMachine) -> list[int]:
    return [item.number for item in machine.slots]


def _gpu_numbers(machine: SimMachine) -> list[int]:
    return [item.number for item in machine.gpus]


def _risers(machine: SimMachine) -> list[int]:
    return sorted({item.riser for item in machine.slots if item.riser is not None})


FAULTS: dict[str, FaultKind] = {
    "cable_unplugged": FaultKind(
        "a network cable is out", "NIC (default: the boot port)", _port, _unplug,
        says=_link_line("NIC100", "down", "Warning"), at_post=True,
        ends=_link_line("NIC101", "started", "Informational", clears=True),
    ),
    "cable_wrong_port": FaultKind(
        "a network cable ends in another port of its switch, in another VLAN", "NIC (default: the boot port)", _port,
        _swap,
    ),
    "psu_cord_out": FaultKind(
        "a power cord is out", "PSU (default 2)", _number("2", _psu_numbers, "power supply"), _cord_out,
        says=_line("PSU0003", "Power supply {arg} gets no input power.", fqdd="PSU.Slot.{arg}"),
        ends=_line("PSU0017", "Power supply {arg} works normally.", "Informational", fqdd="PSU.Slot.{arg}",
                   clears=True),
    ),
    "psu_failed": FaultKind(
        "a power supply is dead", "PSU (default 2)", _number("2", _psu_numbers, "power supply"), _psu_dies,
        says=_line("PSU0001", "Power supply {arg} failed.", fqdd="PSU.Slot.{arg}"),
        ends=_line("PSU0017", "Power supply {arg} works normally.", "Informational", fqdd="PSU.Slot.{arg}",
                   clears=True),
    ),
    "nvme_missing": FaultKind(
        "a data drive is not there", "bay (default 4)", _number("4", _bays, "bay"), _drive_gone,
        says=_line("PDR1016", "Drive {arg} is removed from its bay.", fqdd="Disk.Bay.{arg}"),
        ends=_line("PDR1024", "Drive {arg} is installed.", "Informational", fqdd="Disk.Bay.{arg}", clears=True),
    ),
    "nvme_failing": FaultKind(
        "a data drive announces its failure", "bay (default 4)", _number("4", _bays, "bay"), _drive_fails,
        says=_line("PDR1002", "A predictive failure was found on drive {arg}.", "Warning", fqdd="Disk.Bay.{arg}"),
        ends=_line("PDR1024", "Drive {arg} is installed.", "Informational", fqdd="Disk.Bay.{arg}", clears=True),
    ),
    "pcie_width": FaultKind(
        "a PCIe link trained with four lanes of sixteen", "slot (default 38)",
        _number("38", _slot_numbers, "slot"), _narrow, at_post=True,
        says=_line("UEFI0031", "The PCIe link of slot {arg} is narrower than expected: x4 of x16.", "Warning",
                   fqdd="PCIe.Slot.{arg}"),
        ends=_line("PCI3005", "The PCIe link of slot {arg} works normally.", "Informational", fqdd="PCIe.Slot.{arg}",
                   clears=True),
    ),
    "gpu_missing": FaultKind(
        "a GPU is not detected", "GPU (default 3)", _number("3", _gpu_numbers, "GPU"), _gpu_gone,
        says=_gone_line("Device", _gpu_fqdd), ends=_back_line("Device", _gpu_fqdd),
    ),
    "nic_missing": FaultKind(
        "a network card is not detected", "card (default: the last one that is not the boot card)", _card, _card_gone,
        says=_gone_line("Device", _card_fqdd), ends=_back_line("Device", _card_fqdd),
    ),
    "riser_loose": FaultKind(
        "a riser's cable is loose: every GPU, card and slot on it is gone", "riser (default 2)",
        _number("2", _risers, "riser"), _riser_off, at_post=True,
        says=_line("HWC2011", "A cable of riser {arg} is not connected, or badly.", fqdd="Riser.{arg}"),
        ends=_line("HWC2010", "The cables of riser {arg} are connected.", "Informational", fqdd="Riser.{arg}",
                   clears=True),
    ),
    "dimm_errors": FaultKind(
        "a memory module has uncorrectable errors", "socket (default A1)", _socket, _dimm_errs, at_post=True,
        says=_line("MEM0001", "Multi-bit memory errors were found in socket {arg}.", fqdd="DIMM.Socket.{arg}"),
        ends=_line("MEM8000", "Memory in socket {arg} works normally.", "Informational", fqdd="DIMM.Socket.{arg}",
                   clears=True),
    ),
    "bmc_dead": FaultKind("nothing answers at the BMC's address", "refused or hang (default refused)", _silence),
    "bmc_busy": FaultKind(
        "the BMC answers 503 for a while", "simulated seconds (default 60)", _amount("60", "seconds"), strike=_busy,
        mend=_not_busy,
    ),
    "bmc_stores_nothing": FaultKind("the BMC says that it stored the boot override and does not"),
    "deploy_fails_once": FaultKind("the first installation fails"),
    "deploy_fails": FaultKind("every installation fails"),
    "commissioning_fails": FaultKind("a commissioning script fails"),
    "clock_off": FaultKind(
        "the BMC's clock is wrong", "hours ahead (default 7)", _amount("7", "hours"), strike=_clock_off,
        mend=_clock_right,
    ),
    "disk_order": FaultKind("drives are numbered anew at each boot"),
    "no_dhcp": FaultKind("nobody answers DHCP in the machine's rack", strike=_dhcp_off, mend=_dhcp_on),
}  # fmt: skip
