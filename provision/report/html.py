"""One printable page per rack: an elevation that shows which box, and each ticket with what is printed on the metal.

No script, no font and no picture is loaded; every text is cleaned and escaped (log text is hostile).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise

from provision.model.node import Node
from provision.report.text import clean

RACK_UNITS = 42
_PLACE = re.compile(r"\b(Bay|PSU|Slot|Fan|GPU|Port|Riser|Backplane|NIC|OCP)\s*(\d{1,3})\b", re.IGNORECASE)
# What stands in the rack and in no machine.
_IN_RACK = frozenset({"rack_power", "switch", "management_switch"})
_STYLE = """
@page { size: A4; margin: 12mm }
* { box-sizing: border-box }
body { font: 12px/1.35 system-ui, sans-serif; color: #111; margin: 0 }
section { break-after: page; display: grid; grid-template-columns: 210px 1fr; gap: 14px; padding: 10px }
h1 { grid-column: 1 / -1; font-size: 18px; margin: 0; border-bottom: 2px solid #111 }
.rack { border: 2px solid #111; border-collapse: collapse; width: 100%; table-layout: fixed }
.rack td { height: 15px; font-size: 10px; padding: 0 3px; border: 1px solid #bbb; overflow: hidden;
  white-space: nowrap }
.rack td.u { width: 26px; text-align: right; color: #555; background: #f4f4f4 }
.rack td.node { background: #e8eef4; border: 1px solid #456 }
.rack td.shared { background: repeating-linear-gradient(45deg, #fff 0 4px, #ddd 4px 8px); border: 1px solid #456 }
.rack td.hit { background: #111; color: #fff; font-weight: bold }
article { border: 1px solid #111; padding: 7px; margin-bottom: 9px; break-inside: avoid }
h2 { font-size: 14px; margin: 0 0 3px }
.do { font-size: 14px; font-weight: bold; margin: 4px 0 }
dl { display: grid; grid-template-columns: 118px 1fr; gap: 1px 6px; margin: 4px 0 }
dt { color: #444 } dd { margin: 0 }
.strip { display: flex; gap: 2px; margin: 4px 0; flex-wrap: wrap }
.strip span { border: 1px solid #777; min-width: 26px; text-align: center; font-size: 10px; padding: 1px 2px }
.strip span.hit { background: #111; color: #fff; font-weight: bold }
.wait { border: 2px solid #111; padding: 2px 5px; margin: 4px 0; font-weight: bold }
.off { font-weight: bold }
.fill { border-top: 1px dashed #777; margin-top: 6px; padding-top: 5px }
.fill i { display: inline-block; border-bottom: 1px solid #777; min-width: 110px }
"""


def to_html(table: Sequence[Mapping[str, str]], nodes: Iterable[Node]) -> str:
    """All racks that have tickets, one page each, in the order of ``table``."""
    known = list(nodes)
    racks: dict[tuple[str, str, str], list[Mapping[str, str]]] = {}
    for row in table:
        racks.setdefault((row["Site"], row["Room"], row["Rack"]), []).append(row)
    body = "".join(_page(place, rows, known) for place, rows in racks.items())
    if not body:
        body = "<section><h1>No open tickets</h1></section>"
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>Repair tickets</title><style>{_STYLE}</style></head><body>{body}</body></html>\n"
    )


def _page(place: tuple[str, str, str], rows: Sequence[Mapping[str, str]], nodes: Sequence[Node]) -> str:
    site, room, rack = place
    here = [node for node in nodes if (node.site, node.room, node.rack) == place and node.unit is not None]
    hit: dict[str, list[str]] = {}
    shared: dict[str, list[str]] = {}
    for row in rows:
        marked = shared if row["Component"] in _IN_RACK else hit
        for name in (row["Hostname"], *(part.strip() for part in row["Also affects"].split(","))):
            marked.setdefault(name, []).append(f"{row['Ticket ID']} {_short(row['Locator label'])}".strip())
    title = _text(" · ".join(part for part in (site, room, f"rack {rack}" if rack else "place unknown") if part))
    tickets = "".join(_ticket(row) for row in rows)
    rack_view = _elevation(here, hit, shared)
    return f"<section><h1>{title}: {len(rows)} ticket(s)</h1><div>{rack_view}</div><div>{tickets}</div></section>"


def _short(locator: str) -> str:
    """The place in the box that a ticket is about: ``Bay 4``; empty if none is printed."""
    found = _PLACE.search(locator)
    return f"{found[1]} {found[2]}" if found else ""


def _elevation(nodes: Sequence[Node], hit: Mapping[str, Sequence[str]], shared: Mapping[str, Sequence[str]]) -> str:
    """Units from the top down: black where somebody works, hatched where only a ticket of the rack is felt.

    Nobody says how high a box is: all are drawn as high as the densest pair allows.
    """
    units = (
        sorted(((n.unit or 0, n) for n in nodes), key=lambda pair: pair[0])
        if len({n.unit for n in nodes}) == len(nodes)
        else []
    )
    if not units:
        return "<p>(rack units are not in the inventory)</p>"
    gaps = [high[0] - low[0] for low, high in pairwise(units)]
    height = min([gap for gap in gaps if gap > 0] or [1])
    top = max(RACK_UNITS, units[-1][0] + height - 1)
    box = {unit + offset: (node, offset) for unit, node in units for offset in range(height)}
    lines = []
    for unit in range(top, 0, -1):
        found = box.get(unit)
        if found is None:
            lines.append(f'<tr><td class="u">{unit}</td><td></td></tr>')
        elif found[1] == height - 1:
            node = found[0]
            marks = hit.get(node.name, ()), shared.get(node.name, ())
            kind = "node hit" if marks[0] else "node shared" if marks[1] else "node"
            name = f"▶ {node.name}" if marks[0] else node.name
            told = [_text(text) for text in (name, *marks[0], *(f"({text})" for text in marks[1]))]
            said = ("<br>" if len(told) <= height else " ").join(told)
            lines.append(f'<tr><td class="u">{unit}</td><td class="{kind}" rowspan="{height}">{said}</td></tr>')
        else:
            lines.append(f'<tr><td class="u">{unit}</td></tr>')
    return f'<table class="rack">{"".join(lines)}</table>'


def _ticket(row: Mapping[str, str]) -> str:
    in_rack = row["Component"] in _IN_RACK
    unit = f"U{row['U position']}" if row["U position"] else "unit unknown"
    box = row["Rack"] if in_rack else f"{row['Hostname']} · {unit}"
    facts = [
        ("Place", f"{box} · {row['Locator label']}"),
        ("Other end", row["Peer end"]),
        ("Asset / service tag", " / ".join(part for part in (row["Asset tag"], row["Service tag"]) if part)),
        ("Part", " ".join(part for part in (row["Part number"], row["Serial"]) if part)),
        ("Done remotely", row["Steps done remotely"].replace("_", " ")),
        ("Machines" if in_rack else "Also affects", _machines(row) if in_rack else row["Also affects"]),
        ("Evidence", row["Evidence"]),
        ("Closes when", row["Verify step"]),
    ]
    off = "yes, now" if row["Safe to power off"] == "yes" else "ask the operator first"
    listed = f'<dt>Safe to power off</dt><dd class="off">{off}</dd>' + "".join(
        f"<dt>{name}</dt><dd>{_text(value)}</dd>" for name, value in facts if value
    )
    attempt = f" · attempt {row['Attempt']}" if row["Attempt"] != "1" else ""
    head = " · ".join((row["Ticket ID"], row["Priority"], row["Locator label"] if in_rack else row["Hostname"]))
    step = row["Remote step first"].replace("_", " ")
    wait = f'<div class="wait">WAIT: not before the operator has done this: {_text(step)}</div>' if step else ""
    return (
        f"<article><h2>☐ {_text(head + attempt)}</h2>{wait}"
        f'<div class="do">{_text(row["Instructions"])}</div>{_strip(row["Locator label"])}<dl>{listed}</dl>'
        '<div class="fill">☐ fixed ☐ no fault found ☐ other part ☐ not done &nbsp; part swapped: <i></i> '
        "new serial: <i></i><br>note: <i></i><i></i><i></i><i></i></div></article>"
    )


def _machines(row: Mapping[str, str]) -> str:
    return ", ".join(part for part in (row["Hostname"], row["Also affects"]) if part)


def _strip(locator: str) -> str:
    """The places of one kind in a row, the one in question in black: numbers as printed, not to scale."""
    found = _PLACE.search(locator)
    if found is None:
        return ""
    kind, number = found[1], int(found[2])
    first = 0 if number == 0 or kind.lower() in {"bay", "gpu"} else 1
    last = max(first + 7, number)
    if last - first > 15:
        first, last = number - 7, number + 8
    spans = "".join(
        f'<span class="hit">{_text(kind)} {n}</span>' if n == number else f"<span>{n}</span>"
        for n in range(first, last + 1)
    )
    return f'<div class="strip">{spans}</div>'


def _text(value: str) -> str:
    return escape(clean(value))
