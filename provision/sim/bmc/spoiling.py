"""How ``bmc_sick`` spoils tags, overrides, logs and bodies; and the table of all its names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from provision.sim.bmc import ailing
from provision.sim.bmc.ailing import Case, Treat, edited
from provision.sim.bmc.answers import AnswerError

_LOGS = "/Lclog/Entries"


async def sessions_elsewhere(case: Case) -> web.StreamResponse:
    """iDRAC 7 and 8: ``Links.Sessions`` of the root points to /redfish/v1/Sessions; the usual place answers 405."""
    usual, own = "/redfish/v1/SessionService/Sessions", "/redfish/v1/Sessions"
    if case.logging_in and case.path == usual:
        raise AnswerError(405, "SYS402", "This method is not allowed here.")
    if case.path == own or case.path.startswith(f"{own}/"):
        inner = case.request.clone(rel_url=case.request.path.replace(own, usual, 1))
        return await case.serve(inner)
    reply = await case.well()
    if case.path == "/redfish/v1" and case.reading:
        return edited(reply, lambda body: body | {"Links": {"Sessions": {"@odata.id": own}}})
    return reply


def _refuse(case: Case, status: int = 412) -> AnswerError:
    code = "Base.1.12.PreconditionFailed" if status == 412 else "Base.1.12.PreconditionRequired"
    case.machine.writes["bmc:refused:tag"] += 1
    return AnswerError(status, code, "If-Match is not right.", severity="Critical")


def tagged(shown: str, wanted: str | None) -> Treat:
    """Resources show this tag, and an override needs that one in If-Match (None: none at all)."""

    async def treat(case: Case) -> web.StreamResponse:
        if case.overriding and case.request.headers.get("If-Match") != wanted:
            raise _refuse(case, 428 if case.request.headers.get("If-Match") is None else 412)
        reply = await case.well()
        if case.reading and case.path in {case.machine.family.system, case.machine.family.settings}:
            reply.headers["ETag"] = shown
        return reply

    return treat


async def tag_stale(case: Case) -> web.StreamResponse:
    """Each read makes a new tag at first: the first PATCH comes too late."""
    if case.overriding and case.nth("stale") == 1:
        raise _refuse(case)
    reply = await case.well()
    if case.reading and case.path == case.machine.family.system:
        reply.headers["ETag"] = f'"{case.machine.sick["stale"]}"'
    return reply


async def tag_never(case: Case) -> web.StreamResponse:
    """412 whatever is sent."""
    if case.overriding:
        raise _refuse(case)
    return await case.well()


async def override_makes_job(case: Case) -> web.StreamResponse:
    """A job of nothing waits for the next start, as on 13G for every UEFI override."""
    reply = await case.well()
    if case.overriding and reply.status < 300:
        case.machine.queue_job({})
    return reply


async def mode_lost(case: Case) -> web.StreamResponse:
    """The target is stored, and Enabled falls back."""
    reply = await case.well()
    if case.overriding and reply.status < 300:
        case.machine.boot_override.enabled = "Disabled"
    return reply


async def settings_refuse(case: Case) -> web.StreamResponse:
    """Both resources show the override, and only the system takes it (seen on iDRAC9 and 10, R21)."""
    row = case.machine.family
    if case.overriding and case.path == row.settings:
        raise AnswerError(400, "SYS427", "The property BootSourceOverrideTarget is read-only.")
    reply = await case.well()
    if case.reading and case.path == row.settings:
        override = case.machine.boot_override

        def shown(body: dict[str, object]) -> dict[str, object]:
            told = {"BootSourceOverrideTarget": override.target, "BootSourceOverrideEnabled": override.enabled}
            return body | {"Boot": told}

        return edited(reply, shown)
    return reply


async def log_shifts(case: Case) -> web.StreamResponse:
    """A page begins with the last three entries of the one before."""
    skip = case.request.query.get("$skip", "0")
    if case.reading and case.path.endswith(_LOGS) and int(skip) >= 50:
        return await case.serve(case.request.clone(rel_url=f"{case.path}?$skip={int(skip) - 3}"))
    return await case.well()


async def log_loops(case: Case) -> web.StreamResponse:
    """The next page is this page."""
    reply = await case.well()
    if case.reading and case.path.endswith(_LOGS):
        return edited(reply, lambda body: body | {"Members@odata.nextLink": case.path})
    return reply


async def body_html(case: Case) -> web.StreamResponse:
    """A web page instead of a list."""
    reply = await case.well()
    if case.reading and case.path.endswith("/NetworkAdapters") and isinstance(reply, web.Response):
        reply.body = b"<!DOCTYPE html><html><body>The BMC is starting. Please wait.</body></html>"
    return reply


async def body_torn(case: Case) -> web.StreamResponse:
    """Half of a body, then the connection ends; every address at its first reading."""
    reply = await case.well()
    signed_in = case.request.headers.get("X-Auth-Token") is not None
    if not (case.reading and signed_in and isinstance(reply, web.Response) and isinstance(reply.body, bytes)):
        return reply
    if case.nth("torn") % 2 or case.nth(f"torn:{case.request.path_qs}") > 1:
        return reply
    body = reply.body
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    transport = case.request.transport
    if transport is not None:
        transport.write(head + body[: len(body) // 2])
        transport.close()
    await asyncio.Event().wait()  # until the server notices that its client has gone
    return reply


def odd_types(case: Case, key: str, value: object) -> object:
    """Numbers as text, texts as numbers, single objects as lists."""
    if key in {"SpeedMbps", "CurrentSpeedGbps", "LineInputVoltage"} and isinstance(value, int | float):
        return f"{value}"
    if key == "Status" and isinstance(value, dict):
        return [value]
    if key in {"Description", "Model", "AssetTag"}:
        return 7
    return {} if key in {"BootOrder", "Controllers"} else value


def _ends(*names: str) -> Callable[[Case], bool]:
    return lambda case: any(case.path.endswith(f"/{name}") for name in names)


def _port_of_a_card(case: Case) -> bool:
    return "/NetworkAdapters/" in case.path and any(name in case.path for name in ("/Ports", "/NetworkPorts"))


def _expanding(case: Case) -> bool:
    return "$expand" in case.request.query


def _is_system(case: Case) -> bool:
    return case.path == case.machine.family.system or (case.path.endswith("/v1/Systems") and _expanding(case))


TREATMENTS: dict[str, Treat] = {
    "sessions_full": ailing.refused_login(503, "RAC0218", "All user sessions are taken."),
    "sessions_full_400": ailing.refused_login(400, "Base.1.5.CreateLimitReachedForResource", "No more sessions."),
    "session_vanishes": ailing.session_vanishes,
    "logout_refused": ailing.logout_refused,
    "sessions_missing": ailing.refused_login(405, "SYS402", "This method is not allowed here."),
    "sessions_elsewhere": sessions_elsewhere,
    "session_without_location": ailing.login_without("Location"),
    "session_without_token": ailing.login_without("X-Auth-Token"),
    "password_change": ailing.password_change,
    "password_change_403": ailing.refused_login(403, "Base.1.12.PasswordChangeRequired", "The password must change."),
    "collects_data": ailing.once_busy("1"),
    "collects_data_silently": ailing.once_busy(""),
    "root_busy": ailing.gone(lambda case: case.path == "/redfish/v1", 503, "SYS518", most=1),
    "flaky": ailing.flaky,
    "systems_empty": ailing.systems(lambda body: body | {"Members": [], "Members@odata.count": 0}),
    "systems_without_members": ailing.systems(lambda body: {"@odata.id": body["@odata.id"]}),
    "system_missing": ailing.gone(_is_system, 404, "SYS403", most=2),
    "tray_dead": ailing.tray_dead,
    "links_empty": ailing.everywhere(ailing.said("")),
    "links_null": ailing.everywhere(ailing.said(None)),
    "links_missing": ailing.everywhere(ailing.said(...)),
    "mac_empty": ailing.everywhere(ailing.boot_mac(""), "/EthernetInterfaces"),
    "mac_zero": ailing.everywhere(ailing.boot_mac("00:00:00:00:00:00"), "/EthernetInterfaces"),
    "mac_in_boot_option_only": ailing.everywhere(ailing.boot_mac("")),
    "macs_odd": ailing.everywhere(ailing.dotted),
    "port_missing": ailing.gone(_port_of_a_card, 404, "SYS403"),
    "adapters_refused": ailing.gone(_ends("NetworkAdapters"), 400, "Base.1.12.GeneralError"),
    "expand_refused": ailing.gone(_expanding, 400, "Base.1.12.QueryParameterUnsupported"),
    "override_makes_job": override_makes_job,
    "mode_lost": mode_lost,
    "tag_required": tagged('"abc123"', '"abc123"'),
    "tag_weak": tagged('W/"9B9F7D67"', '"9B9F7D67"'),
    "tag_doubled": tagged('"abc123", "abc123"', '"abc123"'),
    "tag_empty": tagged('""', None),
    "tag_number": tagged("1720039110", '"1720039110"'),
    "tag_stale": tag_stale,
    "tag_never": tag_never,
    "settings_refuse": settings_refuse,
    "settles_slowly": ailing.settles,
    "press_ignored": ailing.press_ignored,
    "graceful_refused": ailing.graceful_refused,
    "press_answer_lost": ailing.answer_lost(lambda case: case.pressing, done=True),
    "press_lost": ailing.answer_lost(lambda case: case.pressing, done=False),
    "patch_answer_lost": ailing.answer_lost(lambda case: case.overriding, done=True),
    "log_shifts": log_shifts,
    "log_loops": log_loops,
    "adapters_hang": ailing.unanswered(_ends("NetworkAdapters")),
    "body_html": body_html,
    "body_torn": body_torn,
    "body_types": ailing.everywhere(odd_types),
    "redirects": ailing.redirects,
}
