"""A node as the inventory describes it, and the small values it is made of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

_HEX12 = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, order=True)
class MacAddress:
    """A hardware address, always lower case with colons: ``b8:3f:d2:00:1a:07``."""

    text: str

    @classmethod
    def parse(cls, raw: str) -> Self:
        """Read any common spelling (``B83FD2001A07``, ``b8-3f-…``, ``b83f.d200.1a07``, ``0xb83fd2001a07``).

        Raises:
            ValueError: not twelve hex digits, multicast, all ones, or all zero (an empty NIC slot).
        """
        digits = re.sub(r"[\s:.\-]", "", raw.strip().lower().removeprefix("0x"))
        if not _HEX12.fullmatch(digits):
            raise ValueError(f"{raw!r} is not a MAC address: twelve hexadecimal digits were expected")
        if digits == "0" * 12:
            raise ValueError(f"{raw!r} is all zero: an empty slot, not a network card")
        if int(digits[:2], 16) & 1:
            raise ValueError(f"{raw!r} is a multicast or broadcast address, not a network card's own")
        return cls(":".join(digits[i : i + 2] for i in range(0, 12, 2)))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Cable:
    """One planned cable: which port of the node goes to which port of which switch.

    ``nic`` is the port as printed or as the BMC names it (``NIC.Slot.3-1-1``, ``Slot 3 Port 1``, ``eno1``);
    ``label`` is the number on the cable itself, where the site labels cables.
    """

    nic: str
    switch: str
    port: str
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Address:
    """Where a host's SSH server listens."""

    host: str
    port: int = 22

    def __str__(self) -> str:
        return self.host if self.port == 22 else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Node:
    """One machine of the inventory.

    ``bmc_address`` is ``host`` or ``host:port``; ``unit`` the rack unit of its lowest edge, counted from 1;
    ``power_feeds`` name the PDU outlets in the order of the PSUs (PSU 1 first); ``macs`` are addresses that the
    inventory already knows (usually none: the BMC is asked); ``ssh`` is where the deployed host is to be found
    when the inventory says so, otherwise MAAS is asked; ``rack_controller`` is who serves it its image (empty: one
    for all); ``ssh_proxy`` is the command that leads to its SSH server, with ``%h`` and ``%p`` (empty: directly).
    """

    name: str
    profile: str
    bmc_address: str
    rack: str
    unit: int | None = None
    site: str = ""
    room: str = ""
    service_tag: str | None = None
    asset_tag: str | None = None
    bmc_fingerprint: str | None = None
    power_feeds: tuple[str, ...] = ()
    cabling: tuple[Cable, ...] = ()
    macs: tuple[MacAddress, ...] = ()
    ssh: Address | None = None
    zone: str | None = None
    pool: str | None = None
    tags: tuple[str, ...] = ()
    rack_controller: str = ""
    ssh_proxy: str = ""
