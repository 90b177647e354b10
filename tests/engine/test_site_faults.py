"""What happens to a whole site in the middle of a run: it goes on by itself, or says what to do."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from provision.engine.fleet import Fleet
from provision.errors import UnavailableError
from provision.model.decision import Outcome
from provision.model.event import Acted, Event
from provision.model.evidence import Evidence, Part, PartKind, Reading, Severity
from tests.engine.conftest import Bench, MakeBench
from tests.fakes import START, FakeClock

AWAY = UnavailableError("MAAS http://fake", "GET machines", "503 service unavailable")


def when(lab: Bench, step: str, then: Any) -> None:
    """Do something once, at the first act of this name."""

    def watch(fleet: Fleet, event: Event) -> None:
        if isinstance(event, Acted) and event.step == step:
            lab.watch = lambda fleet, event: None
            then()

    lab.watch = watch


async def test_maas_is_down_for_an_hour_while_machines_install(bench: MakeBench) -> None:
    lab = bench(4)

    def away() -> None:
        lab.world.maas_error = AWAY

    async def back() -> None:
        while lab.world.maas_error is None:
            await lab.world.clock.sleep(30)
        await lab.world.clock.sleep(3600)
        lab.world.maas_error = None

    when(lab, "deploy", away)
    assert set((await lab.with_beside(back())).values()) == {Outcome.READY}
    assert [metal.deployments for metal in lab.world.metal.values()] == [1, 1, 1, 1]
    assert all(lab.world.written(node.name).count("deploy") == 1 for node in lab.nodes)


async def test_maas_that_stays_down_ends_with_its_own_words_and_the_same_command_goes_on(bench: MakeBench) -> None:
    lab = bench(2)
    lab.world.maas_error = AWAY
    ended = await lab.up()
    assert all("503 service unavailable" in end.why for end in ended.values())
    assert lab.world.writes == []
    lab.world.maas_error = None
    assert set((await lab.outcomes()).values()) == {Outcome.READY}


async def test_half_of_the_bmc_network_is_gone(bench: MakeBench) -> None:
    """The other half is not held up, and what was begun is not begun again when the network is back."""
    lab = bench(8)
    gone = [node.name for node in lab.nodes[4:]]

    def cut() -> None:
        for name in gone:
            lab.world.metal[name].bmc_error = UnavailableError(f"BMC of {name}", "GET /", "no route to host")

    when(lab, "commission", cut)
    ended = await lab.up()
    assert all(ended[node.name].outcome is Outcome.READY for node in lab.nodes[:4])
    assert all(end.outcome is Outcome.READY or "no route to host" in end.why for end in ended.values())
    for name in gone:
        lab.world.metal[name].bmc_error = None
    assert set((await lab.outcomes()).values()) == {Outcome.READY}
    assert [metal.deployments for metal in lab.world.metal.values()] == [1] * 8


class JumpyClock(FakeClock):
    """The wall clock is set back and forth by hours; seconds that never jump do not."""

    def now(self) -> datetime:
        jump = (-9000, 0, 7200, -300)[int(self.monotonic() // 97) % 4]
        return super().now() + timedelta(seconds=jump)


@pytest.mark.parametrize("seed", range(3))
async def test_the_clock_jumps_back_and_forth(bench: MakeBench, seed: int) -> None:
    lab = bench(3)
    lab.world.clock = JumpyClock()
    lab.world.clock.jump(31.0 * seed)
    outcomes = await lab.outcomes()
    again = await lab.outcomes()
    assert set(again.values()) == {Outcome.READY}, (outcomes, again)
    assert [metal.deployments for metal in lab.world.metal.values()] == [1, 1, 1]
    assert [metal.erasures for metal in lab.world.metal.values()] == [0, 0, 0]


async def test_one_slow_peer_holds_up_nobody_else(bench: MakeBench) -> None:
    """Names that take half a minute to resolve, links that crawl: the others are done as early as without it."""
    lab = bench(4)
    lab.world.metal["gpu-12-04"].bmc_silent_until = 500
    ended = await lab.up()
    assert {end.outcome for end in ended.values()} == {Outcome.READY}
    alone = max(end.took_s for name, end in ended.items() if name != "gpu-12-04")
    reference = bench(3)
    assert alone <= max(end.took_s for end in (await reference.up()).values()) + 60


async def test_five_thousand_log_entries_in_a_minute(bench: MakeBench) -> None:
    """They are kept and judged once; the history and the run stay what they are."""
    lab = bench(2)
    for number in range(5000):
        lab.world.metal["gpu-12-01"].health[f"log {number}"] = Evidence(
            "gpu-12-01",
            Part(PartKind.NODE, "gpu-12-01", "gpu-12-01"),
            Reading.FACT,
            "redfish/lclog",
            START + timedelta(milliseconds=12 * number),
            text=f"\x1b[31mentry {number}: something, somewhere",
            code="SYS198",
            severity=Severity.WARNING,
        )
    ended = await lab.up()
    assert {end.outcome for end in ended.values()} == {Outcome.READY}, [end.why for end in ended.values()]
    told = [len(await lab.journal.history(name)) for name in ("gpu-12-01", "gpu-12-02")]
    assert told[0] == told[1]
    assert len(lab.journal.evidence) <= 5100, "looked at once, not at every pass"
