"""The BMC's clock: how far it is off, and how it is set."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from provision.adapters.redfish.answers import Answer, Json
from provision.adapters.redfish.etag import patch_with_tag
from provision.adapters.redfish.service import Service
from provision.adapters.redfish.session import RedfishSession
from provision.adapters.redfish.values import dig, link, moment, text, texts
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
    protocol = await _protocol(session, manager)
    return BmcClock((told - middle).total_seconds(), ntp_on(protocol[1]) if protocol else None)


async def set_clock(session: RedfishSession, service: Service, servers: Sequence[str] = ()) -> None:
    """Write our time as ``DateTime``, in the BMC's own offset and without fractions; or NTP ``servers`` where NTP is on
    with others, or where no time is taken from us.

    Raises:
        RefusedError: NTP is on (RAC059) and has our servers or we have none, or it cannot be set.
    """
    answer, _ = await _manager(session, service)
    manager = answer.json(session.peer)
    protocol = await _protocol(session, manager)
    if protocol is not None and ntp_on(protocol[1]):
        if servers and not set(servers) <= set(texts(protocol[1], "NTP", "NTPServers")):
            await _set_ntp(session, protocol[0], servers)
            return
        raise RefusedError(
            session.peer,
            "set the clock",
            "NTP is on, so the time is not taken from us; give the BMC NTP servers that it can reach",
            code="RAC059",
        )
    body: Json = {"DateTime": session.clock.now().astimezone(_zone(manager)).isoformat(timespec="seconds")}
    reply = await patch_with_tag(session, answer.path, answer, body)
    if reply.ok:
        return
    refusal = session.error_of(reply)
    if not servers or protocol is None or not isinstance(refusal, RefusedError):
        raise refusal
    await _set_ntp(session, protocol[0], servers)


async def _set_ntp(session: RedfishSession, seen: Answer, servers: Sequence[str]) -> None:
    body: Json = {"NTP": {"ProtocolEnabled": True, "NTPServers": list(servers)}}
    reply = await patch_with_tag(session, seen.path, seen, body)
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


async def _protocol(session: RedfishSession, manager: Json) -> tuple[Answer, Json] | None:
    """The manager's NetworkProtocol with the answer that carried it; None where there is none to read."""
    path = link(manager, "NetworkProtocol")
    if path is None:
        return None
    try:
        answer = await session.get(path)
        return answer, answer.json(session.peer)
    except PeerError:
        return None


def ntp_on(protocol: Mapping[str, Any]) -> bool | None:
    """Whether the BMC takes its time from NTP; None where it does not say."""
    on = dig(protocol, "NTP", "ProtocolEnabled")
    return on if isinstance(on, bool) else None
