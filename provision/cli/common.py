"""What the verbs share: options, opening the app, tables, JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from provision.app import App

Command = TypeVar("Command", bound=Callable[..., Any])
Result = TypeVar("Result")


def default_state() -> Path:
    """The user's state directory (XDG base directory specification)."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "provision"


def site_options(command: Command) -> Command:
    """``-i/--inventory`` and ``--state``."""
    command = click.option(
        "-i",
        "--inventory",
        type=click.Path(path_type=Path),
        envvar="PROVISION_INVENTORY",
        default=Path("inventory"),
        show_default="./inventory",
        show_envvar=True,
        help="Ansible inventory directory of the site.",
    )(command)
    return click.option(
        "--state",
        type=click.Path(path_type=Path),
        envvar="PROVISION_STATE",
        default=None,
        show_default="the user's state directory",
        show_envvar=True,
        help="Where wishes, history and tickets are kept.",
    )(command)


def output_option(*choices: str) -> Callable[[Command], Command]:
    """``--output`` with the given formats, the first being the default."""

    def wrap(command: Command) -> Command:
        return click.option(
            "--output",
            type=click.Choice(choices),
            default=choices[0],
            show_default=True,
            help="Format of stdout; messages go to stderr.",
        )(command)

    return wrap


def with_app(
    inventory: Path,
    state: Path | None,
    work: Callable[[App], Coroutine[Any, Any, Result]],
    *,
    store: bool = True,
    adopt_host_keys: bool = False,
    typed: bool = False,
) -> Result:
    """Open the app for one command, run ``work`` with it, close it on every path.

    ``typed``: the command may change something, so who typed it when and where is written down first.
    """
    from provision.app import App
    from provision.app.process import ready_for_many_connections

    ready_for_many_connections()

    async def session() -> Result:
        app = App.open(inventory, (state or default_state()) if store else None, adopt_host_keys=adopt_host_keys)
        try:
            if typed:
                await app.typed(*_words())
            return await work(app)
        finally:
            await app.close()

    return asyncio.run(session())


def _words() -> tuple[str, str]:
    """The verb, and the command as it was understood: arguments and options, no secret is ever one of them."""
    context = click.get_current_context()
    verb = " ".join(context.command_path.split()[1:])
    words = []
    for item in context.command.params:
        value = context.params.get(item.name or "")
        if item.name in {"inventory", "state", "output"} or value in (None, False, ()):
            continue
        name = "" if isinstance(item, click.Argument) else f"{item.opts[0]} "
        told = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        words.append(name.strip() if value is True else f"{name}{told}")
    return verb, " ".join([verb, *words])


def print_json(value: object) -> None:
    """JSON on stdout, ASCII only: hostile text cannot reach a terminal through it."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=True, default=str))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """A plain table on stdout, cut to no width when it goes into a pipe. ``empty`` is said when there is no row."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from provision.report.text import clean

    listed = [[clean(value) for value in row] for row in rows]
    if not listed:
        click.echo(empty, err=True)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in listed:
        table.add_row(*(Text(value) for value in row))
    if sys.stdout.isatty():
        Console().print(table)
    else:
        widths = [len(name) for name in columns]
        for row in listed:
            widths = [max(a, len(b)) for a, b in zip(widths, row, strict=True)]
        for row in [list(columns), *listed]:
            click.echo("  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip())


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """CSV on stdout, no cell a formula."""
    import csv

    from provision.report.text import cell

    writer = csv.writer(sys.stdout, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([cell(value) for value in row] for row in rows)


def print_rows(output: str, columns: Sequence[str], rows: Sequence[Mapping[str, object]], *, empty: str) -> None:
    """The same rows as table, JSON or CSV; ``columns`` are keys of the rows."""
    if output == "json":
        print_json(list(rows))
        return
    values = [[_flat(row.get(column)) for column in columns] for row in rows]
    if output == "csv":
        print_csv(columns, values)
    else:
        print_table([column.replace("_", " ") for column in columns], values, empty=empty)


def _flat(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    return str(value)
