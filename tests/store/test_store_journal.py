"""What is written down can be read again, whatever a peer has put into it."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta, timezone

import pytest

from provision.model.decision import Outcome
from provision.model.event import Acted, NodeEnded, RunStarted, Said
from provision.model.evidence import Evidence, Gap, Part, PartKind, Reading, Severity
from provision.model.run import NodeState, Run
from provision.ports import Journal, Pins
from provision.store.journal import Store, open_store
from tests.store.conftest import Place

NOW = datetime(2026, 11, 29, 12, 0, 0, 250_000, tzinfo=UTC)
HOSTILE = "\0nul \udcff surrogate \x1b[31m \u202e bidi '; DROP TABLE events; -- " + "x" * 1_000_000


async def started(place: Place, *nodes: str) -> Store:
    store = open_store(place.address)
    await store.start_run(
        Run("r1", "bringup", nodes or ("a",), "anna", os.uname().nodename, os.getpid(), NOW, "rack-12")
    )
    return store


def reading(node: str = "a", text: str = "", **values: float | str | None) -> Evidence:
    part = Part(PartKind.PSU, "PSU.Slot.2", "PSU 2", parent="board")
    return Evidence(node, part, Reading.NO_INPUT, "redfish/psus", NOW, text, "PSU0003", Severity.CRITICAL, values, True)


async def test_a_store_is_a_journal_and_keeps_pins(place: Place) -> None:
    store = await started(place)
    journal: Journal = store
    pins: Pins = store
    assert await journal.epoch("a") == 1
    assert [await journal.raise_epoch("a", why="wish") for _ in range(2)] == [2, 3]
    assert (await journal.epoch("a"), await journal.epoch("b")) == (3, 1)
    assert pins.get_pin("bmc-certificate", "a") is None
    pins.set_pin("bmc-certificate", "a", "11")
    pins.set_pin("bmc-certificate", "a", "22")
    pins.set_pin("ssh-host-key", "a", "33")
    await store.close()
    store = open_store(place.address)
    assert (store.get_pin("bmc-certificate", "a"), store.get_pin("ssh-host-key", "a")) == ("22", "33")
    assert await store.epoch("a") == 3
    await store.close()


async def test_attempts_newest_first_with_what_became_of_them(place: Place) -> None:
    store = await started(place)
    ids = [await store.open_attempt("r1", "a", "deploy", f"step-{n}", "why") for n in range(3)]
    await store.close_attempt(ids[0], "sent")
    await store.close_attempt(ids[1], "refused", "MAAS: no")
    found = await store.attempts("a", limit=2)
    assert [(a.id, a.step, a.result, a.detail) for a in found] == [
        (ids[2], "step-2", None, ""),
        (ids[1], "step-1", "refused", "MAAS: no"),
    ]
    assert found[0].opened_at.tzinfo is UTC
    await store.close()


async def test_history_is_the_newest_events_of_one_node_oldest_first(place: Place) -> None:
    store = await started(place)
    await store.record(RunStarted(NOW, "r1", "bringup", "rack-12", ("a", "b"), (("a", "rack-12"),), ("discover",)))
    for n in range(5):
        await store.record(Acted(NOW, "r1", "a", "deploy", f"step-{n}", "why", "sent"))
    ended = NodeEnded(NOW, "r1", "b", Outcome.NEEDS_HANDS, "preflight", "PSU 2 has no input", 12.5, ("T-0001",))
    await store.record(ended)
    await store.record(Said(NOW, "r1", "of no node"))
    assert [event["step"] for event in await store.history("a", limit=2)] == ["step-3", "step-4"]
    assert await store.history("b") == (ended.as_dict() | {"tickets": ["T-0001"]},)
    await store.close()


async def test_states_replace_each_other(place: Place) -> None:
    store = await started(place)
    east = timezone(timedelta(hours=3))
    for outcome in (None, Outcome.READY):
        for node in ("b", "a"):
            await store.set_state(NodeState(node, "r1", "deploy", NOW.astimezone(east), "what", "why", outcome, NOW))
    assert await store.states() == tuple(
        NodeState(node, "r1", "deploy", NOW, "what", "why", Outcome.READY, NOW) for node in ("a", "b")
    )
    assert [state.node for state in await store.states([f"n{i}" for i in range(2000)] + ["b"])] == ["b"]
    assert await store.states([]) == ()
    await store.close()


async def test_evidence_comes_back_as_it_was(place: Place) -> None:
    store = await started(place)
    kept = (reading(input_volts=0.0, model=None), reading("b"), reading(width=4, at="x"))
    await store.keep_evidence("r1", kept, [Gap("redfish/lclog", "/redfish/v1/x", "404")])
    await store.keep_evidence("r1", [], [])
    assert await store.evidence("a") == (kept[0], kept[2])
    await store.close()


async def test_nothing_that_a_peer_says_breaks_the_store(place: Place) -> None:
    store = await started(place)
    nan = float("nan")
    await store.record(Acted(NOW, "r1", "a", HOSTILE[:20], HOSTILE, HOSTILE, "sent", HOSTILE))
    await store.keep_evidence("r1", [reading(text=HOSTILE, volts=nan, name=HOSTILE)], [Gap(HOSTILE, HOSTILE, HOSTILE)])
    await store.set_state(NodeState("a", "r1", "deploy", NOW, HOSTILE, HOSTILE))
    attempt = await store.open_attempt("r1", "a", "deploy", "deploy", HOSTILE)
    await store.close_attempt(attempt, "unknown", HOSTILE)

    (event,), (seen,), (state,) = await store.history("a"), await store.evidence("a"), await store.states()
    (tried,) = await store.attempts("a")
    for text in (event["detail"], seen.text, state.why, tried.detail, seen.values["name"]):
        assert isinstance(text, str)
        assert text.startswith("\ufffdnul ? surrogate \x1b[31m \u202e bidi '; DROP TABLE")
        assert text.endswith("characters cut)")
        assert len(text) < 10_000
    assert seen.values["volts"] == "nan"
    await store.close()
    assert len(place.stored()) < 1_000_000


async def test_secrets_are_scrubbed_before_a_text_is_cut(place: Place) -> None:
    word = "hunter2-hunter2"
    store = await started(place)
    store.scrub = lambda text: text.replace(word, "***")
    at_the_cut = "x" * 8185 + word
    for text in (f"password {word}", at_the_cut):
        await store.record(Acted(NOW, "r1", "a", "deploy", "x", text, "sent", text))
        await store.record(Said(NOW, "r1", text, node="a"))
        await store.keep_evidence("r1", [reading(text=text, key=text)], [Gap(text, text, text)])
        await store.set_state(NodeState("a", "r1", "deploy", NOW, text, text))
        await store.close_attempt(await store.open_attempt("r1", "a", "s", "t", text), "sent", text)
        await store.raise_epoch("a", why=text)
    raw = place.stored()
    await store.close()
    assert b"hunter2" not in raw
    assert b"password ***" in raw


async def test_a_time_without_zone_is_our_mistake(place: Place) -> None:
    store = await started(place)
    with pytest.raises(Exception, match="has no time zone"):
        await store.record(Said(datetime(2026, 1, 1), "r1", "x"))  # noqa: DTZ001 - the mistake itself
    assert await store.history("a") == ()
    await store.close()


async def test_many_tasks_write_at_once(place: Place) -> None:
    store = await started(place, *(f"n{i}" for i in range(50)))

    async def work(node: str) -> None:
        for n in range(4):
            attempt = await store.open_attempt("r1", node, "deploy", str(n), "why")
            await store.record(Acted(NOW, "r1", node, "deploy", str(n), "why", "sent"))
            await store.close_attempt(attempt, "sent")

    await asyncio.gather(*(work(f"n{i}") for i in range(50)))
    for i in range(50):
        assert [a.result for a in await store.attempts(f"n{i}")] == ["sent"] * 4
        assert [e["step"] for e in await store.history(f"n{i}")] == ["0", "1", "2", "3"]
    await store.close()


async def test_what_was_committed_is_seen_by_others_at_once(place: Place) -> None:
    store = await started(place)
    await store.open_attempt("r1", "a", "deploy", "deploy", "why")
    assert place.sql("SELECT node, result FROM attempts") == [("a", None)]
    await store.close()
