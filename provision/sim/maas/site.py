"""Handlers of everything that is not a machine: zones, pools, tags, users, settings, images, subnets, racks."""

from __future__ import annotations

import re

from provision.sim.maas import render, wire
from provision.sim.maas.forms import REQUIRED
from provision.sim.maas.oauth import KeyRing
from provision.sim.maas.region import Region
from provision.sim.maas.state import Named, Tag, User
from provision.sim.maas.wire import Call, Reply

CAPABILITIES = (
    "networks-management",
    "static-ipaddresses",
    "ipv6-deployment-ubuntu",
    "devices-management",
    "storage-deployment-ubuntu",
    "network-deployment-ubuntu",
    "bridging-interface-ubuntu",
    "bridging-automatic-ubuntu",
    "authenticate-api",
)
ADMINS_ONLY = "This method is reserved for admin users."


def _admin(call: Call) -> None:
    if not call.caller.admin:
        raise wire.forbidden(ADMINS_ONLY)


class SiteHandlers:
    """The rest of the region."""

    def __init__(self, region: Region, keys: KeyRing, version: str) -> None:
        self.region = region
        self.keys = keys
        self.release = version

    async def version(self, call: Call) -> Reply:
        return wire.data({"capabilities": list(CAPABILITIES), "version": self.release, "subversion": ""})

    async def zones(self, call: Call) -> Reply:
        return wire.data([render.zone(item) for item in self.region.zones.values()])

    async def create_zone(self, call: Call) -> Reply:
        _admin(call)
        item = self._new(call, self.region.zones, "zone", "Physical zone with this Name already exists.")
        return wire.data(render.zone(item))

    async def zone(self, call: Call) -> Reply:
        item = self.region.zones.get(call.params["name"])
        if item is None:
            raise wire.missing("Zone")
        return wire.data(render.zone(item))

    async def update_zone(self, call: Call) -> Reply:
        _admin(call)
        item = self.region.zones.get(call.params["name"])
        if item is None:
            raise wire.missing("Zone")
        item.description = call.one("description", item.description) or ""
        return wire.data(render.zone(item))

    async def pools(self, call: Call) -> Reply:
        return wire.data([render.pool(item) for item in self.region.pools.values()])

    async def create_pool(self, call: Call) -> Reply:
        _admin(call)
        item = self._new(call, self.region.pools, "pool", "Resource pool with this Name already exists.")
        return wire.data(render.pool(item))

    async def pool(self, call: Call) -> Reply:
        for item in self.region.pools.values():
            if str(item.id) == call.params["id"]:
                return wire.data(render.pool(item))
        raise wire.missing("ResourcePool")

    def _new(self, call: Call, table: dict[str, Named], kind: str, taken: str) -> Named:
        name = call.one("name")
        if not name:
            raise wire.invalid({"name": [REQUIRED]})
        if name in table:
            raise wire.invalid({"name": [taken]})
        item = Named(self.region.next_id(kind), name, call.one("description") or "")
        table[name] = item
        return item

    async def tags(self, call: Call) -> Reply:
        return wire.data([render.tag(item) for item in self.region.tags.values()])

    async def create_tag(self, call: Call) -> Reply:
        _admin(call)
        name = call.one("name")
        if not name:
            raise wire.invalid({"name": [REQUIRED]})
        if not re.fullmatch(r"[a-zA-Z0-9_-]+", name):
            raise wire.invalid({"name": ["Enter a valid value."]})
        if name in self.region.tags:
            raise wire.invalid({"name": ["Tag with this Name already exists."]})
        item = Tag(name, call.one("comment") or "", call.one("definition") or "", call.one("kernel_opts") or "")
        self.region.tags[name] = item
        return wire.data(render.tag(item))

    def _tag(self, call: Call) -> Tag:
        item = self.region.tags.get(call.params["name"])
        if item is None:
            raise wire.missing("Tag")
        return item

    async def tag(self, call: Call) -> Reply:
        return wire.data(render.tag(self._tag(call)))

    async def delete_tag(self, call: Call) -> Reply:
        _admin(call)
        del self.region.tags[self._tag(call).name]
        return wire.text(204, "", content_type=wire.TEXT_BARE)

    async def tag_machines(self, call: Call) -> Reply:
        members = self._tag(call).members
        chosen = [record for record in self.region.machines.values() if record.system_id in members]
        return wire.raw_json(render.machines(self.region, chosen))

    async def update_nodes(self, call: Call) -> Reply:
        _admin(call)
        members = self._tag(call).members
        # Unknown machines are counted as nothing (M080).
        added = {name for name in call.form.get("add", []) if name in self.region.machines and name not in members}
        removed = {name for name in call.form.get("remove", []) if name in members}
        members |= added
        members -= removed
        return wire.data({"added": len(added), "removed": len(removed)})

    async def whoami(self, call: Call) -> Reply:
        return wire.data(render.user(call.caller))

    async def users(self, call: Call) -> Reply:
        return wire.data([render.user(item) for item in self.region.users.values()])

    async def user(self, call: Call) -> Reply:
        item = self.region.users.get(call.params["username"])
        if item is None:
            raise wire.missing("User")
        return wire.data(render.user(item))

    async def create_user(self, call: Call) -> Reply:
        _admin(call)
        name = call.one("username")
        if not name:
            raise wire.invalid({"username": [REQUIRED]})
        item = User(name, call.one("email") or "", admin=call.flag("is_superuser"))
        self.region.users[name] = item
        return wire.data(render.user(item))

    async def get_config(self, call: Call) -> Reply:
        name = call.ask("name") or ""
        if name not in self.region.config:
            valid = ", ".join(self.region.config)
            message = f"{name} is not a valid config setting (valid settings are: {valid})."
            raise wire.invalid({name: [message]}, content_type=wire.JSON_BARE)
        return wire.data(self.region.config[name], content_type=wire.JSON_BARE)

    async def set_config(self, call: Call) -> Reply:
        _admin(call)
        name = call.one("name") or ""
        if name not in self.region.config:
            raise wire.invalid({name: [f"{name} is not a valid config setting."]}, content_type=wire.JSON_BARE)
        value = call.one("value") or ""
        self.region.config[name] = int(value) if value.isdigit() else value
        return wire.text(200, "OK", content_type=wire.TEXT_BARE)

    async def boot_resources(self, call: Call) -> Reply:
        listed = enumerate(sorted(self.region.series.items()), start=1)
        return wire.data([render.boot_resource(number, series, kernel) for number, (series, kernel) in listed])

    async def boot_resource(self, call: Call) -> Reply:
        listed = dict(enumerate(sorted(self.region.series.items()), start=1))
        number = int(call.params["id"]) if call.params["id"].isdigit() else 0
        if number not in listed:
            raise wire.missing("BootResource")
        series, kernel = listed[number]
        done = self.region.importing.get(series)
        about: dict[str, object] = {"version": "20261101", "label": "stable", "size": 1_200_000_000, "files": {}}
        about |= {"complete": True} if done is None else {"complete": False, "progress": done}
        return wire.data(render.boot_resource(number, series, kernel) | {"sets": {"20261101": about}})

    async def racks(self, call: Call) -> Reply:
        bodies = [
            {"system_id": name, "hostname": name, "node_type": 2, "node_type_name": "Rack controller"}
            | {"service_set": [{"name": "rackd", "status": "running", "status_info": ""}]}
            | {"resource_uri": f"{render.ROOT}/rackcontrollers/{name}/"}
            for name in self.region.racks
        ]
        return wire.data(bodies)

    async def subnets(self, call: Call) -> Reply:
        return wire.data([render.subnet(item) for item in self.region.subnets])

    async def ssh_keys(self, call: Call) -> Reply:
        return wire.data([])
