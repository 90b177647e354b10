"""Where other makers keep their ports: one small tree for each place, and what a person would count in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redfish_payloads import Tree, collection, interface, ref, small, system
from redfish_scripted import CHASSIS, ROOT, SYSTEM, Reply

from provision.adapters.redfish.bmc import RedfishBmc
from provision.errors import RefusedError
from provision.model.bmc import Button, Harvest, Link
from provision.model.profile import BootMethod

A, B, C, D, E, F = (f"0c:42:a1:00:00:{n:02x}" for n in range(1, 7))
PIPE = "be:3a:f2:00:00:01"
CARDS = f"{CHASSIS}/NetworkAdapters"
INTERFACES = f"{SYSTEM}/EthernetInterfaces"
BOARD = f"{ROOT}/Chassis/IO_Board_0"


def _maker(vendor: str, *macs: str, **system_more: Any) -> Tree:
    """A machine of another maker: no Dell about it, no $expand."""
    tree = small(*macs, Manufacturer=vendor, Model="Server", SKU=None, SerialNumber="S1", **system_more)
    tree[ROOT] = tree[ROOT] | {"Vendor": vendor}
    return tree


def _card(path: str, *, functions: list[Tree] | None = None, ports: list[Tree] | None = None,
          kind: str = "Ports", **more: Any) -> Tree:  # fmt: skip
    """A card with its functions and ports as resources of their own."""
    tree: Tree = {path: {"@odata.id": path, "Id": path.rpartition("/")[2], "Model": "Card", **more}}
    for key, items in (("NetworkDeviceFunctions", functions), (kind, ports)):
        if items is not None:
            tree[path][key] = ref(f"{path}/{key}")
            placed = [{"@odata.id": f"{path}/{key}/{item['Id']}", **item} for item in items]
            tree[f"{path}/{key}"] = collection(f"{path}/{key}", [item["@odata.id"] for item in placed])
            tree |= {item["@odata.id"]: item for item in placed}
    return tree


def _below(chassis: str, *names: str) -> Tree:
    """A chassis that links these cards."""
    path = f"{chassis}/NetworkAdapters"
    cards = [f"{path}/{name}" for name in names]
    return {chassis: {"@odata.id": chassis, "NetworkAdapters": ref(path)}, path: collection(path, cards)}


def _function(name: str, mac: str | None, **more: Any) -> Tree:
    return {"Id": name, "NetDevFuncType": "Ethernet", "Ethernet": {"MACAddress": mac}, **more}


def vic_with_uplinks() -> Tree:
    """Cisco: a card that only the system's NetworkInterfaces name; two vNICs, two plugs with their own addresses."""
    card = f"{CARDS}/MLOM"
    ports = [{"Id": f"Port-{n}", "PortId": str(n), "AssociatedNetworkAddresses": [m]} for n, m in ((1, C), (2, D))]
    linked = {"Id": "MLOM", "Links": {"NetworkAdapter": ref(card)}}
    tree = _maker("Cisco Systems Inc", NetworkInterfaces=ref(f"{SYSTEM}/NetworkInterfaces"))
    tree |= _card(card, functions=[_function("eth0", A), _function("eth1", B)], ports=ports, kind="NetworkPorts")
    place = f"{SYSTEM}/NetworkInterfaces/MLOM"
    return tree | {f"{SYSTEM}/NetworkInterfaces": collection(f"{SYSTEM}/NetworkInterfaces", [place]), place: linked}


def interface_without_its_card() -> Tree:
    """NetworkInterfaces whose card answers 404: it tells functions itself."""
    place = f"{SYSTEM}/NetworkInterfaces/1"
    tree = _maker("Fujitsu", NetworkInterfaces=ref(f"{SYSTEM}/NetworkInterfaces"))
    tree |= {f"{SYSTEM}/NetworkInterfaces": collection(f"{SYSTEM}/NetworkInterfaces", [place])}
    own = _card(place, functions=[_function("0", A), _function("1", B)])
    own[place]["Links"] = {"NetworkAdapter": ref(f"{CARDS}/gone")}
    return tree | own


def ports_alone() -> Tree:
    """Huawei, Inspur: no interfaces, no functions; the older ports with addresses in three spellings."""
    spelled = ("0C42A1000001", "0c-42-a1-00-00-02", "0c42.a100.0003")
    ports = [
        {"Id": str(n), "LinkStatus": "Up" if n == 1 else "Down", "AssociatedNetworkAddresses": [mac]}
        for n, mac in enumerate(spelled, 1)
    ]
    tree = _maker("Huawei") | _below(CHASSIS, "mainboardLOM")
    return tree | _card(f"{CARDS}/mainboardLOM", ports=ports, kind="NetworkPorts")


def older_ports_tell_more() -> Tree:
    """Ports without addresses beside NetworkPorts that have them: one port of each id, not two."""
    card = f"{CARDS}/slot-2"
    tree = _maker("Generic") | _below(CHASSIS, "slot-2")
    tree |= _card(card, ports=[{"Id": "1", "LinkStatus": "LinkUp"}, {"Id": "2", "LinkStatus": "LinkDown"}])
    older = _card(card, ports=[{"Id": str(n), "AssociatedNetworkAddresses": [m]} for n, m in ((1, A), (2, B))],
                  kind="NetworkPorts")  # fmt: skip
    older[card] |= {"Ports": ref(f"{card}/Ports")}
    return tree | older


def named_by_controllers() -> Tree:
    """A card whose functions and ports are linked by its controllers alone."""
    card = f"{CARDS}/7"
    tree = _maker("Generic") | _below(CHASSIS, "7") | _card(card)
    tree[card]["Controllers"] = [
        {"Links": {"NetworkDeviceFunctions": [ref(f"{card}/F/a"), ref(f"{card}/F/b")], "Ports": [ref(f"{card}/P/a")]}}
    ]
    tree |= {f"{card}/F/{name}": {"@odata.id": f"{card}/F/{name}", **_function(name, mac)}
             for name, mac in (("a", A), ("b", B))}  # fmt: skip
    return tree | {f"{card}/P/a": {"@odata.id": f"{card}/P/a", "Id": "a", "LinkStatus": "LinkUp"}}


def interface_below_its_function() -> Tree:
    """A function that keeps its address in an interface below it."""
    card = f"{CARDS}/1"
    below = f"{card}/NetworkDeviceFunctions/f/EthernetInterfaces"
    function = {"Id": "f", "NetDevFuncType": "Ethernet", "Ethernet": {"EthernetInterfaces": ref(below)}}
    tree = _maker("Generic") | _below(CHASSIS, "1") | _card(card, functions=[function])
    return tree | {below: collection(below, [f"{below}/1"]), f"{below}/1": interface(f"{below}/1", A)}


def boards_beside_the_chassis() -> Tree:
    """GB200: the host's chassis has no card; an I/O board has, the same card is listed twice, one board is gone."""
    tree = _maker("NVIDIA") | _below(BOARD, "CX7_0", "CX7_1")
    tree |= _card(f"{BOARD}/NetworkAdapters/CX7_0", functions=[_function("f0", A)])
    tree |= _card(f"{BOARD}/NetworkAdapters/CX7_1", functions=[_function("f1", B)])
    twin = f"{ROOT}/Chassis/Riser"
    tree |= _below(twin, "CX7_0") | _card(f"{twin}/NetworkAdapters/CX7_0", functions=[_function("f0", A)])
    gone = f"{ROOT}/Chassis/IO_Board_1"
    return tree | {f"{ROOT}/Chassis": collection(f"{ROOT}/Chassis", [CHASSIS, BOARD, twin, gone])}


def slots_in_hpe_s_own_list() -> Tree:
    """HPE: interfaces by number, cards without a place; its own list knows slots and a port that nothing else has."""
    links = {"Hpe": {"Links": {"NetworkAdapters": ref(f"{SYSTEM}/BaseNetworkAdapters")}}}
    tree = _maker("HPE", A, Oem=links)
    own = f"{SYSTEM}/BaseNetworkAdapters"
    tree |= {own: collection(own, [f"{own}/1", f"{own}/2"])}
    tree[f"{own}/1"] = {"Id": "1", "Location": "PCI-E Slot 5", "Name": "ConnectX", "PhysicalPorts": [{"MacAddress": A}]}
    tree[f"{own}/2"] = {
        "Id": "2",
        "StructuredName": "NIC.LOM.1.1",
        "PhysicalPorts": [{"MacAddress": B, "LinkStatus": "OK"}, {"MacAddress": "00:00:00:00:00:00"}, {}],
    }
    return tree


def older_names() -> Tree:
    """iLO 4 and its like: other names for the same two addresses."""
    tree = _maker("Generic", A, B)
    first, second = (f"{INTERFACES}/NIC.Slot.{n}-1-1" for n in (3, 4))
    tree[first] = {"@odata.id": first, "Id": "1", "FactoryMacAddress": A.replace(":", ""), "MacAddress": C}
    tree[second] = {"@odata.id": second, "Id": "2", "MacAddress": B.upper()}
    return tree


def functions_without_ids() -> Tree:
    """Two functions of one card that say nothing of themselves but an address."""
    card = f"{CARDS}/1"
    tree = _maker("Generic") | _below(CHASSIS, "1") | _card(card, functions=[_function("a", A), _function("b", B)])
    for name in ("a", "b"):
        del tree[f"{card}/NetworkDeviceFunctions/{name}"]["Id"]
    return tree


def what_is_no_port() -> Tree:
    """The BMC's USB NIC, a DPU's pipe, bonds and VLANs beside two ports; one VLAN repeats its port's address."""
    more = (
        interface(f"{INTERFACES}/usb0", C),
        interface(f"{INTERFACES}/ToManager", PIPE),
        interface(f"{INTERFACES}/9", D, Name="Virtual USB Ethernet"),
        interface(f"{INTERFACES}/10", PIPE),
        interface(f"{INTERFACES}/tmfifo_net0", "00:1a:ca:ff:ff:01"),
        interface(f"{INTERFACES}/bond0", E),
        interface(f"{INTERFACES}/NIC1.100", F),
        interface(f"{INTERFACES}/11", F, EthernetInterfaceType="Virtual"),
        interface(f"{INTERFACES}/NIC_1", A, VLAN={"VLANEnable": True, "VLANId": 7}),
        interface(f"{INTERFACES}/12", "0c:42:a1:ff:fe:00:00:09"),
        interface(f"{INTERFACES}/13", "33:33:00:00:00:01"),
    )
    tree = _maker("Generic", A, B)
    paths = [item["@odata.id"] for item in more]
    listed = [member["@odata.id"] for member in tree[INTERFACES]["Members"]]
    return tree | {item["@odata.id"]: item for item in more} | {INTERFACES: collection(INTERFACES, [*listed, *paths])}


def one_of_three_is_gone() -> Tree:
    """A member that answers 404 between two that do not."""
    tree = _maker("Generic", A, B, C)
    del tree[f"{INTERFACES}/NIC.Slot.4-1-1"]
    return tree


SHAPES: list[tuple[Callable[[], Tree], dict[str, str], str]] = [
    (vic_with_uplinks, {A: "ethernet", B: "ethernet", C: "other", D: "other"}, ""),
    (interface_without_its_card, {A: "ethernet", B: "ethernet"}, "NetworkAdapters/gone"),
    (ports_alone, {A: "ethernet", B: "ethernet", C: "ethernet"}, ""),
    (older_ports_tell_more, {A: "ethernet", B: "ethernet"}, ""),
    (named_by_controllers, {A: "ethernet", B: "ethernet"}, ""),
    (interface_below_its_function, {A: "ethernet"}, ""),
    (boards_beside_the_chassis, {A: "ethernet", B: "ethernet"}, "Chassis/IO_Board_1"),
    (slots_in_hpe_s_own_list, {A: "ethernet", B: "ethernet"}, ""),
    (older_names, {A: "ethernet", B: "ethernet", C: "current"}, ""),
    (functions_without_ids, {A: "ethernet", B: "ethernet"}, ""),
    (what_is_no_port, {A: "ethernet", B: "ethernet"}, ""),
    (one_of_three_is_gone, {A: "ethernet", C: "ethernet"}, "NIC.Slot.4-1-1"),
]


def _counted(harvest: Harvest) -> dict[str, str]:
    found = {str(port.mac): port.kind for port in harvest.ports if port.mac}
    return found | {str(port.current_mac): "current" for port in harvest.ports if port.current_mac}


@pytest.mark.parametrize(("shape", "wanted", "gap"), SHAPES, ids=[shape.__name__ for shape, _, _ in SHAPES])
async def test_every_port_is_counted_once_and_nothing_else(
    shape: Callable[[], Tree], wanted: dict[str, str], gap: str,
    serve: Callable[..., Any], client: Callable[..., RedfishBmc],
) -> None:  # fmt: skip
    peer = await serve(shape())
    harvest = await client(peer.node()).harvest()
    assert _counted(harvest) == wanted
    assert len([port for port in harvest.ports if port.mac]) == len({port.mac for port in harvest.ports if port.mac})
    assert len({port.locator for port in harvest.ports}) == len({port.name for port in harvest.ports})
    assert len({port.name for port in harvest.ports}) == len(harvest.ports)
    assert [one.where for one in harvest.gaps if not one.where.endswith(gap)] == [], harvest.gaps
    assert bool(harvest.gaps) == bool(gap)
    assert peer.writes == []


async def test_a_further_address_is_no_port_to_count_cable_or_boot(
    serve: Callable[..., Any], client: Callable[..., RedfishBmc]
) -> None:
    peer = await serve(vic_with_uplinks())
    bmc = client(peer.node())
    health = await bmc.health()
    assert {item.part.name for item in health.evidence if item.source == "redfish/ports"} == {"eth0", "eth1"}
    further = [port for port in (await bmc.harvest()).ports if port.kind == "other"]
    assert not any(port.network_boot for port in further)
    assert all(port.locator.endswith("further address") for port in further)


async def test_hpe_s_slots_are_what_is_printed(serve: Callable[..., Any], client: Callable[..., RedfishBmc]) -> None:
    peer = await serve(slots_in_hpe_s_own_list())
    ports = (await client(peer.node()).harvest()).ports
    assert {(port.locator, str(port.mac)) for port in ports} == {("PCI-E Slot 5 Port 1", A), ("NIC.LOM.1.1 Port 1", B)}
    assert [(port.link, port.model) for port in ports if str(port.mac) == A] == [(Link.UP, "ConnectX")]


def two_nodes_of_a_blade() -> Tree:
    """Two equal hosts behind one BMC, each with a chassis and a card of its own."""
    other, chassis = f"{ROOT}/Systems/Node1", f"{ROOT}/Chassis/Node1"
    tree = _maker("Generic", A) | _below(CHASSIS, "1") | _below(chassis, "1")
    tree |= _card(f"{CARDS}/1", functions=[_function("n0", B)])
    tree |= _card(f"{chassis}/NetworkAdapters/1", functions=[_function("n1", C)])
    tree[CHASSIS]["Links"] = {"ComputerSystems": [ref(SYSTEM)]}
    tree[chassis]["Links"] = {"ComputerSystems": [ref(other)]}
    links = {"Chassis": [ref(chassis)], "ManagedBy": tree[SYSTEM]["Links"]["ManagedBy"]}
    tree[other] = system(other, Manufacturer="Generic", SKU=None, SerialNumber="S2", Links=links)
    tree[f"{other}/EthernetInterfaces"] = collection(f"{other}/EthernetInterfaces", [f"{other}/EthernetInterfaces/1"])
    tree[f"{other}/EthernetInterfaces/1"] = interface(f"{other}/EthernetInterfaces/1", D)
    return tree | {
        f"{ROOT}/Systems": collection(f"{ROOT}/Systems", [SYSTEM, other]),
        f"{ROOT}/Chassis": collection(f"{ROOT}/Chassis", [CHASSIS, chassis]),
    }


async def test_of_two_hosts_the_one_with_the_service_tag_is_meant(
    serve: Callable[..., Any], client: Callable[..., RedfishBmc]
) -> None:
    for tag, macs in (("S1", {A, B}), ("s2", {C, D})):
        peer = await serve(two_nodes_of_a_blade())
        bmc = client(peer.node(service_tag=tag))
        harvest = await bmc.harvest()
        assert set(_counted(harvest)) == macs
        assert harvest.gaps == ()
        for path in (SYSTEM, f"{ROOT}/Systems/Node1"):
            peer.script("POST", f"{path}/Actions/ComputerSystem.Reset", Reply(204, {}))
        await bmc.press(Button.FORCE_OFF)
        (write,) = peer.writes
        assert ("Node1" in write.path) == (tag == "s2")


async def test_no_button_is_pressed_while_two_hosts_may_be_meant(
    serve: Callable[..., Any], client: Callable[..., RedfishBmc]
) -> None:
    peer = await serve(two_nodes_of_a_blade())
    bmc = client(peer.node(service_tag="nobody's"))
    (gap,) = (await bmc.harvest()).gaps
    assert "2 hosts stand behind it (System.Embedded.1, Node1)" in gap.why
    for write in (bmc.press(Button.FORCE_OFF), bmc.set_network_boot_once(BootMethod.PXE)):
        with pytest.raises(RefusedError, match="write the service_tag of yours in the inventory"):
            await write
    assert peer.writes == []
