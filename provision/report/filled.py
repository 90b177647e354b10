"""Reading back what the staff filled into an exported ticket list: every complaint has its line."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass

from provision.model.ticket import Found, TicketStatus, Told
from provision.report.text import clean

_STATUS = {
    **{status.value: status for status in TicketStatus},
    **dict.fromkeys(("done", "resolved", "closed", "fixed", "complete", "completed"), TicketStatus.DONE_BY_TECHNICIAN),
    **dict.fromkeys(("in work", "in progress", "working"), TicketStatus.IN_WORK),
    **dict.fromkeys(("sent", "assigned", "dispatched"), TicketStatus.SENT),
}
_FOUND = {
    **{found.value: found for found in Found},
    **dict.fromkeys(("nff", "no fault found", "no fault", "nothing found"), Found.NO_FAULT),
    **dict.fromkeys(("fixed", "repaired", "replaced", "reseated"), Found.FIXED),
    **dict.fromkeys(("other part", "wrong part"), Found.OTHER_PART),
    **dict.fromkeys(("not done", "no access", "no spare"), Found.NOT_DONE),
}
_NAMES = {
    "ticket id": "ticket",
    "issue key": "ticket",
    "ticket": "ticket",
    "status": "status",
    "finding": "found",
    "technician note": "note",
    "note": "note",
    "part swapped": "part_swapped",
    "new serial": "new_serial",
    "attempt": "attempt",
}
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Filled:
    """What a file says: rows by their line, and complaints that begin with a line number."""

    rows: tuple[tuple[int, Told], ...]
    complaints: tuple[str, ...]


def decoded(raw: bytes) -> str:
    """A spreadsheet's bytes as text: UTF-8 with or without mark, UTF-16 with one, else Windows-1252."""
    if raw[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return raw.decode("utf-16", errors="replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace")


def read_filled(text: str) -> Filled:
    """Read a CSV with a header; comma, semicolon or tab. Only the columns that people fill in are read."""
    lines = text.splitlines(keepends=True)
    head = next((line for line in lines if line.strip()), "")
    mark = max(",;\t", key=head.count)
    rows: list[tuple[int, Told]] = []
    complaints: list[str] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
    names: list[str] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if not names:
                names = [_NAMES.get(cell.strip().strip("\ufeff").lower(), "") for cell in cells]
                if "ticket" not in names:
                    return Filled((), (f"line {reader.line_num}: the header has no column 'Ticket ID'",))
                continue
            if len(rows) >= _MOST:
                complaints.append(f"line {reader.line_num}: only the first {_MOST} rows are read")
                break
            told = _row(dict(zip(names, cells, strict=False)), reader.line_num, complaints)
            if told is not None:
                rows.append((reader.line_num, told))
    except csv.Error as error:
        complaints.append(f"line {reader.line_num}: not CSV ({error}); what stands after it was not read")
    if not names:
        complaints.append("line 1: the file is empty; a header with 'Ticket ID' was expected")
    return Filled(tuple(rows), tuple(complaints))


def _row(cells: Mapping[str, str], line: int, complaints: list[str]) -> Told | None:
    said = {name: _plain(value) for name, value in cells.items() if name}
    if not said.get("ticket"):
        complaints.append(f"line {line}: no ticket id; nothing of this row was taken")
        return None
    status = found = None
    if (word := said.get("status", "").lower()) and (status := _STATUS.get(word)) is None:
        complaints.append(
            f"line {line}: {said['ticket']}: status {word!r} is none of sent, in-work, done-by-technician; not changed"
        )
    if (word := said.get("found", "").lower()) and (found := _FOUND.get(word)) is None:
        complaints.append(
            f"line {line}: {said['ticket']}: finding {word!r} is none of {', '.join(Found)}; put words into the note"
        )
    attempt = said.get("attempt", "")
    return Told(
        said["ticket"].upper(),
        status,
        said.get("note", ""),
        found,
        said.get("part_swapped", ""),
        said.get("new_serial", ""),
        int(attempt) if attempt.isascii() and attempt.isdigit() and len(attempt) < 6 else 0,
    )


def _plain(value: str) -> str:
    """The cell without the mark that the export put before what looks like a formula."""
    text = clean(value, limit=500).strip()
    return text[1:] if len(text) > 1 and text[0] == "'" and text[1] in "=+-@|%＝＋－＠" else text
