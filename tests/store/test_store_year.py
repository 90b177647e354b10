"""How large a store grows: what real runs write, on a real disk, scaled to a year of a site."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from provision.engine.fleet import Fleet
from provision.model.evidence import Evidence, Part, PartKind, Reading, Severity
from provision.model.site import Site
from provision.stages import BRING_UP
from provision.store import upkeep
from provision.store.journal import open_store
from tests.fakes import PROFILE, START, World, judge_simply, make_run, no_causes, rack, real_desk, tools_for
from tests.working import Busy, WorkClock

NODES, RUNS, EVERY = 12, 4, timedelta(days=30)
# A site of 512 nodes in which every node is installed afresh each fortnight, and every tenth of these ends at a fault
# whose node is asked for everything it has: 150 readings (a node with 8 GPUs, 10 NICs, 16 drives, 32 DIMMs, its log).
SITE, A_YEAR, FAULTS, READINGS = 512, 26, 0.1, 150
LIMIT_BYTES = 1_000_000_000


def _asked_everything(node: str, at: object) -> list[Evidence]:
    part = Part(PartKind.DIMM, "DIMM.Socket.A12", "DIMM A12", parent="System.Embedded.1")
    text = "Correctable memory error rate exceeded for DIMM_A12; replace it at the next visit. " * 2
    figures = {"speed_mhz": 4800, "size_gb": 64.0, "serial": "802C0F2329A1B2C3D4", "model": "HMCG94AEBRA123N"}
    one = Evidence(node, part, Reading.FAILED, "redfish/memory", START, text, "MEM0701", Severity.WARNING, figures)
    return [replace(one, part=replace(part, name=f"DIMM.{n}"), seen_at=at) for n in range(READINGS)]  # type: ignore[arg-type]


async def test_a_year_of_a_site_stays_under_a_gigabyte(tmp_path: Path) -> None:
    time = [START]
    store = open_store(tmp_path, now=lambda: time[0])
    path = tmp_path / "store.db"
    await store.close()
    empty = path.stat().st_size
    for number in range(RUNS):
        began = START + number * EVERY
        world = World(nodes := rack(NODES))
        world.clock = clock = WorkClock()
        store = open_store(tmp_path, now=lambda began=began, world=world: began + (world.clock.now() - START))  # type: ignore[misc]
        fleet = Fleet(
            stages=BRING_UP,
            journal=Busy(store, clock),  # type: ignore[arg-type]
            clock=clock,
            site=Site(),
            judge=judge_simply,
            desk=real_desk(),
            fleet_causes=no_causes,
            tools_for=tools_for(world, site=Site(), judge=judge_simply, bmcs=[]),
            emit=lambda event: None,
        )
        run = make_run(world, nodes, number + 1)
        ended = await fleet.run(run, nodes, {"h100": PROFILE})
        assert {end.outcome.value for end in ended.values()} == {"ready"}
        for node in nodes[: round(NODES * FAULTS)]:
            await store.keep_evidence(run.id, _asked_everything(node.name, began), [])
        await store.close()
    a_node_and_run = (path.stat().st_size - empty) / (NODES * RUNS)
    a_year = a_node_and_run * SITE * A_YEAR
    print(f"{a_node_and_run:.0f} bytes a node and run, {a_year / 1e6:.0f} MB a year")  # noqa: T201
    assert 0 < a_year < LIMIT_BYTES

    # Half of it is older than two months; pruned and compacted, the file shrinks with it.
    store = open_store(tmp_path)
    whole = upkeep.info(store._database, START).rows["evidence"]
    gone = upkeep.prune(store._database, before=START + 1.5 * EVERY)
    assert gone["evidence"] == whole / 2
    store._database.compact()
    await store.close()
    assert path.stat().st_size - empty < 0.65 * a_node_and_run * NODES * RUNS
