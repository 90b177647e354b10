"""The result as a table for people."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from typing import Any

HEAD = (
    "client", "wall s", "× floor", "× bound", "CPU s", "CPU ms/BMC", "sim. CPU s", "requests", "conn./BMC", "peak MB",
    "p50 s", "p95 s", "stored", "MACs", "lies caught", "hung named", "failed wrongly",
)  # fmt: skip


def markdown(result: dict[str, Any]) -> str:
    """One table for each profile and number of BMCs; figures are medians of the rounds."""
    turns = result["turns"]
    lines = [f"Machine: {result['machine']}.", ""]
    for profile, nodes in dict.fromkeys((turn["profile"], turn["nodes"]) for turn in turns):
        mine = [turn for turn in turns if (turn["profile"], turn["nodes"]) == (profile, nodes)]
        floor = result["floors_s"][profile]
        rounds = max(turn["round"] for turn in mine)
        lines += [f"### {profile}, {nodes} BMCs ({rounds} rounds, floor {floor:.2f} s)", ""]
        lines += [_row(HEAD), _row("---" for _ in HEAD)]
        for client in dict.fromkeys(turn["client"] for turn in mine):
            lines.append(_row(_cells([turn for turn in mine if turn["client"] == client], floor)))
        lines.append("")
    moved = list(_moved(turns))
    return "\n".join([*lines, *moved, ""] if moved else lines)


def _moved(turns: list[dict[str, Any]]) -> Iterator[str]:
    """What the BMCs that hang do to the others: ``sick`` against ``busy``, which is the same without them."""
    for nodes, client in dict.fromkeys((turn["nodes"], turn["client"]) for turn in turns):
        of = {
            profile: [t["p95_s"] for t in turns if (t["nodes"], t["client"], t["profile"]) == (nodes, client, profile)]
            for profile in ("sick", "busy")
        }
        if all(of.values()):
            ill, well = (float(statistics.median(of[profile])) for profile in ("sick", "busy"))
            yield (
                f"- {client}, {nodes} BMCs: p95 of those that answer {ill:.2f} s with the hung ones beside them, "
                f"{well:.2f} s without ({100 * (ill - well) / well:+.1f} %; aim: less than +5 %)"
            )


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(turns: list[dict[str, Any]], floor: float) -> list[str]:
    def mid(name: str) -> float:
        return float(statistics.median(turn[name] for turn in turns))

    nodes, well = turns[0]["nodes"], turns[0]["well"]
    bound = max(floor, mid("cpu_s"), mid("simulator_cpu_s"))
    cut = " (cut off)" if any(turn["cut_off"] for turn in turns) else ""
    return [
        turns[0]["client"],
        f"{mid('wall_s'):.1f}{cut}",
        f"{mid('wall_s') / floor:.2f}",
        f"{mid('wall_s') / bound:.2f}",
        f"{mid('cpu_s'):.2f}",
        f"{1000 * mid('cpu_s') / nodes:.1f}",
        f"{mid('simulator_cpu_s'):.2f}",
        f"{mid('requests'):.0f}",
        f"{mid('connections') / nodes:.1f}",
        f"{mid('peak_mb'):.0f}",
        f"{mid('p50_s'):.2f}",
        f"{mid('p95_s'):.2f}",
        f"{mid('stored'):.0f}/{well}",
        f"{mid('macs_complete'):.0f}/{well}",
        f"{mid('lies_caught'):.0f}/{turns[0]['lies']}",
        f"{mid('hung_named'):.0f}/{turns[0]['hung']}",
        f"{mid('failed_wrongly'):.0f}",
    ]
