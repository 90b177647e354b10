"""The verb ``store``: what is kept, and where."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from provision.cli.common import default_state, output_option, print_json, print_table, site_options

if TYPE_CHECKING:
    from provision.app.store import Upkeep


@contextmanager
def _opened(inventory: Path, state: Path | None, source: str | None = None) -> Iterator[Upkeep]:
    from provision.app.store import Upkeep

    upkeep = Upkeep.open(inventory, state or default_state(), source)
    try:
        yield upkeep
    finally:
        upkeep.close()


@click.group()
def store() -> None:
    """The store: wishes, history, evidence, tickets and pins.

    \b
    Example:
      provision store info
      provision store prune --older-than 180
    """


@store.command()
@site_options
@output_option("table", "json")
def info(inventory: Path, state: Path | None, output: str) -> int:
    """Where it is, how large, how many rows, since when, and who is at work.

    \b
    Example:
      provision store info
    """
    with _opened(inventory, state) as upkeep:
        found = upkeep.info()
    if output == "json":
        print_json(found)
        return 0
    rows = [
        ["store", found["name"]],
        ["kind", f"{found['kind']}, version {found['version']}"],
        ["size", f"{found['bytes'] / 1e6:.1f} MB"],
        ["history", f"{found['oldest']:%Y-%m-%d} to {found['newest']:%Y-%m-%d}" if found["oldest"] else "empty"],
        *[["at work", run] for run in found["live_runs"]],
        *[[name, count] for name, count in found["rows"].items()],
    ]
    print_table(["", ""], rows, empty="empty")
    return 0


@store.command()
@site_options
def check(inventory: Path, state: Path | None) -> int:
    """Read all of it and say what is wrong. Exit status 1 if anything is.

    \b
    Example:
      provision store check
    """
    with _opened(inventory, state) as upkeep:
        complaints = upkeep.check()
    print_table(["complaint"], [[line] for line in complaints], empty="the store is whole")
    return 1 if complaints else 0


@store.command()
@site_options
@click.option("--older-than", "days", type=click.FloatRange(min=1), metavar="DAYS", help="What is older goes.")
@click.option("--keep", type=click.IntRange(min=1), metavar="ROWS", help="Of each node the newest so many rows stay.")
@click.option("--dry-run", is_flag=True, help="Only say how much would go.")
def prune(inventory: Path, state: Path | None, days: float | None, keep: int | None, dry_run: bool) -> int:
    """Delete old history and evidence. Wishes, pins and tickets stay, and so does the evidence of open tickets, what
    a run at work has written, and what the last run over a node has seen.

    \b
    Example:
      provision store prune --older-than 180 --keep 5000
    """
    if days is None and keep is None:
        raise click.UsageError("say what is old: --older-than DAYS, --keep ROWS or both")
    with _opened(inventory, state) as upkeep:
        gone = upkeep.prune(days=days, keep=keep, dry_run=dry_run)
    verb = "would go" if dry_run else "gone"
    print_table(["table", verb], [[name, count] for name, count in gone.items()], empty="nothing")
    return 0


@store.command()
@site_options
@click.option("--to", "target", required=True, metavar="ADDRESS", help="An empty one: postgresql://USER@HOST/DATABASE.")
@click.option("--to-password", metavar="REFERENCE", help="Its password: env:NAME, file:PATH or cmd:PROGRAM …")
@click.option("--from", "source", metavar="ADDRESS", help="Another than the store in use.")
def move(inventory: Path, state: Path | None, target: str, to_password: str | None, source: str | None) -> int:
    """Copy everything into another, empty store, in one transaction. The old one stays as it is.

    Name the new one with `store: ADDRESS` in the group var provision afterwards, on every machine, and put the old
    file away: whoever still opens it works beside the others.

    \b
    Example:
      provision store move --to postgresql://provision@db.site/provision
    """
    with _opened(inventory, state, source) as upkeep:
        moved = upkeep.move(target, password=to_password)
    print_table(["table", "rows"], [[name, count] for name, count in moved.items()], empty="nothing")
    click.echo("all rows are there; name it on every machine: group var provision, store", err=True)
    return 0
