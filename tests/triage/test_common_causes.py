"""What several machines share against the tickets of one; and what makes a cause common at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from provision.model.evidence import Evidence, Part, PartKind, Reading
from provision.model.finding import Action, Category, Dispatch, Finding, Verdict
from provision.model.node import Cable, Node
from provision.model.ticket import ChangeKind, Ticket, TicketStatus
from provision.triage.causes import first_causes
from provision.triage.desk import desk
from provision.triage.fleet import fleet, takes
from provision.triage.rules import packaged_rules
from tests.triage.makers import NODE, NOW

RULES = {rule.id: rule for rule in packaged_rules()}
FEEDS = ("pdu-1a/1", "pdu-1b/1", "pdu-1a/2", "pdu-1b/2")


def machine(number: int) -> Node:
    cable = Cable("Slot 3 Port 1", "leaf-a", str(number))
    name = f"n{number:02}"
    return replace(NODE, name=name, asset_tag=f"A{number}", rack="r1", power_feeds=FEEDS, cabling=(cable,))


NODES = {node.name: node for node in (machine(n) for n in range(1, 101))}


def finding(node: str, rule: str, place: str, category: Category = Category.PSU, **more: object) -> Finding:
    kind = {Category.PSU: PartKind.PSU, Category.INTERNAL_CABLE: PartKind.CABLE, Category.NVME: PartKind.DRIVE}
    part = Part(kind.get(category, PartKind.PORT), place, place)
    component = {"PSU-NO-INPUT": "power_feed", "PSU-FAILED": "psu"}.get(rule, "x")
    values = {"serial": more.pop("serial", None)}
    item = Evidence(node, part, Reading.EVENT, "redfish/lclog", NOW, values=values)  # type: ignore[arg-type]
    made = Finding(
        rule, node, category, component, part, Action.RESEAT_CABLE, Dispatch.NOW, f"reseat {place}", evidence=(item,)
    )
    return replace(made, **more)  # type: ignore[arg-type]


def verdicts(rule: str, place: str, category: Category, hosts: int, **facts: str) -> dict[str, Verdict]:
    names = list(NODES)
    known = tuple(facts.items())
    made = {n: Verdict((finding(n, rule, place, category),), facts=known) for n in names[:hosts]}
    return made | {n: Verdict((), facts=(("bmc_firmware", "1.0"), ("bios_version", "9"))) for n in names[hosts:]}


def test_a_hundred_machines_with_one_line_since_an_update_are_one_note_with_the_change() -> None:
    many = verdicts(
        "CABLE-CONFIG-CHECK", "SL1<->SA1", Category.INTERNAL_CABLE, 100, bmc_firmware="2.0", bios_version="9"
    )
    (note,) = fleet(many, NODES)
    assert (note.rule, note.dispatch, len(note.nodes)) == ("FLEET-CHANGE", Dispatch.NEVER, 100)
    assert "All of them run BMC firmware 2.0 and BIOS 9." in note.ask
    moves = [move for name in note.nodes for move in desk(NODES[name], (note,), (), (), NOW)]
    assert moves == []


def test_the_change_is_what_they_have_and_no_other_has() -> None:
    some = verdicts(
        "CABLE-CONFIG-CHECK", "SL1<->SA1", Category.INTERNAL_CABLE, 30, bmc_firmware="2.0", bios_version="9"
    )
    (note,) = fleet(some, NODES)
    assert "These and no others run BMC firmware 2.0 (the others: 1.0)." in note.ask
    unknown = verdicts("CABLE-CONFIG-CHECK", "SL1<->SA1", Category.INTERNAL_CABLE, 30)
    assert "Nobody knows what they have in common" in fleet(unknown, NODES)[0].ask


@pytest.mark.parametrize(
    ("rule", "category", "hosts", "common"),
    [
        ("CABLE-CONFIG-CHECK", Category.INTERNAL_CABLE, 19, False),  # less than a fifth: so many may be broken
        ("CABLE-CONFIG-CHECK", Category.INTERNAL_CABLE, 20, True),
        ("NVME-FAILING", Category.NVME, 49, False),  # parts do break; not the same one in half of all
        ("NVME-FAILING", Category.NVME, 50, True),
    ],
)
def test_how_many_alike_are_no_chance(rule: str, category: Category, hosts: int, common: bool) -> None:
    assert bool(fleet(verdicts(rule, "Bay 4", category, hosts), NODES)) is common


def test_parts_that_are_really_away_are_no_tale_of_a_few() -> None:
    def gone(name: str) -> Finding:
        cable = finding(name, "RISER-SUBTREE-GONE", "Riser 2", Category.INTERNAL_CABLE)
        away = replace(cable.evidence[0], reading=Reading.ABSENT, source="expect/subtree")
        return replace(cable, evidence=(away,))

    few = {name: NODES[name] for name in list(NODES)[:8]}
    assert fleet({name: Verdict((gone(name),)) for name in list(few)[:4]}, few) == ()
    assert len(fleet({name: Verdict((gone(name),)) for name in few}, few)) == 1


def test_one_supply_that_lives_proves_the_pdu() -> None:
    cords = [finding("n01", "PSU-NO-INPUT", f"PSU {n}") for n in (1, 3)]
    assert {f.rule for f in first_causes(cords, RULES, FEEDS)} == {"PDU-DARK"}
    six = (*FEEDS, "pdu-1a/3", "pdu-1b/3")
    assert [f.part.locator for f in first_causes(cords, RULES, six)] == ["PSU 1", "PSU 3"]
    broken = [*cords, finding("n01", "PSU-FAILED", "PSU 5")]
    assert {f.part.locator for f in first_causes(broken, RULES, six)} == {"PDU pdu-1a", "PSU 5"}


def test_a_riser_takes_cards_along_and_no_bay() -> None:
    riser = finding("n01", "INTERNAL-CABLE-LOG", "Riser 2", Category.INTERNAL_CABLE)
    bay = finding("n01", "NVME-MISSING", "Bay 4", Category.NVME)
    card = replace(finding("n01", "NIC-MISSING", "Slot 33", Category.NIC), part=Part(PartKind.NIC, "c", "Slot 33"))
    assert {f.rule for f in first_causes([riser, bay, card], RULES)} == {"INTERNAL-CABLE-LOG", "NVME-MISSING"}
    plane = replace(riser, part=Part(PartKind.CABLE, "Backplane 1", "Backplane 1"))
    assert {f.rule for f in first_causes([plane, bay, card], RULES)} == {"INTERNAL-CABLE-LOG", "NIC-MISSING"}
    told = replace(bay, part=replace(bay.part, parent="Riser 2"))
    assert [f.rule for f in first_causes([riser, told], RULES)] == ["INTERNAL-CABLE-LOG"]
    other = replace(card, part=replace(card.part, parent="Riser 3"))
    assert len(first_causes([riser, other], RULES)) == 2


def ticket_of(node: Node, one: Finding, **more: object) -> Ticket:
    (change,) = desk(node, (one,), (), (), NOW)
    assert change.kind is ChangeKind.OPEN
    return replace(change.ticket, id="T-0001", **more)  # type: ignore[arg-type]


def shared_by(*names: str) -> Mapping[str, Finding]:
    seen = {name: Verdict((finding(name, "PSU-NO-INPUT", "PSU 1"),)) for name in names}
    (pdu,) = fleet(seen, NODES)
    return {name: pdu if pdu.node == name else replace(pdu, dispatch=Dispatch.NEVER) for name in names}


def test_a_common_cause_holds_what_was_written_for_one_alone_and_lets_it_go() -> None:
    node, own = NODES["n02"], finding("n02", "PSU-NO-INPUT", "PSU 1")
    standing = ticket_of(node, own)
    cause = shared_by("n01", "n02", "n03")["n02"]
    (held,) = desk(node, (cause,), (), (standing,), NOW)
    assert (held.kind, held.ticket.held_by, held.ticket.status.is_open) == (ChangeKind.SEEN_AGAIN, "PDU pdu-1a", True)
    assert desk(node, (cause,), (), (held.ticket,), NOW) == (), "held once, told once"
    (free,) = desk(node, (own,), (), (held.ticket,), NOW)
    assert free.ticket.held_by == ""
    # While the common cause's own ticket stands, it stays held.
    pdu = replace(ticket_of(NODES["n01"], shared_by("n01", "n02", "n03")["n01"]), id="T-0002")
    (again,) = desk(node, (own,), (), (held.ticket, pdu), NOW)
    assert again.ticket == held.ticket


def test_a_machine_alone_says_it_to_the_ticket_of_all() -> None:
    pdu = ticket_of(NODES["n01"], shared_by("n01", "n02", "n03")["n01"])
    (change,) = desk(NODES["n02"], (finding("n02", "PSU-NO-INPUT", "PSU 3"),), (), (pdu,), NOW)
    assert (change.kind, change.ticket) == (ChangeKind.SEEN_AGAIN, pdu)
    for other in (finding("n02", "PSU-NO-INPUT", "PSU 2"), finding("n02", "PSU-FAILED", "PSU 1")):
        (change,) = desk(NODES["n02"], (other,), (), (pdu,), NOW)
        assert change.kind is ChangeKind.OPEN, "the other PDU, or the supply itself"
    stranger = finding("n09", "PSU-NO-INPUT", "PSU 1")
    assert not takes(pdu, NODES["n09"], stranger)
    assert not takes(replace(pdu, status=TicketStatus.VERIFIED), NODES["n02"], finding("n02", "PSU-NO-INPUT", "PSU 1"))


def test_a_look_at_fewer_machines_takes_none_off_the_ticket() -> None:
    pdu = ticket_of(NODES["n01"], shared_by("n01", "n02", "n03", "n04")["n01"])
    (change,) = desk(NODES["n01"], (shared_by("n01", "n02", "n03")["n01"],), (), (pdu,), NOW)
    assert change.ticket.nodes == ("n01", "n02", "n03", "n04")


def test_the_same_serial_in_another_place_is_the_part() -> None:
    first = ticket_of(NODES["n01"], finding("n01", "NVME-FAILING", "Bay 2", Category.NVME, serial="S1"))
    assert first.serial == "S1"
    later = finding("n05", "NVME-FAILING", "Bay 6", Category.NVME, serial="S1", dispatch=Dispatch.AFTER_REPEAT)
    (change,) = desk(NODES["n05"], (later,), (), (replace(first, status=TicketStatus.VERIFIED),), NOW)
    assert (change.ticket.action, change.ticket.dispatch) == (Action.REPLACE_DRIVE, Dispatch.NOW)
    assert "it failed in n01 Bay 2 before" in change.ticket.ask
    (again,) = desk(NODES["n05"], (later,), (), (first, replace(change.ticket, id="T-2")), NOW)
    assert again.ticket == replace(change.ticket, id="T-2"), "said once"
    (other,) = desk(NODES["n05"], (replace(later, part=later.part),), (), (replace(first, serial="S2"),), NOW)
    assert other.ticket.dispatch is Dispatch.AFTER_REPEAT


@pytest.mark.parametrize(
    ("action", "minutes", "goes"),
    [
        (Action.RETRY, 10, True),  # this run booted once more
        (Action.COLLECT_MORE, 10, True),
        (Action.RETRY, 1, False),  # the same run, a stage later
        (Action.AC_POWER_CYCLE, 10, False),  # nobody did it: the operator says so
    ],
)
def test_a_later_run_is_the_remote_step_where_looking_is_all(action: Action, minutes: int, goes: bool) -> None:
    node = NODES["n01"]
    one = finding("n01", "X", "Slot 3", Category.NIC, action=action, dispatch=Dispatch.AFTER_REPEAT)
    one = replace(one, escalate=Action.RESEAT_DEVICE)
    first = ticket_of(node, one)
    assert first.remote_first == action.value
    (change,) = desk(node, (one,), (), (first,), NOW + timedelta(minutes=minutes))
    assert (change.ticket.dispatch is Dispatch.NOW) is goes
    assert change.ticket.action is (Action.RESEAT_DEVICE if goes else action)
    assert change.ticket.steps_done == ((action.value,) if goes else ())
