"""What was read of the network, before it is understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from provision.adapters.redfish.values import last_segment, links, objects

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Card:
    """One network adapter with its functions and ports, as far as they had to be read."""

    adapter: Json
    functions: tuple[Json, ...] = ()
    ports: tuple[Json, ...] = ()

    @property
    def function_ids(self) -> tuple[str, ...]:
        """Ids of its functions, as its controllers list them."""
        return tuple(
            last_segment(path)
            for controller in objects(self.adapter, "Controllers")
            for path in links(controller, "Links", "NetworkDeviceFunctions")
        )


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """Everything about ports in one bundle, as read. ``cards_complete``: the list of cards was read in full.

    ``hints`` are HPE's own network adapters: where a card sits, and the address of each of its physical ports.
    """

    interfaces: tuple[Json, ...] = ()
    cards: tuple[Card, ...] = ()
    boot_options: tuple[Json, ...] = ()
    bios: Mapping[str, Any] | None = None
    lldp: tuple[Json, ...] = ()
    interfaces_complete: bool = False
    cards_complete: bool = False
    hints: tuple[Json, ...] = ()
