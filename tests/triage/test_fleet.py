"""What several nodes share becomes one finding that lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from provision.model.evidence import Evidence
from provision.model.finding import Verdict
from provision.model.node import Cable, Node
from provision.model.ticket import ChangeKind
from provision.triage.desk import desk
from provision.triage.fleet import fleet, without
from provision.triage.judge import judge
from tests.triage.healthy import healthy, with_reading
from tests.triage.makers import NODE, NOW, PROFILE, seen

NODES: Mapping[str, Node] = {
    name: replace(
        NODE,
        name=name,
        asset_tag=f"A-{number}",
        cabling=(Cable("Slot 3 Port 1", "leaf-a1", str(number)), Cable("Slot 5 Port 1", "leaf-b1", str(number))),
        power_feeds=(f"pdu-12a/{number}", f"pdu-12b/{number}"),
    )
    for number in range(1, 9)
    for name in [f"gpu-12-0{number}"]
}
Break = Callable[[list[Evidence]], list[Evidence]]


def of(node: Node) -> list[Evidence]:
    """A healthy node's evidence, with its own neighbours."""
    own = [replace(e, node=node.name) for e in healthy()]
    for name, cable in zip(("NIC.Slot.3-1-1", "NIC.Slot.5-1-1"), node.cabling, strict=True):
        own = with_reading(own, "redfish/lldp", name, "fact", switch=cable.switch, port=cable.port)
    return own


def verdicts(broken: Mapping[int, Break]) -> dict[str, Verdict]:
    found = {}
    for number, node in enumerate(NODES.values(), 1):
        evidence = broken.get(number, lambda e: e)(of(node))
        found[node.name] = judge(node, PROFILE, evidence, (), NOW)
    return found


def test_nothing_shared_in_a_healthy_rack() -> None:
    assert fleet(verdicts({}), NODES) == ()


def test_a_dead_pdu_is_one_ticket() -> None:
    dark = {n: lambda e: with_reading(e, "redfish/psus", "PSU.Slot.1", "no-input") for n in range(1, 9)}
    seen_by = verdicts(dark)
    (shared,) = fleet(seen_by, NODES)
    assert (shared.part.locator, shared.category.value, len(shared.nodes)) == ("PDU pdu-12a", "psu", 8)
    assert all(without(name, verdict, (shared,)).findings == () for name, verdict in seen_by.items())
    node = NODES[shared.node]
    (change,) = desk(node, (shared,), (), (), NOW)
    assert (change.ticket.priority, len(change.ticket.nodes)) == ("P1", 8)
    assert change.ticket.dedupe_key == "fra1|rack-12|psu|PDU pdu-12a"
    ticket = replace(change.ticket, id="T-1")
    well = [e for n in NODES.values() for e in of(n)]
    assert [c.kind for c in desk(node, (), well, [ticket], NOW)] == [ChangeKind.VERIFY]
    one_dark = with_reading(of(node), "redfish/psus", "PSU.Slot.1", "no-input")
    most = [*one_dark, *(e for n in NODES.values() if n is not node for e in of(n))]
    assert desk(node, (), most, [ticket], NOW) == ()
    assert desk(node, (), of(node), [ticket], NOW) == ()


def test_two_cords_are_two_tickets() -> None:
    dark = {n: lambda e: with_reading(e, "redfish/psus", "PSU.Slot.1", "no-input") for n in (1, 2)}
    assert fleet(verdicts(dark), NODES) == ()


def test_cables_swapped_between_two_nodes_are_one_ticket_naming_both_ends() -> None:
    swapped: dict[int, Break] = {
        3: lambda e: with_reading(e, "redfish/lldp", "NIC.Slot.3-1-1", "fact", port="4"),
        4: lambda e: with_reading(e, "redfish/lldp", "NIC.Slot.3-1-1", "fact", port="3"),
    }
    (shared,) = fleet(verdicts(swapped), NODES)
    assert shared.nodes == ("gpu-12-03", "gpu-12-04")
    assert shared.action == "recable_port"
    for word in ("gpu-12-03 Slot 3 Port 1", "gpu-12-04 Slot 3 Port 1", "leaf-a1 port 3", "leaf-a1 port 4"):
        assert word in shared.ask


def test_a_silent_rack_is_dhcp_and_nobody_goes() -> None:
    def silent(evidence: list[Evidence]) -> list[Evidence]:
        values = {"power": "on", "link": "up", "waited_s": 900}
        name = evidence[0].node
        said = seen("boot", "network boot", "down", "maas/contact", locator="Slot 3 Port 1", values=values, node=name)
        return [*evidence, said]

    (shared,) = fleet(verdicts(dict.fromkeys(range(1, 9), silent)), NODES)
    assert (shared.rule, shared.dispatch.value, shared.category.value) == ("RACK-NO-DHCP", "never", "not_hardware")
    assert len(shared.nodes) == 8


def test_a_dark_switch_is_one_ticket() -> None:
    def down(evidence: list[Evidence]) -> list[Evidence]:
        dark = with_reading(evidence, "redfish/ports", "NIC.Slot.3-1-1", "down")
        return with_reading(dark, "redfish/lldp", "NIC.Slot.3-1-1", "fact", switch="No Link", port="No Link")

    (shared,) = fleet(verdicts(dict.fromkeys(range(1, 9), down)), NODES)
    assert (shared.part.locator, len(shared.nodes)) == ("switch leaf-a1", 8)
    assert fleet(verdicts(dict.fromkeys(range(1, 4), down)), NODES) == ()


def test_an_update_that_makes_many_nodes_name_one_cable_opens_no_ticket() -> None:
    def says(evidence: list[Evidence]) -> list[Evidence]:
        text = "Comm Error: Backplane 1"
        name = evidence[0].node
        event = seen("cable", "Backplane 1", "event", "redfish/faults", code="HWC2005", text=text, node=name)
        return [*evidence, event]

    (shared,) = fleet(verdicts(dict.fromkeys(range(1, 8), says)), NODES)
    assert (shared.category.value, shared.dispatch.value) == ("firmware", "never")
    assert len(fleet(verdicts({1: says}), NODES)) == 0


def test_silent_bmcs_of_a_rack_are_one_ticket() -> None:
    def silent(evidence: list[Evidence]) -> list[Evidence]:
        name = evidence[0].node
        values = {"error": "unavailable"}
        return [seen("bmc", "BMC", "down", "bmc/answer", locator="BMC port", values=values, node=name)]

    (shared,) = fleet(verdicts(dict.fromkeys(range(1, 9), silent)), NODES)
    assert shared.component == "management_switch"
