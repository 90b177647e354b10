"""The printable page in a real browser: it draws the rack, loads nothing and runs nothing."""

from __future__ import annotations

import shutil
import struct
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from provision.model.evidence import PartKind
from provision.model.finding import Action, Category, Dispatch
from provision.model.node import Node
from provision.model.ticket import Ticket, TicketStatus
from provision.report.html import to_html
from provision.report.tickets import rows

NOW = datetime(2026, 1, 2, tzinfo=UTC)
NODES = [Node(f"gpu-{n}", "p", "", "rack-1", 1 + 8 * n, "fra") for n in range(4)]
TICKET = Ticket(
    "T-0001", "k", TicketStatus.OPEN, "gpu-2", Category.NVME, "drive", PartKind.DRIVE, "d", "Bay 4",
    Action.RESEAT_DRIVE, Dispatch.NOW, "Reseat it.", "R", 0.9, NOW, NOW,
)  # fmt: skip


def page(*tickets: Ticket) -> str:
    return to_html(rows(tickets, {node.name: node for node in NODES}, {}), NODES)


def test_the_box_and_the_bay_are_marked_and_boxes_are_as_high_as_they_fit() -> None:
    """Machines eight units apart are drawn eight units high."""
    text = page(TICKET)
    assert 'class="node hit" rowspan="8">▶ gpu-2<br>T-0001 Bay 4<' in text
    assert text.count('rowspan="8"') == 4
    assert '<span class="hit">Bay 4</span>' in text


PDU = replace(
    TICKET, id="T-0002", component="rack_power", part_kind=PartKind.RACK, locator="PDU pdu-1a", node="gpu-1",
    action=Action.CHECK_POWER_FEED, nodes=("gpu-1", "gpu-2"),
)  # fmt: skip


def test_what_stands_in_the_rack_is_at_no_machines_unit() -> None:
    """The machines that feel it are hatched, not marked: nobody opens them."""
    text = page(PDU, TICKET)
    assert 'class="node shared" rowspan="8">gpu-1<br>(T-0002)<' in text
    assert 'class="node hit" rowspan="8">▶ gpu-2<br>T-0001 Bay 4<br>(T-0002)<' in text
    assert "T-0002 · P2 · PDU pdu-1a" in text
    assert "<dd>rack-1 · PDU pdu-1a</dd>" in text
    assert "<dd>gpu-1, gpu-2</dd>" in text
    row = next(row for row in rows([PDU], {node.name: node for node in NODES}, {}) if row["Ticket ID"] == "T-0002")
    assert (row["Summary"], row["U position"], row["BMC address"]) == ("rack-1: PDU pdu-1a: check power feed", "", "")
    assert row["Safe to power off"] == "ask"


def test_nobody_walks_before_the_remote_step() -> None:
    """Said in a box of its own, until it is done."""
    waiting = replace(TICKET, action=Action.AC_POWER_CYCLE, dispatch=Dispatch.AFTER_REPEAT)
    assert "WAIT: not before the operator has done this: ac power cycle" in page(waiting)
    assert "WAIT" not in page(replace(waiting, steps_done=("ac_power_cycle",)))
    assert "WAIT" not in page(replace(waiting, dispatch=Dispatch.NOW))
    assert "WAIT" not in page(replace(waiting, action=Action.REPLACE_PART)), "nothing can be done from afar"


def test_no_ticket_is_a_page_that_says_so() -> None:
    """And a node that is gone from the inventory keeps its ticket."""
    assert "No open tickets" in page()
    assert "place unknown" in page(replace(TICKET, node="gone"))


def test_hostile_text_stays_text() -> None:
    """Every cell is escaped."""
    text = page(replace(TICKET, ask="<script>alert(1)</script>", locator='"><img src=x onerror=alert(1)>'))
    assert "<script" not in text
    assert "<img" not in text


@pytest.mark.lab
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed (apt-get install chromium)")
def test_a_browser_draws_it(tmp_path: Path) -> None:
    """A screenshot with ink on it, of the size that was asked for; hostile text beside it draws the same page."""
    (tmp_path / "page.html").write_text(page(TICKET, replace(TICKET, id="T-2", ask="<style>*{display:none}</style>")))
    picture = tmp_path / "page.png"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--screenshot={picture}", "--window-size=900,1200"]
    subprocess.run(["chromium", *flags, (tmp_path / "page.html").as_uri()], check=True, capture_output=True, timeout=90)
    raw = picture.read_bytes()
    assert struct.unpack(">II", raw[16:24]) == (900, 1200)
    assert len(raw) > 20_000
