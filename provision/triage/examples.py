"""The examples that every rule carries: read as evidence, and held against the rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from provision.model.evidence import Evidence, Part, PartKind, Reading, Severity
from provision.model.node import Node
from provision.triage.facts import live
from provision.triage.rules import Example, Match, Rule
from provision.triage.scene import Scene
from provision.triage.text import read

_NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
_NODE = Node("gpu-12-03", "any", "127.0.0.1", "rack-12", power_feeds=("pdu-12a/3", "pdu-12b/3"))


def evidence_of(raw: Example, rule: Rule) -> tuple[Evidence, ...]:
    """What an example stands for: text is read as its first source's kind, a mapping is one reading, a list is many.

    Raises:
        ValueError: a kind, reading or severity that does not exist.
    """
    if isinstance(raw, str):
        return read(raw, _kind(rule.match), _NODE.name, _NOW)
    if isinstance(raw, Mapping):
        return (_from_mapping(raw, rule.match),)
    return tuple(item for part in raw for item in evidence_of(part, rule))


def fires(rule: Rule, raw: Example) -> bool:
    """True if the rule speaks of its example."""
    evidence = evidence_of(raw, rule)
    cleared = tuple(e for e in evidence if e.source == "text/cleared")
    return bool(Scene(_NODE, (*live(evidence), *cleared)).hits(rule))


def complaints(rule: Rule) -> Iterator[str]:
    """A sentence for each example that does not hold, and for fewer than two each way."""
    for name, examples, want in (("fires_on", rule.fires_on, True), ("silent_on", rule.silent_on, False)):
        if len(examples) < 2:
            yield f"{rule.where}: {name} has one example; two are wanted, in two wordings"
        for raw in examples:
            try:
                held = fires(rule, raw) is want
            except ValueError as error:
                yield f"{rule.where}: {name}: {error} in {raw!r}"
                continue
            if not held:
                yield f"{rule.where}: {'is silent' if want else 'fires'} on {raw!r}"


def _kind(match: Match) -> str:
    word = match.source[0].rsplit("/", 1)[-1] if match.source else "log"
    return "log" if word == "*" else word


def _from_mapping(raw: Mapping[str, Any], match: Match) -> Evidence:
    first = match.source[0] if match.source else "text/log"
    source = str(raw.get("source", first if "/" in first else f"redfish/{first}"))
    name = str(raw.get("name", _NODE.name))
    reading = raw.get("reading", match.reading[0].value if match.reading else "event")
    part = Part(PartKind(str(raw.get("kind", "node"))), name, str(raw.get("locator", name)), raw.get("parent"))
    return Evidence(
        _NODE.name,
        part,
        Reading(str(reading)),
        source.replace("*", "log"),
        _NOW,
        text=str(raw.get("text", "")),
        code=raw.get("code"),
        severity=Severity(str(raw.get("severity", "info"))),
        values=raw.get("values") or {},
    )
