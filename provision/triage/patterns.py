"""Regular expressions and templates of rules, bounded in time and in what they can reach."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# Lines of logs are short; a megabyte on one line is an accident or an attack, and its first part says enough.
MAX_LINE = 600


class PatternError(ValueError):
    """A regular expression that does not compile or could run away."""


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile without case.

    Raises:
        PatternError: not a regular expression, or a repeat inside a repeat (``(a+)+``), which may take exponential
            time on a hostile line.
    """
    try:
        pattern = re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise PatternError(f"{text!r} is not a regular expression: {error}") from None
    if re.search(r"[*+}]\??\)[*+{]", text):
        raise PatternError(f"{text!r} repeats a repeat; that may run for ever on a hostile line")
    return pattern


_FIELD = re.compile(r"\{(\w+)(?:\|([^{}]*))?\}")


def fill(template: str, values: Mapping[str, Any]) -> str:
    """Fill ``{name}`` and ``{name|what to say without it}``. Names that are not known become empty."""

    def value(found: re.Match[str]) -> str:
        given = values.get(found[1])
        return str(given) if given not in (None, "") else found[2] or ""

    return _FIELD.sub(value, template)
