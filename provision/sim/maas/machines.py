"""Handlers of ``machines/`` and ``machines/{system_id}/``."""

from __future__ import annotations

from collections.abc import Callable

from provision.model.machine import Status
from provision.sim.maas import forms, render, storage, wire
from provision.sim.maas.lifecycle import Lifecycle
from provision.sim.maas.power import PowerError, controllable
from provision.sim.maas.region import Region
from provision.sim.maas.scripts import DEFAULT_TESTS
from provision.sim.maas.state import Record
from provision.sim.maas.statuses import FORM_REFUSALS, NAMES, REFUSALS, SHORT, accepts
from provision.sim.maas.wire import Call, Reply

S = Status
_FILTERS = {
    "hostname",
    "mac_address",
    "id",
    "domain",
    "zone",
    "not_in_zone",
    "pool",
    "not_in_pool",
    "agent_name",
    "tags",
    "not_tags",
    "status",
    "owner",
    "power_state",
}


class Machines:
    """The machine endpoints of one region."""

    def __init__(self, region: Region, lifecycle: Lifecycle) -> None:
        self.region = region
        self.life = lifecycle

    def find(self, call: Call) -> Record:
        """The machine of the path. Raises Refusal (404)."""
        record = self.region.machines.get(call.params["system_id"])
        if record is None:
            raise wire.missing("Machine")
        return record

    def mine(self, call: Call, *, unowned_admin: bool = True) -> Record:
        """The machine, if the caller may act on it. Raises Refusal: 403 if locked or somebody else's."""
        record = self.find(call)
        if record.locked:
            raise wire.forbidden()
        if not call.caller.admin and record.owner not in {None, call.caller.name}:
            raise wire.forbidden()
        if not unowned_admin and record.owner != call.caller.name:
            raise wire.forbidden()
        return record

    def administered(self, call: Call) -> Record:
        """The machine, if the caller is an administrator and it is not locked."""
        record = self.find(call)
        if record.locked or not call.caller.admin:
            raise wire.forbidden()
        return record

    def need(self, record: Record, operation: str) -> None:
        """Raises Refusal if the operation is not for the machine's status."""
        if accepts(operation, record.status):
            return
        if operation in FORM_REFUSALS:
            raise wire.invalid({"__all__": [FORM_REFUSALS[operation]]})
        message = REFUSALS[operation].format(status=NAMES[record.status], system_id=record.system_id)
        raise wire.conflict(message)

    def show(self, record: Record) -> Reply:
        """The machine as body."""
        return wire.raw_json(render.machine(self.region, record))

    async def read(self, call: Call) -> Reply:
        return self.show(self.find(call))

    async def listing(self, call: Call) -> Reply:
        unknown = set(call.query) - _FILTERS - {"op"}
        if unknown:
            raise wire.invalid({name: ["No such constraint."] for name in unknown})
        return wire.raw_json(render.machines(self.region, self._filtered(call.query)))

    def _filtered(self, query: dict[str, list[str]]) -> list[Record]:
        for name, known in (("zone", self.region.zones), ("pool", self.region.pools)):
            strangers = [value for value in query.get(name, []) if value not in known]
            if strangers:
                raise wire.invalid({name: [f"No such {name}(s): {', '.join(strangers)}."]})
        for value in query.get("status", []):
            if value not in SHORT:
                message = f"Select a valid choice. {value} is not one of the available choices."
                raise wire.invalid({"status": [message]})
        records: list[Record] = list(self.region.machines.values())
        if "id" in query:
            records = [self.region.machines[key] for key in dict.fromkeys(query["id"]) if key in self.region.machines]
        if "mac_address" in query:
            # Exact spelling only: lower case with colons (M058, M059).
            found = [self.region.by_mac.get(mac) for mac in query["mac_address"]]
            wanted = {record.system_id for record in found if record}
            records = [record for record in records if record.system_id in wanted]
        keys: dict[str, Callable[[Record], str]] = {
            "hostname": lambda record: record.hostname,
            "zone": lambda record: record.zone,
            "pool": lambda record: record.pool,
            "owner": lambda record: record.owner or "",
            "power_state": lambda record: record.power_state,
        }
        for name, key in keys.items():
            if name in query:
                allowed = set(query[name])
                records = [record for record in records if key(record) in allowed]
        if "status" in query:
            statuses = {SHORT[value] for value in query["status"]}
            records = [record for record in records if record.status in statuses]
        for name in query.get("tags", []):
            if name not in self.region.tags:
                raise wire.invalid({"tags": [f"No such tag(s): '{name}'."]})
            records = [record for record in records if record.system_id in self.region.tags[name].members]
        return records

    async def create(self, call: Call) -> Reply:
        macs, parameters = forms.check_create(self.region, call)
        record = self.region.add(call.one("hostname"), _architecture(call), macs)
        record.power_type, record.power_parameters = call.one("power_type") or "", parameters
        self._edit(call, record)
        if call.caller.admin and call.flag("commission", default=True):
            self.life.commission(record, call.caller, tests=DEFAULT_TESTS)
        return self.show(record)

    async def enlist(self, call: Call) -> Reply:
        """Anonymous create: a known MAC answers with the existing machine."""
        macs = [mac for raw in call.form.get("mac_addresses", []) if (mac := forms.normal_mac(raw))]
        known = next((self.region.by_mac[mac] for mac in macs if mac in self.region.by_mac), None)
        if known is not None:
            return wire.data(render.anonymous_machine(self.region, known))
        macs, parameters = forms.check_create(self.region, call)
        record = self.region.add(call.one("hostname"), _architecture(call), macs)
        record.power_type, record.power_parameters = call.one("power_type") or "", parameters
        if call.flag("commission"):
            self.life.commission(record, None)
        return wire.data(render.anonymous_machine(self.region, record))

    def _edit(self, call: Call, record: Record) -> None:
        record.hostname = call.one("hostname") or record.hostname
        record.description = call.one("description", record.description) or ""
        record.zone = call.one("zone") or record.zone
        record.pool = call.one("pool") or record.pool
        record.min_hwe_kernel = call.one("min_hwe_kernel", record.min_hwe_kernel) or ""
        record.architecture = _architecture(call, record.architecture)

    async def update(self, call: Call) -> Reply:
        record = self.administered(call)
        record.power_type, record.power_parameters = forms.check_update(self.region, call, record)
        self._edit(call, record)
        return self.show(record)

    async def delete(self, call: Call) -> Reply:
        record = self.administered(call)
        self.region.drop(record)
        return wire.text(204, "", content_type=wire.TEXT_BARE)

    async def is_registered(self, call: Call) -> Reply:
        return wire.data(forms.normal_mac(call.ask("mac_address") or "") in self.region.by_mac)

    async def set_zone(self, call: Call) -> Reply:
        zone = call.one("zone") or ""
        if zone not in self.region.zones:
            raise wire.invalid({"zone": [forms.CHOICE]})
        for system_id in call.form.get("nodes", []):
            if system_id in self.region.machines:
                self.region.machines[system_id].zone = zone
        return wire.data(None)

    async def accept(self, call: Call) -> Reply:
        accepted = []
        for system_id in call.form.get("machines", []):
            record = self.region.machines.get(system_id)
            if record is not None and record.status is S.NEW:
                self.life.commission(record, call.caller, tests=DEFAULT_TESTS)
                accepted.append(record)
        return wire.raw_json(render.machines(self.region, accepted))

    async def allocate(self, call: Call) -> Reply:
        system_id, name = call.one("system_id"), call.one("name")
        free = [record for record in self.region.machines.values() if record.status is S.READY and not record.locked]
        if system_id:
            free = [record for record in free if record.system_id == system_id]
        if name:
            free = [record for record in free if name in {record.hostname, f"{record.hostname}.maas"}]
        if not free:
            wanted = f"machine with system ID {system_id}" if system_id else f"machine with name {name}"
            raise wire.conflict(f"No {wanted} available." if system_id or name else "No machine available.")
        self.life.allocate(free[0], call.caller)
        return self.show(free[0])

    async def commission(self, call: Call) -> Reply:
        record = self.administered(call)
        self.need(record, "commission")
        tests = forms.check_tests(call, none_allowed=True)
        custom = forms.check_commissioning_scripts(self.region, call)
        record.skip_networking, record.skip_storage = call.flag("skip_networking"), call.flag("skip_storage")
        self.life.commission(
            record,
            call.caller,
            tests=DEFAULT_TESTS if tests is None else tests,
            skip_bmc_config=call.flag("skip_bmc_config"),
            custom=custom,
        )
        return self.show(record)

    async def test(self, call: Call) -> Reply:
        record = self.mine(call)
        self.need(record, "test")
        tests = forms.check_tests(call, none_allowed=False)
        self.life.test(record, call.caller, DEFAULT_TESTS if tests is None else tests)
        return self.show(record)

    async def abort(self, call: Call) -> Reply:
        record = self.mine(call)
        self.need(record, "abort")
        self.life.abort(record)
        reply = self.show(record)
        self.life.finish_abort(record)
        return reply

    async def deploy(self, call: Call) -> Reply:
        record = self.mine(call)
        self.need(record, "deploy")
        series, kernel = self._image(call, record)
        self._check_deployable(record, ephemeral=call.flag("ephemeral_deploy"))
        record.ephemeral = call.flag("ephemeral_deploy")
        record.enable_hw_sync = call.flag("enable_hw_sync")
        self.life.deploy(record, call.caller, series, kernel, call.one("user_data"))
        return self.show(record)

    def _image(self, call: Call, record: Record) -> tuple[str, str]:
        asked = call.one("distro_series") or str(self.region.config["default_distro_series"])
        series = asked.removeprefix("ubuntu/")
        if series not in self.region.series:
            listed = ", ".join(["''", *(f"'ubuntu/{name}'" for name in sorted(self.region.series))])
            message = f"'{asked}' is not a valid distro_series.  It should be one of: {listed}."
            raise wire.invalid({"distro_series": [message]})
        kernel = call.one("hwe_kernel") or record.min_hwe_kernel or self.region.series[series]
        if kernel not in {self.region.series[series], self.region.series[series].replace("ga-", "hwe-")}:
            message = f"{kernel} is not available for ubuntu/{series} on {record.architecture}."
            raise wire.invalid({"hwe_kernel": [message]})
        return series, kernel

    def _check_deployable(self, record: Record, *, ephemeral: bool) -> None:
        bare = wire.JSON_BARE
        if not has_network(record):
            raise wire.invalid({"network": ["Node must be configured to use a network"]}, content_type=bare)
        if not ephemeral and record.root_disk is None:
            message = "Mount the root '/' filesystem to be able to deploy this node."
            raise wire.invalid({"storage": [message]}, content_type=bare)

    async def release(self, call: Call) -> Reply:
        record = self.mine(call)
        self.need(record, "release")
        erase = call.flag("erase", default=bool(self.region.config["enable_disk_erasing_on_release"]))
        self.life.release(record, call.caller, erase=erase)
        return self.show(record)

    async def mark_broken(self, call: Call) -> Reply:
        record = self.mine(call, unowned_admin=False)
        self.life.mark_broken(record, call.one("comment") or call.one("error_description") or "")
        return self.show(record)

    async def mark_fixed(self, call: Call) -> Reply:
        record = self.administered(call)
        self.need(record, "mark_fixed")
        self.life.mark_fixed(record)
        return self.show(record)

    async def override_failed_testing(self, call: Call) -> Reply:
        record = self.administered(call)
        self.need(record, "override_failed_testing")
        self.life.override_failed_testing(record)
        return self.show(record)

    async def lock(self, call: Call) -> Reply:
        record = self.find(call)
        if record.locked:
            raise wire.conflict("Machine is already locked")
        record = self.mine(call)
        self.need(record, "lock")
        record.locked = True
        return self.show(record)

    async def unlock(self, call: Call) -> Reply:
        record = self.find(call)
        if not record.locked:
            raise wire.conflict("Machine is not locked")
        record.locked = False
        return self.show(record)

    async def rescue_mode(self, call: Call) -> Reply:
        record = self.administered(call)
        self.need(record, "rescue_mode")
        self.life.rescue(record, call.caller)
        return self.show(record)

    async def exit_rescue_mode(self, call: Call) -> Reply:
        record = self.administered(call)
        self.need(record, "exit_rescue_mode")
        self.life.exit_rescue(record, call.caller)
        return self.show(record)

    async def power_on(self, call: Call) -> Reply:
        record = self.mine(call)
        if record.owner is None:
            raise wire.conflict("Can't start node: it hasn't been allocated.")
        if record.status is S.ALLOCATED and not has_network(record):
            message = {"network": ["Node must be configured to use a network"]}
            raise wire.invalid(message, content_type=wire.JSON_BARE)
        self.life.need_rack(record, call.caller)
        self.life.switch_on(record)
        return self.show(record)

    async def power_off(self, call: Call) -> Reply:
        record = self.mine(call)
        self.life.need_rack(record, call.caller)
        self.life.switch_off(record)
        return self.show(record)

    async def query_power_state(self, call: Call) -> Reply:
        record = self.find(call)
        self.life.need_rack(record, call.caller)
        if controllable(record):
            try:
                record.power_state = await self.life.power.driver.query(record)
            except PowerError:
                record.power_state = "error"
        return wire.data({"state": record.power_state})

    async def power_parameters(self, call: Call) -> Reply:
        if not call.caller.admin:
            raise wire.forbidden()
        return wire.data(self.find(call).power_parameters)

    async def many_power_parameters(self, call: Call) -> Reply:
        if not call.caller.admin:
            raise wire.forbidden()
        wanted = call.query.get("id") or list(self.region.machines)
        found = {name: self.region.machines[name] for name in wanted if name in self.region.machines}
        return wire.data({name: record.power_parameters for name, record in found.items()})

    async def set_owner_data(self, call: Call) -> Reply:
        record = self.find(call)
        if record.locked:
            raise wire.forbidden()
        if record.owner != call.caller.name:
            raise wire.conflict("Cannot set workload annotation: it hasn't been acquired.")
        for name, values in call.form.items():
            if name == "op":
                continue
            if values[-1]:
                record.owner_data[name] = values[-1]
            else:
                record.owner_data.pop(name, None)
        return self.show(record)

    async def set_storage_layout(self, call: Call) -> Reply:
        record = self.administered(call)
        self.need(record, "set_storage_layout")
        layout, root = call.one("storage_layout"), call.one("root_device")
        if not layout:
            raise wire.invalid({"storage_layout": [forms.REQUIRED]})
        if layout not in storage.LAYOUTS:
            raise wire.invalid({"storage_layout": [_not_one_of(layout, "storage_layout", list(storage.LAYOUTS))]})
        disk = record.disk(int(root)) if root and root.isdigit() else None
        if root and disk is None:
            choices = [str(disk.id) for disk in record.disks]
            raise wire.invalid({"root_device": [_not_one_of(root, "root_device", choices)]})
        storage.lay_out(self.region, record, layout, disk)
        return self.show(record)


def _not_one_of(value: str, field: str, choices: list[str]) -> str:
    listed = ", ".join(f"'{choice}'" for choice in choices)
    return f"'{value}' is not a valid {field}.  It should be one of: {listed}."


def _architecture(call: Call, default: str = "amd64/generic") -> str:
    asked = call.one("architecture") or default
    return asked if "/" in asked else f"{asked}/generic"


def has_network(record: Record) -> bool:
    """Whether an interface is linked to a subnet."""
    return any(link.subnet is not None for nic in record.nics for link in nic.links)
