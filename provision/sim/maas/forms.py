"""Validation of machine forms: field → messages, in Django's and MAAS's own words (M034-M048, M087-M090)."""

from __future__ import annotations

import ipaddress
import json
import re
from typing import Any

from provision.sim.maas.region import Region
from provision.sim.maas.scripts import TESTING_SCRIPTS
from provision.sim.maas.state import Record
from provision.sim.maas.wire import Call, invalid

CHOICE = "Select a valid choice. That choice is not one of the available choices."
REQUIRED = "This field is required."
ARCHITECTURES = ("amd64/generic",)
POWER_FIELDS = {
    "redfish": {"power_address": True, "power_user": True, "power_pass": True, "node_id": False},
    "manual": {},
    "ipmi": {"power_address": True, "power_user": False, "power_pass": False},
    "": {},
}
KERNELS = ("ga-22.04", "hwe-22.04", "ga-24.04", "hwe-24.04", "hwe-p")

Errors = dict[str, list[str]]


def normal_mac(raw: str) -> str | None:
    """Lower case with colons; None if it is no MAC."""
    digits = re.sub(r"[:\-.]", "", raw.strip().lower())
    if not re.fullmatch(r"[0-9a-f]{12}", digits):
        return None
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


def check_macs(region: Region, raw: list[str], errors: Errors) -> list[str]:
    """MACs of a create, normalised; a known or broken one is an error."""
    if not raw:
        errors["mac_addresses"] = [REQUIRED]
        return []
    macs, wrong = [], []
    for spelling in raw:
        mac = normal_mac(spelling)
        if mac is None:
            wrong.append(f"'{spelling}' is not a valid MAC address.")
        elif mac in region.by_mac:
            wrong.append(f"MAC address {mac} already in use on {region.by_mac[mac].hostname}.")
        else:
            macs.append(mac)
    if wrong and len(raw) == 1:
        errors["mac_addresses"] = wrong
    elif wrong:
        errors["mac_addresses"] = [f"One or more MAC addresses is invalid. ({' — '.join(wrong)})"]
    return macs


def check_hostname(region: Region, hostname: str | None, errors: Errors, record: Record | None = None) -> None:
    """A hostname must be a label and free."""
    if not hostname:
        return
    if "_" in hostname:
        errors["hostname"] = [f"Host label cannot contain underscore: '{hostname}'."]
    elif not re.fullmatch(r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?", hostname):
        errors["hostname"] = [f"Invalid hostname: '{hostname}'."]
    elif (other := region.named(hostname)) is not None and other is not record:
        errors["hostname"] = ["Node with this Hostname already exists."]


def check_places(region: Region, call: Call, errors: Errors) -> None:
    """Zone, pool, architecture and kernel."""
    zone, pool = call.one("zone"), call.one("pool")
    if zone and zone not in region.zones:
        errors["zone"] = [CHOICE]
    if pool and pool not in region.pools:
        errors["pool"] = [CHOICE]
    architecture = call.one("architecture")
    if architecture and architecture not in ARCHITECTURES and architecture != "amd64":
        listed = ", ".join(f"'{name}'" for name in ARCHITECTURES)
        errors["architecture"] = [f"'{architecture}' is not a valid architecture.  It should be one of: {listed}."]
    kernel = call.one("min_hwe_kernel")
    if kernel and kernel not in KERNELS:
        errors["min_hwe_kernel"] = [f'No kernel matches ">={kernel}" requirement.']


def power_fields(call: Call) -> dict[str, str]:
    """Power parameters of a form, from ``power_parameters_x`` fields or ``power_parameters`` as JSON."""
    given: dict[str, Any] = {}
    packed = call.one("power_parameters")
    if packed:
        try:
            given = json.loads(packed)
        except ValueError:
            given = {}
    for name, values in call.form.items():
        if name.startswith("power_parameters_"):
            given[name.removeprefix("power_parameters_")] = values[-1]
    return {name: str(value) for name, value in given.items() if name != "skip_check"}


def check_power(kind: str, given: dict[str, str], errors: Errors) -> dict[str, str]:
    """A full set of power parameters for this power type; unset optional ones are empty."""
    if kind not in POWER_FIELDS:
        errors["power_type"] = [f"Select a valid choice. {kind} is not one of the available choices."]
        return {}
    fields = POWER_FIELDS[kind]
    required = [name for name, needed in fields.items() if needed]
    unknown = sorted(set(given) - set(fields))
    if required and not given:
        errors["power_parameters"] = [REQUIRED]
    elif unknown:
        errors["power_parameters"] = [f"Unknown parameter(s): {', '.join(unknown)}."]
    elif lacking := [name for name in required if not given.get(name)]:
        errors["power_parameters"] = [f"{name}: {REQUIRED}" for name in lacking]
    elif kind == "redfish" and not _is_address(given["power_address"]):
        errors["power_parameters"] = ["Redfish address: Invalid IPv4/IPv6 address with optional port."]
    return {name: given.get(name, "") for name in fields}


def _is_address(text: str) -> bool:
    """An IP address with an optional port: 3.6.3 takes no host name and no URL."""
    bracketed = re.fullmatch(r"\[([0-9a-fA-F:]+)\](?::\d+)?", text)
    host = bracketed[1] if bracketed else text
    if not bracketed and text.count(":") == 1:
        host, port = text.split(":")
        if not port.isdigit():
            return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def check_create(region: Region, call: Call) -> tuple[list[str], dict[str, str]]:
    """MACs and power parameters of a create.

    Raises:
        Refusal: 400 with every wrong field; a wrong MAC brings a complaint about the power type along.
    """
    errors: Errors = {}
    kind = call.one("power_type") or ""
    macs = check_macs(region, call.form.get("mac_addresses", []), errors)
    if "mac_addresses" in errors and kind not in {"", "manual"}:
        errors["power_type"] = [f"Can't set power type to {kind} without network interfaces"]
        parameters = power_fields(call)
    else:
        parameters = check_power(kind, power_fields(call), errors)
    if not call.one("architecture"):
        errors["architecture"] = [REQUIRED]
    check_hostname(region, call.one("hostname"), errors)
    check_places(region, call, errors)
    if errors:
        raise invalid(errors)
    return macs, parameters


def check_update(region: Region, call: Call, record: Record) -> tuple[str, dict[str, str]]:
    """Power type and parameters after an edit; parameters that are not given stay.

    Raises:
        Refusal: 400 with every wrong field. Unknown plain fields are ignored, unknown power parameters are not.
    """
    errors: Errors = {}
    kind = call.one("power_type") or record.power_type
    given = power_fields(call)
    parameters = record.power_parameters
    if given or kind != record.power_type:
        kept = record.power_parameters if kind == record.power_type else {}
        parameters = check_power(kind, kept | given, errors)
    check_hostname(region, call.one("hostname"), errors, record)
    check_places(region, call, errors)
    if errors:
        raise invalid(errors)
    return kind, parameters


def scripts_of(call: Call, name: str) -> list[str] | None:
    """A comma-separated or repeated list of scripts; None if the field is not there."""
    if name not in call.form:
        return None
    return [item.strip() for value in call.form[name] for item in value.split(",") if item.strip()]


def check_tests(call: Call, *, none_allowed: bool) -> tuple[str, ...] | None:
    """The testing scripts asked for; None if the field is not there, empty for ``none``.

    Raises:
        Refusal: 400, an unknown script (``none`` is one for the operation ``test``).
    """
    names = scripts_of(call, "testing_scripts")
    if names is None:
        return None
    if none_allowed and names in (["none"], []):
        return ()
    for name in names:
        if name not in TESTING_SCRIPTS:
            message = f"Select a valid choice. {name} is not one of the available choices."
            raise invalid({"testing_scripts": [message]})
    return tuple(names)


def check_commissioning_scripts(region: Region, call: Call) -> tuple[str, ...]:
    """Additional commissioning scripts. Raises Refusal (400) for an unknown one."""
    names = scripts_of(call, "commissioning_scripts") or []
    for name in names:
        if name not in region.custom_scripts and name != "none":
            message = f"Select a valid choice. {name} is not one of the available choices."
            raise invalid({"commissioning_scripts": [message]})
    return tuple(name for name in names if name != "none")
