"""Regular expressions and templates of rules, bounded in time and in what they can reach."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

# Lines of logs are short; a megabyte on one line is an accident or an attack, and its first part says enough.
MAX_LINE = 600


# Turns of phrase that many rules ask for; a pattern names one as ``<<host_off>>``.
FRAGMENTS = {
    "host_off": r"(?:(?:peer|node\w*|host|switch|server|machine|other end|\b[A-Za-z][\w.-]*\d[\w.-]*)"
    r" (?:is |was )?(?:powered|switched|turned|shut) (?:off|down)|power cycle in progress|(?:status: )?Commissioning"
    r"|reboot(?:ing|ed for)|(?:board|chassis|node|machine) swap|in (?:repair|maintenance)"
    r"|being (?:repaired|serviced|swapped))",
    "often": r"(?:OVERFLOW|every (?:few )?(?:seconds?|minutes?|hours?)|for (?:days|hours|weeks)"
    r"|(?:per|an?|each|/) ?(?:hour|minute|day|h)\b|(?<!not )(?:rising|growing|climbing|increasing)"
    r"|thousands|hundreds|storm|flood"
    r"|(?<!\d)[1-9][\d,]{2,9} (?:times |errors )?(?:in|within|over|during|since|per)\b)",
}
_FRAGMENT = re.compile(r"<<(\w+)>>")


class PatternError(ValueError):
    """A regular expression that does not compile or could run away."""


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile without case, with the named turns of phrase of ``FRAGMENTS`` put in.

    Raises:
        PatternError: not a regular expression, a turn of phrase that nobody defined, or a repeat inside a repeat
            (``(a+)+``), which may take exponential time on a hostile line.
    """
    if strange := sorted(set(_FRAGMENT.findall(text)) - set(FRAGMENTS)):
        known = ", ".join(sorted(FRAGMENTS))
        raise PatternError(f"{text!r} names <<{strange[0]}>>; known are {known}")
    text = _FRAGMENT.sub(lambda found: FRAGMENTS[found[1]], text)
    try:
        pattern = re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise PatternError(f"{text!r} is not a regular expression: {error}") from None
    if _runs_away(_parser.parse(text)):
        raise PatternError(f"{text!r} repeats a repeat; that may run for ever on a hostile line")
    return pattern


_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)


def _runs_away(parsed: Iterable[Any]) -> bool:
    """True if an unbounded repeat holds nothing that must be there once: ``(a+)+`` and ``(a+b?)*``, not ``(/a+)*``."""
    for operation, argument in parsed:
        if operation in _REPEATS:
            _, most, body = argument
            if most is _constants.MAXREPEAT and _elastic(body):
                return True
            if _runs_away(body):
                return True
        elif (operation is _constants.SUBPATTERN and _runs_away(argument[-1])) or (
            operation is _constants.BRANCH and any(_runs_away(one) for one in argument[1])
        ):
            return True
    return False


def _elastic(parsed: Iterable[Any]) -> bool:
    """True if the body holds a repeat and no part of fixed length."""
    found = False
    for operation, argument in parsed:
        if operation in _REPEATS:
            found = found or argument[1] is _constants.MAXREPEAT or _elastic(argument[2])
        elif operation is _constants.SUBPATTERN:
            if not _elastic(argument[-1]):
                return False
            found = True
        elif operation is _constants.BRANCH:
            if not any(_elastic(one) for one in argument[1]):
                return False
            found = True
        else:
            return False
    return found


_FIELD = re.compile(r"\{(\w+)(?:\|([^{}]*))?\}")


def fill(template: str, values: Mapping[str, Any]) -> str:
    """Fill ``{name}`` and ``{name|what to say without it}``. Names that are not known become empty."""

    def value(found: re.Match[str]) -> str:
        given = values.get(found[1])
        return str(given) if given not in (None, "") else found[2] or ""

    return _FIELD.sub(value, template)
