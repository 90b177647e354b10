"""Who goes first, as a table, and on real waves."""

from __future__ import annotations

from ansible_bench import Bench

from provision.adapters.ansible.canary import Canaries
from provision.ports import WaveState, WaveVerdict

OK = WaveVerdict(WaveState.OK)


def failed(task: str) -> WaveVerdict:
    return WaveVerdict(WaveState.FAILED, task, "no space left")


def test_few_hosts_need_no_canary_and_zero_switches_it_off() -> None:
    assert Canaries(8).take("tree", 8) is None
    assert Canaries(0).take("tree", 500) is None


def test_one_goes_first_and_then_all() -> None:
    canaries = Canaries(8)
    assert canaries.take("tree", 9) == 1
    assert canaries.out
    canaries.judge([("a", OK)])
    assert not canaries.out
    assert canaries.take("tree", 500) is None
    assert canaries.take("another tree", 500) == 1


def test_three_that_failed_at_one_task_stop_the_others_and_later_ones_begin_again() -> None:
    canaries = Canaries(2)
    assert canaries.take("tree", 9) == 1
    canaries.judge([("a", failed("apt : Fetch"))])
    assert canaries.refusal() == ""
    # Also when few are left: what went wrong once is not proved by their being few.
    assert canaries.take("tree", 2) == 2
    canaries.judge([("b", failed("apt : Fetch")), ("c", failed("apt : Fetch"))])
    assert canaries.refusal() == (
        "not begun, because a, b, c went first and all failed at 'apt : Fetch': no space left"
    )
    assert canaries.refusal() == ""
    assert canaries.take("tree", 9) == 1


def test_three_that_failed_each_in_its_own_way_speak_against_themselves() -> None:
    canaries = Canaries(2)
    canaries.take("tree", 9)
    canaries.judge([("a", failed("x"))])
    canaries.take("tree", 9)
    canaries.judge([("b", failed("y")), ("c", WaveVerdict(WaveState.UNREACHABLE))])
    assert canaries.refusal() == ""
    assert canaries.take("tree", 9) is None


async def test_with_broken_playbooks_three_hosts_are_touched_and_no_more(bench: Bench) -> None:
    names = [f"n{number}" for number in range(6)]
    for name in names:
        bench.host(name)
    waves = bench.waves(bench.playbook("Break: exit 1"), canary_above=2)
    found = await bench.run(waves, *names)
    assert [v.state for v in found] == [WaveState.FAILED] * 3 + [WaveState.NOT_ATTEMPTED] * 3
    assert "n0, n1, n2 went first and all failed at 'Break'" in found[5].why
    assert [len(bench.peers[name].commands) for name in names] == [1, 1, 1, 0, 0, 0]


async def test_with_good_playbooks_one_goes_first_and_slots_are_told(bench: Bench) -> None:
    names = [f"n{number}" for number in range(4)]
    for name in names:
        bench.host(name)
    play = bench.playbook("Say: echo {{ provision_download_slots }}\nchanged_when: false")
    waves = bench.waves(play, canary_above=2, download_slots=5)
    assert [v.state for v in await bench.run(waves, *names)] == [WaveState.OK] * 4
    assert waves._count == 2
    # Two waves may run beside each other, so each has half of the slots.
    assert bench.peers["n3"].commands == ["echo 2"]
