"""The playbooks' marker: from the bytes on the host to the model's value."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from provision.errors import GarbledError
from provision.ports import Marker

PATH = "/etc/provision/marker.json"


def parse_marker(text: str, peer: str) -> Marker:
    """Read a marker. Checks that could not look (``null``) are left out of ``checks``.

    Raises:
        GarbledError: not the JSON of docs/reference/evidence.md.
    """
    try:
        raw: Any = json.loads(text)
        playbooks, ok = raw["playbooks"], raw["ok"]
        finished = raw.get("finished_at")
        finished_at = datetime.fromisoformat(finished) if finished else None
        checks = tuple(
            (str(check["name"]), check["ok"], str(check.get("why", "")))
            for check in raw.get("checks") or ()
            if check["ok"] is not None
        )
        if not isinstance(playbooks, str) or not isinstance(ok, bool):
            raise TypeError("playbooks must be text and ok true or false")
        if not all(isinstance(good, bool) for _, good, _ in checks):
            raise TypeError("a check's ok must be true, false or null")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        detail = f"the marker is not readable ({error}); the next playbook run writes it afresh"
        raise GarbledError(peer, f"read {PATH}", detail, payload=text.encode()) from error
    return Marker(playbooks=playbooks, ok=ok, finished_at=finished_at, checks=checks)
