"""Reading a spreadsheet exported as CSV: columns by header, complaints by line."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from provision.config.complaints import InventoryError, near, sentences, shown
from provision.config.hostvars import HostSchema, is_host_name

ALIASES: Mapping[str, tuple[str, ...]] = {
    "name": ("name", "hostname", "host", "host name", "node", "server", "server name", "machine"),
    "bmc_address": (
        "bmc address", "bmc", "bmc ip", "idrac", "idrac ip", "ilo", "ilo ip", "ipmi", "ipmi ip", "oob ip",
        "management ip", "mgmt ip", "redfish",
    ),
    "service_tag": ("service tag", "servicetag", "serial", "serial number", "serial no", "sn", "s n"),
    "asset_tag": ("asset tag", "asset", "asset number", "asset no", "asset id"),
    "rack": ("rack", "rack name", "cabinet", "cab"),
    "rack_unit": ("rack unit", "unit", "u", "ru", "u position", "rack position", "rack u", "position", "start u"),
    "site": ("site", "data centre", "data center", "datacentre", "datacenter", "dc", "location"),
    "room": ("room", "hall", "suite", "cage"),
    "profile": ("profile", "node profile", "machine profile"),
    "power_feeds": ("power feeds", "power feed", "pdu outlets", "pdus", "pdu", "feeds"),
    "macs": ("macs", "mac", "mac address", "mac addresses", "boot mac"),
    "bmc_fingerprint": ("bmc fingerprint", "certificate fingerprint", "fingerprint"),
    "zone": ("zone", "maas zone"),
    "pool": ("pool", "maas pool"),
    "ansible_host": ("ansible host", "ip", "ip address", "host ip", "os ip"),
}  # fmt: skip
_LISTS = {"power_feeds", "macs"}
_NEEDED = ("name", "bmc_address", "rack")
_FIELDS = {alias: field for field, aliases in ALIASES.items() for alias in (*aliases, field.replace("_", " "))}
_EMPTY = {"", "-", "--", "n/a", "na", "none", "null", "tbd", "?"}
_FORMULA = re.compile(r"^\s*[=+@]")
_ROUNDED = re.compile(r"\d([.,]\d+)?E\+\d+", re.IGNORECASE)
_UNIT = re.compile(r"(?:RU|U)?\s*(\d{1,3})(?:\s*[-–]\s*(?:RU|U)?\s*(\d{1,3}))?", re.IGNORECASE)
_LARGEST_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Row:
    """One machine of the sheet; ``variables`` are host variables as written, ``host`` the same when checked."""

    line: int
    name: str
    variables: Mapping[str, Any]
    host: HostSchema


def read_sheet(source: Path) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """The machines, and the headers of columns that were ignored.

    Raises:
        InventoryError: complaints with file and line.
    """
    text = _text(source)
    records = _records(source, text)
    if not records:
        raise InventoryError([f"{source} is empty: expected a header line and one line a machine"])
    (head_line, headers), *body = records
    columns, ignored = _columns(source, head_line, headers)
    complaints: list[str] = []
    rows = []
    for line, cells in body:
        found = _row(line, cells, headers, columns)
        if isinstance(found, Row):
            rows.append(found)
        else:
            complaints += [f"{source}:{line}: {text}" for text in found]
    complaints += [f"{source}:{text}" for text in _twice(rows)]
    if not body:
        complaints.append(f"{source} has a header, but no machine: expected one line a machine")
    if complaints:
        raise SheetError(complaints)
    return tuple(rows), ignored


class SheetError(InventoryError):
    """Complaints in the order of the sheet's lines."""

    def __init__(self, complaints: Sequence[str]) -> None:
        super().__init__(complaints)
        self.complaints = tuple(sorted(set(complaints), key=_by_line))
        self.args = ("\n".join(self.complaints),)


def _by_line(complaint: str) -> tuple[int, str]:
    match = re.search(r":(\d+): ", complaint)
    return (int(match[1]) if match else 0, complaint)


def _text(source: Path) -> str:
    try:
        if source.is_dir():
            raise InventoryError([f"{source} is a directory: expected a CSV file"])
        with source.open("rb") as file:
            raw = file.read(_LARGEST_BYTES + 1)
    except OSError as error:
        raise InventoryError([f"{source} cannot be read: {error.strerror}; name a CSV file"]) from None
    if len(raw) > _LARGEST_BYTES:
        raise InventoryError([f"{source} is larger than 32 MB: expected one line a machine"])
    encoding = "utf-16" if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InventoryError([f"{source}:{line}: not UTF-8 text; save the sheet as “CSV UTF-8”"]) from None
    if "\0" in text:
        raise InventoryError([f"{source}: a binary file; save the sheet as “CSV UTF-8”"])
    return text


def _records(source: Path, text: str) -> list[tuple[int, list[str]]]:
    """Lines with their numbers, without empty ones; split by the character that makes most of the header known."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(
        ",;\t", key=lambda d: sum(_field(cell) is not None for cell in next(csv.reader([first], delimiter=d), []))
    )
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    records = []
    line = 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                records.append((line, [cell.strip() for cell in cells]))
            line = reader.line_num + 1
    except csv.Error as error:
        raise InventoryError([f"{source}:{line}: not CSV: {error}; save the sheet again"]) from None
    return records


def _field(header: str) -> str | None:
    words = re.sub(r"[^a-z0-9]+", " ", header.lower()).strip()
    return _FIELDS.get(words)


def _columns(source: Path, line: int, headers: Sequence[str]) -> tuple[dict[str, int], tuple[str, ...]]:
    columns: dict[str, int] = {}
    complaints = []
    ignored = []
    for place, header in enumerate(headers):
        field = _field(header)
        if field is None:
            ignored.append(header if header.isprintable() and header else f"column {place + 1}")
        elif field in columns:
            complaints.append(
                f"{source}:{line}: columns {headers[columns[field]]} and {header} both give {field}; take one out"
            )
        else:
            columns[field] = place
    for field in _NEEDED:
        if field not in columns:
            hint = near(field.replace("_", " "), [header.lower() for header in headers])
            complaints.append(
                f"{source}:{line}: no column for {field}: "
                f"expected a header such as {' or '.join(ALIASES[field][:3])}{hint}"
            )
    if complaints:
        raise InventoryError(complaints)
    return columns, tuple(ignored)


def _row(line: int, cells: Sequence[str], headers: Sequence[str], columns: Mapping[str, int]) -> Row | list[str]:
    """The machine of one line, or what is wrong with it."""
    complaints = []
    if len(cells) > len(headers):
        complaints.append(f"{len(cells)} cells, but {len(headers)} headers; a cell with a separator wants quotes")
    values: dict[str, Any] = {}
    for field, place in columns.items():
        cell = cells[place] if place < len(cells) else ""
        try:
            value = _value(field, cell)
        except ValueError as error:
            complaints.append(f"{headers[place]}: {error}")
            continue
        if value is not None:
            values[field] = value
        elif field in _NEEDED:
            complaints.append(f"{headers[place]} is empty: every machine needs one")
    name = values.pop("name", None)
    if name is not None and not is_host_name(name):
        complaints.append(
            f"{headers[columns['name']]}: {shown(name)} is not a host name: expected letters, digits, dashes, dots"
        )
    try:
        # The profile may come from a group variable, so a sheet need not have it.
        host = HostSchema.model_validate({"profile": "-", **values})
    except ValidationError as error:
        # What is missing was complained of already, by its header.
        found = (text for text in sentences(error, HostSchema) if " is missing" not in text)
        return complaints + [_by_header(text, headers, columns) for text in found]
    return complaints or Row(line, name, values, host)


def _by_header(text: str, headers: Sequence[str], columns: Mapping[str, int]) -> str:
    field = re.split(r"[:\[. ]", text, maxsplit=1)[0]
    return headers[columns[field]] + text[len(field) :] if field in columns else text


def _value(field: str, cell: str) -> Any:
    if cell.lower() in _EMPTY:
        return None
    if _FORMULA.match(cell):
        raise ValueError(f"{shown(cell)} is a formula: export values, not formulas")
    if any(mark in cell for mark in ("{{", "{%", "{#")):
        # Ansible would evaluate it as soon as a playbook uses the variable.
        raise ValueError(f"{shown(cell)} is a template: expected a plain value")
    if _ROUNDED.fullmatch(cell) and field != "name":
        raise ValueError(f"{shown(cell)} was rounded by the spreadsheet: format the column as text")
    if field in _LISTS:
        return [part for part in re.split(r"[;|,\s]+", cell) if part]
    if field == "rack_unit":
        match = _UNIT.fullmatch(cell)
        if match is None:
            raise ValueError(f"expected a rack unit such as 12, U12 or 12-17, found {shown(cell)}")
        return min(int(part) for part in match.groups() if part)
    return cell


def _twice(rows: Sequence[Row]) -> Iterator[str]:
    places: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        for key in set(_claims(row)):
            places[key].append(row)
    for (what, value), found in places.items():
        for row in found[1:]:
            yield f"{row.line}: {what} {value} stands in line {found[0].line} already ({found[0].name}); correct one"


def _claims(row: Row) -> Iterator[tuple[str, str]]:
    """What belongs to one machine only."""
    host = row.host
    yield "host name", row.name.lower()
    yield "BMC address", host.bmc_address
    if host.service_tag:
        yield "service tag", host.service_tag.upper()
    if host.asset_tag:
        yield "asset tag", host.asset_tag.upper()
    if host.rack_unit:
        yield "rack unit", " ".join(filter(None, (host.site, host.room, host.rack, f"U{host.rack_unit}")))
    for mac in host.macs:
        yield "MAC address", mac
