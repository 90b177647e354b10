"""Replays recorded exchanges of a real region against the simulated one. Not a test module itself.

The recording plays the world too (its ``before``): here that world reports to the simulator's lifecycle, with the
hardware and the outputs that the recorded answers imply.
"""

from __future__ import annotations

import json
import re
import time
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from provision.sim.maas import MaasServer, scripts
from provision.sim.maas.hardware import FoundDisk, FoundNic, Hardware, learn
from provision.sim.maas.state import COMMISSIONING, TESTING, Record
from provision.sim.maas.statuses import ScriptStatus
from provision.sim.world import SimClock, World

RECORDING = Path(__file__).parents[3] / "shared" / "facts" / "maas-3.6.3-exchanges.jsonl"
PLACEHOLDER = re.compile(r"\{[A-Za-z0-9][A-Za-z0-9_./-]*\}")

# Objects that the recording never trimmed, also inside trimmed bodies: here one key too many is a difference.
COMPLETE = {"owner_data", "workload_annotations", "zone", "pool", "default_gateways", "filesystem"}
# What the recording does not name although it differs from region to region.
ALSO_VOLATILE = {"M319": ["$.system_id"]}
# A real region refuses these with 401; the recorded peer had a patched framework.
ARTEFACT_STATUS = {"M009": 401, "M010": 401, "M011": 401, "M014": 401}


def exchanges() -> list[dict[str, Any]]:
    """All recorded exchanges, in order; empty where the recording is absent."""
    if not RECORDING.exists():
        return []
    return [json.loads(line) for line in RECORDING.read_text(encoding="utf-8").splitlines() if line]


class ObedientPower:
    """A power driver whose every press works at once, like the recorded peer's."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}

    async def on(self, record: Record) -> None:
        self.states[record.system_id] = "on"

    async def off(self, record: Record) -> None:
        self.states[record.system_id] = "off"

    async def query(self, record: Record) -> str:
        return self.states.get(record.system_id, "off")

    async def close(self) -> None:
        return None


@dataclass
class Replay:
    """One run through a recording; ``outcomes`` maps an exchange to its mismatch or None."""

    recorded: list[dict[str, Any]]
    outcomes: dict[str, str | None] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)
    nonce: int = 0
    user_key: str = ""

    async def run(self) -> None:
        """Replay everything."""
        server = MaasServer(World(SimClock(), []), driver=ObedientPower(), rack_controllers=())
        self.server = server
        await server.start()
        try:
            async with aiohttp.ClientSession() as self.session:
                for exchange in self.recorded:
                    self.outcomes[exchange["id"]] = await self._one(exchange)
        finally:
            await server.stop()

    async def _one(self, exchange: dict[str, Any]) -> str | None:
        await self.server.settle()
        self.server.faults.no_rack = "server" in exchange
        for event in exchange.get("before", []):
            self._happen(exchange, event)
        try:
            got = await self._ask(exchange)
            for _ in range(20):
                until = exchange.get("until", {})
                if not until or all(got[3].get(key) == value for key, value in until.items()):
                    break
                await self.server.settle()
                got = await self._ask(exchange)
        except (KeyError, LookupError) as error:
            return f"cannot be sent: {error!r}"
        return self._compare(exchange, *got)

    def _resolve(self, text: str) -> str:
        return PLACEHOLDER.sub(lambda hit: str(self.known[hit[0]]) if hit[0] in self.known else hit[0], text)

    async def _ask(self, exchange: dict[str, Any]) -> tuple[int, str, dict[str, str], Any]:
        asked = exchange["request"]
        url = f"http://127.0.0.1:{self.server.port}/MAAS/api/2.0/{self._resolve(asked['path'])}"
        headers = self._authorization(asked.get("auth") or "none", exchange)
        body: Any = None
        if asked.get("form"):
            pairs = [(name, self._resolve(value)) for name, value in asked["form"]]
            body = aiohttp.FormData(pairs)()
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        elif "json" in asked:
            body, headers["Content-Type"] = json.dumps(asked["json"]).encode(), "application/json"
        elif "raw" in asked:
            body, headers["Content-Type"] = asked["raw"]["body"].encode(), asked["raw"]["content_type"]
        query = [(name, self._resolve(value)) for name, value in asked.get("query") or []]
        skip = [] if "Content-Type" in headers else ["Content-Type"]
        async with self.session.request(
            asked["method"], url, params=query, data=body, headers=headers, skip_auto_headers=skip
        ) as answer:
            text = await answer.text()
            try:
                parsed: Any = json.loads(text)
            except ValueError:
                parsed = text
            kind = answer.headers.get("Content-Type", "")
            if "json" not in kind:
                parsed = text
            return answer.status, kind, dict(answer.headers), parsed

    def _authorization(self, auth: str, exchange: dict[str, Any]) -> dict[str, str]:
        if auth == "none":
            return {}
        if auth == "user" and not self.user_key:
            self.user_key = self.server.new_key(self.server.region.users["joe"])
        consumer, token, secret = (self.user_key if auth == "user" else self.server.api_key).split(":")
        stamp = int(time.time()) + {"expired": -400, "future": 400}.get(auth, 0)
        if auth != "reusednonce":
            self.nonce += 1
        if auth == "badkey":
            consumer = "nobody"
        elif auth == "badtoken":
            token = exchange["response"]["body"].rsplit(": ", 1)[1].rstrip("'")
        elif auth == "badsecret":
            secret = "wrong"
        fields = {
            "oauth_version": "1.0",
            "oauth_signature_method": "PLAINTEXT",
            "oauth_consumer_key": consumer,
            "oauth_token": token,
            "oauth_signature": f"%26{secret}",
            "oauth_nonce": f"n{self.nonce}",
            "oauth_timestamp": str(stamp),
        }
        return {"Authorization": "OAuth " + ", ".join(f'{name}="{value}"' for name, value in fields.items())}

    def _happen(self, exchange: dict[str, Any], event: dict[str, Any]) -> None:
        record = self.server.region.machines[self.known[f"{{{event['machine']}}}"]]
        life = self.server.lifecycle
        match event["kind"]:
            case "scripts":
                self._report(exchange, record, event)
            case "install" if event["result"] == "ok":
                life.installed(record, "10.12.250.1", "curtin: done\n")
                life.booted(record)
            case "install":
                life.install_failed(record, self._output_after(exchange, scripts.INSTALL_LOG))
            case "rescue-up":
                life.rescued(record)
            case "cloud-init-finished":
                life.erase_over(record)

    def _report(self, exchange: dict[str, Any], record: Record, event: dict[str, Any]) -> None:
        region, life = self.server.region, self.server.lifecycle
        if event["type"] == "release":
            life.erased(record)
            return
        current = record.current[COMMISSIONING if event["type"] == "commissioning" else TESTING]
        pending = [run for run in current.runs if run.status is ScriptStatus.PENDING]
        for run in pending if event["passed"] == "all" else pending[: event["passed"]]:
            failed = run.name == event.get("fail")
            output = self._output_after(exchange, run.name) if failed else "ok\n"
            scripts.finish(region, record, current, run, exit_status=int(failed), output=output)
        if event["final"] is None:
            return
        ok = event["final"] == "OK"
        if event["type"] == "testing":
            life.tested(record, ok=ok)
            return
        if ok:
            found = self._hardware(event["machine"], record)
            learn(region, record, found, skip_storage=False, skip_networking=False)
        life.commissioned(record, ok=ok)

    def _output_after(self, exchange: dict[str, Any], name: str) -> str:
        """The output that a later answer shows for this script."""
        start = self.recorded.index(exchange)
        for later in self.recorded[start : start + 4]:
            for value in _walk(later["response"]["body"]):
                if isinstance(value, dict) and value.get("name") == name and value.get("output"):
                    return b64decode(value["output"]).decode()
        return "failed\n"

    def _hardware(self, machine: str, record: Record) -> Hardware:
        """The hardware that the recorded answers show for this machine."""
        shown: dict[str, dict[str, Any]] = {}
        body: dict[str, Any] = {}
        for exchange in self.recorded:
            for value in _walk(exchange["response"]["body"]):
                if isinstance(value, dict) and str(value.get("id", "")).startswith(f"{{{machine}.bd.nvme"):
                    shown.setdefault(value["serial"], value)
                if isinstance(value, dict) and value.get("cpu_count") and not body:
                    body = value
        disks = [FoundDisk(disk["name"], disk["serial"], disk["model"], disk["size"]) for disk in shown.values()]
        nics = []
        for nic, seen in zip(record.nics, body["interface_set"], strict=False):
            vlan = seen["vlan"]
            where = (vlan["id"], vlan["fabric_id"], vlan["fabric"])
            nics.append(FoundNic(seen["name"], nic.mac, True, where, seen["links"][0]["mode"], on_subnet=False))
        return Hardware(body["cpu_count"], body["memory"], tuple(disks), tuple(nics))

    def _compare(
        self, exchange: dict[str, Any], status: int, kind: str, headers: dict[str, str], body: Any
    ) -> str | None:
        wanted = exchange["response"]
        if "peer_artefact" in exchange:
            expected = ARTEFACT_STATUS[exchange["id"]]
            return None if status == expected else f"status {status}, a real region answers {expected}"
        if status != wanted["status"]:
            return f"status {status}, recorded {wanted['status']}: {body}"
        if kind != wanted["content_type"]:
            return f"content type {kind!r}, recorded {wanted['content_type']!r}"
        for name, value in wanted["headers"].items():
            if headers.get(name) != value:
                return f"header {name} is {headers.get(name)!r}, recorded {value!r}"
        self._learn(wanted["body"], body)
        paths = [*exchange["volatile"], *ALSO_VOLATILE.get(exchange["id"], [])]
        volatile = [re.compile(re.escape(path).replace(r"\[\*\]", r"\[\d+\]")) for path in paths]
        found = list(self._differences(wanted["body"], body, "$", volatile, whole="trimmed" not in exchange))
        return "; ".join(found[:4]) or None

    def _learn(self, wanted: Any, got: Any) -> None:
        if isinstance(wanted, str):
            if PLACEHOLDER.fullmatch(wanted) and wanted not in self.known and isinstance(got, str | int):
                self.known[wanted] = got
        elif isinstance(wanted, dict) and isinstance(got, dict):
            for name in wanted:
                if name in got:
                    self._learn(wanted[name], got[name])
        elif isinstance(wanted, list) and isinstance(got, list):
            for one, other in zip(wanted, got, strict=False):
                self._learn(one, other)

    def _differences(
        self, wanted: Any, got: Any, path: str, volatile: list[re.Pattern[str]], *, whole: bool
    ) -> Iterator[str]:
        if any(pattern.fullmatch(path) for pattern in volatile):
            if _shape(wanted) != _shape(got):
                yield f"{path}: {got!r} has another shape than {wanted!r}"
        elif isinstance(wanted, dict):
            yield from self._dict_differences(wanted, got, path, volatile, whole=whole)
        elif isinstance(wanted, list):
            if not isinstance(got, list) or len(got) != len(wanted):
                yield f"{path}: {got!r} where {len(wanted)} items were recorded"
                return
            for at, (one, other) in enumerate(zip(wanted, got, strict=True)):
                yield from self._differences(one, other, f"{path}[{at}]", volatile, whole=whole)
        elif isinstance(wanted, str) and PLACEHOLDER.search(wanted):
            resolved = self.known.get(wanted, self._resolve(wanted))
            if resolved != got:
                yield f"{path}: {got!r}, recorded {resolved!r}"
        elif wanted != got or type(wanted) is not type(got):
            yield f"{path}: {got!r}, recorded {wanted!r}"

    def _dict_differences(
        self, wanted: dict[str, Any], got: Any, path: str, volatile: list[re.Pattern[str]], *, whole: bool
    ) -> Iterator[str]:
        if not isinstance(got, dict):
            yield f"{path}: {got!r} is no object"
            return
        for name, value in wanted.items():
            if name not in got:
                yield f"{path}.{name} is missing"
            else:
                inside = whole or name in COMPLETE
                yield from self._differences(value, got[name], f"{path}.{name}", volatile, whole=inside)
        if whole and (more := set(got) - set(wanted)):
            yield f"{path} has more than the recording: {sorted(more)}"


def _shape(value: Any) -> str:
    if isinstance(value, str) and PLACEHOLDER.fullmatch(value):
        return "scalar"
    if isinstance(value, bool) or value is None:
        return repr(type(value))
    return "scalar" if isinstance(value, str | int | float) else repr(type(value))


def _walk(value: Any) -> Iterator[Any]:
    yield value
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    for child in children:
        yield from _walk(child)
