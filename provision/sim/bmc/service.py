"""One BMC's service: from a request to an answer."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from aiohttp import web

from provision.sim.bmc.ailing import Case
from provision.sim.bmc.answers import AnswerError, answer, raw
from provision.sim.bmc.manager import JOBS
from provision.sim.bmc.sessions import SESSIONS, Doorkeeper
from provision.sim.bmc.shapes import ROOT, Resource
from provision.sim.bmc.sickness import SICKNESS, Proceed
from provision.sim.bmc.spoiling import TREATMENTS
from provision.sim.bmc.tree import Tree, page, selected
from provision.sim.bmc.writes import manager_reset_path, name_of, write
from provision.sim.machine import SimMachine
from provision.sim.parts import Fault

_EXPAND = re.compile(r"[*.~](\(\$levels=(\d+)\))?")


class Service:
    """Answers requests for one machine's BMC."""

    def __init__(self, machine: SimMachine) -> None:
        self.machine = machine
        self.door = Doorkeeper(machine)
        self._tree = Tree(machine)
        self._kept: dict[str, tuple[bytes, dict[str, str]]] = {}
        self._revision = -1

    def warm(self, *words: str) -> None:
        """Build what does not change by itself and has one of these words in its path, before anybody asks."""
        for path in self._tree.fixed_paths():
            if any(word in path for word in words):
                self._read(path, {})
                self._read(path, {"$expand": ".($levels=1)"})

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, with the latency and the sicknesses of this BMC."""
        if self.door.blocked(request.remote or ""):
            # A blocked address gets no answer at all, so its client cannot tell it from a dead BMC.
            if request.transport is not None:
                request.transport.abort()
            return answer(None, status=503)
        self.machine.traffic["requests"] += 1
        if self.machine.bmc_latency_s > 0:
            await asyncio.sleep(self.machine.bmc_latency_s)
        proceed: Proceed = _bind(self, request)
        for fault in tuple(self.machine.faults):
            if fault.kind == "bmc_sick" and (treat := TREATMENTS.get(fault.arg)) is not None:
                proceed = partial(treat, Case(self.machine, request, proceed, self.well))
            elif fault.kind in SICKNESS:
                proceed = _wrap(self.machine, fault, request, proceed)
        try:
            return await proceed()
        except AnswerError as error:
            return error.response(self.machine.family)

    async def well(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request as a healthy BMC does. Raises AnswerError."""
        path = request.path.rstrip("/")
        method = request.method
        if method == "POST" and path == SESSIONS:
            return await self._log_in(request)
        if path not in {"/redfish", ROOT}:
            headers = request.headers
            self.door.admit(headers.get("X-Auth-Token"), headers.get("Authorization"), request.remote or "")
        if method == "GET":
            return self._read(path, request.query)
        if method == "DELETE" and path.startswith(f"{SESSIONS}/"):
            if not self.door.log_out(path):
                raise _missing(path)
            return answer(None, status=204)
        return await self._write(request, path)

    def _read(self, path: str, query: Mapping[str, str]) -> web.Response:
        plain = not query
        if self._revision != self.machine.parts_revision:
            self._revision = self.machine.parts_revision
            self._kept.clear()
        key = path if plain else f"{path}?{'&'.join(f'{k}={v}' for k, v in query.items())}"
        if (kept := self._kept.get(key)) is not None:
            return raw(kept[0], headers=kept[1], family=self.machine.family)
        found = self._find(path)
        if not plain:
            found = self._queried(found, query)
        data = json.dumps(found).encode()
        headers = self._etag(path, data)
        if self._tree.is_fixed(path) and "$skip" not in query:
            self._kept[key] = data, headers
        return raw(data, headers=headers, family=self.machine.family)

    def _find(self, path: str) -> Resource:
        if path == "/redfish":
            return {"v1": f"{ROOT}/"}
        if path == SESSIONS:
            return self.door.collection()
        if path.startswith(SESSIONS) and (session := self.door.by_path(path)) is not None:
            return session.resource()
        found = self._tree.get(path)
        if found is None:
            raise _missing(path)
        return page(found, 0) if "/LogServices/" in path and "Members" in found else found

    def _queried(self, found: Resource, query: Mapping[str, str]) -> Resource:
        path = str(found["@odata.id"])
        if "/LogServices/" in path and "Members" in found:
            whole = self._tree.get(path) or found
            found = page(whole, _count(query, "$skip") or 0, _count(query, "$top"))
        if (expand := query.get("$expand")) is not None:
            form = _EXPAND.fullmatch(expand)
            everything, without_links, deepest = self.machine.family.expand
            offered = without_links if expand.startswith(".") else everything
            if form is None or not offered or not 1 <= int(form[2] or 1) <= deepest:
                text = f"The value {expand} of the query parameter $expand is not valid."
                raise AnswerError(400, "SYS407", text, expand, "$expand")
            found = self._tree.expanded(found)
        if (select := query.get("$select")) is not None:
            found = selected(found, {name.strip() for name in select.split(",")})
        return found

    async def _log_in(self, request: web.BaseRequest) -> web.Response:
        body = await _body(request)
        session = self.door.log_in(body.get("UserName"), body.get("Password"), request.remote or "")
        headers = {"X-Auth-Token": session.token, "Location": session.path}
        return answer(session.resource(), status=201, headers=headers)

    async def _write(self, request: web.BaseRequest, path: str) -> web.Response:
        body = await _body(request)
        self.machine.writes[name_of(self.machine, request.method, path, body)] += 1
        if "/Actions/" not in path and path != JOBS and self._tree.get(path) is None:
            raise _missing(path)
        self._check_etag(request, path)
        status, told = await write(self.machine, request.method, path, body)
        if path == manager_reset_path(self.machine):
            self.door.forget()
        headers = {"Location": told["@odata.id"]} if status == 202 and told else {}
        return answer(told, status=status, headers=headers)

    def _etag(self, path: str, data: bytes) -> dict[str, str]:
        row = self.machine.family
        # Dell's System has no ETag; most other resources have one.
        if row.tags == "none" and path == row.system:
            return {}
        return {"ETag": f'{"W/" if row.tags == "weak" else ""}"{hashlib.sha256(data).hexdigest()[:12]}"'}

    def _check_etag(self, request: web.BaseRequest, path: str) -> None:
        row = self.machine.family
        wanted = request.headers.get("If-Match")
        if "/Actions/" in path or (row.tags == "none" and path == row.system):
            return
        if wanted is None and row.if_match and request.method == "PATCH":
            code = "Ami.1.0.PreconditionHeaderMissing" if row.oem == "Ami" else "Base.1.12.PreconditionRequired"
            raise AnswerError(428, code, "An If-Match header is required.", severity="Critical")
        if wanted in {None, "*"}:
            return
        if wanted not in self._etag(path, json.dumps(self._tree.get(path)).encode()).values():
            raise AnswerError(412, "Base.1.12.PreconditionFailed", "The ETag is not that of the resource.")


def _bind(service: Service, request: web.BaseRequest) -> Proceed:
    async def proceed() -> web.StreamResponse:
        return await service.well(request)

    return proceed


def _wrap(machine: SimMachine, fault: Fault, request: web.BaseRequest, proceed: Proceed) -> Proceed:
    async def sick() -> web.StreamResponse:
        return await SICKNESS[fault.kind](machine, fault, request, proceed)

    return sick


def _missing(path: str) -> AnswerError:
    return AnswerError(404, "SYS403", f"The resource {path} is not found.", path, severity="Critical")


def _count(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not text.isdecimal():
        raise AnswerError(400, "SYS407", f"The value {text} of the query parameter {name} is not valid.", text, name)
    return int(text)


async def _body(request: web.BaseRequest) -> dict[str, Any]:
    data = await request.read()
    try:
        body = json.loads(data) if data else {}
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise AnswerError(400, "SYS405", "The body is not a JSON object.", severity="Critical")
    return body
