"""Verbs that change machines: bringup, plan, reimage, release, adopt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from provision.cli.common import Command, output_option, print_json, print_table, site_options, with_app
from provision.errors import MisconfiguredError

if TYPE_CHECKING:
    from provision.app import Sink


def sinks(output: str) -> list[Sink]:
    """Where the events of a long run go: JSON lines, a live screen on a terminal, plain lines elsewhere."""
    if output == "json":
        from provision.report.jsonlines import JsonLines

        return [JsonLines(sys.stdout)]
    if sys.stderr.isatty():
        from datetime import UTC, datetime

        from rich.console import Console

        from provision.report.screen import Screen

        return [Screen(Console(stderr=True), lambda: datetime.now(UTC))]
    from provision.report.plain import PlainLines

    return [PlainLines(sys.stderr)]


_TAKE_OVER = click.option(
    "--take-over", is_flag=True, help="End whoever holds these nodes: asked first, then out of their hands."
)


@click.command()
@click.argument("target", required=False)
@site_options
@output_option("text", "json")
@click.option(
    "--tickets", type=click.Path(path_type=Path), help="Write the open tickets of TARGET to this CSV at the end."
)
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(path_type=Path),
    help="Do what this file of `provision plan --out` says and no more; refused if the world has outrun it.",
)
@_TAKE_OVER
def bringup(
    target: str | None,
    inventory: Path,
    state: Path | None,
    output: str,
    tickets: Path | None,
    plan_file: Path | None,
    take_over: bool,
) -> int:
    """Take machines from "racked, cabled, powered" to "passes acceptance".

    Runs discover, preflight, enlist, commission, deploy, configure and accept on all nodes of TARGET at once. What
    is already right is only looked at; after a repair the same command goes on from there. Never erases anything.
    Where another process brings the same nodes up already, this one shows what it does.

    \b
    Example:
      provision bringup rack-12 --tickets tickets.csv
      provision bringup --plan plan.json
    """
    if target is None and plan_file is None:
        raise click.UsageError("Missing argument 'TARGET' (a node, a rack), or --plan FILE")
    return with_app(
        inventory,
        state,
        lambda app: app.bringup(
            target,
            sinks=sinks(output),
            text=output == "text",
            csv_file=tickets,
            plan_file=plan_file,
            take_over=take_over,
        ),
        typed=True,
    )


@click.command()
@click.argument("target")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Keep the plan, with every write and its risk, for bringup --plan."
)
@site_options
@output_option("table", "json")
def plan(target: str, out: Path | None, inventory: Path, state: Path | None, output: str) -> int:
    """Show what bringup would do, node by node. Sends not one write.

    \b
    Example:
      provision plan 'rack-12:!gpu-12-03'
      provision plan rack-12 --out plan.json
    """
    rows, whole = with_app(inventory, state, lambda app: app.plan(target, out))
    if output == "json":
        print_json(rows if out is None else whole)
    else:
        print_table(
            ["node", "next", "stage", "why", "then"],
            [[row["node"], row["next"], row["stage"], row["why"], ", ".join(row["then"])] for row in rows],
            empty="no nodes",
        )
    if out is not None:
        _summary_of_writes(whole, out)
    return 0 if all(row["next"] == "nothing" for row in rows) else 1


def _summary_of_writes(whole: dict[str, Any], out: Path) -> None:
    """How many nodes each kind of write may reach, on stderr."""
    reach: dict[tuple[str, str, str, str], int] = {}
    for item in whole["nodes"]:
        for write in item["writes"]:
            key = (write["stage"], write["step"], write["risk"], write["what"])
            reach[key] = reach.get(key, 0) + 1
    for (stage, step, risk, what), count in reach.items():
        click.echo(f"  {count} node(s)  {stage}: {step} [{risk}] {what}", err=True)
    click.echo(f"{out} lists them by node; to carry it out: provision bringup --plan {out}", err=True)


def _said_twice(verb: str, target: str, yes_erase: str | None) -> None:
    if yes_erase != target:
        said = "" if yes_erase is None else f" (it says {yes_erase!r})"
        raise MisconfiguredError(f"{verb} erases {target}; to confirm, add: --yes-erase {target}{said}")


def erasing_options(command: Command) -> Command:
    """``--erase-data`` and ``--despite-ticket``."""
    command = click.option(
        "--despite-ticket", is_flag=True, help="Also where a node waits for a repair (an open ticket)."
    )(command)
    return click.option("--erase-data", is_flag=True, help="Wipe ALL drives too, the data drives with them.")(command)


@click.command()
@click.argument("target")
@click.option("--yes-erase", metavar="TARGET", help="Repeat TARGET: the system disks of its nodes will be erased.")
@erasing_options
@_TAKE_OVER
@site_options
@output_option("text", "json")
def reimage(
    target: str,
    yes_erase: str | None,
    erase_data: bool,
    despite_ticket: bool,
    take_over: bool,
    inventory: Path,
    state: Path | None,
    output: str,
) -> int:
    """Install nodes afresh. ERASES their operating-system disks.

    TARGET must be said twice. Other nodes are not touched, data drives neither unless --erase-data is said too.
    Locked machines are left alone and named. A reimage that was killed or stopped goes on with the same command and
    erases nothing a second time.

    \b
    Example:
      provision reimage gpu-12-03 --yes-erase gpu-12-03
      provision reimage rack-12 --yes-erase rack-12
    """
    _said_twice("reimage", target, yes_erase)
    return with_app(
        inventory,
        state,
        lambda app: app.reimage(
            target,
            sinks=sinks(output),
            text=output == "text",
            erase_data=erase_data,
            despite_ticket=despite_ticket,
            take_over=take_over,
        ),
        typed=True,
    )


@click.command()
@click.argument("node")
@click.option("--yes-erase", metavar="NODE", help="Repeat the node's name: what is on it is lost.")
@erasing_options
@site_options
@output_option("text", "json")
def release(
    node: str,
    yes_erase: str | None,
    erase_data: bool,
    despite_ticket: bool,
    inventory: Path,
    state: Path | None,
    output: str,
) -> int:
    """Give one machine back to MAAS. What is on its system disk is LOST.

    The node's name must be said twice. Data drives are left alone unless --erase-data is said too.

    \b
    Example:
      provision release gpu-12-03 --yes-erase gpu-12-03
    """
    _said_twice("release", node, yes_erase)
    return with_app(
        inventory,
        state,
        lambda app: app.release(
            node,
            sinks=sinks(output),
            text=output == "text",
            erase_data=erase_data,
            despite_ticket=despite_ticket,
        ),
        typed=True,
    )


@click.command()
@click.argument("node")
@site_options
def adopt(node: str, inventory: Path, state: Path | None) -> int:
    """Accept a machine that was deployed by hand: write the receipt that bringup asks for.

    Nothing is installed or erased. The host's SSH key is trusted as it is at this moment.

    \b
    Example:
      provision adopt gpu-12-03
    """
    click.echo(with_app(inventory, state, lambda app: app.adopt(node), adopt_host_keys=True, typed=True), err=True)
    return 0
