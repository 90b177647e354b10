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

from provision.sim import find, strikes
from provision.sim.ailments import ailment
from provision.sim.parts import Fault, SimError, SimNic

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


def _line(message_id: str, text: str, severity: str = "Critical", *, fqdd: str = "", clears: bool = False) -> Says:
    """A log line whose text and FQDD may hold ``{arg}``; the argument is its only message argument."""

    def write(machine: SimMachine, arg: str) -> tuple[Line, ...]:
        return (Line(message_id, text.format(arg=arg), severity, (arg,), fqdd.format(arg=arg), clears),)

    return write


def _link_line(message_id: str, word: str, severity: str, *, clears: bool = False) -> Says:
    def write(machine: SimMachine, name: str) -> tuple[Line, ...]:
        port = find.nic(machine, name)
        text = f"The {port.slot_label} network link is {word}."
        return (Line(message_id, text, severity, (port.adapter, name.split("-")[1]), name, clears),)

    return write


def _drive_line(message_id: str, what: str, severity: str, *, clears: bool = False) -> Says:
    def write(machine: SimMachine, bay: str) -> tuple[Line, ...]:
        name = find.drive(machine, bay).name
        return (Line(message_id, f"Drive {bay} {what} 1.", severity, (bay, "1"), name, clears),)

    return write


def _narrow_line(machine: SimMachine, number: str) -> tuple[Line, ...]:
    text = f"A narrow PCIe link is found on Slot {number}. Expected: x16. Actual: x4."
    return (Line("UEFI0031", text, "Critical", (f"Slot {number}", "x16", "x4"), f"PCIe.Slot.{number}"),)


def _dimm_line(message_id: str, text: str, severity: str, *, clears: bool = False) -> Says:
    def write(machine: SimMachine, label: str) -> tuple[Line, ...]:
        return (
            Line(message_id, f"{text} DIMM_{label}.", severity, (f"DIMM_{label}",), f"DIMM.Socket.{label}", clears),
        )

    return write


def _feed_lines(message_id: str, words: str, severity: str = "Critical", *, clears: bool = False) -> Says:
    """A line for each supply on the PDU."""

    def write(machine: SimMachine, pdu: str) -> tuple[Line, ...]:
        numbers = [str(psu.number) for psu in machine.psus if strikes.pdu_of(psu.feed) == pdu]
        return tuple(
            Line(message_id, f"Power supply {n} {words}.", severity, (n,), f"PSU.Slot.{n}", clears) for n in numbers
        )

    return write


def _gone_line(what: str, fqdds: Callable[[SimMachine, str], list[str]]) -> Says:
    def write(machine: SimMachine, arg: str) -> tuple[Line, ...]:
        return tuple(
            Line("PR8", f"{what} {fqdd} is no longer detected.", "Warning", (fqdd,), fqdd)
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
    return [find.gpu(machine, number).name]


def _card_fqdd(machine: SimMachine, adapter: str) -> list[str]:
    return [port.name for port in machine.nics if port.adapter == adapter]


FAULTS: dict[str, FaultKind] = {
    "cable_unplugged": FaultKind(
        "a network cable is out",
        "NIC (default: the boot port)",
        find.port_name,
        strikes.unplug,
        says=_link_line("NIC100", "down", "Warning"),
        at_post=True,
        ends=_link_line("NIC101", "started", "Informational", clears=True),
    ),
    "cable_wrong_port": FaultKind(
        "a network cable ends in another port of its switch, in another VLAN",
        "NIC (default: the boot port)",
        find.port_name,
        strikes.swap,
    ),
    "cables_swapped": FaultKind(
        "the boot ports' cables of two machines end in each other's switch port",
        "the other machine (default: the first)",
        strikes.partner,
        strikes.into_each_others,
        strike=strikes.both,
        mend=strikes.neither,
    ),
    "psu_cord_out": FaultKind(
        "a power cord is out",
        "PSU (default 2)",
        find.number("2", find.psu_numbers, "power supply"),
        strikes.cord_out,
        says=_line("PSU0003", "Power supply {arg} gets no input power.", fqdd="PSU.Slot.{arg}"),
        ends=_line(
            "PSU0017", "Power supply {arg} works normally.", "Informational", fqdd="PSU.Slot.{arg}", clears=True
        ),
    ),
    "psu_failed": FaultKind(
        "a power supply is dead",
        "PSU (default 2)",
        find.number("2", find.psu_numbers, "power supply"),
        strikes.psu_dies,
        says=_line("PSU0001", "Power supply {arg} failed.", fqdd="PSU.Slot.{arg}"),
        ends=_line(
            "PSU0017", "Power supply {arg} works normally.", "Informational", fqdd="PSU.Slot.{arg}", clears=True
        ),
    ),
    "pdu_dead": FaultKind(
        "a PDU of the rack gives no power: every machine on it has supplies without input",
        "PDU (default: that of the first supply)",
        strikes.pdu_name,
        strikes.pdu_off,
        strike=lambda machine, pdu: strikes.everywhere(machine, "pdu_dead", pdu),
        mend=lambda machine, pdu: strikes.nowhere(machine, "pdu_dead", pdu),
        says=_feed_lines("PSU0003", "gets no input power"),
        ends=_feed_lines("PSU0017", "works normally", "Informational", clears=True),
    ),
    "nvme_missing": FaultKind(
        "a data drive is not there",
        "bay (default 4)",
        find.number("4", find.bays, "bay"),
        strikes.drive_gone,
        says=_drive_line("PDR1016", "is removed from disk bay", "Critical"),
        ends=_drive_line("PDR8", "is inserted in disk bay", "Informational", clears=True),
    ),
    "nvme_failing": FaultKind(
        "a data drive announces its failure",
        "bay (default 4)",
        find.number("4", find.bays, "bay"),
        strikes.drive_fails,
        says=_drive_line("PDR1002", "announces its failure in disk bay", "Warning"),
        ends=_drive_line("PDR1017", "works normally in disk bay", "Informational", clears=True),
    ),
    "pcie_width": FaultKind(
        "a PCIe link trained with four lanes of sixteen",
        "slot (default 38)",
        find.number("38", find.slot_numbers, "slot"),
        strikes.narrow,
        at_post=True,
        says=_narrow_line,
    ),
    "gpu_missing": FaultKind(
        "a GPU is not detected",
        "GPU (default 3)",
        find.number("3", find.gpu_numbers, "GPU"),
        strikes.gpu_gone,
        says=_gone_line("Device", _gpu_fqdd),
        ends=_back_line("Device", _gpu_fqdd),
    ),
    "nic_missing": FaultKind(
        "a network card is not detected",
        "card (default: the last one that is not the boot card)",
        find.card_name,
        strikes.card_gone,
        says=_gone_line("Device", _card_fqdd),
        ends=_back_line("Device", _card_fqdd),
    ),
    "riser_loose": FaultKind(
        "a riser's cable is loose: every GPU, card and slot on it is gone",
        "riser (default 2)",
        find.number("2", find.risers, "riser"),
        strikes.riser_off,
        at_post=True,
        says=_line("HWC2011", "A cable of riser {arg} is not connected, or badly.", fqdd="Riser.{arg}"),
        ends=_line(
            "HWC2010", "The cables of riser {arg} are connected.", "Informational", fqdd="Riser.{arg}", clears=True
        ),
    ),
    "dimm_errors": FaultKind(
        "a memory module has uncorrectable errors",
        "socket (default A1)",
        find.socket,
        strikes.dimm_errs,
        at_post=True,
        says=_dimm_line("MEM0001", "Multi-bit memory errors are found on the memory device at", "Critical"),
        ends=_dimm_line("MEM0006", "A memory device is present at", "Informational", clears=True),
    ),
    "bmc_dead": FaultKind("nothing answers at the BMC's address", "refused or hang (default refused)", find.silence),
    "bmc_busy": FaultKind(
        "the BMC answers 503 for a while",
        "simulated seconds (default 60)",
        find.amount("60", "seconds"),
        strike=strikes.busy,
        mend=strikes.not_busy,
    ),
    "bmc_updated": FaultKind(
        "a BMC update reports an internal cable as missing that is well",
        "the version (default 7.20.30.00)",
        lambda machine, version: version or "7.20.30.00",
        at_post=True,
        says=_line(
            "HWC8010",
            "The System Configuration Check operation resulted in the following issue: "
            "Config Missing: Backplane Cable PLANAR_SL1 and BP_DST_SB1",
        ),
        ends=_line("HWC8011", "The System Configuration Check found no issue.", "Informational", clears=True),
    ),
    "bmc_stores_nothing": FaultKind("the BMC says that it stored the boot override and does not"),
    "bmc_sick": FaultKind(
        "the BMC misbehaves in one of the ways that real ones did",
        "a name of ailments, or a case (default R6)",
        ailment,
        strike=strikes.sicken,
        mend=strikes.heal,
    ),
    "deploy_fails_once": FaultKind("the first installation fails"),
    "deploy_fails": FaultKind("every installation fails"),
    "commissioning_fails": FaultKind("a commissioning script fails"),
    "clock_off": FaultKind(
        "the BMC's clock is wrong",
        "hours ahead (default 7)",
        find.amount("7", "hours"),
        strike=strikes.clock_off,
        mend=strikes.clock_right,
    ),
    "lockdown": FaultKind("the BMC's lockdown mode refuses changes of the configuration"),
    "pxe_disabled": FaultKind(
        "no network boot device is enabled in the BIOS", strike=strikes.pxe_off, mend=strikes.pxe_on
    ),
    "disk_order": FaultKind("drives are numbered anew at each boot"),
    "no_dhcp": FaultKind("nobody answers DHCP in the machine's rack", strike=strikes.dhcp_off, mend=strikes.dhcp_on),
}
