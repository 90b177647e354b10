"""Writing the inventory of a simulated fleet, as an operator would write that of a real one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from provision.sim.machine import SimMachine

PROFILE = "h100-8gpu"
PLAYBOOK = Path(__file__).parent / "playbook" / "sim.yml"
# Pauses shorter than this fraction of the real ones would only spin; deadlines shrink with them, and what is real
# here (TLS, ansible-playbook) takes its real time.
SHORTEST_PACE = 0.02


def write_inventory(folder: Path, machines: Iterable[SimMachine], settings: dict[str, Any]) -> None:
    """Write hosts, profile and the group var ``provision`` below ``folder``."""
    group_vars = folder / "group_vars" / "all"
    group_vars.mkdir(parents=True, exist_ok=True)
    racks: dict[str, dict[str, Any]] = {}
    profiles = {PROFILE: profile()}
    for machine in machines:
        rack = racks.setdefault(
            machine.rack, {"vars": {"rack": machine.rack, "site": machine.site, "room": machine.room}, "hosts": {}}
        )
        rack["hosts"][machine.name] = host_vars(machine)
        if machine.family.name != "idrac9":
            own = f"{PROFILE}-{machine.family.name}"
            profiles[own] = profile(machine)
            rack["hosts"][machine.name]["profile"] = own
    _write(folder / "hosts.yml", {"all": {"vars": {"profile": PROFILE}, "children": racks}})
    _write(group_vars / "profiles.yml", {"profiles": profiles})
    _write(group_vars / "provision.yml", {"provision": settings})


def host_vars(machine: SimMachine) -> dict[str, Any]:
    """The host variables of one machine."""
    return {
        "bmc_address": f"{machine.bmc_address}:{machine.bmc_port}",
        "service_tag": machine.service_tag,
        "asset_tag": machine.asset_tag,
        "rack_unit": machine.unit,
        "power_feeds": [psu.feed for psu in machine.psus],
        "cabling": [
            {
                "nic": machine.family.port_name(nic, number),
                "switch": nic.planned_switch,
                "port": nic.planned_port,
                "label": nic.cable_label,
            }
            for number, nic in enumerate(machine.nics, start=1)
        ],
        **({"ansible_host": machine.ssh_address, "ansible_port": machine.ssh_port} if machine.ssh_port else {}),
    }


def profile(machine: SimMachine | None = None) -> dict[str, Any]:
    """What ``build`` makes, as a profile says it; for a machine, with the boot port as its BMC's maker calls it."""
    boot = "NIC.Slot.35-1-1"
    if machine is not None:
        boot = next(machine.family.port_name(nic, n) for n, nic in enumerate(machine.nics, start=1) if nic.boot)
    return {
        "gpus": {"count": 8, "model": "H100", "pcie_width": 16, "pcie_gen": 5},
        "nics": {"count": 10, "pcie_width": 16},
        "nvme": {"count": 9},
        "psus": {"count": 6},
        "dimms": {"count": 32},
        "boot_disk": {"model": "BOSS", "max_size": "500GB"},
        "boot_method": "uefi-http",
        "boot_nic": boot,
        "image": {"series": "jammy", "kernel": "ga-22.04", "layout": "flat"},
    }


def pace_for(speed: float) -> float:
    """The product's ``pace`` that fits a world of this speed."""
    return min(1.0, max(1.0 / speed, SHORTEST_PACE))


def _write(path: Path, value: dict[str, Any]) -> None:
    head = "---\n# Written by `provision sim`, anew at each start.\n"
    path.write_text(head + yaml.safe_dump(value, sort_keys=False), encoding="utf-8")
