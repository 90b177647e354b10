"""The evidence of a healthy node, and edits that break it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from provision.model.evidence import Evidence, PartKind, Reading
from tests.triage.makers import seen


def healthy() -> list[Evidence]:
    """What the probes say of a well node with eight GPUs, as docs/reference/evidence.md has it."""
    listed: list[Evidence] = [seen("node", "gpu-12-03", "fact", "redfish/host", values={"power": "on"})]
    for number in range(1, 5):
        listed.append(seen("psu", f"PSU.Slot.{number}", "ok", "redfish/psus", locator=f"PSU {number}"))
        listed.append(seen("dimm", f"DIMM.Socket.A{number}", "ok", "redfish/dimms", locator=f"DIMM A{number}"))
    for bay in range(8):
        values = {"protocol": "NVMe", "width": 4, "max_width": 4, "model": "PM9A3"}
        listed.append(seen("drive", f"Disk.Bay.{bay}", "ok", "redfish/drives", locator=f"Bay {bay}", values=values))
    for slot in range(1, 9):
        listed.append(seen("gpu", f"GPU.{slot}", "ok", "redfish/gpus", locator=f"GPU {slot}"))
        wide = {"width": 16, "max_width": 16, "gen": 5, "max_gen": 5, "device_class": "gpu", "model": "H100"}
        listed.append(seen("pcie", f"GPU.{slot}", "fact", "redfish/pcie", locator=f"Slot {30 + slot}", values=wide))
    for slot, switch in ((3, "leaf-a1"), (5, "leaf-b1")):
        name = f"NIC.Slot.{slot}-1-1"
        listed.append(seen("nic", f"NIC.Slot.{slot}", "ok", "redfish/nics", locator=f"Slot {slot}"))
        place = f"Slot {slot} Port 1"
        port = {"mac": f"b8:3f:d2:00:00:0{slot}", "kind": "ethernet", "boot": slot == 3}
        listed.append(seen("port", name, "up", "redfish/ports", locator=place, values=port))
        heard = {"switch": switch, "port": "7"}
        listed.append(seen("port", name, "fact", "redfish/lldp", locator=place, values=heard))
    for kind, count in (
        (PartKind.PSU, 4),
        (PartKind.DIMM, 4),
        (PartKind.DRIVE, 8),
        (PartKind.GPU, 8),
        (PartKind.NIC, 2),
    ):
        listed.append(seen(kind.value, "*", "fact", "redfish/count", values={"count": count}))
    listed.append(seen("bmc", "BMC", "ok", "bmc/answer", locator="BMC port"))
    listed.append(seen("boot", "boot override", "ok", "bmc/boot", locator="BMC"))
    listed.append(seen("clock", "BMC clock", "fact", "clock/offset", values={"offset_s": 0.4}))
    return listed


def without(evidence: Iterable[Evidence], kind: str, *names: str) -> list[Evidence]:
    """Parts that vanished: no reading of them any more, and the count of their kind is lower."""
    gone = [e for e in evidence if e.part.kind == kind and e.part.name in names and e.source != "redfish/pcie"]
    kept = [e for e in evidence if e not in gone]
    fewer = [e for e in kept if e.source == "redfish/count" and e.part.kind == kind]
    return [replace(e, values={"count": int(str(e.values["count"])) - len(names)}) if e in fewer else e for e in kept]


def with_reading(
    evidence: Iterable[Evidence], source: str, name: str, reading: str, **values: object
) -> list[Evidence]:
    """One part reads otherwise."""
    return changed(
        evidence,
        lambda e: e.source == source and e.part.name == name,
        lambda e: replace(e, reading=Reading(reading), values={**e.values, **values}),
    )


def changed(
    evidence: Iterable[Evidence], chosen: Callable[[Evidence], bool], edit: Callable[[Evidence], Evidence]
) -> list[Evidence]:
    """The evidence with some of it edited; at least one piece must be."""
    listed = list(evidence)
    assert any(chosen(e) for e in listed)
    return [edit(e) if chosen(e) else e for e in listed]
