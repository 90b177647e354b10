"""Oddities of makers as data: one documented row each, chosen by what the service says of itself.

Other packages add rows through the entry-point group ``provision.redfish_quirks`` (an object or a list of
``Quirks``); theirs are asked first. A maker that nobody knows gets ``GENERIC``, which takes nothing for granted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from provision.errors import MisconfiguredError

GROUP = "provision.redfish_quirks"


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """What a service says of itself. All in lower case; ``oem`` are the keys under ``Oem`` of root and system.

    ``generation`` is what tells firmware families apart: Dell's SystemGeneration (``15g monolithic``), HPE's manager
    type (``ilo 5``), else the Redfish version.
    """

    vendor: str = ""
    product: str = ""
    maker: str = ""
    model: str = ""
    generation: str = ""
    oem: frozenset[str] = frozenset()

    @classmethod
    def of(cls, root: Mapping[str, Any], system: Mapping[str, Any]) -> ServiceFacts:
        """Read service root and host system."""
        oem = {str(key).lower() for one in (root, system) for key in _object(one.get("Oem"))}
        dell = _object(_object(_object(system.get("Oem")).get("Dell")).get("DellSystem"))
        managers = _object(_object(root.get("Oem")).get("Hpe")).get("Manager")
        ilo = _object(managers[0]) if isinstance(managers, list) and managers else {}
        generation = dell.get("SystemGeneration") or ilo.get("ManagerType") or root.get("RedfishVersion")
        return cls(
            vendor=_low(root.get("Vendor")),
            product=_low(root.get("Product")),
            maker=_low(system.get("Manufacturer")),
            model=_low(system.get("Model")),
            generation=_low(generation),
            oem=frozenset(oem),
        )


@dataclass(frozen=True, slots=True)
class Quirks:
    """One row. The first fields choose it, the rest says what is odd.

    Choice: every group that is filled must hit (``makers`` are substrings of vendor, product, maker or OEM keys,
    ``generations`` of the generation, ``models`` of the model); among rows that hit, the one with most groups wins.

    ``boot_whole``: send Target, Enabled and Mode together, or the service resets what is left out (R17).
    ``boot_in_settings``: the override is written to, and read back from, the settings resource (R21).
    ``etag``: send If-Match where there is a tag (R19).
    ``adapters_below_chassis``: ``NetworkAdapters`` stands below the chassis without asking the chassis for the link.
    ``one_chassis``: all cards stand below the chassis that the system links; others are asked only if it has none.
    ``functions_repeat_interfaces``: NetworkDeviceFunctions carry the ids of EthernetInterfaces, so an adapter whose
    ports are all there with address and link needs no reading of its own.
    ``lldp``: address below the system of the neighbours that LLDP heard.
    ``jobs``, ``attributes``: addresses below the manager of the job queue and of the settings with the lockdown.
    ``bios_pxe``: BIOS attributes name the network-boot device (``PxeDevNEnDis``).
    ``bios_mac``: a regular expression whose first group is a MAC in the name of a BIOS attribute (second: slot).
    ``expand``: deepest ``$expand`` that is wise here, whatever the root offers.
    ``logs``: (end of the log service's address, evidence source); empty: logs are known by their usual names.
    """

    family: str
    makers: tuple[str, ...] = ()
    generations: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    boot_whole: bool = False
    boot_in_settings: bool = False
    etag: bool = True
    adapters_below_chassis: bool = False
    one_chassis: bool = False
    functions_repeat_interfaces: bool = False
    lldp: str = ""
    jobs: str = ""
    attributes: str = ""
    bios_pxe: bool = False
    bios_mac: str = ""
    expand: int = 2
    logs: tuple[tuple[str, str], ...] = ()

    def score(self, facts: ServiceFacts) -> int:
        """How many groups hit; -1 if one does not."""
        makers = (facts.vendor, facts.product, facts.maker, *facts.oem)
        groups = (
            (self.makers, makers),
            (self.generations, (facts.generation,)),
            (self.models, (facts.model,)),
        )
        total = 0
        for wanted, said in groups:
            if not wanted:
                continue
            if not any(word in text for word in wanted for text in said if text):
                return -1
            total += 1
        return total


_DELL_LOGS = (("/FaultList", "redfish/faults"), ("/Lclog", "redfish/lclog"), ("/Sel", "redfish/sel"))
_DELL_LLDP = "NetworkPorts/Oem/Dell/DellSwitchConnections"

# Dell answers 4xx with its own ids, has no tag on the system, makes a BIOS job when Mode is sent needlessly (R16).
_IDRAC9 = Quirks(
    family="dell-idrac9",
    makers=("dell",),
    etag=False,
    adapters_below_chassis=True,
    one_chassis=True,
    functions_repeat_interfaces=True,
    lldp=_DELL_LLDP,
    jobs="Oem/Dell/Jobs",
    attributes="Oem/Dell/DellAttributes/iDRAC.Embedded.1",
    bios_pxe=True,
    expand=1,
    logs=_DELL_LOGS,
)

GENERIC = Quirks(family="generic")

ROWS: tuple[Quirks, ...] = (
    _IDRAC9,
    # 12G and 13G: no usable $expand, jobs and attributes at their older addresses, sessions below /redfish/v1/Sessions.
    Quirks(
        family="dell-idrac8",
        makers=("dell",),
        generations=("12g", "13g"),
        etag=False,
        one_chassis=True,
        functions_repeat_interfaces=True,
        jobs="Jobs",
        attributes="Attributes",
        bios_pxe=True,
        expand=0,
        logs=_DELL_LOGS,
    ),
    # 17G: the override is offered below the system's Settings (R21); tags may be asked for.
    Quirks(
        family="dell-idrac10",
        makers=("dell",),
        generations=("17g", "18g"),
        boot_in_settings=True,
        adapters_below_chassis=True,
        one_chassis=True,
        functions_repeat_interfaces=True,
        lldp=_DELL_LLDP,
        jobs="Oem/Dell/Jobs",
        attributes="Oem/Dell/DellAttributes/iDRAC.Embedded.1",
        bios_pxe=True,
        expand=1,
        logs=_DELL_LOGS,
    ),
    Quirks(
        family="hpe-ilo5",
        makers=("hpe", "hewlett"),
        one_chassis=True,
        expand=1,
        logs=(("/IML", "redfish/iml"),),
    ),
    Quirks(
        family="hpe-ilo6",
        makers=("hpe", "hewlett"),
        generations=("ilo 6", "ilo 7"),
        one_chassis=True,
        expand=1,
        logs=(("/IML", "redfish/iml"),),
    ),
    Quirks(
        family="supermicro",
        makers=("supermicro",),
        boot_whole=True,
        one_chassis=True,
        logs=(("/Log1", "redfish/sel"),),
    ),
    Quirks(
        family="lenovo-xcc",
        makers=("lenovo",),
        one_chassis=True,
        # A DPU without NetworkDeviceFunctions shows its address in the names of BIOS attributes only.
        bios_mac=r"_([0-9A-F]{12})__Slot(\d+)_",
        logs=(("/PlatformLog", "redfish/sel"),),
    ),
    Quirks(
        family="ami",
        makers=("ami", "american megatrends"),
        boot_whole=True,
        boot_in_settings=True,
        one_chassis=True,
        expand=3,
    ),
    Quirks(
        family="nvidia-dgx",
        makers=("ami",),
        models=("dgx",),
        boot_whole=True,
        boot_in_settings=True,
        one_chassis=True,
        expand=1,
        logs=(("/SEL", "redfish/sel"), ("/EventLog", "redfish/sel"), ("/BIOS", "redfish/sel")),
    ),
    Quirks(
        family="openbmc", makers=("openbmc",), expand=3, logs=(("/SEL", "redfish/sel"), ("/EventLog", "redfish/sel"))
    ),
    Quirks(
        family="nvidia-openbmc",
        makers=("nvidia",),
        expand=3,
        logs=(("/SEL", "redfish/sel"), ("/EventLog", "redfish/sel")),
    ),
)


@cache
def foreign_rows() -> tuple[Quirks, ...]:
    """Rows of other packages.

    Raises:
        MisconfiguredError: an entry point cannot be loaded or is no row.
    """
    rows: list[Quirks] = []
    for entry in entry_points(group=GROUP):
        try:
            loaded = entry.load()
        except Exception as error:
            raise MisconfiguredError(
                f"entry point {entry.name!r} of group {GROUP} ({entry.value}) cannot be loaded: {error}; "
                "correct or uninstall the package that brings it"
            ) from error
        rows += _rows_of(loaded, entry.name)
    return tuple(rows)


def _rows_of(loaded: Any, name: str) -> list[Quirks]:
    found = [loaded] if isinstance(loaded, Quirks) else list(loaded) if isinstance(loaded, Iterable) else []
    if not found or not all(isinstance(row, Quirks) for row in found):
        raise MisconfiguredError(
            f"entry point {name!r} of group {GROUP} gives no Quirks row but {type(loaded).__name__}"
        )
    return found


def choose(facts: ServiceFacts, extra: tuple[Quirks, ...] | None = None) -> Quirks:
    """The row for a service: rows of other packages first, then ours, then ``GENERIC``."""
    for rows in (foreign_rows() if extra is None else extra, ROWS):
        best = max(rows, key=lambda row: row.score(facts), default=None)
        if best is not None and best.score(facts) > 0:
            return best
    return GENERIC


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _low(value: Any) -> str:
    return value.strip().lower() if isinstance(value, str) else ""
