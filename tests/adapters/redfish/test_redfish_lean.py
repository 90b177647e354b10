"""A harvest costs no more requests than it must: InfiniBand cards of an iDRAC, read for addresses or for GUIDs too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from redfish_lab import DictPins, RealClock
from redfish_payloads import inline, ref, ten_nics
from redfish_scripted import CHASSIS, SYSTEM, Seen

from provision.adapters.redfish.bmc import RedfishBmc
from provision.model.bmc import Harvest
from provision.model.secret import Credential, Secret

CARDS = f"{CHASSIS}/NetworkAdapters"
CARD = f"{CARDS}/InfiniBand.Slot.11"
FUNCTION, PORT = "InfiniBand.Slot.11-1-1", "InfiniBand.Slot.11-1"
MAC, GUID = "B0:26:28:00:20:01", "0xb026280003002001"


def _tree(**port_more: Any) -> dict[str, Any]:
    """Ten Ethernet ports, and an InfiniBand card that stands among the adapters only."""
    tree = ten_nics()
    tree[CARDS]["Members"].append(
        {
            "@odata.id": CARD,
            "Id": "InfiniBand.Slot.11",
            "Model": "ConnectX-7",
            "NetworkDeviceFunctions": ref(f"{CARD}/NetworkDeviceFunctions"),
            "Ports": ref(f"{CARD}/Ports"),
            "Controllers": [{"Links": {"NetworkDeviceFunctions": [ref(f"{CARD}/NetworkDeviceFunctions/{FUNCTION}")]}}],
        }
    )
    function = {
        "@odata.id": f"{CARD}/NetworkDeviceFunctions/{FUNCTION}",
        "Id": FUNCTION,
        "NetDevFuncType": None,
        "Ethernet": {"MACAddress": MAC, "PermanentMACAddress": MAC},
        "Oem": {"Dell": {"DellInfiniBand": {"NodeGUID": GUID, "PermanentPortGUID": GUID}}},
    }
    port = {
        "@odata.id": f"{CARD}/Ports/{PORT}",
        "Id": PORT,
        "PortId": "1",
        "LinkNetworkTechnology": "InfiniBand",
        "LinkStatus": "LinkUp",
        "Ethernet": {"AssociatedMACAddresses": [MAC]},
        "Status": {"State": "Enabled", "Health": "OK"},
        **port_more,
    }
    tree[f"{CARD}/NetworkDeviceFunctions"] = inline(f"{CARD}/NetworkDeviceFunctions", [function])
    tree[f"{CARD}/Ports"] = inline(f"{CARD}/Ports", [port])
    return tree


async def _harvest(serve: Callable[..., Any], *, guids: bool, **port_more: Any) -> tuple[Harvest, list[Seen]]:
    peer = await serve(_tree(**port_more))
    bmc = RedfishBmc(peer.node(), Credential("bmc", "prov", Secret("x")), DictPins(), clock=RealClock(), guids=guids)
    try:
        return await bmc.harvest(), peer.seen
    finally:
        await bmc.close()


async def test_addresses_cost_one_request_per_infiniband_card(serve: Callable[..., Any]) -> None:
    """The port tells address and link, so the function is left alone; everything but the GUIDs is the same."""
    lean, asked = await _harvest(serve, guids=False)
    whole, more = await _harvest(serve, guids=True)
    assert [item.path.partition("?")[0] for item in asked if item.path.startswith(CARD)] == [f"{CARD}/Ports"]
    assert len(more) == len(asked) + 1
    assert lean.ports == tuple(replace(port, guids=()) for port in whole.ports)
    card = next(port for port in whole.ports if port.kind == "infiniband")
    assert (card.name, str(card.mac), card.guids) == (FUNCTION, MAC.lower(), (GUID,))
    assert len(lean.ports) == 11
    assert lean.gaps == ()


@pytest.mark.parametrize(
    "spoilt",
    [
        pytest.param({"Ethernet": {"AssociatedMACAddresses": []}}, id="no address on the port"),
        pytest.param({"Ethernet": {"AssociatedMACAddresses": ["00:00:00:00:00:00"]}}, id="an empty slot's address"),
        pytest.param({"Id": "1"}, id="a port that no function is named after"),
    ],
)
async def test_functions_are_asked_where_ports_do_not_tell(serve: Callable[..., Any], spoilt: dict[str, Any]) -> None:
    """No address is lost for the sake of a request."""
    lean, asked = await _harvest(serve, guids=False, **spoilt)
    assert any(item.path.startswith(f"{CARD}/NetworkDeviceFunctions") for item in asked)
    assert MAC.lower() in {str(port.mac) for port in lean.ports}
    assert not any(item.path.startswith(f"{SYSTEM}/BootOptions") for item in asked)
