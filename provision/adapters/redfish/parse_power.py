"""Power supplies and their input. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from provision.adapters.redfish.parts import Scribe, judged, label
from provision.adapters.redfish.values import health, number, objects, text
from provision.model.evidence import Evidence, PartKind, Reading

_LOST = {"lossofinput", "lossofline"}
# Supermicro fills unused bays with fan modules that answer as healthy supplies (SYS-821GE: 6 PSUs in 8 bays).
_FILLER = re.compile(r"^PWS-DF\d", re.IGNORECASE)


def supplies_of(power: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """``Power.PowerSupplies``."""
    return objects(power, "PowerSupplies")


def psu_evidence(supplies: Iterable[Mapping[str, Any]], scribe: Scribe) -> Iterator[Evidence]:
    """One reading per supply: ok, no-input, failed, absent or unknown.

    No input is told by LineInputStatus, by 0 V on a supply that is not well, or by a supply that is not well and
    gives neither voltage, watts nor type (Lenovo XCC; its Redundancy stays OK). A healthy supply without voltage is
    healthy. Source: DSP0268 "Power", "PowerSupply"; facts (c).
    """
    for index, supply in enumerate(supplies):
        name = supply_name(supply, index)
        reading = _reading(supply)
        yield scribe.note(
            PartKind.PSU,
            name,
            label(PartKind.PSU, name, supply),
            reading,
            "redfish/psus",
            item=supply,
            why="a filler without a supply stands in this bay" if _is_filler(supply) else "",
            values={
                "input_volts": number(supply, "LineInputVoltage"),
                "model": text(supply, "Model"),
                "serial": text(supply, "SerialNumber"),
            },
        )


def supply_name(supply: Mapping[str, Any], index: int) -> str:
    """A stable id: Dell's FQDD, the resource's own id, else the number in its name (``PS1 Status`` is ``PSU1``)."""
    known = text(supply, "Oem", "Dell", "DellPowerSupply", "Id")
    assembly = re.search(r"PowerSupplies/([^/]+)/Assembly", text(supply, "Assembly", "@odata.id") or "")
    if known or assembly:
        return known or (assembly[1] if assembly else "")
    own = text(supply, "Id")
    if own and not own.isdigit():
        return own
    printed = re.findall(r"\d+", text(supply, "Name") or "")
    bay = text(supply, "Oem", "Hpe", "BayNumber") or text(supply, "Oem", "Hp", "BayNumber")
    member = own or text(supply, "MemberId")
    if bay or printed:
        return f"PSU{bay or printed[-1]}"
    return f"PSU{int(member) + 1}" if member and member.isdigit() else f"PSU{index + 1}"


def _is_filler(supply: Mapping[str, Any]) -> bool:
    return bool(_FILLER.match(text(supply, "Model") or ""))


def _reading(supply: Mapping[str, Any]) -> Reading:
    if _is_filler(supply):
        return Reading.ABSENT
    plain = judged(supply, warning=Reading.FAILED)
    if plain is Reading.ABSENT:
        return plain
    if (text(supply, "LineInputStatus") or "").lower() in _LOST:
        return Reading.NO_INPUT
    if health(supply) in {"warning", "critical"}:
        detail = text(supply, "Oem", "Dell", "DellPowerSupplyView", "DetailedState") or ""
        volts = number(supply, "LineInputVoltage")
        silent = volts is None and number(supply, "PowerInputWatts") is None
        untyped = text(supply, "PowerSupplyType") is None and "PowerSupplyType" in supply
        if volts == 0 or (silent and untyped) or re.search(r"\b(ac|input|source)\b.*\blost\b", detail, re.IGNORECASE):
            return Reading.NO_INPUT
    return plain


def needs_second_look(found: Iterable[Evidence]) -> bool:
    """True if PowerSubsystem may say more than Power: nothing listed, or something not well."""
    seen = list(found)
    return not seen or any(item.reading not in {Reading.OK, Reading.ABSENT} for item in seen)


def merged(first: Iterable[Evidence], second: Iterable[Evidence]) -> list[Evidence]:
    """Readings of Power with those of PowerSubsystem: the more telling one of each supply stays."""
    order = (Reading.NO_INPUT, Reading.FAILED, Reading.ABSENT, Reading.OK, Reading.UNKNOWN)
    best: dict[str, Evidence] = {}
    for item in (*first, *second):
        known = best.get(item.part.locator)
        if known is None or order.index(item.reading) < order.index(known.reading):
            best[item.part.locator] = item
    return list(best.values())
