"""Finding the part of a machine that a fault's argument names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from provision.sim.parts import SimDimm, SimDrive, SimError, SimGpu, SimNic, SimPcieSlot, SimPsu

if TYPE_CHECKING:
    from provision.sim.machine import SimMachine


def choose(wanted: str, names: dict[str, str], what: str) -> str:
    """The one spelling of a name. Raises SimError that lists what there is."""
    if wanted not in names:
        raise SimError(f"no such {what}; there are {', '.join(dict.fromkeys(names.values()))}")
    return names[wanted]


def number(default: str, numbers: Callable[[SimMachine], Iterable[int]], what: str) -> Callable[[SimMachine, str], str]:
    """A resolver for parts that are numbered."""

    def resolve_number(machine: SimMachine, arg: str) -> str:
        return choose(arg or default, {str(n): str(n) for n in numbers(machine)}, what)

    return resolve_number


def port_name(machine: SimMachine, arg: str) -> str:
    """A port by FQDD or label; the boot port by default."""
    names = {n.name: n.name for n in machine.nics} | {n.slot_label: n.name for n in machine.nics}
    return choose(arg or machine.boot_nic.name, names, "port")


def card_name(machine: SimMachine, arg: str) -> str:
    """A network card by FQDD or by that of a port; the last card by default."""
    default = next((n.adapter for n in reversed(machine.nics) if not n.boot), machine.boot_nic.adapter)
    names = {n.adapter: n.adapter for n in machine.nics} | {n.name: n.adapter for n in machine.nics}
    return choose(arg or default, names, "network card")


def socket(machine: SimMachine, arg: str) -> str:
    """A memory socket."""
    return choose(arg or "A1", {dimm.label: dimm.label for dimm in machine.dimms}, "memory socket")


def amount(default: str, unit: str) -> Callable[[SimMachine, str], str]:
    """A resolver for amounts."""

    def resolve_amount(machine: SimMachine, arg: str) -> str:
        try:
            return f"{float(arg or default):g}"
        except ValueError:
            raise SimError(f"a number of {unit} was expected, such as {default}") from None

    return resolve_amount


def silence(machine: SimMachine, arg: str) -> str:
    """How a dead BMC is silent."""
    return choose(arg or "refused", {"refused": "refused", "hang": "hang"}, "kind of silence")


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


def psu_numbers(machine: SimMachine) -> list[int]:
    """Numbers of all power supplies."""
    return [item.number for item in machine.psus]


def bays(machine: SimMachine) -> list[int]:
    """Bays of all data drives."""
    return [item.bay for item in machine.drives if not item.boot]


def slot_numbers(machine: SimMachine) -> list[int]:
    """Numbers of all slots that carry a card."""
    return [item.number for item in machine.slots]


def gpu_numbers(machine: SimMachine) -> list[int]:
    """Numbers of all GPUs."""
    return [item.number for item in machine.gpus]


def risers(machine: SimMachine) -> list[int]:
    """Numbers of all risers."""
    return sorted({item.riser for item in machine.slots if item.riser is not None})
