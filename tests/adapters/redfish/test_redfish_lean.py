"""A harvest costs no more requests than it must: InfiniBand cards of an iDRAC, read for addresses or for GUIDs too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from redfish_lab import DictPins, RealClock
from redfish_payloads import inline, ref, small, ten_nics
from redfish_scripted import CHASSIS, ROOT, SYSTEM, Reply, Seen, refusal

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


BOARD = f"{ROOT}/Chassis/Board"


def _deep(levels: int) -> dict[str, Any]:
    """An OpenBMC whose two cards stand below a board, inlined with their functions and ports."""
    tree = small(Manufacturer="NVIDIA", Model="GB200", SKU=None)
    offer = {"NoLinks": True, "ExpandAll": True, "Levels": True, "MaxLevels": levels}
    tree[ROOT] |= {"Vendor": "NVIDIA", "ProtocolFeaturesSupported": {"ExpandQuery": offer}}
    place = f"{BOARD}/NetworkAdapters"
    cards = []
    for number in (1, 2):
        card = f"{place}/CX7_{number}"
        inside = {
            "NetworkDeviceFunctions": [
                {"Id": f"f{number}", "Ethernet": {"MACAddress": f"0c:42:a1:00:01:{number:02x}"}}
            ],
            "Ports": [{"Id": f"p{number}", "LinkStatus": "LinkUp"}],
        }
        whole = {key: inline(f"{card}/{key}", [{"@odata.id": f"{card}/{key}/0", **one} for one in items])
                 for key, items in inside.items()}  # fmt: skip
        tree |= {f"{card}/{key}": body for key, body in whole.items()}
        links = {key: ref(f"{card}/{key}") for key in inside}
        tree[card] = {"@odata.id": card, "Id": f"CX7_{number}", **links}
        cards.append({**tree[card], **(whole if levels > 2 else {})})
    tree[place] = inline(place, cards)
    tree[BOARD] = {"@odata.id": BOARD, "NetworkAdapters": ref(place)}
    return tree | {f"{ROOT}/Chassis": inline(f"{ROOT}/Chassis", [tree[CHASSIS] | {"Id": "1"}, tree[BOARD]])}


@pytest.mark.parametrize(
    ("levels", "refused", "asked"),
    [
        (6, 0, ["$levels=3"]),
        (2, 0, ["$levels=1"]),
        (6, 1, ["$levels=3", "$levels=1"]),
        (6, 2, ["$levels=3", "$levels=1", ""]),
    ],
)
async def test_cards_are_expanded_to_their_ports_where_the_root_allows_it_and_the_service_can(
    levels: int, refused: int, asked: list[str], serve: Callable[..., Any], client: Callable[..., RedfishBmc]
) -> None:
    """What is refused or is too much at once is had one level at a time, then one by one; the answer is the same."""
    peer = await serve(_deep(levels))
    place = f"{BOARD}/NetworkAdapters"
    if refused:
        peer.tree[place] = inline(place, [peer.tree[f"{place}/CX7_{n}"] for n in (1, 2)])
        peer.script("GET", place, *(Reply(400, refusal("Base.1.12.QueryParameterOutOfRange")) for _ in range(refused)))
    harvest = await client(peer.node()).harvest()
    assert {(str(port.mac)[-2:], port.link.value) for port in harvest.ports} == {("01", "up"), ("02", "up")}
    assert harvest.gaps == ()
    queries = [seen.path.partition("?")[2] for seen in peer.seen if seen.path.partition("?")[0] == place]
    assert [word in query for word, query in zip(asked, queries, strict=True)] == [True] * len(asked)
    parts = [seen for seen in peer.seen if seen.path.startswith(f"{place}/")]
    assert len(parts) == (0 if levels > 2 and not refused else 4)


async def test_a_deep_answer_that_never_comes_is_asked_for_level_by_level(
    serve: Callable[..., Any], client: Callable[..., RedfishBmc]
) -> None:
    peer = await serve(_deep(6))
    place = f"{BOARD}/NetworkAdapters"
    peer.script("GET", place, *(Reply(503, {}) for _ in range(3)))
    harvest = await client(peer.node(), attempts=3).harvest()
    assert len(harvest.ports) == 2
