"""Host variables of one node: what people write, and the ``Node`` it becomes."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from provision.config.complaints import Complaints, near, sentences
from provision.config.profile import Strict, Text
from provision.config.sshproxy import proxy_of, templated_way
from provision.model.node import Address, Cable, MacAddress, Node

_NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}))*\.?")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*")
_HIGHEST_UNIT = 60
_DEFAULT_BMC_PORT = 443


def parse_bmc_address(value: str) -> str:
    """``host`` or ``host:port`` (IPv6 in brackets when a port follows), lower case, without the port 443.

    Raises:
        ValueError: anything else.
    """
    text = value.strip().lower()
    host, port = text, ""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ValueError(f"expected [address]:port, found {value!r}")
        port = rest[1:]
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if "://" in text or not _is_host(host):
        raise ValueError(f"expected an address such as 10.1.12.3 or bmc-3.site:8443, found {value!r}")
    if not port:
        return host
    if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"expected a port between 1 and 65535 after the address, found {value!r}")
    if int(port) == _DEFAULT_BMC_PORT:
        return host
    return f"[{host}]:{int(port)}" if ":" in host else f"{host}:{int(port)}"


def is_host_name(text: str) -> bool:
    """True for what may stand in DNS and in MAAS as a machine's name."""
    return len(text) <= 253 and _HOST_NAME.fullmatch(text) is not None


def _is_host(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        # All digits and dots, yet no address: 10.1.12.300 is no host name either.
        return _NAME.fullmatch(text) is not None and not re.fullmatch(r"[0-9.]+", text)
    return not (address.is_unspecified or address.is_multicast)


def _mac(value: str) -> str:
    return str(MacAddress.parse(value))


def _fingerprint(value: str) -> str:
    digits = re.sub(r"[:\s-]", "", value.lower().removeprefix("sha256:"))
    if not re.fullmatch(r"[0-9a-f]{64}", digits):
        raise ValueError(
            "expected the certificate's SHA-256 as 64 hexadecimal digits "
            "(openssl x509 -noout -fingerprint -sha256 prints it)"
        )
    return digits


def _one_line(value: str) -> str:
    if not value.isprintable():
        raise ValueError("expected one line of printable text")
    return value


Line = Annotated[Text, AfterValidator(_one_line)]


class CableSchema(Strict):
    """One planned cable."""

    nic: Line = Field(description="the port of the node, such as NIC.Slot.3-1-1")
    switch: Line = Field(description="the switch's name")
    port: Line = Field(description="the switch's port, in quotes")
    label: Line | None = Field(None, description="the number on the cable, in quotes")


class HostSchema(BaseModel):
    """Our variables of one host; a host may have any others, for its playbooks."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    profile: Line = Field(description="the name of one of the group var profiles")
    bmc_address: Annotated[Line, AfterValidator(parse_bmc_address)] = Field(description="host or host:port of its BMC")
    rack: Line = Field(description="the rack's name")
    rack_unit: int | None = Field(None, ge=1, le=_HIGHEST_UNIT, description="the unit of its lowest edge, from 1")
    site: Line | None = None
    room: Line | None = None
    service_tag: Line | None = None
    asset_tag: Line | None = None
    bmc_fingerprint: Annotated[Text, AfterValidator(_fingerprint)] | None = None
    power_feeds: tuple[Line, ...] = Field((), strict=False, description="PDU outlets, PSU 1 first")
    cabling: tuple[CableSchema, ...] = Field((), strict=False, description="nic, switch, port and label each")
    macs: tuple[Annotated[Text, AfterValidator(_mac)], ...] = Field((), strict=False, description="in quotes")
    zone: Line | None = None
    pool: Line | None = None
    tags: tuple[Line, ...] = Field((), strict=False, description="MAAS tags")
    maas_tags: tuple[Line, ...] = Field((), strict=False, description="MAAS tags")
    rack_controller: Line | None = Field(None, description="who serves it its image; usually a group variable")
    bmc_user: Line | None = None
    bmc_password: Any = None


OURS = frozenset(HostSchema.model_fields)


def parse_host(name: str, variables: Mapping[str, Any], complaints: Complaints) -> tuple[Node, HostSchema] | None:
    """Read one host. None if something is wrong; then ``complaints`` know what."""
    wrong = _typos(name, variables, complaints) | _templates(name, variables, complaints)
    if not is_host_name(name):
        complaints.host(name, "the name is not a host name: expected letters, digits, dashes and dots")
        wrong = True
    ours = {key: value for key, value in variables.items() if key in OURS}
    try:
        host = HostSchema.model_validate(ours)
    except ValidationError as error:
        for sentence in sentences(error, HostSchema):
            complaints.host(name, sentence)
        return None
    if wrong:
        return None
    return _node(name, host, variables), host


def _node(name: str, host: HostSchema, variables: Mapping[str, Any]) -> Node:
    return Node(
        name=name,
        profile=host.profile,
        bmc_address=host.bmc_address,
        rack=host.rack,
        unit=host.rack_unit,
        site=host.site or "",
        room=host.room or "",
        service_tag=host.service_tag,
        asset_tag=host.asset_tag,
        bmc_fingerprint=host.bmc_fingerprint,
        power_feeds=host.power_feeds,
        cabling=tuple(Cable(c.nic, c.switch, c.port, c.label) for c in host.cabling),
        macs=tuple(MacAddress(mac) for mac in host.macs),
        ssh=_ssh(variables),
        zone=host.zone,
        pool=host.pool,
        tags=tuple(dict.fromkeys((*host.tags, *host.maas_tags))),
        rack_controller=host.rack_controller or "",
        ssh_proxy=proxy_of(variables),
    )


def _ssh(variables: Mapping[str, Any]) -> Address | None:
    """Ansible's own variables are Ansible's to check: a value that is no plain address is left to it."""
    host, port = variables.get("ansible_host"), variables.get("ansible_port", 22)
    if not isinstance(host, str) or not _is_host(host.lower()):
        return None
    return Address(host, int(port) if str(port).isascii() and str(port).isdigit() else 22)


def _typos(name: str, variables: Mapping[str, Any], complaints: Complaints) -> bool:
    """A host may have any variables; one that is nearly ours, while ours is absent, is a slip of the pen."""
    found = False
    absent = OURS - set(variables)
    for key in set(variables) - OURS:
        if hint := near(key, absent, cutoff=0.85):
            complaints.host(name, f"{key} is not known{hint}")
            found = True
    return found


def _templates(name: str, variables: Mapping[str, Any], complaints: Complaints) -> bool:
    found = False
    for key in OURS & set(variables):
        if isinstance(variables[key], str) and "{{" in variables[key]:
            complaints.host(name, f"{key}: a template is not evaluated here; write the value itself")
            found = True
    if templated_way(variables):
        # Ansible would go through the jump host, and our own connections past it, into a time-out.
        complaints.host(name, "ansible_ssh_common_args: a jump host in a template is not evaluated here; write it out")
        found = True
    return found
