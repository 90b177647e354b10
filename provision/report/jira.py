"""Tickets for Jira's CSV import. Headers hold no punctuation, a header is repeated for several values.

Dates are ``yyyy-MM-dd HH:mm:ss`` in UTC: the import's configuration asks for one fixed format. Jira takes 250 rows from
people who are no administrators (support.atlassian.com, "Import data from a CSV file").
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from provision.report.text import cell, clean

ROWS_FOR_ALL = 250
_PRIORITY = {"P1": "Highest", "P2": "High", "P3": "Medium", "P4": "Low"}
_STATUS = {
    "open": "To Do",
    "sent": "To Do",
    "in-work": "In Progress",
    "done-by-technician": "In Review",
    "reopened": "To Do",
    "verified": "Done",
}
HEADER = (
    *("Summary", "Issue Type", "Priority", "Status", "Description", "Labels", "Labels", "Labels"),
    *("Component", "Environment", "External ID", "Dedupe Key", "Date Created", "Date Modified"),
)
_DESCRIBED = (
    *("Instructions", "Hostname", "Rack", "U position", "Locator label", "Peer end", "Part number", "Serial"),
    *(
        "Safe to power off",
        "Steps done remotely",
        "Remote step first",
        "Evidence",
        "Verify step",
        "Also affects",
        "Attempt",
        "Technician note",
    ),
)


def to_jira(table: Sequence[Mapping[str, str]]) -> str:
    """RFC 4180 with CRLF; empty values keep their commas; no cell is a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(HEADER)
    for row in table:
        writer.writerow(
            [
                cell(row["Summary"]),
                "Task",
                _PRIORITY.get(row["Priority"], "Medium"),
                _STATUS.get(row["Status"], "To Do"),
                description(row),
                _label(row["Category"]),
                _label(row["Rack"]),
                _label(row["Action requested"]),
                cell(row["Component"]),
                cell(" ".join(part for part in (row["Site"], row["Room"], row["Rack"], _unit(row)) if part)),
                cell(row["Ticket ID"]),
                cell(row["Dedupe key"]),
                row["Opened UTC"],
                row["Updated UTC"],
            ]
        )
    return "\ufeff" + out.getvalue()


def description(row: Mapping[str, str]) -> str:
    """The ticket in lines, ``name: value``; each line is cleaned by itself."""
    lines = [f"{name}: {clean(row[name])}" for name in _DESCRIBED if row.get(name)]
    return "\n".join(lines)


def _unit(row: Mapping[str, str]) -> str:
    return f"U{row['U position']}" if row["U position"] else ""


def _label(text: str) -> str:
    """Labels hold no blanks."""
    return cell("-".join(clean(text).split()))
