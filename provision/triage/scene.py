"""One node's evidence, and what of a rule holds in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from provision.model.evidence import Evidence
from provision.model.finding import Dispatch
from provision.model.node import Node
from provision.triage.facts import direct_well, same_place, word
from provision.triage.patterns import MAX_LINE
from provision.triage.rules import Match, Rule

# A line that says of itself that it is over sends nobody, whatever its other words are (triage/grammar.py).
_OVER = frozenset({"clear", "over"})


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule and the evidence that made it fire.

    ``words`` fill the rule's templates; a group named ``locator2`` or ``locator3`` is another spelling of ``locator``.
    """

    rule: Rule
    evidence: Evidence
    words: Mapping[str, Any]


class Scene:
    """Evidence of one node, with the answers of conditions kept (a condition is asked once per scene)."""

    def __init__(self, node: Node, evidence: Sequence[Evidence]) -> None:
        self.node = node
        self.evidence = tuple(evidence)
        self._kept: dict[Match, tuple[Evidence, ...]] = {}

    def _all(self, match: Match) -> tuple[Evidence, ...]:
        if match not in self._kept:
            self._kept[match] = tuple(e for e in self.evidence if matches(match, e) is not None)
        return self._kept[match]

    def holds(self, match: Match, hit: Evidence) -> bool:
        """True if some evidence fulfils a condition of ``needs`` or ``unless``."""
        found = self._all(match)
        return any(same_place(e, hit) for e in found) if match.same_part else bool(found)

    def speaks(self, rule: Rule, item: Evidence) -> bool:
        """True if the rule knows the sign and what it needs is there, even if something speaks against it."""
        if _is_over(rule, item):
            return False
        return matches(rule.match, item) is not None and all(self.holds(need, item) for need in rule.needs)

    def hits(self, rule: Rule) -> list[Hit]:
        """Every piece of evidence that the rule speaks of, with its conditions checked."""
        found = []
        for item in self.evidence:
            words = matches(rule.match, item)
            if words is None or self._denied(rule, item):
                continue
            found.append(Hit(rule, item, self._words(item, {**self._said_by_needs(rule), **words})))
        places = {(hit.evidence.part.kind, hit.words["locator"]) for hit in found}
        return found if len(found) >= rule.times and len(places) >= rule.spread else []

    def _said_by_needs(self, rule: Rule) -> dict[str, str]:
        """What the texts of ``needs`` captured: a plan's line may name the port that the log line does not."""
        said: dict[str, str] = {}
        for need in rule.needs:
            if need.text is not None and need.text.groupindex:
                for item in self._all(need):
                    said |= {k: v for k, v in (matches(need, item) or {}).items() if k not in said}
        return said

    def _denied(self, rule: Rule, item: Evidence) -> bool:
        return (
            _is_over(rule, item)
            or any(not self.holds(need, item) for need in rule.needs)
            or any(self.holds(other, item) for other in rule.unless)
            or (bool(rule.beaten_by) and direct_well(item, self.evidence, rule.beaten_by))
            or any(
                e.code in rule.cleared_by and e.seen_at >= item.seen_at and same_place(e, item)
                for e in self.evidence
                if rule.cleared_by and e is not item
            )
        )

    def _words(self, item: Evidence, captured: Mapping[str, str]) -> dict[str, Any]:
        return {
            **item.values,
            "node": self.node.name,
            "name": item.part.name,
            "locator": item.part.locator,
            "parent": item.part.parent,
            "feed": feed_of(self.node, item.part.locator),
            "text": item.text[:200],
            "code": item.code,
            **{key.rstrip("23"): value for key, value in captured.items() if value is not None},
        }


def _is_over(rule: Rule, item: Evidence) -> bool:
    """True if the line says that it is over, and the rule would send somebody for it."""
    return rule.dispatch is not Dispatch.NEVER and not rule.last and item.values.get("state") in _OVER


def matches(match: Match, item: Evidence) -> dict[str, str] | None:
    """What the text captured (maybe nothing), or None if the evidence is not what the match speaks of."""
    if match.source and not _from_source(match.source, item.source):
        return None
    if match.kind and item.part.kind not in match.kind:
        return None
    if match.reading and item.reading not in match.reading:
        return None
    if match.severity and item.severity not in match.severity:
        return None
    if match.code and not any(fnmatchcase(item.code or "", pattern) for pattern in match.code):
        return None
    if any(not _value_fits(item.values.get(name), want) for name, want in match.values):
        return None
    if match.text is None:
        return {}
    found = match.text.search(item.text[:MAX_LINE])
    return None if found is None else {k: v for k, v in found.groupdict().items() if v is not None}


@lru_cache(maxsize=4096)
def _from_source(patterns: tuple[str, ...], source: str) -> bool:
    """Asked for every rule and every reading; there are few distinct answers."""
    return any(fnmatchcase(source if "/" in pattern else word(source), pattern) for pattern in patterns)


def _value_fits(value: Any, want: Any) -> bool:
    if want == "*":
        return value is not None
    if isinstance(want, tuple) and want and isinstance(want[0], tuple):
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        limits = dict(want)
        return bool(limits.get("min", value) <= value <= limits.get("max", value))
    if isinstance(want, tuple):
        return any(_value_fits(value, item) for item in want)
    return bool(value == want) and isinstance(value, bool) == isinstance(want, bool)


def feed_of(node: Node, locator: str) -> str:
    """The PDU outlet of a PSU by its printed number: feeds stand in the order of the PSUs, PSU 1 first."""
    digits = "".join(c for c in locator if c.isdigit())
    number = int(digits) if 0 < len(digits) < 4 else 0
    return node.power_feeds[number - 1] if 0 < number <= len(node.power_feeds) else ""


def pdu_of(feed: str) -> str:
    """The PDU of an outlet: ``pdu-12a/7``, ``pdu-12a:7``, ``pdu-12a outlet 7`` and ``pdu-12a-7`` hang on ``pdu-12a``.

    A dash may belong to the PDU's own name: it parts the outlet only where a number stays before it (``pdu-12``).
    """
    for mark in ("/", ":"):
        if mark in feed:
            return feed.rsplit(mark, 1)[0]
    if " " in feed:
        return feed.split(" ", maxsplit=1)[0]
    head, _, outlet = feed.rpartition("-")
    return head if outlet.isdigit() and any(c.isdigit() for c in head) else feed
