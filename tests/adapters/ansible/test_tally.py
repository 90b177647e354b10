"""From event lines to verdicts, without a process."""

from __future__ import annotations

import queue
from typing import Any

import pytest

from provision.adapters.ansible.child import compact, handler, message
from provision.adapters.ansible.tally import Tally
from provision.adapters.ansible.variables import scrub
from provision.ports import WaveState, WaveVerdict


def stats(**by_kind: dict[str, int]) -> dict[str, Any]:
    return {"e": "stats", "stats": by_kind}


def tally(*lines: dict[str, Any], hosts: tuple[str, ...] = ("a", "b"), secrets: tuple[str, ...] = ()) -> Tally:
    made = Tally(hosts, frozenset(secrets))
    for line in lines:
        made.take(line)
    return made


def test_hosts_that_a_broken_batch_left_behind_are_not_attempted() -> None:
    """``serial`` with max_fail_percentage leaves later hosts out of the summary (facts: ansible §3)."""
    made = tally(
        {"e": "start", "host": "a", "task": "T"},
        {"e": "failed", "host": "a", "task": "T", "msg": "no"},
        stats(failures={"a": 1}, processed={"a": 1}),
        {"e": "end", "status": "failed", "rc": 2},
    )
    assert made.verdicts() == {
        "a": WaveVerdict(WaveState.FAILED, "T", "no"),
        "b": WaveVerdict(WaveState.NOT_ATTEMPTED, why="no play reached this host"),
    }


def test_a_rescued_and_an_ignored_failure_are_well() -> None:
    made = tally(
        {"e": "failed", "host": "a", "task": "Try", "msg": "no"},
        {"e": "failed", "host": "b", "task": "Ask", "msg": "no", "ignored": True},
        stats(ok={"a": 3, "b": 3}, rescued={"a": 1}, ignored={"b": 1}, changed={"a": 2}),
    )
    assert made.verdicts() == {"a": WaveVerdict(WaveState.OK, changed=2), "b": WaveVerdict(WaveState.OK)}


def test_unreachable_wins_over_failed_and_names_its_own_task() -> None:
    made = tally(
        {"e": "unreachable", "host": "a", "task": "Late", "msg": "no route"},
        stats(dark={"a": 1}, failures={"a": 1}, ok={"a": 4}),
    )
    assert made.verdicts()["a"] == WaveVerdict(WaveState.UNREACHABLE, "Late", "no route")


def test_without_a_summary_who_was_begun_failed_and_the_others_were_not_attempted() -> None:
    made = tally({"e": "start", "host": "a", "task": "T"}, {"e": "ok", "host": "a", "task": "S", "changed": True})
    verdicts = made.verdicts(cause="the Ansible process died (signal 9)")
    assert verdicts["a"] == WaveVerdict(WaveState.FAILED, "T", "the Ansible process died (signal 9)", 1)
    assert verdicts["b"] == WaveVerdict(WaveState.NOT_ATTEMPTED, why="the Ansible process died (signal 9)")


def test_of_a_loop_the_item_that_failed_speaks() -> None:
    made = tally(
        {"e": "start", "host": "a", "task": "Install"},
        {"e": "item", "host": "a", "task": "Install", "msg": "no package nvidia-driver-999"},
        {"e": "failed", "host": "a", "task": "Install", "msg": "One or more items failed"},
        stats(failures={"a": 1}),
    )
    assert made.verdicts()["a"].why == "no package nvidia-driver-999"


def test_secrets_are_scrubbed_from_everything_that_comes_out() -> None:
    made = tally(
        {"e": "start", "host": "a", "task": "T"},
        {"e": "failed", "host": "a", "task": "T", "msg": "login with s3cret-longer and s3cret failed"},
        secrets=("s3cret", "s3cret-longer"),
    )
    assert made.verdicts()["a"].why == "login with *** and *** failed"
    assert made.failures() == [{"host": "a", "state": "failed", "task": "T", "why": "login with *** and *** failed"}]
    assert made.verdicts(cause="died: s3cret")["b"].why == "died: ***"
    assert scrub("nothing", frozenset()) == "nothing"


@pytest.mark.parametrize("line", [{}, {"e": None}, {"e": "weather"}, {"x": 1}])
def test_a_line_of_unknown_kind_is_kept_and_stops_nothing(line: dict[str, Any]) -> None:
    made = tally(line, stats(ok={"a": 1, "b": 1}))
    assert len(made.garbled) == 1
    assert {verdict.state for verdict in made.verdicts().values()} == {WaveState.OK}


def test_the_event_handler_never_raises_and_never_asks_for_a_file() -> None:
    """A raising handler makes ansible-runner wait for ever (facts: ansible §3)."""
    lines: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def broken(_: object) -> None:
        raise RuntimeError("a defect")

    assert handler(lines, broken)({"event": "runner_on_ok"}) is False
    assert lines.get_nowait() == {"e": "garbled", "msg": "RuntimeError in event runner_on_ok"}
    assert handler(lines)({"event": "runner_on_ok", "event_data": {"res": "not a dict"}}) is False
    assert lines.get_nowait()["e"] == "garbled"


def test_task_arguments_and_hidden_results_do_not_travel() -> None:
    event = {
        "event": "runner_on_failed",
        "event_data": {
            "host": "a",
            "role": "gpu",
            "task": "Install",
            "task_args": "token=abc",
            "res": {"msg": "broke", "invocation": {"module_args": {"token": "abc"}}},
        },
    }
    assert compact(event) == {"e": "failed", "host": "a", "task": "gpu : Install", "ignored": False, "msg": "broke"}
    assert message({"censored": "the output has been hidden", "msg": "abc"}) == "(hidden by no_log)"


@pytest.mark.parametrize(
    ("res", "said"),
    [
        ({"msg": "a\n\nb\nc\nd"}, "a; b; c"),
        ({"msg": "non-zero return code", "rc": 4, "stderr": "E: held\n"}, "non-zero return code; status 4; E: held"),
        ({"rc": 1, "stdout": "only out"}, "status 1; only out"),
        ({"msg": "x" * 5000}, "x" * 600),
        ({}, "status None"),
        (None, "None"),
    ],
)
def test_messages_are_short(res: Any, said: str) -> None:
    assert message(res) == said
