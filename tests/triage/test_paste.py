"""Pasted text: kinds of failure in other words than any corpus, hostile text, and the corpus itself where it is."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import yaml

from provision.model.finding import Dispatch
from provision.triage.paste import KINDS, judge_text
from tests.triage.makers import NODE, NOW
from tests.triage.score import metrics, predict

CASES = yaml.safe_load((Path(__file__).parent / "cases.yaml").read_text(encoding="utf-8"))
CORPUS = Path(__file__).parents[3] / "shared" / "triage" / "corpus-dev.jsonl"


@pytest.mark.parametrize(("kind", "text", "category", "dispatch"), CASES, ids=[c[1][:40] for c in CASES])
def test_what_a_line_means(kind: str, text: str, category: str, dispatch: str) -> None:
    """The first cause has the class and the dispatch that a person would give."""
    first = judge_text(text, kind, NODE, NOW)[0]
    assert (first.category.value, first.dispatch.value) == (category, dispatch), first.rule


@pytest.mark.parametrize(
    "line",
    [
        "x" * 1_000_000,
        "a.b:c/" * 100_000,
        "\x1b[31m" * 50_000,
        "nvme nvme0: " * 50_000,
        '{"a":' * 50_000,
        "Xid (PCI:0000:4b:00): 79, " * 20_000,
        "\ud800\udfff\x00\x07" * 1000,
        " " * 500_000 + "nvme0n1 FAULTED 1",
        "(" * 100_000,
        "0" * 300_000 + ":",
    ],
    ids=lambda line: repr(line[:8]),
)
def test_no_line_takes_long(line: str) -> None:
    """Whatever a log holds, no line takes more than 50 ms (process time; the best of three)."""
    took = []
    for _ in range(3):
        began = time.process_time()
        judge_text(line, "dmesg", NODE, NOW)
        took.append(time.process_time() - began)
    assert min(took) < 0.05


def test_text_that_nobody_knows_goes_to_the_operator() -> None:
    """Unknown is a verdict, with its evidence, and sends nobody."""
    (finding,) = judge_text("the moon is full tonight", "console", NODE, NOW)
    assert (finding.category.value, finding.dispatch) == ("unknown", Dispatch.NEVER)
    assert finding.evidence[0].text == "the moon is full tonight"
    assert judge_text("", "console", NODE, NOW) == ()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_read(kind: str) -> None:
    """A drive that left the bus is one, wherever the line was pasted from."""
    first = judge_text("nvme nvme3: Removing after probe failure status: -19", kind, NODE, NOW)[0]
    assert (first.category.value, first.part.locator) == ("nvme", "nvme3")


@pytest.mark.skipif(not CORPUS.exists(), reason="the labelled corpus is not beside this checkout")
def test_the_corpus_stays_within_its_targets() -> None:
    """Figures of the labelled development corpus, as the issue asks for them."""
    records = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    told = {name: good / of for name, (good, of) in metrics(records, predict).items()}
    assert told["FALSE dispatch"] == 0
    assert told["early dispatch"] <= 0.03
    assert told["missed"] <= 0.03
    assert told["unknown"] <= 0.05
    for name, least in (("hardware flag", 0.97), ("macro-F1", 0.92), ("action", 0.90), ("locator", 0.95)):
        assert told[name] >= least, name
