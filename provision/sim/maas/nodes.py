"""Handlers below ``nodes/{system_id}/``, and of events."""

from __future__ import annotations

from provision.sim.maas import render, results, wire
from provision.sim.maas.forms import normal_mac
from provision.sim.maas.machines import Machines
from provision.sim.maas.region import Region
from provision.sim.maas.state import TYPE_WORDS, Disk, Event, Link, Nic, Record, ScriptSet, Subnet
from provision.sim.maas.wire import Call, Reply

_TYPES = {word: number for number, word in TYPE_WORDS.items()}
MAX_EVENTS = 1000


class Nodes:
    """Disks, interfaces, results and events."""

    def __init__(self, region: Region, machines: Machines) -> None:
        self.region = region
        self.machines = machines

    def _record(self, call: Call) -> Record:
        record = self.region.machines.get(call.params["system_id"])
        if record is None:
            raise wire.missing("Node")
        return record

    def _writable(self, call: Call) -> Record:
        record = self._record(call)
        if record.locked or not call.caller.admin:
            raise wire.forbidden()
        return record

    async def disks(self, call: Call) -> Reply:
        record = self._record(call)
        return wire.data([render.block_device(record, disk) for disk in record.disks])

    def _disk(self, call: Call, record: Record) -> Disk:
        number = call.params["id"]
        disk = record.disk(int(number)) if number.isdigit() else None
        if disk is None:
            raise wire.missing("BlockDevice")
        return disk

    async def disk(self, call: Call) -> Reply:
        record = self._record(call)
        return wire.data(render.block_device(record, self._disk(call, record)))

    async def set_boot_disk(self, call: Call) -> Reply:
        record = self._writable(call)
        disk = self._disk(call, record)
        self.machines.need(record, "set_boot_disk")
        record.boot_disk_id = disk.id
        record.touch()
        return wire.text(200, "OK", content_type=wire.TEXT_BARE)

    async def interfaces(self, call: Call) -> Reply:
        record = self._record(call)
        return wire.data([render.interface(record, nic) for nic in record.nics])

    def _nic(self, call: Call, record: Record) -> Nic:
        for nic in record.nics:
            if str(nic.id) == call.params["id"]:
                return nic
        raise wire.missing("Interface")

    async def interface(self, call: Call) -> Reply:
        record = self._record(call)
        return wire.data(render.interface(record, self._nic(call, record)))

    def _subnet(self, **wanted: str | None) -> Subnet | None:
        for subnet in self.region.subnets:
            if wanted.get("vlan") == str(subnet.vlan_id) or wanted.get("subnet") in {str(subnet.id), subnet.cidr}:
                return subnet
        return None

    async def update_interface(self, call: Call) -> Reply:
        record = self._writable(call)
        nic = self._nic(call, record)
        subnet = self._subnet(vlan=call.one("vlan"))
        if subnet is not None:
            nic.vlan = (subnet.vlan_id, subnet.fabric_id, subnet.name)
            # Another VLAN: what was configured on the old one is gone.
            nic.links = []
        nic.name = call.one("name") or nic.name
        record.touch()
        return wire.data(render.interface(record, nic))

    async def create_interface(self, call: Call) -> Reply:
        record = self._writable(call)
        self.machines.need(record, "create_interface")
        mac = normal_mac(call.one("mac_address") or "")
        if mac is None:
            raise wire.invalid({"mac_address": ["'' is not a valid MAC address."]})
        if (owner := self.region.by_mac.get(mac)) is not None:
            taken = next(nic for nic in owner.nics if nic.mac == mac)
            message = f"This MAC address is already in use by {taken.name} (physical) on {owner.hostname}."
            raise wire.invalid({"mac_address": [message]})
        nic = self.region.add_nic(record, call.one("name") or f"eth{len(record.nics)}", mac)
        nic.connected = False
        subnet = self._subnet(vlan=call.one("vlan"))
        if subnet is not None:
            nic.vlan = (subnet.vlan_id, subnet.fabric_id, subnet.name)
            nic.links = [Link(self.region.next_id("link"), "link_up")]
        record.boot_nic = record.boot_nic or nic
        return wire.data(render.interface(record, nic))

    async def link_subnet(self, call: Call) -> Reply:
        record = self._writable(call)
        nic = self._nic(call, record)
        subnet = self._subnet(subnet=call.one("subnet"))
        mode = (call.one("mode") or "").lower()
        if mode not in {"auto", "dhcp", "static", "link_up"}:
            raise wire.invalid({"mode": ["This field is required."]})
        address = call.one("ip_address") if mode == "static" else None
        nic.links = [link for link in nic.links if link.mode != "link_up"]
        nic.links.append(Link(self.region.next_id("link"), mode, subnet, address))
        record.touch()
        return wire.data(render.interface(record, nic))

    async def results(self, call: Call) -> Reply:
        record = self._record(call)
        word = call.ask("type")
        if word is not None and word not in _TYPES:
            raise wire.bad("Invalid result type name")
        sets = [item for item in record.sets if word is None or item.type == _TYPES[word]]
        names = _names(call)
        output = "include_output" in call.query
        return wire.data([results.script_set(record, item, names, output=output) for item in sets])

    def _set(self, call: Call, record: Record) -> ScriptSet:
        wanted = call.params["id"]
        if wanted.isdigit():
            for item in record.sets:
                if item.id == int(wanted):
                    return item
            raise wire.missing("ScriptSet")
        current = record.current.get(_TYPES.get(wanted.removeprefix("current-"), -1))
        if current is None:
            # A missing current set is 400, not 404 (M127).
            raise wire.bad(
                f'Unknown id "{wanted}" must be current-commissioning, current-testing, current-installation,'
                " or the id number of a specific result."
            )
        return current

    async def result(self, call: Call) -> Reply:
        record = self._record(call)
        item = self._set(call, record)
        return wire.data(results.script_set(record, item, _names(call), output="include_output" in call.query))

    async def download(self, call: Call) -> Reply:
        record = self._record(call)
        runs = results.chosen(self._set(call, record), _names(call))
        if len(runs) == 1:
            return wire.Reply(200, runs[0].output, "application/binary")
        texts = [f"{'-' * 80}\n{run.name}\n{'-' * 80}\n".encode() + run.output for run in runs]
        return wire.Reply(200, b"\n".join(texts), "application/binary")

    async def events(self, call: Call) -> Reply:
        limit, level = call.ask("limit", "100") or "100", call.ask("level")
        if not limit.isdigit():
            raise wire.bad(f"Invalid limit: {limit}")
        if int(limit) > MAX_EVENTS:
            raise wire.bad(f"Requested number of events {limit} is greater than limit: {MAX_EVENTS}")
        if level is not None and level not in results.LEVELS:
            raise wire.bad(f"Unrecognised log level: {level}")
        floor = results.LEVELS[level or "INFO"]
        ids, names, macs = (set(call.query.get(name, [])) for name in ("id", "hostname", "mac_address"))
        found = [
            (record, event)
            for record, event in self.region.events_of(ids)
            if (not names or record.hostname in names)
            and (not macs or any(nic.mac in macs for nic in record.nics))
            and results.LEVELS[event.level] >= floor
        ]
        after, before = call.ask("after"), call.ask("before")
        found = [
            pair
            for pair in found
            if (not after or pair[1].id > int(after)) and (not before or pair[1].id < int(before))
        ]
        found.sort(key=lambda pair: pair[1].id, reverse=True)
        shown = found[-int(limit) :] if after and int(limit) else found[: int(limit)]
        return wire.data(self._page(call, shown))

    def _page(self, call: Call, shown: list[tuple[Record, Event]]) -> dict[str, object]:
        kept = [f"{name}={value}" for name, values in call.query.items() if name not in _PAGING for value in values]
        base = f"{render.ROOT}/events/?{'&'.join(kept)}"
        newest, oldest = (shown[0][1].id, shown[-1][1].id) if shown else (0, 0)
        return {
            "count": len(shown),
            "events": [results.event(record, event) for record, event in shown],
            "next_uri": f"{base}&after={newest}",
            "prev_uri": f"{base}&before={oldest}",
        }


_PAGING = {"after", "before"}


def _names(call: Call) -> list[str]:
    return [name for value in call.query.get("filters", []) for name in value.split(",") if name]
