"""Lines of other vendors and tools, labelled before a rule was looked at: what was learnt from them stays learnt.

docs/reference/triage-figures.md has the figures at first sight; here the same files hold the rules in place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.triage.score import bare, metrics, predict

FILES = sorted(Path(__file__).parent.glob("heldout-*.jsonl"))


@cache
def _judged() -> tuple[list[Mapping[str, Any]], dict[str, Mapping[str, Any]]]:
    records = [json.loads(line) for file in FILES for line in file.read_text(encoding="utf-8").splitlines()]
    return records, {record["id"]: predict(record) for record in records}


def test_every_batch_is_large_and_its_ids_are_its_own() -> None:
    """At least five batches of about eighty; no id twice."""
    records, answers = _judged()
    assert len(FILES) >= 5
    assert len(records) >= 400
    assert len(answers) == len(records)


@pytest.mark.parametrize(
    ("figure", "least", "most"),
    [
        ("FALSE dispatch", 0.0, 0.0),
        ("early dispatch", 0.0, 0.03),
        ("missed", 0.0, 0.03),
        ("hardware flag", 0.97, 1.0),
        ("macro-F1", 0.92, 1.0),
        ("action", 0.90, 1.0),
        ("locator", 0.95, 1.0),
        ("unknown", 0.0, 0.05),
    ],
)
def test_what_was_learnt_stays_learnt(figure: str, least: float, most: float) -> None:
    """The measures that the unseen part of the corpus is scored by."""
    records, answers = _judged()
    good, of = metrics(records, lambda record: answers[record["id"]])[figure]
    assert of > 0
    assert least <= good / of <= most


def test_without_the_facts_of_other_collectors_hardly_anybody_is_sent_wrongly() -> None:
    """A planned port and a spare one look alike without the plan; one such record in a hundred may fool us."""
    records, _ = _judged()
    told = [record for record in records if "\n# " in record["text"]]
    good, of = metrics([bare(record) for record in told], predict)["FALSE dispatch"]
    assert of > 30
    assert good / of <= 0.05
