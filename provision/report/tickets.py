"""Tickets as rows for people and for other desks. Columns: docs/how-to/tickets.md (facts: triage 4.1)."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from provision.model.decision import Outcome
from provision.model.evidence import PartKind
from provision.model.node import Node
from provision.model.run import NodeState
from provision.model.ticket import Ticket
from provision.report.text import cell

COLUMNS = (
    "Summary",
    "Ticket ID",
    "Dedupe key",
    "Site",
    "Room",
    "Rack",
    "U position",
    "Asset tag",
    "Service tag",
    "Hostname",
    "BMC address",
    "Category",
    "Component",
    "Locator label",
    "Peer end",
    "Part number",
    "Serial",
    "Evidence",
    "Rule ID",
    "Confidence",
    "Action requested",
    "Instructions",
    "Steps done remotely",
    "Remote step first",
    "Priority",
    "Safe to power off",
    "Opened UTC",
    "Updated UTC",
    "Attempt",
    "Previous tickets",
    "Also affects",
    "Status",
    "Verify step",
    "Finding",
    "Part swapped",
    "New serial",
    "Technician note",
)


def rows(tickets: Iterable[Ticket], nodes: Mapping[str, Node], states: Mapping[str, NodeState]) -> list[dict[str, str]]:
    """One row a ticket, raw text, sorted as one walks: site, room, rack, rack unit, ticket.

    A node that is gone from the inventory keeps its ticket; its place is then unknown.
    """
    listed = list(tickets)
    open_per_node: dict[str, int] = {}
    for ticket in listed:
        for name in {ticket.node, *ticket.nodes} if ticket.status.is_open and not ticket.held_by else ():
            open_per_node[name] = open_per_node.get(name, 0) + 1
    ordered = sorted(listed, key=lambda t: (_place(nodes.get(t.node)), t.node, t.id))
    return [_row(t, nodes.get(t.node), states.get(t.node), open_per_node) for t in ordered]


def _place(node: Node | None) -> tuple[Any, ...]:
    if node is None:
        return ("￿", "", [], 0)
    return (node.site, node.room, _natural(node.rack), node.unit or 0)


def _natural(text: str) -> list[tuple[int, int, str]]:
    """``rack-2`` before ``rack-12``."""
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.split(r"(\d+)", text) if p]


def _row(
    ticket: Ticket, node: Node | None, state: NodeState | None, open_per_node: Mapping[str, int]
) -> dict[str, str]:
    out_of_service = state is not None and state.outcome in {Outcome.NEEDS_HANDS, Outcome.NEEDS_US}
    # A PDU or a switch stands in the rack, at no machine's unit.
    box = None if ticket.part_kind is PartKind.RACK else node
    where = ticket.node if box or node is None else node.rack
    alone = open_per_node.get(ticket.node, 0) <= 1 and not ticket.nodes
    return {
        "Summary": f"{where}: {ticket.locator}: {ticket.action.value.replace('_', ' ')}",
        "Ticket ID": ticket.id,
        "Dedupe key": ticket.dedupe_key,
        "Site": node.site if node else "",
        "Room": node.room if node else "",
        "Rack": node.rack if node else "",
        "U position": str(box.unit) if box and box.unit is not None else "",
        "Asset tag": (box.asset_tag or "") if box else "",
        "Service tag": (box.service_tag or "") if box else "",
        "Hostname": ticket.node,
        "BMC address": box.bmc_address if box else "",
        "Category": ticket.category.value,
        "Component": ticket.component,
        "Locator label": ticket.locator,
        "Peer end": ticket.peer_end,
        "Part number": ticket.part_number,
        "Serial": ticket.serial,
        "Evidence": " | ".join(ticket.evidence[:3]),
        "Rule ID": ticket.rule,
        "Confidence": f"{ticket.confidence:.2f}",
        "Action requested": ticket.action.value,
        "Instructions": ticket.ask,
        "Steps done remotely": "; ".join(ticket.steps_done),
        # Nobody should walk before this was tried: the operator does it, or gives the word.
        "Remote step first": ticket.remote_first,
        "Priority": ticket.priority,
        # "yes" only for a node that serves nobody and waits for this one repair (facts: triage 4.1); of what several
        # machines share nobody knows what else hangs on it.
        "Safe to power off": "yes" if out_of_service and alone else "ask",
        "Opened UTC": _utc(ticket.opened_at),
        "Updated UTC": _utc(ticket.updated_at),
        "Attempt": str(ticket.attempt),
        "Previous tickets": ", ".join(ticket.previous),
        "Also affects": ", ".join(n for n in ticket.nodes if n != ticket.node),
        "Status": ticket.status.value,
        "Verify step": ticket.verify,
        "Finding": ticket.found,
        "Part swapped": ticket.part_swapped,
        "New serial": ticket.new_serial,
        "Technician note": ticket.technician_note,
    }


def _utc(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S")


def to_csv(table: Sequence[Mapping[str, str]]) -> str:
    """RFC 4180 with CRLF and a UTF-8 byte order mark (Excel reads it right); no cell is a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in table:
        writer.writerow([cell(row[column]) for column in COLUMNS])
    return "\ufeff" + out.getvalue()


def to_json(table: Sequence[Mapping[str, str]]) -> str:
    """The raw values, keys in snake case."""
    plain = [{re.sub(r"\W+", "_", key).lower(): value for key, value in row.items()} for row in table]
    return json.dumps(plain, indent=2, ensure_ascii=True)
