"""The BMC's clock: how far it is off, and how it is set."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

from provision.adapters.redfish.answers import Answer, Json
from provision.adapters.redfish.boot import patch_with_tag
from provision.adapters.redfish.service import Service
from provision.adapters.redfish.session import RedfishSession
from provision.adapters.redfish.values import dig, link, moment, text
from provision.errors import PeerError, RefusedError, UnavailableError
from provision.model.bmc import BmcClock


async def read_clock(session: RedfishSession, service: Service) -> BmcClock:
    """Compare ``Manager.DateTime`` (else the ``Date`` header) with ours, at the middle of the request.

    Raises:
        UnavailableError: the BMC shows no time at all.
    """
    answer, middle = await _manager(session, service)
    manager = answer.json(session.peer)
    told = manager_time(manager) or _date_header(answer)
    if told is None:
        raise UnavailableError(session.peer, f"GET {answer.path}", "it shows no time", code="no-clock")
    return BmcClock((told - middle).total_seconds(), await _ntp(session, manager))


async def set_clock(session: RedfishSession, service: Service) -> None:
    """Write our time as ``DateTime``, in the BMC's own offset and without fractions.

    Raises:
        RefusedError: NTP is on (RAC059), or it cannot be set.
    """
    answer, _ = await _manager(session, service)
    manager = answer.json(session.peer)
    if await _ntp(session, manager):
        raise RefusedError(
            session.peer,
            "set the clock",
            "NTP is on, so the time is not taken from us; give the BMC NTP servers that it can reach",
            code="RAC059",
        )
    body: Json = {"DateTime": session.clock.now().astimezone(_zone(manager)).isoformat(timespec="seconds")}
    reply = await patch_with_tag(session, answer.path, answer, body)
    if not reply.ok:
        raise session.error_of(reply)


async def _manager(session: RedfishSession, service: Service) -> tuple[Answer, datetime]:
    path = service.manager
    if path is None:
        raise UnavailableError(session.peer, "read the clock", "the host names no manager", code="no-clock")
    await session.open()
    before = time.monotonic()
    start = session.clock.now()
    answer = await session.get(path)
    return answer, start + timedelta(seconds=(time.monotonic() - before) / 2)


def manager_time(manager: Json) -> datetime | None:
    """``DateTime``; one without an offset is read with ``DateTimeLocalOffset``."""
    told = text(manager, "DateTime")
    if told is None:
        return None
    has_offset = told.endswith("Z") or re.search(r"[+-]\d\d:?\d\d$", told) is not None
    offset = text(manager, "DateTimeLocalOffset")
    if not has_offset and offset and re.fullmatch(r"[+-]\d\d:\d\d", offset):
        told += offset
    return moment(told)


def _zone(manager: Json) -> timezone:
    found = re.search(r"([+-])(\d\d):?(\d\d)$", text(manager, "DateTime") or "")
    if not found:
        return UTC
    minutes = int(found[2]) * 60 + int(found[3])
    return timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes)) if minutes < 24 * 60 else UTC


def _date_header(answer: Answer) -> datetime | None:
    try:
        return parsedate_to_datetime(answer.headers.get("date", "")).astimezone(UTC)
    except (ValueError, TypeError):
        return None


async def _ntp(session: RedfishSession, manager: Json) -> bool | None:
    path = link(manager, "NetworkProtocol")
    if path is None:
        return None
    try:
        protocol = (await session.get(path)).json(session.peer)
    except PeerError:
        return None
    on = dig(protocol, "NTP", "ProtocolEnabled")
    return on if isinstance(on, bool) else None
