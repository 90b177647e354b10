"""Verbs that only look: status, check, triage, macs, history."""

from __future__ import annotations

from pathlib import Path

import click

from provision.cli.common import (
    output_option,
    print_json,
    print_rows,
    print_table,
    site_options,
    with_app,
)
from provision.errors import MisconfiguredError


@click.command()
@click.argument("target", required=False, default="all")
@site_options
@output_option("table", "json", "csv")
@click.option("--offline", is_flag=True, help="Ask nobody: say what was seen last.")
@click.option("--look", is_flag=True, help="Ask the BMCs too, for their MAC addresses.")
def status(target: str, offline: bool, look: bool, inventory: Path, state: Path | None, output: str) -> int:
    """Every node: stage, since when, why it waits or is stuck, what happens next.

    Says what was seen last, and names machines whose record in MAAS no longer agrees with the inventory (name,
    zone, pool, tags, power settings, MAC addresses); bringup mends what it may.

    \b
    Example:
      provision status rack-12
    """
    rows = with_app(inventory, state, lambda app: app.status(target, offline=offline, look=look))
    columns = ["node", "rack", "outcome", "stage", "since", "why", "next", "tickets"]
    print_rows(output, [*columns, "drift"] if output == "csv" else columns, rows, empty="no nodes")
    for row in rows if output == "table" else []:
        if row["drift"]:
            click.echo(f"{row['node']} differs in MAAS: {'; '.join(row['drift'])}", err=True)
    return 0 if all(row["outcome"] == "ready" for row in rows) else 1


@click.command()
@click.argument("target")
@site_options
@output_option("table", "json")
def check(target: str, inventory: Path, state: Path | None, output: str) -> int:
    """One yes or no per host, every no with its evidence. Asks the host and its BMC, changes nothing.

    \b
    Example:
      provision check rack-12
    """
    rows = with_app(inventory, state, lambda app: app.check(target))
    if output == "json":
        print_json(rows)
    else:
        print_table(
            ["node", "healthy", "evidence"],
            [[row["node"], row["healthy"], "; ".join(row["evidence"])] for row in rows],
            empty="no nodes",
        )
    return 0 if all(row["healthy"] == "yes" for row in rows) else 1


@click.command()
@click.argument("target", required=False)
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    help="Judge a log, or a folder of them, instead of machines: no inventory, no peer is asked.",
)
@click.option("--kind", help="What --from holds (dmesg, sel, lclog, ...); told from name and first lines otherwise.")
@click.option(
    "--rules", "folder", type=click.Path(path_type=Path, file_okay=False), help="Rules of the site, with --from."
)
@click.option("--json", "as_json", is_flag=True, help="The same as --output json.")
@site_options
@output_option("table", "json")
def triage(
    target: str | None,
    source: Path | None,
    kind: str | None,
    folder: Path | None,
    as_json: bool,
    inventory: Path,
    state: Path | None,
    output: str,
) -> int:
    """Gather evidence now and judge it, without touching anything.

    Opens and closes no ticket: bringup does that.

    \b
    Example:
      provision triage gpu-12-03
      provision triage --from dmesg.txt
      provision triage --from support-bundle/ --json
    """
    output = "json" if as_json else output
    if source is not None:
        if target is not None:
            raise MisconfiguredError("give either a TARGET or --from, not both")
        return _triage_files(source, kind, folder, output)
    if target is None:
        raise MisconfiguredError("give a TARGET (a node, a rack), or --from FILE")
    rows = with_app(inventory, state, lambda app: app.triage(target))
    if output == "json":
        print_json(rows)
        return 0 if not any(row["findings"] for row in rows) else 1
    table = [
        [row["node"], f["category"], f["locator"], f["action"], f["dispatch"], f["ask"], f"{f['confidence']:.2f}"]
        for row in rows
        for f in row["findings"]
    ]
    print_table(
        ["node", "category", "locator", "action", "dispatch", "what to do", "confidence"], table, empty="no findings"
    )
    for row in rows:
        for gap in row["gaps"]:
            click.echo(f"{row['node']}: could not look at {gap}", err=True)
    return 0 if not table else 1


def _triage_files(source: Path, kind: str | None, folder: Path | None, output: str) -> int:
    from provision.app.bundle import is_sign, triage_files
    from provision.app.rules import site_rules

    rows = triage_files(source, kind, site_rules(folder))
    signs = [(row, finding) for row in rows for finding in row["findings"] if is_sign(finding)]
    if output == "json":
        print_json(rows)
        return 1 if signs else 0
    print_table(
        ["file", "category", "place", "action", "dispatch", "what to do", "rule"],
        [
            [row["file"], f["category"], f["locator"], f["action"], f["dispatch"], f["ask"], f["rule"]]
            for row, f in signs
        ],
        empty="nothing that anybody must see to",
    )
    for row in rows:
        if row["why_not"]:
            click.echo(f"{row['file']} {row['why_not']}", err=True)
    return 1 if signs else 0


@click.command()
@click.argument("target")
@site_options
@output_option("table", "json", "csv")
def macs(target: str, inventory: Path, state: Path | None, output: str) -> int:
    """Every NIC of every node with its MAC, link and speed, read from the BMCs.

    \b
    Example:
      provision macs rack-12 --output csv > macs.csv
    """
    rows, complaints = with_app(inventory, state, lambda app: app.macs(target))
    columns = [
        "node",
        "port",
        "locator",
        "mac",
        "current_mac",
        "link",
        "speed_mbps",
        "kind",
        "boot",
        "switch",
        "switch_port",
    ]
    print_rows(output, columns, rows, empty="no NIC was found")
    for line in complaints:
        click.echo(line, err=True)
    return 0 if not complaints else 1


@click.command()
@click.argument("node")
@click.option("--limit", type=click.IntRange(1), default=200, show_default=True, help="At most so many events.")
@site_options
@output_option("table", "json")
def history(node: str, limit: int, inventory: Path, state: Path | None, output: str) -> int:
    """A node's timeline: stages, acts, tickets, who ran what.

    \b
    Example:
      provision history gpu-12-03
    """
    rows = with_app(inventory, state, lambda app: app.history(node, limit=limit))
    if output == "json":
        print_json(rows)
    else:
        print_table(
            ["at (UTC)", "run", "what"],
            [[r["at"], r["run"], r["text"]] for r in rows],
            empty=f"{node} has no history yet",
        )
    return 0
