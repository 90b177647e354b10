"""Texts on their way into the store: hostile until they have passed here."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

LONGEST = 8192
_NAMES = {"event", "at", "run", "node"}

Scrub = Callable[[str], str]


def keep_all(text: str) -> str:
    """The scrub of a store that was told no secrets."""
    return text


def clean(text: object, scrub: Scrub = keep_all, *, longest: int = LONGEST) -> str:
    """A text that any database takes: secrets out, no NUL, no lone surrogate.

    At most ``longest`` characters, and up to 40 more that say how many were cut.
    """
    # Scrub first: a secret that the cut would halve is no longer recognised.
    whole = scrub(str(text)).replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    if len(whole) <= longest:
        return whole
    return f"{whole[:longest]}… ({len(whole) - longest} characters cut)"


def plain(value: Any, scrub: Scrub) -> Any:
    """JSON values with every text clean; figures that JSON cannot carry become texts."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {clean(key, scrub, longest=200): plain(item, scrub) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, scrub) for item in value]
    return clean(value, scrub)


def event_json(payload: Mapping[str, Any], scrub: Scrub) -> str:
    """An event as JSON. Names that later look-ups need are kept as they are."""
    return to_json(
        {key: clean(value) if key in _NAMES else plain(value, scrub) for key, value in payload.items()},
    )


def to_json(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
