"""Every operation in every status, against the matrix measured on a real 3.6.3."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from provision.model.machine import Status
from provision.sim.maas import MaasServer
from provision.sim.maas.state import Disk, Record
from provision.sim.maas.wire import Call, Refusal
from provision.sim.world import SimClock, World

FACTS = Path(__file__).parents[3] / "shared" / "facts" / "maas.md"
COLUMNS = (
    "commission", "deploy", "release", "abort", "test", "mark_broken", "mark_fixed", "power_on", "power_off", "lock",
    "rescue_mode", "exit_rescue_mode", "set_storage_layout", "set_boot_disk", "update",
)  # fmt: skip
OWNED = {6, *range(9, 21)}
ROW = re.compile(r"^(\d+) \w+((?:\s+\d{3}(?:>\d+)?){15})$", re.MULTILINE)


def cells() -> list[tuple[int, str, str]]:
    """(status, operation, cell) of the measured matrix; empty where the facts are absent."""
    if not FACTS.exists():
        return []
    rows = ROW.findall(FACTS.read_text(encoding="utf-8"))
    return [(int(status), op, cell) for status, row in rows for op, cell in zip(COLUMNS, row.split(), strict=True)]


class ObedientPower:
    """Every press works at once."""

    async def on(self, record: Record) -> None: ...
    async def off(self, record: Record) -> None: ...
    async def query(self, record: Record) -> str:
        return "off"

    async def close(self) -> None: ...


async def outcome(status: int, operation: str) -> str:
    """What the simulator makes of a cell: ``200>4``, ``409``."""
    server = MaasServer(World(SimClock(), []), driver=ObedientPower())
    record = server.region.add("one", "amd64/generic", ["02:00:00:00:00:01"])
    record.power_type, record.status, record.previous_status = "redfish", Status(status), Status.READY
    record.disks = [Disk(1, "nvme0n1", "S", "M", 10**12)]
    record.owner = "admin" if status in OWNED else None
    path = "machines/{system_id}/" if operation != "set_boot_disk" else "nodes/{system_id}/blockdevices/{id}/"
    resource = next(item for item in server.resources if item.path == path)
    form = {"storage_layout": ["flat"], "testing_scripts": ["none"]}
    call = Call("POST", path, {}, form, operation, "", server.region.users["admin"])
    call.params = {"system_id": record.system_id, "id": "1"}
    action = next(item for item in resource.actions if item.name == operation)
    try:
        reply = await action.handler(call)
    except Refusal as refusal:
        reply = refusal.reply
    await server.settle()
    after = "" if record.status == status else f">{int(record.status)}"
    await server.stop()
    return f"{reply.status}{after}"


@pytest.mark.skipif(not FACTS.exists(), reason="the facts are not beside this checkout (../shared/facts)")
def test_every_cell_of_the_measured_matrix() -> None:
    """345 cells: HTTP status and the status afterwards."""
    measured = cells()
    assert len(measured) == 23 * len(COLUMNS)

    async def all_cells() -> list[str]:
        found = [(cell, await outcome(status, op), status, op) for status, op, cell in measured]
        return [
            f"{Status(status).label}, {op}: {got}, measured {cell}" for cell, got, status, op in found if got != cell
        ]

    assert asyncio.run(all_cells()) == []
