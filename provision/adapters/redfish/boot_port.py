"""Which port boots from the network, and why we think so. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from provision.adapters.redfish.values import mac, text
from provision.model.bmc import Link
from provision.model.node import MacAddress
from provision.model.profile import BootMethod

# Which of Dell's BIOS attributes speak of a method (``PxeDev1EnDis``, ``HttpDev1EnDis``).
BIOS_KINDS = {BootMethod.PXE: ("Pxe",), BootMethod.UEFI_HTTP: ("Http",), None: ("Pxe", "Http")}
_NETWORK = re.compile(r"pxe|http|\bnic\b|network|ipv[46]", re.IGNORECASE)
_PATH_MAC = re.compile(r"MAC\(([0-9A-Fa-f]{12})\b")
_ANY_MAC = re.compile(r"\b((?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}|[0-9A-Fa-f]{12})\b")


class Candidate(Protocol):
    """What a choice needs to know of a port."""

    name: str
    locator: str
    mac: MacAddress | None
    current: MacAddress | None
    ids: list[str]
    infiniband: bool

    @property
    def link(self) -> Link:
        """Link state."""


class Sources(Protocol):
    """Where hints come from."""

    @property
    def boot_options(self) -> tuple[Mapping[str, Any], ...]:
        """Boot options as read."""

    @property
    def bios(self) -> Mapping[str, Any] | None:
        """BIOS attributes as read."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The port that boots from the network; no name if nobody says so."""

    name: str | None = None
    why: str = ""
    complaints: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        ports: Sequence[Candidate],
        sources: Sources,
        boot_order: Iterable[str],
        profile_boot_nic: str | None,
        method: BootMethod | None = None,
    ) -> Self:
        """Ask, in this order: the profile, the BIOS, the boot order, the only port with a link.

        With a ``method`` only BIOS devices and boot options of that kind count.
        """
        complaints: tuple[str, ...] = ()
        if profile_boot_nic:
            named = _named(ports, profile_boot_nic)
            if len(named) == 1:
                return cls(named[0].name, f"the profile says boot_nic: {profile_boot_nic}")
            which = "no port" if not named else f"{len(named)} ports ({', '.join(p.name for p in named)})"
            complaints = (f"the profile says boot_nic: {profile_boot_nic}, and {which} is called so",)
        for kind in BIOS_KINDS[method]:
            for number, fqdd in enabled_devices(sources.bios or {}, kind):
                named = _named(ports, fqdd)
                if named:
                    return cls(named[0].name, f"BIOS: {kind}Dev{number}Interface is {fqdd}, enabled", complaints)
        options = tuple(option for option in sources.boot_options if _is_of(option, method))
        found = _by_boot_order(ports, options, tuple(boot_order))
        if found is not None:
            return cls(found[0].name, found[1], complaints)
        up = [port for port in ports if port.link is Link.UP and not port.infiniband]
        if len(up) == 1:
            return cls(up[0].name, "the only Ethernet port with a link", complaints)
        return cls(None, "", complaints)


def _is_of(option: Mapping[str, Any], method: BootMethod | None) -> bool:
    """False for an option that is plainly of the other kind: a ``Uri()`` in its path or HTTP in its name is HTTP."""
    shown = f"{text(option, 'DisplayName')} {text(option, 'Alias')} {text(option, 'UefiDevicePath')}".lower()
    http = "uri(" in shown or "http" in shown
    return not (http if method is BootMethod.PXE else "pxe" in shown and not http) or method is None


def enabled_devices(bios: Mapping[str, Any], kind: str) -> list[tuple[int, str]]:
    """Numbers and FQDDs of enabled network-boot devices in Dell's BIOS attributes; ``kind`` is ``Pxe`` or ``Http``."""
    found = []
    for number in range(1, 17):
        on = text(bios, f"{kind}Dev{number}EnDis")
        fqdd = text(bios, f"{kind}Dev{number}Interface")
        if on and on.lower() == "enabled" and fqdd:
            found.append((number, fqdd))
    return found


def _named(ports: Sequence[Candidate], wanted: str) -> list[Candidate]:
    """Ports called so: by id, printed place or address; a name without partition means the first one."""
    low = wanted.strip().lower()
    address = mac(wanted)
    exact = [
        port
        for port in ports
        if low in {port.name.lower(), port.locator.lower(), *(name.lower() for name in port.ids)}
        or (address is not None and address in (port.mac, port.current))
    ]
    if exact:
        return exact
    return [port for port in ports if any(n.lower().startswith(f"{low}-") for n in (port.name, *port.ids))]


def _by_boot_order(
    ports: Sequence[Candidate], options: tuple[Mapping[str, Any], ...], order: tuple[str, ...]
) -> tuple[Candidate, str] | None:
    """The first network option in boot order that names a port; one with a link before those without."""
    rank = {name: number for number, name in enumerate(order)}
    sorted_options = sorted(
        (item for item in options if item.get("BootOptionEnabled") is not False),
        key=lambda item: rank.get(text(item, "BootOptionReference") or text(item, "Id") or "", len(rank)),
    )
    found: list[tuple[Candidate, str]] = []
    for option in sorted_options:
        shown = text(option, "DisplayName") or text(option, "Id") or ""
        for port in _ports_of(ports, option, shown):
            found.append((port, f"boot option {text(option, 'Id')}: {shown}"))
    for port, why in found:
        if port.link is Link.UP:
            return port, f"{why} (the first with a link)"
    return found[0] if found else None


def _ports_of(ports: Sequence[Candidate], option: Mapping[str, Any], shown: str) -> list[Candidate]:
    path = text(option, "UefiDevicePath") or ""
    in_path = _PATH_MAC.search(path)
    if in_path is None and not _NETWORK.search(shown):
        return []
    in_name = _ANY_MAC.search(shown)
    address = mac(in_path[1]) if in_path else mac(in_name[1]) if in_name else None
    if address is not None:
        return [port for port in ports if address in (port.mac, port.current)]
    # Dell: "HTTP Device 1: NIC in Slot 5 Port 1", "PXE Device 1: Integrated NIC 1 Port 1 Partition 1"
    place = shown.partition(": ")[2].removeprefix("NIC in ").removesuffix(" Partition 1").strip()
    return [port for port in ports if place and port.locator.lower() == place.lower()]
