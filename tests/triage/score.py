"""python -m tests.triage.score CORPUS.jsonl [PREDICTIONS.jsonl]: judge a labelled corpus and print how well it went.

Writes the predictions (beside the corpus, in the current directory where that is read-only, or where told) in the form
that the corpus' own score.py reads. Four columns: our rules, our rules without the ``# `` context lines, our rules on
the records whose source no rule names, and a keyword floor that a first attempt would write.

Whoever wrote the rules had read the development part of the corpus: on that part these are fitted figures.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from provision.model.node import Node
from provision.triage.paste import judge_text
from provision.triage.rules import packaged_rules

Record = Mapping[str, Any]
Prediction = Mapping[str, Any]
NODE = Node("node", "any", "127.0.0.1", "rack")
NOW = datetime(2026, 1, 1, tzinfo=UTC)

# What a first attempt does: a word decides, and a technician goes.
FLOOR = (
    ("xid", "gpu", "replace_gpu"),
    ("nvme", "nvme", "replace_drive"),
    ("power", "psu", "replace_psu"),
    ("dimm", "memory", "replace_dimm"),
    ("edac", "memory", "replace_dimm"),
    ("pcie", "pcie_link", "reseat_device"),
    ("link", "cabling_ethernet", "reseat_cable"),
    ("cable", "cabling_ethernet", "reseat_cable"),
    ("fan", "thermal", "replace_fan"),
    ("nvidia", "gpu", "replace_gpu"),
    ("bmc", "bmc", "reset_bmc"),
)


def predict(record: Record) -> Prediction:
    """Our verdict on one record: its first cause."""
    findings = judge_text(record["text"], record["kind"], NODE, NOW)
    if not findings:
        return {"id": record["id"], "category": "unknown", "action": "collect_more", "hardware": False} | {
            "dispatch": "never",
            "locator": None,
            "confidence": 0.0,
        }
    first = findings[0]
    place = first.part.locator
    return {
        "id": record["id"],
        "category": first.category.value,
        "component": first.component,
        "action": first.action.value,
        "hardware": first.hardware,
        "dispatch": first.dispatch.value,
        "locator": None if place == NODE.name else place,
        "confidence": first.confidence,
        "rule": first.rule,
        "absorbed": list(first.absorbed),
    }


def floor(record: Record) -> Prediction:
    """The keyword floor's verdict."""
    text = record["text"].lower()
    for word, category, action in FLOOR:
        if word in text:
            return {"id": record["id"], "category": category, "action": action, "hardware": True, "dispatch": "now"}
    return {"id": record["id"], "category": "unknown", "action": "none", "hardware": False, "dispatch": "never"}


def bare(record: Record) -> Record:
    """The record without the facts that other collectors added."""
    lines = [line for line in record["text"].splitlines() if not line.startswith("# ")]
    return {**record, "text": "\n".join(lines)}


def metrics(records: Sequence[Record], answer: Callable[[Record], Prediction]) -> dict[str, tuple[float, float]]:
    """(good, of) for each figure of facts/triage.md 5.1; macro-F1 as (sum, classes)."""
    rows = [(r["expect"], answer(r)) for r in records]
    told: dict[str, tuple[float, float]] = {"macro-F1": _macro_f1(rows)}

    def rate(name: str, chosen: Callable[[Any], bool], good: Callable[[Any, Any], bool]) -> None:
        some = [(e, p) for e, p in rows if chosen(e)]
        told[name] = (sum(good(e, p) for e, p in some), len(some))

    def right_dispatch(e: Any, p: Any) -> bool:
        return p["dispatch"] in [e["dispatch"], *e.get("dispatch_accept", [])]

    def sent(as_what: str) -> Callable[[Any, Any], bool]:
        return lambda e, p: p["dispatch"] == as_what and not right_dispatch(e, p)

    rate("all of it right", lambda e: True, _all_right)
    rate("category strict", lambda e: True, lambda e, p: p["category"] == e["category"])
    rate("category lenient", lambda e: True, lambda e, p: p["category"] in [e["category"], *e["accept"]])
    rate("hardware flag", lambda e: True, lambda e, p: p["hardware"] == e["hardware"])
    rate("dispatch right", lambda e: True, right_dispatch)
    rate("FALSE dispatch", lambda e: e["dispatch"] == "never", sent("now"))
    rate("early dispatch", lambda e: e["dispatch"] == "after_repeat", sent("now"))
    rate("missed", lambda e: e["dispatch"] == "now", sent("never"))
    rate("action", lambda e: True, lambda e, p: p["action"] in [e["action"], *e.get("action_accept", [])])
    rate("locator", lambda e: bool(e["locator"]), lambda e, p: p.get("locator") == e["locator"])
    rate("unknown", lambda e: True, lambda e, p: p["category"] == "unknown")
    return told


def _all_right(e: Any, p: Any) -> bool:
    """Category, flag, dispatch, action, and the place where one is labelled."""
    return (
        p["category"] in [e["category"], *e["accept"]]
        and p["hardware"] == e["hardware"]
        and p["dispatch"] in [e["dispatch"], *e.get("dispatch_accept", [])]
        and p["action"] in [e["action"], *e.get("action_accept", [])]
        and (not e["locator"] or p.get("locator") == e["locator"])
    )


def _macro_f1(rows: Sequence[tuple[Any, Any]]) -> tuple[float, float]:
    classes = sorted({e["category"] for e, _ in rows})
    total = 0.0
    for name in classes:
        hit = sum(e["category"] == name == p["category"] for e, p in rows)
        extra = sum(p["category"] == name != e["category"] and name not in e["accept"] for e, p in rows)
        lost = sum(e["category"] == name != p["category"] for e, p in rows)
        total += 2 * hit / (2 * hit + extra + lost) if hit else 0.0
    return total, len(classes)


def unnamed(records: Sequence[Record]) -> list[Record]:
    """Records whose source (repository, or host and page) stands in no rule's ``because`` or ask."""
    told = " ".join(f"{rule.because} {rule.ask}" for rule in packaged_rules()).lower()
    return [record for record in records if not any(word in told for word in _names(str(record.get("source", ""))))]


def _names(source: str) -> list[str]:
    """``https://github.com/leptonai/gpud/pull/46`` is ``leptonai`` and ``gpud``; elsewhere the host's own word.

    A source that is no address is named where its whole phrase stands in a rule.
    """
    parts = [part for part in source.rsplit("://", maxsplit=1)[-1].split("/") if part]
    if not parts:
        return []
    host = parts[0].removeprefix("www.").split(".")
    if len(host) < 2:
        return [source.lower()]
    words = parts[1:3] if parts[0] == "github.com" else [host[-2]]
    # A vendor's name is no source: "Dell" stands in rules because its machines have message ids.
    return [word.lower() for word in words if len(word) > 3 and word.lower() not in _VENDORS]


_VENDORS = {"nvidia", "dell", "intel", "linux", "torvalds", "docs", "support", "microsoft"}


def _write(lines: str, corpus: Path, asked: Path | None) -> Path | None:
    """Where the predictions went, or None if nowhere could be written."""
    name = corpus.with_suffix(".predictions.jsonl")
    for target in (asked,) if asked is not None else (name, Path.cwd() / name.name):
        try:
            target.write_text(lines, encoding="utf-8")
        except OSError as error:
            sys.stderr.write(f"{target}: cannot be written ({error.strerror})\n")
        else:
            return target
    return None


def _read(corpus: Path) -> list[Record] | str:
    """The records, or a sentence that says why not."""
    records: list[Record] = []
    try:
        text = corpus.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return f"{corpus} cannot be read: {error}"
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            told = (record["id"], record["kind"], record["text"], record["expect"]["category"])
        except (ValueError, KeyError, TypeError) as error:
            return f"{corpus}, line {number}: a record with id, kind, text and expect was expected ({error!r})"
        records.append({**record, "id": told[0]})
    return records or f"{corpus} holds no record"


def main(arguments: Sequence[str]) -> int:
    """Score one corpus; 0 unless the corpus cannot be read or the predictions cannot be written."""
    if not arguments:
        sys.stderr.write("usage: python -m tests.triage.score CORPUS.jsonl [PREDICTIONS.jsonl]\n")
        return 2
    corpus = Path(arguments[0])
    records = _read(corpus)
    if isinstance(records, str):
        sys.stderr.write(records + "\n")
        return 2
    answers = {record["id"]: predict(record) for record in records}
    asked = Path(arguments[1]) if len(arguments) > 1 else None
    target = _write("".join(json.dumps(answer) + "\n" for answer in answers.values()), corpus, asked)
    if target is None:
        sys.stderr.write("name a file that can be written as the second argument\n")
        return 2
    columns = [
        metrics(records, lambda r: answers[r["id"]]),
        metrics(records, lambda r: predict(bare(r))),
        metrics(unnamed(records), lambda r: answers[r["id"]]),
        metrics(records, floor),
    ]
    out = [f"{len(records)} records of {corpus.name}; predictions in {target}"]
    heads = ("rules", "without context", "source unnamed", "keyword floor")
    out.append(f"{'':18s}" + "".join(f"{head:>20s}" for head in heads))
    for name in columns[0]:
        cells = [
            f"{c[name][0]:.4g}/{c[name][1]:g} = {c[name][0] / c[name][1] if c[name][1] else 0:.3f}" for c in columns
        ]
        out.append(f"{name:18s}" + "".join(f"{cell:>20s}" for cell in cells))
    sys.stdout.write("\n".join(out) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
