"""Hostile evidence: no traceback, no line takes long, nothing executes in a spreadsheet, a terminal or a page."""

from __future__ import annotations

import csv
import io
import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from provision.model.node import Node
from provision.model.ticket import ChangeKind
from provision.report.html import to_html
from provision.report.jira import to_jira
from provision.report.servicenow import to_servicenow
from provision.report.tickets import rows, to_csv
from provision.triage.desk import desk
from provision.triage.paste import KINDS, judge_text, kind_of, thinned
from provision.triage.rules import packaged_rules
from provision.triage.text import clean, decode, read

NODE = Node("node", "any", "127.0.0.1", "rack", unit=3)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LIMIT_S = 0.05

# Lines that begin like what rules look for and go on for ever: what a repeat inside a pattern would choke on.
_HEADS = (
    *("NVRM: Xid (PCI:", "mlx5_core 0000:", "EDAC MC0: 1 CE ", "PSU.Slot.1 ", "nvme nvme0: I/O ", "Fan 1", "expected "),
    *(
        '{"Id":"',
        "pcieport 0000:00:00.0: AER: ",
        "        LnkSta: ",
        "lldp ",
        "plan: a -> ",
        "GPU 1: ",
        "power supply ",
    ),
    *("profile ", "Link 3: ", "perfquery ", "# ", "\t", "firmware 1.", "drive bay ", "all nodes "),
)
_TAILS = (
    "a",
    " ",
    "0",
    "1 ",
    "a ",
    "-> ",
    "x1 of ",
    ": ",
    "0000:",
    "(",
    '":"',
    "\\",
    "\t",
    "é",
    "/",
    "state ",
    "error ",
)


def _took(line: str) -> float:
    """Processor seconds that all patterns of all rules need for one line."""
    begun = time.process_time()
    decode(line)
    for pattern in _PATTERNS:
        pattern.search(line)
    return time.process_time() - begun


_PATTERNS = {
    match.text
    for rule in packaged_rules()
    for match in (rule.match, *rule.needs, *rule.unless)
    if match.text is not None
}


def test_no_line_takes_long() -> None:
    """All patterns together on what repeats itself behind a telling beginning, by the processor's clock."""
    slow = []
    for head in _HEADS:
        for tail in _TAILS:
            line = clean((head + tail * (2400 // len(tail)))[:2400])[:600]
            if (took := _took(line)) > LIMIT_S and (took := min(took, _took(line), _took(line))) > LIMIT_S:
                slow.append((head, tail, took))
    assert not slow


def test_a_megabyte_on_one_line_is_cut_before_anybody_reads_it() -> None:
    """The first part of a line says enough."""
    begun = time.process_time()
    (line,) = read("x" * 1_000_000, "dmesg", "node", NOW)
    assert len(line.text) <= 600
    assert time.process_time() - begun < 1


_LINES = st.one_of(
    st.text(max_size=200),
    st.binary(max_size=200).map(lambda raw: raw.decode("utf-8", errors="replace")),
    st.tuples(st.sampled_from(_HEADS), st.text(max_size=80)).map("".join),
    st.recursive(st.none() | st.integers() | st.text(max_size=9), lambda c: st.lists(c, max_size=3), max_leaves=9).map(
        json.dumps
    ),
    st.sampled_from(["=1+1", "@SUM(A1)", "\x1b]0;owned\x07", "\x1b[2J", "<script>alert(1)</script>", "\u202egnp.exe"]),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(kind=st.sampled_from(KINDS), lines=st.lists(_LINES, max_size=12))
@example(kind="dmesg", lines=["[" * 400 + "]" * 400])
@example(kind="sel", lines=["\x00\x1b[31mPower Supply 1 | Failure detected | Asserted\x1b[0m"])
def test_nothing_breaks_or_executes(kind: str, lines: list[str]) -> None:
    """From the pasted line through the desk into every format."""
    text = "\n".join(lines)
    kind_of("x", text)
    findings = judge_text(thinned(text), kind, NODE, NOW)
    tickets = [c.ticket for c in desk(NODE, findings, (), (), NOW) if c.kind is ChangeKind.OPEN]
    table = rows(tickets, {"node": NODE}, {})
    for written in (to_csv(table), to_jira(table), to_servicenow(table)):
        for cells in csv.reader(io.StringIO(written.lstrip("\ufeff"))):
            for cell in cells:
                assert not cell.lstrip().startswith(("=", "+", "-", "@", "\t", "\r"))
                assert "\x1b" not in cell
                assert "\u202e" not in cell
    page = to_html(table, [NODE])
    assert "<script" not in page.lower()
    assert "\x1b" not in page


@pytest.mark.parametrize(
    "hostile",
    ["=HYPERLINK(1)", "<img src=x onerror=alert(1)>", "\x1b[2J", "\u202e", "'; DROP TABLE tickets; --", "@SUM(A1)"],
)
def test_what_a_peer_calls_itself_does_nothing(hostile: str) -> None:
    """A log line that becomes a ticket carries its text into every format, harmless."""
    found = judge_text(f"PSU 1 failed {hostile}\n{hostile} power supply 2 failed", "sel", NODE, NOW)
    tickets = [c.ticket for c in desk(NODE, found, (), (), NOW)]
    assert tickets
    table = rows(tickets, {"node": NODE}, {})
    page = to_html(table, [NODE])
    assert "<img" not in page
    assert "onerror=alert(1)>" not in page.replace("&gt;", "")
    assert "\x1b" not in page + to_csv(table) + to_jira(table) + to_servicenow(table)


def test_a_million_equal_lines_are_five() -> None:
    """A flood is thinned before it is judged, and what stands beside it is kept."""
    flood = "\n".join(f"[{n}.1] nvme nvme3: I/O {n} QID 4 timeout, aborting" for n in range(50_000))
    kept = thinned(flood + "\n[9.9] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.").splitlines()
    assert len(kept) == 201
    assert "fallen off" in kept[-1]
    assert len(thinned("\n".join(["same line"] * 100_000)).splitlines()) == 5
