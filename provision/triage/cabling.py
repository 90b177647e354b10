"""The cabling plan against what ports and LLDP say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from provision.model.evidence import Evidence, Part, PartKind, Reading, Value
from provision.model.node import Cable, Node
from provision.triage.facts import label

_MAC = re.compile(r"(?:[0-9a-f]{2}[:-]?){5}[0-9a-f]{2}", re.IGNORECASE)


def port_words(port: str) -> str:
    """``7`` is printed as ``port 7``, ``swp7`` as it is."""
    return f"port {port}" if port[:1].isdigit() else port


def same_switch(one: str, other: str) -> bool | None:
    """None if they cannot be compared: LLDP on an iDRAC tells the switch's MAC, the plan its name."""
    if bool(_MAC.fullmatch(one)) != bool(_MAC.fullmatch(other)):
        return None
    short = [text.lower().split(".")[0] for text in (one, other)]
    return short[0] == short[1]


def same_port(one: str, other: str) -> bool:
    """``Ethernet1/7``, ``1/7``, ``port 7`` and ``7`` may be one port: compare the figures, the shorter from behind."""
    if label(one) == label(other):
        return True
    figures = [re.findall(r"\d+", text) for text in (one, other)]
    size = min(len(figures[0]), len(figures[1]))
    return size > 0 and figures[0][-size:] == figures[1][-size:]


def as_planned(cable: Cable, heard: Evidence) -> bool | None:
    """Does what LLDP heard fit the plan? None if nothing was heard or it cannot be compared."""
    switch, port = str(heard.values.get("switch") or ""), str(heard.values.get("port") or "")
    if not port or "no link" in f"{switch} {port}".lower():
        return None
    here = same_switch(cable.switch, switch) if switch else None
    return False if here is False else same_port(cable.port, port)


def port_of(cable: Cable, evidence: Sequence[Evidence], source: str) -> Evidence | None:
    """The reading of the cable's port on the node: by the BMC's name, by the printed label, by a name's beginning."""
    wanted = label(cable.nic)
    mine = [e for e in evidence if e.source == source and e.part.kind is PartKind.PORT]
    for item in mine:
        if wanted in (label(item.part.name), label(item.part.locator)):
            return item
    # NIC.Slot.3-1 is the port, NIC.Slot.3-1-1 its first partition.
    ahead = [e for e in mine if e.part.name.lower().startswith(cable.nic.lower() + "-")]
    return ahead[0] if ahead else None


def cable_locator(cable: Cable, port: Part | None) -> str:
    """Both ends and the label, as printed: ``leaf-a1 port 7 ↔ Slot 3 Port 1, cable C-1042``."""
    near = port.locator if port is not None else cable.nic
    tag = f", cable {cable.label}" if cable.label else ""
    return f"{cable.switch} {port_words(cable.port)} ↔ {near}{tag}"


def against_plan(node: Node, evidence: Sequence[Evidence], now: datetime) -> Iterator[Evidence]:
    """Readings of planned cables: DOWN (no link), FAILED (ends in another port), or nothing if it is as planned.

    ``values``: ``near`` (the port on the node), ``far`` (planned switch port), ``heard`` (where LLDP found it),
    ``medium`` ethernet/infiniband, ``label``, ``boot``. With the host's power off and no port up anywhere, nothing
    is said: many cards have no link without power.
    """
    ports = [e for e in evidence if e.source == "redfish/ports"]
    lit = any(e.reading is Reading.UP for e in ports)
    dark = _power(evidence) == "off" and not lit
    for cable in node.cabling:
        port = port_of(cable, evidence, "redfish/ports")
        heard = port_of(cable, evidence, "redfish/lldp")
        seen = port or heard
        if seen is None or dark:
            continue
        fits = as_planned(cable, heard) if heard is not None else None
        if fits is False and heard is not None:
            reading = Reading.FAILED
        elif (port is not None and port.reading is Reading.DOWN) or (
            heard is not None and (port is None or port.reading is Reading.UNKNOWN) and _no_link(heard)
        ):
            reading = Reading.DOWN
        else:
            continue
        near = seen.part
        medium = str((port.values.get("kind") if port else None) or "ethernet")
        values: dict[str, Value] = {
            "near": near.locator,
            "far": f"{cable.switch} {port_words(cable.port)}",
            "heard": _heard_words(heard) if reading is Reading.FAILED and heard is not None else "",
            "heard_switch": str(heard.values.get("switch") or "") if heard is not None else "",
            "heard_port": str(heard.values.get("port") or "") if heard is not None else "",
            "switch": cable.switch,
            "port": cable.port,
            "medium": medium,
            "label": cable.label or "",
            "boot": bool(port.values.get("boot")) if port is not None else False,
        }
        part = Part(PartKind.CABLE, near.name, cable_locator(cable, near))
        text = f"no link on {near.locator}" if reading is Reading.DOWN else f"LLDP hears {values['heard']}"
        yield Evidence(node.name, part, reading, "expect/cabling", now, text, values=values)


def _no_link(heard: Evidence) -> bool:
    return "no link" in f"{heard.values.get('switch') or ''} {heard.values.get('port') or ''} {heard.text}".lower()


def _heard_words(heard: Evidence) -> str:
    return f"{heard.values.get('switch') or 'a switch'} {port_words(str(heard.values.get('port') or '?'))}"


def _power(evidence: Sequence[Evidence]) -> str:
    for item in evidence:
        if item.source == "redfish/host":
            return str(item.values.get("power") or "")
    return ""


def silent_boot(node: Node, evidence: Sequence[Evidence], now: datetime) -> Iterator[Evidence]:
    """``maas/contact`` with the cable of its port beside it, so that a rule can name both ends."""
    for item in evidence:
        if item.source != "maas/contact":
            continue
        place = label(item.part.locator), label(item.part.name)
        cable = next((c for c in node.cabling if label(c.nic) in place), None)
        port = None
        for candidate in node.cabling if cable is None else ():
            seen = port_of(candidate, evidence, "redfish/ports")
            if seen is not None and (
                label(seen.part.locator) in place or seen.values.get("mac") == item.values.get("mac") is not None
            ):
                cable, port = candidate, seen.part
        link = str(item.values.get("link") or "unknown")
        values = {**item.values, "link": link, "near": item.part.locator}
        if cable is None:
            part = Part(PartKind.PORT, item.part.locator, item.part.locator)
        else:
            values |= {"far": f"{cable.switch} {port_words(cable.port)}", "switch": cable.switch, "port": cable.port}
            seen_port = port or (p.part if (p := port_of(cable, evidence, "redfish/ports")) else None)
            near = seen_port or Part(PartKind.PORT, item.part.locator, item.part.locator)
            part = Part(PartKind.CABLE, near.name, cable_locator(cable, near))
        yield Evidence(node.name, part, Reading.DOWN, "expect/contact", now, item.text, values=values)
