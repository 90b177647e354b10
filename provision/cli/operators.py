"""Verbs for several operators at one site: limits, resume, runs, watch, cancel."""

from __future__ import annotations

from pathlib import Path

import click

from provision.cli.bringup import sinks
from provision.cli.common import output_option, print_json, print_rows, print_table, site_options, with_app


@click.command()
@site_options
@output_option("table", "json")
def limits(inventory: Path, state: Path | None, output: str) -> int:
    """Each limit of the site, how much of it is used, and who holds what: user, host, run, node, since when.

    A slot whose run is over is free once somebody has looked that its machine is done.

    \b
    Example:
      provision limits
    """
    found = with_app(inventory, state, lambda app: app.limits())
    if output == "json":
        print_json(found)
        return 0
    print_table(
        ["limit", "use", "of"], [[row["limit"], row["use"], row["of"]] for row in found["limits"]], empty="no limits"
    )
    click.echo()
    columns = ["node", "operation", "since", "who", "run"]
    held = [
        [*(slot[column] for column in columns[:-1]), slot["run"] + ("" if slot["run_is_live"] else " (over)")]
        for slot in found["slots"]
    ]
    print_table(columns, held, empty="nothing is in flight")
    for brake in found["stopped"]:
        click.echo(f"{brake['place']} is stopped since {brake['since']}: {brake['why']}", err=True)
    return 0


@click.command()
@click.argument("places", nargs=-1, required=True, metavar="RACK|FEED|PROFILE|IMAGE...")
@site_options
def resume(places: tuple[str, ...], inventory: Path, state: Path | None) -> int:
    """Go on where too many nodes had failed. Failures of before are not counted a second time.

    \b
    Example:
      provision resume rack-12
      provision resume 'feed pdu-12a'
    """
    for place in with_app(inventory, state, lambda app: app.resume(places), typed=True):
        click.echo(f"{place}: goes on", err=True)
    return 0


@click.command()
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="How many, newest first.")
@click.option("--commands", is_flag=True, help="Every command that was typed instead: who, when, from where.")
@site_options
@output_option("table", "json", "csv")
def runs(limit: int, commands: bool, inventory: Path, state: Path | None, output: str) -> int:
    """Runs of this site: who, when, from where, over what, and whether they are at work, over or dead.

    \b
    Example:
      provision runs
    """
    if commands:
        rows = with_app(inventory, state, lambda app: app.commands(limit))
        print_rows(output, ["at", "who", "pid", "command"], rows, empty="no commands yet")
        return 0
    rows = with_app(inventory, state, lambda app: app.runs(limit))
    columns = ["run", "status", "verb", "target", "nodes", "who", "started", "ended", "note"]
    print_rows(output, columns, rows, empty="no runs yet")
    return 0


@click.command()
@click.argument("run")
@site_options
@output_option("text", "json")
def watch(run: str, inventory: Path, state: Path | None, output: str) -> int:
    """Show another process's run as its own terminal shows it. Ctrl-C ends the watching, not the run.

    \b
    Example:
      provision watch 20261129-190501-7f3a
    """
    return with_app(inventory, state, lambda app: app.watch(run, sinks=sinks(output)))


@click.command()
@click.argument("run")
@site_options
def cancel(run: str, inventory: Path, state: Path | None) -> int:
    """Let a run begin no new act and end, wherever its process is. What MAAS has begun goes on by itself.

    \b
    Example:
      provision cancel 20261129-190501-7f3a
    """
    click.echo(with_app(inventory, state, lambda app: app.cancel(run), typed=True), err=True)
    return 0
