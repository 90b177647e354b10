"""All resources of one BMC, built on demand; what only faults change is kept until one does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from provision.sim.bmc import chassis, manager, network, plain, plain_parts, plain_ports, system
from provision.sim.bmc.shapes import CHASSIS, LOGS, ROOT, Build, Resource
from provision.sim.machine import SimMachine

# Expanding these shows resources that change by themselves.
_LEADS_TO_CHANGING = frozenset({ROOT, f"{ROOT}/Systems", f"{ROOT}/Managers", CHASSIS, LOGS})
_Pairs = Callable[[SimMachine], Iterator[tuple[str, Build]]]
_Modules = tuple[tuple[_Pairs, ...], tuple[_Pairs, ...]]
_DELL: _Modules = (
    (manager.changing, system.changing),
    (manager.fixed, system.fixed, network.fixed, chassis.fixed),
)
_PLAIN: _Modules = (plain.changing,), (plain.fixed, plain_parts.fixed, plain_ports.fixed)
PAGE = 50  # entries of a log in one answer


class Tree:
    """The resources of one machine by path."""

    def __init__(self, machine: SimMachine) -> None:
        self._machine = machine
        self._changing, self._lasting = _DELL if machine.family.dell else _PLAIN
        self._revision = -1
        self._fixed: dict[str, Build] = {}
        self._kept: dict[str, Resource] = {}

    def get(self, path: str) -> Resource | None:
        """The resource at this path (without a trailing slash), or None. Not to be changed by the caller."""
        machine = self._machine
        if self._revision != machine.parts_revision:
            self._revision = machine.parts_revision
            self._kept = {}
            self._fixed = dict(item for pairs in self._lasting for item in pairs(machine))
        if path in self._kept:
            return self._kept[path]
        if path in self._fixed:
            return self._kept.setdefault(path, self._fixed[path]())
        moving: dict[str, Build] = dict(item for pairs in self._changing for item in pairs(machine))
        if path in moving:
            return moving[path]()
        # Entries of logs and switch connections are given inline; each has an address of its own all the same.
        above = path.rpartition("/")[0]
        if above in moving or above in self._fixed:
            whole = self.get(above) or {}
            inline = (item for item in whole.get("Members", ()) if len(item) > 1)
            return next((item for item in inline if item["@odata.id"] == path), None)
        return None

    def fixed_paths(self) -> list[str]:
        """Every path for which ``is_fixed`` holds."""
        self.get("")
        return [path for path in self._fixed if self.is_fixed(path)]

    def is_fixed(self, path: str) -> bool:
        """True if only a fault or a repair changes what ``get`` gave for this path, expanded or not."""
        row = self._machine.family
        leads = path in _LEADS_TO_CHANGING or path in {row.chassis, f"{row.system}/LogServices"}
        return path in self._fixed and not leads

    def expanded(self, resource: Resource) -> Resource:
        """A copy with its references, one level deep, replaced by what they refer to."""
        return {key: value if key == "Links" else self._follow(value) for key, value in resource.items()}

    def _follow(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._follow(item) for item in value]
        if isinstance(value, dict) and set(value) == {"@odata.id"}:
            return self.get(value["@odata.id"]) or value
        return value


def page(resource: Resource, skip: int, top: int | None = None) -> Resource:
    """One page of a log: at most fifty members, and where the next page is."""
    members = resource["Members"]
    size = PAGE if top is None else min(top, PAGE)
    shown = resource | {"Members": members[skip : skip + size]}
    if skip + size < len(members) and top is None:
        shown["Members@odata.nextLink"] = f"{resource['@odata.id']}?$skip={skip + size}"
    return shown


def selected(resource: Resource, names: set[str]) -> Resource:
    """Only these properties, and the annotations."""
    return {key: value for key, value in resource.items() if key.startswith("@") or key in names}
