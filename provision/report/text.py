"""Hostile text on its way to a terminal, a log or a spreadsheet.

What a BMC, an LLDP neighbour, a host or a spreadsheet says may hold escape sequences, bidirectional controls and
formulas (OWASP "CSV injection", CWE-1236; "Trojan Source", CVE-2021-42574).
"""

from __future__ import annotations

import re
import unicodedata

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "|", "%")
_LINE_BREAKS = re.compile(r"\s*[\r\n\u2028\u2029\x85\x0b\x0c]+\s*")


def clean(text: object, *, limit: int = 2000) -> str:
    """One harmless line: no escape sequence, control or invisible character; cut at ``limit`` characters.

    Line breaks become `` ⏎ `` so that nobody can forge a second log line.
    """
    raw = str(text)[: limit * 4]
    raw = _ANSI.sub("", raw)
    raw = _LINE_BREAKS.sub(" ⏎ ", raw.strip("\r\n"))
    kept = "".join(c if _harmless(c) else (" " if c == "\t" else "") for c in raw)
    return kept if len(kept) <= limit else kept[: limit - 1] + "…"


def _harmless(char: str) -> bool:
    # Cc controls, Cf format (bidi, zero width), Cs lone surrogates, Co private use.
    return unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Cn"}


def cell(text: object) -> str:
    """A CSV cell that no spreadsheet executes: ``'`` goes before what it would read as a formula.

    A value such as ``-12V`` gets the prefix too; the raw value stands in the JSON export.
    """
    plain = clean(text)
    return f"'{plain}" if plain.lstrip().startswith(_FORMULA) else plain


def duration(seconds: float) -> str:
    """``41s``, ``3m 05s``, ``2h 07m``, ``3d 04h``."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02d}h"
