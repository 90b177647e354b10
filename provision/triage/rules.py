"""Rules as data: what a sign means, where it points, what is asked for it.

A rule file is a YAML list of mappings (docs/how-to/write-a-rule.md). The loader validates every field and names file,
rule and field in its complaint; the rules that travel with the program are read once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any, TypeVar

import yaml

from provision.model.evidence import PartKind, Reading, Severity
from provision.model.finding import Action, Category, Dispatch
from provision.triage.patterns import PatternError, compile_pattern

Example = str | Mapping[str, Any] | Sequence[Any]
_Enum = TypeVar("_Enum", bound=StrEnum)


class RuleError(ValueError):
    """A rule that cannot be used; the text names file, rule and field, and what was expected."""


class Role(StrEnum):
    """What a sign is in a chain of causes.

    ``root`` may be a first cause; ``cascade`` follows from something else and opens nothing while a root stands;
    ``confirm`` lends weight to a root of the same category; ``noise`` is known to mean nothing.
    """

    ROOT = "root"
    CASCADE = "cascade"
    CONFIRM = "confirm"
    NOISE = "noise"


@dataclass(frozen=True, slots=True)
class Match:
    """Which evidence a rule speaks of. Everything that is set must hold; an empty field is not asked.

    ``source`` are patterns: ``redfish/psus`` the whole source, ``lclog`` its last word from any probe. ``text`` is a
    regular expression whose named groups fill the templates. ``values`` compare figures: a scalar, a list of
    scalars, ``{min, max}``, or ``"*"`` for "is given". ``same_part`` (in needs and unless) asks for the hit's part.
    """

    source: tuple[str, ...] = ()
    kind: tuple[PartKind, ...] = ()
    reading: tuple[Reading, ...] = ()
    severity: tuple[Severity, ...] = ()
    code: tuple[str, ...] = ()
    text: re.Pattern[str] | None = None
    values: tuple[tuple[str, Any], ...] = ()
    same_part: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of triage (docs/how-to/write-a-rule.md explains each field). ``where`` is ``file: id`` for complaints.

    ``times`` is how many hits it takes, ``spread`` over how many different parts. A rule that comes ``last`` is asked
    only of lines that no other rule speaks of.
    """

    id: str
    where: str
    match: Match
    category: Category
    component: str
    action: Action
    dispatch: Dispatch
    ask: str
    because: str
    locator: str = "{locator}"
    peer_end: str = ""
    part_kind: PartKind | None = None
    escalate: Action | None = None
    weight: float = 0.7
    role: Role = Role.ROOT
    hardware: bool | None = None
    times: int = 1
    spread: int = 1
    last: bool = False
    needs: tuple[Match, ...] = ()
    unless: tuple[Match, ...] = ()
    explains: tuple[str, ...] = ()
    cleared_by: tuple[str, ...] = ()
    beaten_by: tuple[str, ...] = ()
    fires_on: tuple[Example, ...] = field(default=(), repr=False)
    silent_on: tuple[Example, ...] = field(default=(), repr=False)


_MATCH_FIELDS = {"source", "kind", "reading", "severity", "code", "text", "values", "same_part"}
_RULE_FIELDS = {
    *("id", "source", "match", "part_kind", "locator", "peer_end", "category", "component", "action", "escalate"),
    *(
        "ask",
        "dispatch",
        "weight",
        "role",
        "hardware",
        "times",
        "spread",
        "last",
        "needs",
        "unless",
        "explains",
        "cleared_by",
    ),
    *("beaten_by", "fires_on", "silent_on", "because"),
}
_WANTED = ("id", "source", "match", "category", "component", "action", "ask", "dispatch", "because")


# Names for groups of sources, so that a rule on wording need not list every probe that may print it.
_GROUPS = {
    "logs": ("faults", "lclog", "sel", "iml", "text/*"),
    "prose": ("text/*", "ssh/*", "maas/results", "maas/events", "faults", "lclog", "sel", "iml"),
    "context": ("text/context",),
}


def _sources(raw: Any, where: str, name: str) -> tuple[str, ...]:
    return tuple(item for word in _strings(raw, where, name) for item in _GROUPS.get(word, (word,)))


def _strings(raw: Any, where: str, name: str) -> tuple[str, ...]:
    items = [raw] if isinstance(raw, str | int) else raw
    if items is None:
        return ()
    if not isinstance(items, list) or not all(isinstance(item, str | int) for item in items):
        raise RuleError(f"{where}: {name} must be a word or a list of words, not {raw!r}")
    return tuple(str(item) for item in items)


def _enum(kind: type[_Enum], raw: Any, where: str, name: str) -> _Enum:
    try:
        return kind(raw)
    except ValueError:
        known = ", ".join(item.value for item in kind)
        raise RuleError(f"{where}: {name} is {raw!r}; expected one of {known}") from None


def _match(raw: Any, where: str, name: str, source: tuple[str, ...] = ()) -> Match:
    if isinstance(raw, str):
        raw = {"text": raw}
    if not isinstance(raw, Mapping):
        raise RuleError(f"{where}: {name} must be a mapping or a regular expression, not {raw!r}")
    if strange := sorted(set(map(str, raw)) - _MATCH_FIELDS):
        raise RuleError(f"{where}: {name} has unknown fields {', '.join(strange)}; known: {sorted(_MATCH_FIELDS)}")
    values = raw.get("values") or {}
    if not isinstance(values, Mapping):
        raise RuleError(f"{where}: {name}.values must be a mapping of names to what they must be, not {values!r}")
    pattern = None
    if (text := raw.get("text")) is not None:
        try:
            pattern = compile_pattern(str(text))
        except PatternError as error:
            raise RuleError(f"{where}: {name}.text: {error}") from None
    return Match(
        source=_sources(raw.get("source"), where, f"{name}.source") or source,
        kind=tuple(_enum(PartKind, k, where, f"{name}.kind") for k in _strings(raw.get("kind"), where, "kind")),
        reading=tuple(_enum(Reading, r, where, f"{name}.reading") for r in _strings(raw.get("reading"), where, name)),
        severity=tuple(_enum(Severity, s, where, name) for s in _strings(raw.get("severity"), where, name)),
        code=_strings(raw.get("code"), where, f"{name}.code"),
        text=pattern,
        values=tuple((str(key), _frozen(value)) for key, value in values.items()),
        same_part=bool(raw.get("same_part", False)),
    )


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return tuple(sorted(value.items())) if isinstance(value, Mapping) else value


def _number(raw: Any, where: str, name: str, low: float, high: float) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not low <= raw <= high:
        raise RuleError(f"{where}: {name} is {raw!r}; expected a number from {low} to {high}")
    return float(raw)


def _conditions(raw: Any, where: str, name: str) -> tuple[Match, ...]:
    items = raw if isinstance(raw, list) else [] if raw is None else [raw]
    return tuple(_match(item, where, name) for item in items)


def _examples(raw: Any, where: str, name: str) -> tuple[Example, ...]:
    if not isinstance(raw, list) or not raw:
        raise RuleError(f"{where}: {name} must be a list with at least one example")
    return tuple(raw)


def parse_rule(raw: Any, file: str, number: int) -> Rule:
    """Read one row.

    Raises:
        RuleError: anything in it that cannot be used.
    """
    if not isinstance(raw, Mapping):
        raise RuleError(f"{file}: entry {number} must be a mapping with an id, not {raw!r}")
    where = f"{file}: {raw.get('id', f'entry {number}')}"
    if strange := sorted(set(map(str, raw)) - _RULE_FIELDS):
        raise RuleError(f"{where}: unknown fields {', '.join(strange)}")
    if missing := [name for name in _WANTED if raw.get(name) in (None, "")]:
        raise RuleError(f"{where}: {', '.join(missing)} must be given")
    escalate, kind, hardware = raw.get("escalate"), raw.get("part_kind"), raw.get("hardware")
    source = _sources(raw["source"], where, "source")
    return Rule(
        id=str(raw["id"]),
        where=where,
        match=_match(raw["match"], where, "match", source),
        category=_enum(Category, raw["category"], where, "category"),
        component=str(raw["component"]),
        action=_enum(Action, raw["action"], where, "action"),
        dispatch=_enum(Dispatch, raw["dispatch"], where, "dispatch"),
        ask=str(raw["ask"]),
        because=str(raw["because"]),
        locator=str(raw.get("locator", "{locator}")),
        peer_end=str(raw.get("peer_end", "")),
        part_kind=None if kind is None else _enum(PartKind, kind, where, "part_kind"),
        escalate=None if escalate is None else _enum(Action, escalate, where, "escalate"),
        weight=_number(raw.get("weight", 0.7), where, "weight", 0.0, 1.0),
        role=_enum(Role, raw.get("role", "root"), where, "role"),
        hardware=None if hardware is None else bool(hardware),
        times=int(_number(raw.get("times", 1), where, "times", 1, 1000)),
        spread=int(_number(raw.get("spread", 1), where, "spread", 1, 1000)),
        last=bool(raw.get("last", False)),
        needs=_conditions(raw.get("needs"), where, "needs"),
        unless=_conditions(raw.get("unless"), where, "unless"),
        explains=_strings(raw.get("explains"), where, "explains"),
        cleared_by=_strings(raw.get("cleared_by"), where, "cleared_by"),
        beaten_by=_strings(raw.get("beaten_by"), where, "beaten_by"),
        fires_on=_examples(raw.get("fires_on"), where, "fires_on"),
        silent_on=_examples(raw.get("silent_on"), where, "silent_on"),
    )


# Both are safe; that of libyaml reads our own rules in a tenth of the time, which every bring-up pays.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_rules(files: Iterable[tuple[str, str]]) -> tuple[Rule, ...]:
    """Read (file name, YAML text) pairs; a later file's rule replaces an earlier one of the same id.

    Raises:
        RuleError: not YAML, not a list, a row that cannot be used, or one id twice in one file.
    """
    merged: dict[str, Rule] = {}
    for file, text in files:
        try:
            rows = _LOADER(text).get_single_data()
        except yaml.YAMLError as error:
            raise RuleError(f"{file}: not YAML: {' '.join(str(error).split())}") from None
        if not isinstance(rows, list):
            raise RuleError(f"{file}: a list of rules was expected, each with an id")
        seen: set[str] = set()
        for number, row in enumerate(rows, 1):
            rule = parse_rule(row, file, number)
            if rule.id in seen:
                raise RuleError(f"{rule.where}: this id is used twice in the file")
            seen.add(rule.id)
            merged[rule.id] = rule
    return tuple(merged.values())


def merged(ours: Sequence[Rule], site: Sequence[Rule]) -> tuple[Rule, ...]:
    """Our rules with a site's over them: the same id replaces, a new id is added."""
    return tuple({rule.id: rule for rule in (*ours, *site)}.values())


@cache
def packaged_rules() -> tuple[Rule, ...]:
    """The rules that travel with the program, in the order of their files."""
    folder = resources.files("provision.triage") / "rules"
    files = sorted((item for item in folder.iterdir() if item.name.endswith(".yaml")), key=lambda item: item.name)
    return parse_rules((item.name, item.read_text(encoding="utf-8")) for item in files)
