"""Small readers for JSON that keeps no promise: wrong types are None, never an exception. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from provision.model.node import MacAddress


def dig(value: Any, *keys: str) -> Any:
    """The value below ``keys``, or None."""
    for key in keys:
        # Parsed JSON is made of plain dicts; asking for a Mapping first costs five times as much.
        value = value.get(key) if isinstance(value, dict | Mapping) else None
    return value


def text(value: Any, *keys: str) -> str | None:
    """Non-empty text below ``keys``; numbers are shown as text, empty strings and placeholders are None."""
    found = dig(value, *keys)
    if isinstance(found, str):
        shown = found.strip()
    elif isinstance(found, bool) or not isinstance(found, int | float):
        return None
    else:
        shown = str(found)
    return shown if shown and shown.lower() not in {"n/a", "none", "null", "unknown", "not available"} else None


def word(value: Any, *keys: str) -> str | None:
    """Text exactly as written: here ``None`` and ``Unknown`` are values of their own (boot targets)."""
    found = dig(value, *keys)
    return found.strip() if isinstance(found, str) and found.strip() else None


def number(value: Any, *keys: str) -> float | None:
    """A finite number below ``keys``, also when it is spelled as text (``"240"``, ``"240 V"``)."""
    found = dig(value, *keys)
    if isinstance(found, bool):
        return None
    if isinstance(found, str):
        match = re.match(r"\s*(-?\d{1,18}(?:\.\d+)?)", found)
        found = float(match[1]) if match else None
    return float(found) if isinstance(found, int | float) and abs(found) < 1e18 and math.isfinite(found) else None


def whole(value: Any, *keys: str) -> int | None:
    """A whole number below ``keys``."""
    found = number(value, *keys)
    return None if found is None else round(found)


def objects(value: Any, *keys: str) -> tuple[dict[str, Any], ...]:
    """The objects of a list below ``keys``; a single object counts as a list of one, anything else is dropped."""
    found = dig(value, *keys)
    if isinstance(found, dict):
        found = [found]
    return tuple(item for item in found if isinstance(item, dict)) if isinstance(found, list) else ()


def texts(value: Any, *keys: str) -> tuple[str, ...]:
    """The texts of a list below ``keys``; a single text counts as a list of one."""
    found = dig(value, *keys)
    if isinstance(found, str):
        found = [found]
    return tuple(item for item in found if isinstance(item, str) and item) if isinstance(found, list) else ()


def mac(value: Any) -> MacAddress | None:
    """A MAC in any spelling; None for empty, zero, multicast, EUI-64 and everything that is none."""
    if not isinstance(value, str):
        return None
    try:
        return MacAddress.parse(value)
    except ValueError:
        return None


def macs(values: Any) -> Iterator[MacAddress]:
    """The valid MACs of a list (or of one text)."""
    for item in [values] if isinstance(values, str) else values if isinstance(values, list) else []:
        found = mac(item)
        if found is not None:
            yield found


def moment(value: Any) -> datetime | None:
    """An ISO 8601 time as UTC; without an offset it is taken as UTC. None for what cannot be read."""
    if not isinstance(value, str) or len(value) < 10:
        return None
    try:
        found = datetime.fromisoformat(value.strip())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def state(value: Any) -> str:
    """``Status.State`` in lower case, empty where the BMC does not say."""
    return (text(value, "Status", "State") or "").lower()


def health(value: Any) -> str:
    """``Status.Health`` in lower case (``HealthRollup`` is the children's affair), empty where it does not say."""
    return (text(value, "Status", "Health") or "").lower()


def link(value: Any, *keys: str) -> str | None:
    """The address below ``keys``: ``{"@odata.id": …}`` or a bare string; None for anything else."""
    value = dig(value, *keys)
    if isinstance(value, dict):
        value = value.get("@odata.id")
    return value.strip() if isinstance(value, str) and value.strip().startswith("/") else None


def links(value: Any, *keys: str) -> tuple[str, ...]:
    """All addresses of a list of links below ``keys``."""
    value = dig(value, *keys)
    if isinstance(value, dict):
        value = [value]
    found = [link(item) for item in value] if isinstance(value, list) else []
    return tuple(dict.fromkeys(item for item in found if item))


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """A sort key that puts ``Slot 10`` after ``Slot 9``."""
    return tuple((int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d{1,9})", name.lower()))


def last_segment(path: str) -> str:
    """The id at the end of an address."""
    return re.split(r"[/#]", unquote(path.rstrip("/")))[-1]
