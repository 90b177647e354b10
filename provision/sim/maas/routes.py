"""Every call that the region offers, as one table: the dispatcher and ``describe/`` both read it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from provision.sim.maas.machines import Machines
from provision.sim.maas.nodes import Nodes
from provision.sim.maas.site import SiteHandlers
from provision.sim.maas.wire import Call, Reply

Handler = Callable[[Call], Awaitable[Reply]]
_REST = {"POST": "create", "GET": "read", "PUT": "update", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Action:
    """One call. ``op`` None is the plain verb."""

    method: str
    op: str | None
    handler: Handler

    @property
    def name(self) -> str:
        """As clients call it, and as writes are counted."""
        return self.op or _REST[self.method]


@dataclass(frozen=True, slots=True)
class Resource:
    """One path with its calls. ``anonymous`` are those open without a key."""

    name: str
    path: str
    actions: tuple[Action, ...]
    anonymous: tuple[Action, ...] = ()

    @property
    def params(self) -> list[str]:
        """Names in the path."""
        return re.findall(r"\{(\w+)\}", self.path)


def _acts(*rows: tuple[str, str | None, Handler]) -> tuple[Action, ...]:
    return tuple(Action(*row) for row in rows)


def table(machines: Machines, nodes: Nodes, site: SiteHandlers) -> tuple[Resource, ...]:
    """All resources."""
    return (
        Resource("Machines", "machines/", _machines(machines), _acts(("POST", None, machines.enlist))),
        Resource("Machine", "machines/{system_id}/", _machine(machines)),
        *_below_nodes(nodes),
        Resource("Events", "events/", _acts(("GET", "query", nodes.events))),
        *_site(site),
    )


def _machines(machines: Machines) -> tuple[Action, ...]:
    return _acts(
        ("POST", None, machines.create),
        ("GET", None, machines.listing),
        ("POST", "allocate", machines.allocate),
        ("POST", "set_zone", machines.set_zone),
        ("POST", "accept", machines.accept),
        ("GET", "is_registered", machines.is_registered),
        ("GET", "power_parameters", machines.many_power_parameters),
    )


def _machine(machines: Machines) -> tuple[Action, ...]:
    return _acts(
        ("GET", None, machines.read),
        ("PUT", None, machines.update),
        ("DELETE", None, machines.delete),
        ("POST", "commission", machines.commission),
        ("POST", "test", machines.test),
        ("POST", "abort", machines.abort),
        ("POST", "deploy", machines.deploy),
        ("POST", "release", machines.release),
        ("POST", "mark_broken", machines.mark_broken),
        ("POST", "mark_fixed", machines.mark_fixed),
        ("POST", "override_failed_testing", machines.override_failed_testing),
        ("POST", "lock", machines.lock),
        ("POST", "unlock", machines.unlock),
        ("POST", "rescue_mode", machines.rescue_mode),
        ("POST", "exit_rescue_mode", machines.exit_rescue_mode),
        ("POST", "power_on", machines.power_on),
        ("POST", "power_off", machines.power_off),
        ("GET", "query_power_state", machines.query_power_state),
        ("GET", "power_parameters", machines.power_parameters),
        ("POST", "set_owner_data", machines.set_owner_data),
        ("POST", "set_workload_annotations", machines.set_owner_data),
        ("POST", "set_storage_layout", machines.set_storage_layout),
    )


def _below_nodes(nodes: Nodes) -> tuple[Resource, ...]:
    base = "nodes/{system_id}"
    return (
        Resource("BlockDevices", f"{base}/blockdevices/", _acts(("GET", None, nodes.disks))),
        Resource(
            "BlockDevice",
            f"{base}/blockdevices/{{id}}/",
            _acts(("GET", None, nodes.disk), ("POST", "set_boot_disk", nodes.set_boot_disk)),
        ),
        Resource(
            "Interfaces",
            f"{base}/interfaces/",
            _acts(("GET", None, nodes.interfaces), ("POST", "create_physical", nodes.create_interface)),
        ),
        Resource(
            "Interface",
            f"{base}/interfaces/{{id}}/",
            _acts(
                ("GET", None, nodes.interface),
                ("PUT", None, nodes.update_interface),
                ("POST", "link_subnet", nodes.link_subnet),
            ),
        ),
        Resource("NodeScriptResults", f"{base}/results/", _acts(("GET", None, nodes.results))),
        Resource(
            "NodeScriptResult",
            f"{base}/results/{{id}}/",
            _acts(("GET", None, nodes.result), ("GET", "download", nodes.download)),
        ),
    )


def _site(site: SiteHandlers) -> tuple[Resource, ...]:
    version = _acts(("GET", None, site.version))
    return (
        Resource("Version", "version/", version, version),
        Resource("Zones", "zones/", _acts(("POST", None, site.create_zone), ("GET", None, site.zones))),
        Resource("Zone", "zones/{name}/", _acts(("GET", None, site.zone), ("PUT", None, site.update_zone))),
        Resource("ResourcePools", "resourcepools/", _acts(("POST", None, site.create_pool), ("GET", None, site.pools))),
        Resource("ResourcePool", "resourcepool/{id}/", _acts(("GET", None, site.pool))),
        Resource("Tags", "tags/", _acts(("POST", None, site.create_tag), ("GET", None, site.tags))),
        Resource(
            "Tag",
            "tags/{name}/",
            _acts(
                ("GET", None, site.tag),
                ("DELETE", None, site.delete_tag),
                ("GET", "machines", site.tag_machines),
                ("POST", "update_nodes", site.update_nodes),
            ),
        ),
        Resource(
            "Users",
            "users/",
            _acts(("POST", None, site.create_user), ("GET", None, site.users), ("GET", "whoami", site.whoami)),
        ),
        Resource("User", "users/{username}/", _acts(("GET", None, site.user))),
        Resource(
            "Maas", "maas/", _acts(("GET", "get_config", site.get_config), ("POST", "set_config", site.set_config))
        ),
        Resource("BootResources", "boot-resources/", _acts(("GET", None, site.boot_resources))),
        Resource("BootResource", "boot-resources/{id}/", _acts(("GET", None, site.boot_resource))),
        Resource("RackControllers", "rackcontrollers/", _acts(("GET", None, site.racks))),
        Resource("Subnets", "subnets/", _acts(("GET", None, site.subnets))),
        Resource("SSHKeys", "account/prefs/sshkeys/", _acts(("GET", None, site.ssh_keys))),
    )


class Router:
    """Finds the resource of a path."""

    def __init__(self, resources: tuple[Resource, ...]) -> None:
        self.resources = resources
        self._patterns = [(re.compile(_pattern(item.path)), item) for item in resources]

    def find(self, path: str) -> tuple[Resource, dict[str, str], str | None] | None:
        """Resource, path parameters and the operation of a path like ``machines/x/op-deploy``; None if unknown."""
        op = None
        if (operation := re.fullmatch(r"(.*/)op-(\w+)/?", path)) is not None:
            path, op = operation[1], operation[2]
        for pattern, item in self._patterns:
            if (match := pattern.fullmatch(path)) is not None:
                return item, match.groupdict(), op
        return None


def _pattern(path: str) -> str:
    return re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)


def describe(resources: tuple[Resource, ...], base: str) -> dict[str, Any]:
    """The self-description that libmaas and the CLI are built from. Addresses follow the Host header, as in MAAS."""
    body: dict[str, Any] = {"doc": "MAAS API", "resources": [_described(item, base) for item in resources]}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return body | {"hash": digest}


def _described(item: Resource, base: str) -> dict[str, Any]:
    def side(name: str, actions: tuple[Action, ...]) -> dict[str, Any] | None:
        if not actions:
            return None
        return {
            "name": name,
            "doc": "",
            "path": f"/MAAS/api/2.0/{item.path}",
            "uri": f"{base}/MAAS/api/2.0/{item.path}",
            "params": item.params,
            "actions": [
                {
                    "name": action.name,
                    "method": action.method,
                    "op": action.op,
                    "restful": action.op is None,
                    "doc": "",
                }
                for action in actions
            ],
        }

    return {
        "name": f"{item.name}Handler",
        "auth": side(f"{item.name}Handler", item.actions),
        "anon": side(f"Anon{item.name}Handler", item.anonymous),
    }
