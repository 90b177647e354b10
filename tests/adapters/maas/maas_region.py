"""A small MAAS region on a real socket, for the client's tests: OAuth, filters, statuses, and faults on demand.

Written from the recording, not from the product or the simulator: a third reading. What it does not need it lacks.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, unquote

from aiohttp import web

CONSUMER, TOKEN, SECRET = "conskey00000001", "tokenkey0000001", "s3cretS3cretS3cretXYZ"
KEY = f"{CONSUMER}:{TOKEN}:{SECRET}"
ROOT = "/MAAS/api/2.0/"

HANDLERS: dict[str, tuple[str, list[str], list[str]]] = {
    # name: address, parameters, actions ("POST op" or "GET" for the plain ones)
    "Machines": ("machines/", [], ["GET", "GET power_parameters", "POST", "POST allocate"]),
    "Machine": (
        "machines/{system_id}/",
        ["system_id"],
        ["GET", "GET power_parameters", "PUT", "DELETE"]
        + [f"POST {op}" for op in ["commission", "abort", "deploy", "release", "set_storage_layout", "set_owner_data"]]
        + ["POST set_workload_annotations", "POST mark_broken", "POST mark_fixed"],
    ),
    "BlockDevice": ("nodes/{system_id}/blockdevices/{id}/", ["system_id", "id"], ["GET", "POST set_boot_disk"]),
    "Interfaces": ("nodes/{system_id}/interfaces/", ["system_id"], ["GET", "POST create_physical"]),
    "NodeScriptResults": ("nodes/{system_id}/results/", ["system_id"], ["GET"]),
    "NodeScriptResult": ("nodes/{system_id}/results/{id}/", ["system_id", "id"], ["GET"]),
    "Events": ("events/", [], ["GET query"]),
    "Tags": ("tags/", [], ["GET", "POST"]),
    "Tag": ("tags/{name}/", ["name"], ["GET", "POST update_nodes"]),
    "Users": ("users/", [], ["GET", "GET whoami"]),
    "Version": ("version/", [], ["GET"]),
    "BootResources": ("boot-resources/", [], ["GET"]),
    "BootResource": ("boot-resources/{id}/", ["id"], ["GET"]),
    "RackControllers": ("rackcontrollers/", [], ["GET"]),
    "Maas": ("maas/", [], ["GET get_config"]),
    "NodeScripts": ("scripts/", [], ["GET"]),
    "Zones": ("zones/", [], ["GET"]),
    "ResourcePools": ("resourcepools/", [], ["GET"]),
}
PLAIN = {"GET": "read", "POST": "create", "PUT": "update", "DELETE": "delete"}


def description(host: str, lacks: frozenset[str] = frozenset()) -> dict[str, Any]:
    """What ``describe/`` says, with the host that MAAS believes to have; ``lacks`` are calls of other versions."""
    resources = []
    for name, (path, params, actions) in HANDLERS.items():
        listed = []
        for action in [one for one in actions if f"{name} {one}" not in lacks]:
            method, _, op = action.partition(" ")
            named = op or PLAIN[method]
            listed.append({"name": named, "method": method, "op": op or None, "restful": not op, "doc": ""})
        auth = {
            "name": f"{name}Handler",
            "uri": f"{host}{ROOT}{path}",
            "path": f"{ROOT}{path}",
            "params": params,
            "actions": listed,
            "doc": "",
        }
        resources.append({"name": f"{name}Handler", "auth": auth, "anon": None})
    return {"doc": "", "hash": "0", "resources": resources}


@dataclass
class Call:
    """One request as it arrived."""

    method: str
    path: str
    op: str | None
    query: list[tuple[str, str]]
    form: list[tuple[str, str]]
    headers: dict[str, str]

    @property
    def line(self) -> str:
        """``POST machines/ allocate``."""
        return f"{self.method} {self.path}{f' {self.op}' if self.op else ''}"


@dataclass
class Fault:
    """What happens instead of, or ``after``, the next request whose line matches.

    ``held`` keeps the answer back until it is set; with ``after`` the work is done before that.
    """

    line: str
    answer: Callable[[], web.StreamResponse] | None = None
    after: bool = False
    hang: bool = False
    cut: bool = False
    held: asyncio.Event | None = None
    times: int = 1


@dataclass
class Region:
    """State and log of the region."""

    machines: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)
    host: str = "http://10.99.0.1:5240"
    is_superuser: bool = True
    version: str = "3.6.3"
    racks: list[dict[str, Any]] = field(default_factory=lambda: [{"system_id": "rack01", "hostname": "rack-1"}])
    clock_ahead_s: float = 0.0
    results: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    logs: list[dict[str, Any]] = field(default_factory=list)
    wipes: bool = False
    lacks: frozenset[str] = frozenset()
    importing: float | None = None
    # Names and addresses that devices and controllers of the region have: no machine list shows them.
    others: set[str] = field(default_factory=set)
    scripts: tuple[str, ...] = ("20-a", "smart")
    nonces: set[str] = field(default_factory=set)
    connections: set[Any] = field(default_factory=set)
    made: int = 0
    port: int = 0
    stop: Callable[[], Awaitable[None]] | None = None

    def writes(self) -> list[str]:
        """Lines of the requests that are no reads."""
        return [call.line for call in self.calls if call.method != "GET"]

    def lists(self) -> list[Call]:
        """Requests for machine lists."""
        return [call for call in self.calls if call.line == "GET machines/"]

    async def arrived(self, lists: int) -> None:
        """Wait until so many requests for lists have arrived."""
        for _ in range(500):
            if len(self.lists()) >= lists:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{len(self.lists())} lists in 5 s, {lists} expected")

    def add(self, hostname: str, macs: list[str], status: int = 0, **more: Any) -> str:
        """A machine, as a hand in the web page would make it. Returns its system id."""
        self.made += 1
        system_id = f"sys{self.made:03d}"
        interfaces = [
            {"id": self.made * 100 + i, "name": f"eth{i}", "type": "physical", "mac_address": mac, "links": []}
            for i, mac in enumerate(macs)
        ]
        self.machines[system_id] = {
            "system_id": system_id,
            "hostname": hostname,
            "status": status,
            "status_name": "?",
            "status_message": None,
            "error_description": "",
            "owner": None,
            "owner_data": {},
            "locked": False,
            "architecture": "amd64/generic",
            "hwe_kernel": None,
            "distro_series": "",
            "power_type": "",
            "power_state": "off",
            "tag_names": [],
            "hardware_uuid": None,
            "zone": {"name": "default"},
            "pool": {"name": "default"},
            "boot_interface": {"id": interfaces[0]["id"], "mac_address": macs[0]} if macs else None,
            "interface_set": interfaces,
            "boot_disk": None,
            "blockdevice_set": [],
            **more,
        }
        return system_id

    def app(self) -> web.Application:
        """The server."""
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._serve)
        return app

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        _, mark, path = request.path.partition("/api/2.0/")
        if not mark:
            return web.Response(status=404, text="no such page")
        self.connections.add(request.transport)
        raw = await request.read()
        pairs = parse_qsl(request.query_string, keep_blank_values=True)
        op = dict(pairs).get("op")
        call = Call(
            request.method,
            unquote(path),
            op,
            [pair for pair in pairs if pair[0] != "op"],
            parse_qsl(raw.decode(), keep_blank_values=True),
            dict(request.headers),
        )
        self.calls.append(call)
        fault = next((one for one in self.faults if re.fullmatch(one.line, call.line)), None)
        if fault is not None:
            fault.times -= 1
            if fault.times == 0:
                self.faults.remove(fault)
        if fault is None or fault.after:
            answer: web.StreamResponse = self._answer(call)
        if fault is not None:
            if fault.hang:
                await asyncio.sleep(30)
            if fault.held is not None:
                await fault.held.wait()
                if not fault.after:
                    answer = self._answer(call)
            if fault.cut:
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            if fault.answer is not None:
                answer = fault.answer()
        ahead = datetime.now(UTC) + timedelta(seconds=self.clock_ahead_s)
        answer.headers["Date"] = ahead.strftime("%a, %d %b %Y %H:%M:%S GMT")
        return answer

    def _answer(self, call: Call) -> web.Response:
        if call.path == "describe/":
            return web.json_response(description(self.host, self.lacks))
        if call.path == "version/":
            return web.json_response({"version": self.version, "subversion": "", "capabilities": []})
        refused = self._oauth(call.headers.get("Authorization", ""))
        if refused is not None:
            return web.Response(status=401, text=f"Authorization Error: {refused}", content_type="text/html")
        handler = getattr(self, "_" + re.sub(r"\W+", "_", call.path.split("/")[0]))
        answer: web.Response = handler(call, [part for part in call.path.split("/")[1:] if part])
        return answer

    def _oauth(self, header: str) -> str | None:
        said = {name: unquote(value) for name, value in re.findall(r'(\w+)="([^"]*)"', header)}
        if said.get("oauth_consumer_key") != CONSUMER:
            return "Invalid API key."
        if said.get("oauth_token") != TOKEN:
            return f"'Invalid access token: {said.get('oauth_token')}'"
        if time.time() + self.clock_ahead_s - int(said["oauth_timestamp"]) > 300:
            return "'Expired timestamp: given 1 and now 2 has a greater difference than threshold 300'"
        if said["oauth_nonce"] in self.nonces:
            return f"'Nonce already used: {said['oauth_nonce']}'"
        self.nonces.add(said["oauth_nonce"])
        if said["oauth_signature"] != f"&{SECRET}":
            return f"'Invalid signature. Expected signature base string: &{SECRET}'"
        return None

    def _machines(self, call: Call, rest: list[str]) -> web.Response:
        form = dict(call.form)
        if rest:
            return self._machine(call, rest[0], form)
        if call.op == "power_parameters":
            return web.json_response({id_: self.machines[id_].get("_power", {}) for _, id_ in call.query})
        if call.op == "allocate":
            machine = self.machines.get(form["system_id"])
            if machine is None or machine["status"] != 4:
                return _text(409, f"No machine with system ID {form['system_id']} available.")
            machine |= {"status": 10, "owner": "admin"}
            return web.json_response(machine)
        if call.method == "POST":
            return self._create(call, form)
        wanted: dict[str, set[str]] = {}
        for name, value in call.query:
            wanted.setdefault(name, set()).add(value)
        if wanted.keys() - {"id", "hostname", "mac_address", "status"}:
            return web.json_response({"x": ["No such constraint."]}, status=400)
        names = {0: "new", 1: "commissioning", 2: "failed_commissioning", 4: "ready", 6: "deployed"}
        keys: dict[str, Callable[[dict[str, Any]], set[str]]] = {
            "id": lambda one: {one["system_id"]},
            "hostname": lambda one: {one["hostname"]},
            "mac_address": lambda one: {nic["mac_address"] for nic in one["interface_set"]},
            "status": lambda one: {names.get(one["status"], "?")},
        }
        found = [
            one for one in self.machines.values() if all(keys[name](one) & values for name, values in wanted.items())
        ]
        return web.json_response(found)

    def _create(self, call: Call, form: dict[str, str]) -> web.Response:
        macs = [value.lower() for name, value in call.form if name == "mac_addresses"]
        if taken := self.others & set(macs):
            said = f"MAC address {min(taken)} already in use on printer."
            return web.json_response({"mac_addresses": [said]}, status=400)
        if form.get("hostname") in self.others:
            return web.json_response({"hostname": ["Node with this Hostname already exists."]}, status=400)
        for one in self.machines.values():
            taken = {nic["mac_address"] for nic in one["interface_set"]} & set(macs)
            if taken:
                said = f"MAC address {min(taken)} already in use on {one['hostname']}."
                echo = "Can't set power type to redfish without network interfaces"
                return web.json_response({"mac_addresses": [said], "power_type": [echo]}, status=400)
            if one["hostname"] == form.get("hostname"):
                return web.json_response({"hostname": ["Node with this Hostname already exists."]}, status=400)
        status = 0 if form.get("commission") == "false" else 1
        system_id = self.add(form["hostname"], macs, status, power_type=form["power_type"])
        self._edit(self.machines[system_id], form)
        return web.json_response(self.machines[system_id])

    def _edit(self, machine: dict[str, Any], form: dict[str, str]) -> None:
        for name in ("hostname", "power_type", "architecture"):
            machine[name] = form.get(name, machine[name])
        # A name with dots is a host name and a domain.
        short, dot, domain = machine["hostname"].partition(".")
        machine["hostname"], machine["fqdn"] = short, f"{short}.{domain if dot else 'maas'}"
        for name in ("zone", "pool"):
            if name in form:
                machine[name] = {"name": form[name]}
        mark = "power_parameters_"
        given = {name.removeprefix(mark): value for name, value in form.items() if name.startswith(mark)}
        machine["_power"] = machine.get("_power", {}) | given

    def _machine(self, call: Call, system_id: str, form: dict[str, str]) -> web.Response:  # noqa: PLR0912
        machine = self.machines.get(system_id)
        if machine is None:
            return _text(404, "No Machine matches the given query.")
        if call.op == "power_parameters":
            return web.json_response(machine.get("_power", {}))
        if call.method == "GET":
            return web.json_response(machine)
        if machine["locked"]:
            return _text(403, "")
        if call.method == "PUT":
            self._edit(machine, form)
            return web.json_response(machine)
        moves: dict[str, tuple[set[int], int]] = {
            "commission": ({0, 2, 4, 8}, 1),
            "deploy": ({4, 10}, 9),
            "release": ({6, 8, 9, 10, 11}, 4),
            "abort": ({1, 9}, -1),
            "mark_broken": (set(range(23)) if machine["owner"] else set(), 8),
            "mark_fixed": ({8}, 4),
        }
        stale = json.loads(json.dumps(machine))
        if call.op in {"set_owner_data", "set_workload_annotations"}:
            if machine["owner"] is None:
                return _text(409, "Cannot set workload annotation: it hasn't been acquired.")
            machine["owner_data"] |= form
        elif call.op == "set_storage_layout":
            if machine["status"] != 4:
                return _text(409, "Cannot change the storage layout on a machine that is not Ready.")
            _lay_out(machine, int(form["root_device"]))
        else:
            allowed, target = moves[str(call.op)]
            if machine["status"] not in allowed:
                return _text(409, f"Can't {call.op} a machine that is in this state")
            machine["status"] = {1: 0, 9: 10}[machine["status"]] if call.op == "abort" else target
            if call.op == "abort":
                return web.json_response(stale)
            if call.op == "deploy":
                machine |= {"owner": "admin", "distro_series": form["distro_series"].rpartition("/")[2]}
                machine["hwe_kernel"] = form.get("hwe_kernel", "ga-22.04")
            if call.op == "mark_broken":
                machine["error_description"] = form["comment"]
            if call.op in {"release", "mark_fixed"}:
                machine |= {"owner": None, "owner_data": {}, "distro_series": ""}
        return web.json_response(machine)

    def _nodes(self, call: Call, rest: list[str]) -> web.Response:
        machine = self.machines.get(rest[0])
        if machine is None:
            return _text(404, "No Node matches the given query.")
        if rest[1] == "results":
            sets = self.results.get(rest[0], [])
            if len(rest) == 2:
                bare = json.loads(json.dumps(sets))
                for one in bare:
                    for script in one["results"]:
                        script.pop("output", None)
                return web.json_response(bare)
            return web.json_response(next(one for one in sets if str(one["id"]) == rest[2]))
        if call.op == "set_boot_disk":
            disk = next((one for one in machine["blockdevice_set"] if str(one["id"]) == rest[2]), None)
            if disk is None or machine["status"] != 4:
                return _text(404 if disk is None else 409, "Cannot set as boot disk because the machine is not Ready.")
            machine["boot_disk"] = disk
            return _text(200, "OK")
        mac = dict(call.form)["mac_address"]
        if machine["status"] not in {0, 4, 8, 10}:
            return _text(409, "Cannot create interface because the machine is not New, Ready, Allocated, or Broken.")
        for one in self.machines.values():
            if any(nic["mac_address"] == mac for nic in one["interface_set"]):
                said = f"This MAC address is already in use by eno1 (physical) on {one['hostname']}."
                return web.json_response({"mac_address": [said]}, status=400)
        nic = {"id": 9000 + len(self.calls), "name": dict(call.form)["name"], "mac_address": mac, "links": []}
        machine["interface_set"].append(nic)
        return web.json_response(nic)

    def _tags(self, call: Call, rest: list[str]) -> web.Response:
        if not rest:
            if dict(call.form)["name"] in self.tags:
                return web.json_response({"name": ["Tag with this Name already exists."]}, status=400)
            self.tags.add(dict(call.form)["name"])
            return web.json_response({"name": dict(call.form)["name"]})
        if rest[0] not in self.tags:
            return _text(404, "No Tag matches the given query.")
        for name, system_id in call.form:
            if name == "add" and system_id in self.machines:
                self.machines[system_id]["tag_names"].append(rest[0])
        return web.json_response({"added": 1, "removed": 0})

    def _users(self, call: Call, rest: list[str]) -> web.Response:
        return web.json_response({"username": "robot", "is_superuser": self.is_superuser})

    def _events(self, call: Call, rest: list[str]) -> web.Response:
        return web.json_response({"count": len(self.logs), "events": self.logs})

    def _boot_resources(self, call: Call, rest: list[str]) -> web.Response:
        image = {"id": 7, "type": "Synced", "name": "ubuntu/jammy", "architecture": "amd64/ga-22.04"}
        if rest:
            done = {"complete": True} if self.importing is None else {"complete": False, "progress": self.importing}
            return web.json_response(image | {"sets": {"20261101": {"version": "20261101"} | done}})
        return web.json_response([image | {"subarches": "generic,ga-22.04,hwe-22.04"}])

    def _rackcontrollers(self, call: Call, rest: list[str]) -> web.Response:
        return web.json_response(self.racks)

    def _maas(self, call: Call, rest: list[str]) -> web.Response:
        return web.json_response(self.wipes)

    def _scripts(self, call: Call, rest: list[str]) -> web.Response:
        return web.json_response([{"name": name, "tags": ["gpu"]} for name in self.scripts])

    def _zones(self, call: Call, rest: list[str]) -> web.Response:
        return web.json_response([{"name": "default"}, {"name": "hall-a"}])

    def _resourcepools(self, call: Call, rest: list[str]) -> web.Response:
        return web.json_response([{"name": "default"}, {"name": "gpu"}])


def disk(number: int, model: str, serial: str, size: int = 480_000_000_000) -> dict[str, Any]:
    """A block device without a use."""
    return {
        "id": number,
        "name": f"nvme{number % 10}n1",
        "type": "physical",
        "model": model,
        "serial": serial,
        "size": size,
        "id_path": f"/dev/disk/by-id/nvme-{serial}",
        "used_for": "Unused",
        "filesystem": None,
        "partitions": [],
    }


def _lay_out(machine: dict[str, Any], root: int) -> None:
    for device in machine["blockdevice_set"]:
        points = ["/boot/efi", "/"] if device["id"] == root else []
        device["partitions"] = [{"id": i, "filesystem": {"mount_point": point}} for i, point in enumerate(points)]


def _text(status: int, said: str) -> web.Response:
    return web.Response(status=status, text=said, content_type="text/plain")
