"""Lines in many wordings, written from tables of facts and not from any corpus: kind, dispatch, action, place."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.model.node import Node
from provision.triage.paste import judge_text

ROWS: list[list[Any]] = yaml.safe_load((Path(__file__).parent / "breadth.yaml").read_text(encoding="utf-8"))
NODE = Node("node", "any", "127.0.0.1", "rack")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
# Honest gaps: nobody can place these yet, and nobody is sent for them.
UNPLACED = 3


def test_most_lines_are_judged_as_a_person_would_judge_them() -> None:
    """Each row names every answer that is right; at most three rows may stay unplaced."""
    wrong = [said for row in ROWS if (said := _complaint(row))]
    assert len(wrong) <= UNPLACED, "\n".join(wrong)


def test_nobody_is_sent_now_where_nobody_should_go() -> None:
    """The dearest mistake: a visit for a software fault, or before the remote step."""
    sent = [
        text
        for kind, text, _, dispatch, _, _ in ROWS
        if _first(text, kind) == "now" and "now" not in dispatch.split("|")
    ]
    assert not sent


@pytest.mark.parametrize("kind", sorted({row[0] for row in ROWS}))
def test_without_the_context_lines_nobody_is_sent_wrongly(kind: str) -> None:
    """Facts of other collectors may be missing: then a rule may know less, and must not be bolder."""
    bare = [
        ("\n".join(line for line in text.splitlines() if not line.startswith("# ")), dispatch, text)
        for k, text, _, dispatch, _, _ in ROWS
        if k == kind
    ]
    sent = [t for b, dispatch, t in bare if b and _first(b, kind) == "now" and dispatch == "never" and t not in BOLD]
    assert not sent


# Without its context each of these is the plain sign of a fault; the context is what says otherwise.
BOLD = {row[1] for row in ROWS if "# " in row[1] and row[3] == "never" and row[0] in {"lclog", "ibstat"}}


def _first(text: str, kind: str) -> str:
    found = judge_text(text, kind, NODE, NOW)
    return found[0].dispatch.value if found else ""


def _complaint(row: list[Any]) -> str:
    kind, text, category, dispatch, action, place = row
    found = judge_text(text, kind, NODE, NOW)
    if not found:
        return f"{text!r}: nothing was said"
    first = found[0]
    right = (
        first.category.value in category.split("|")
        and first.dispatch.value in dispatch.split("|")
        and (not action or first.action.value in action.split("|"))
        and (place is None or first.part.locator == place)
    )
    said = (first.rule, first.category.value, first.dispatch.value, first.action.value, first.part.locator)
    return "" if right else f"{text!r}: {said}"
