"""Tickets for a ServiceNow import set on ``incident``: choice values and not labels, UTC, coalesced by correlation_id.

The field names are those of the platform's own incident table; a transform map with coalesce on ``correlation_id``
makes a second import update and not duplicate.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from provision.report.jira import description
from provision.report.text import cell

HEADER = (
    *("correlation_id", "correlation_display", "short_description", "description", "category", "subcategory"),
    *("impact", "urgency", "state", "cmdb_ci", "location", "opened_at", "sys_updated_on", "work_notes"),
)
_IMPACT = {"P1": ("1", "1"), "P2": ("2", "2"), "P3": ("3", "2"), "P4": ("3", "3")}
_STATE = {"open": "1", "reopened": "1", "sent": "2", "in-work": "2", "done-by-technician": "6", "verified": "7"}


def to_servicenow(table: Sequence[Mapping[str, str]]) -> str:
    """RFC 4180 with CRLF, UTF-8; no cell is a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(HEADER)
    for row in table:
        impact, urgency = _IMPACT.get(row["Priority"], ("3", "3"))
        place = "/".join(part for part in (row["Site"], row["Room"], row["Rack"]) if part)
        writer.writerow(
            [
                cell(row["Dedupe key"]),
                cell(row["Ticket ID"]),
                cell(row["Summary"])[:160],
                description(row),
                "hardware",
                cell(row["Category"]),
                impact,
                urgency,
                _STATE.get(row["Status"], "1"),
                cell(row["Hostname"]),
                cell(place),
                row["Opened UTC"],
                row["Updated UTC"],
                cell(row["Technician note"]),
            ]
        )
    return out.getvalue()
