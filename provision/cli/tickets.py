"""The ticket verbs: list, show, export."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from provision.cli.common import output_option, print_json, print_rows, site_options, with_app
from provision.errors import MisconfiguredError


@click.group(invoke_without_command=True)
@click.pass_context
def tickets(ctx: click.Context) -> None:
    """Repair tickets: list, show, export. Without a verb: the open ones.

    \b
    Example:
      provision tickets export --format csv > tickets.csv
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_tickets)


@tickets.command("list")
@click.argument("target", required=False, default="all")
@click.option("--all", "everything", is_flag=True, help="Verified ones too.")
@site_options
@output_option("table", "json", "csv")
def list_tickets(target: str, everything: bool, inventory: Path, state: Path | None, output: str) -> int:
    """The open tickets of TARGET (default: all nodes).

    \b
    Example:
      provision tickets list rack-12
    """
    rows = with_app(inventory, state, lambda app: app.ticket_list(target, open_only=not everything))
    columns = ["id", "status", "node", "category", "locator", "action", "attempt", "updated", "ask"]
    print_rows(output, columns, rows, empty="no open tickets")
    return 0


@tickets.command("show")
@click.argument("ticket")
@site_options
@output_option("text", "json")
def show(ticket: str, inventory: Path, state: Path | None, output: str) -> int:
    """Everything about one ticket.

    \b
    Example:
      provision tickets show T-0003
    """
    rows = with_app(inventory, state, lambda app: app.ticket_rows("all", open_only=False))
    wanted = [row for row in rows if row["Ticket ID"].lower() == ticket.lower()]
    if not wanted:
        raise MisconfiguredError(f"there is no ticket {ticket!r}; `provision tickets list --all` lists them")
    if output == "json":
        print_json(wanted[0])
        return 0
    from provision.report.text import clean

    for key, value in wanted[0].items():
        if value:
            click.echo(f"{key + ':':22}{clean(value)}")
    return 0


@tickets.command("export")
@click.argument("target", required=False, default="all")
@click.option("--format", "kind", type=click.Choice(["csv", "json"]), default="csv", show_default=True)
@click.option("--all", "everything", is_flag=True, help="Verified ones too.")
@click.option("-o", "--file", type=click.Path(path_type=Path, dir_okay=False), help="Write here instead of stdout.")
@site_options
def export(target: str, kind: str, everything: bool, file: Path | None, inventory: Path, state: Path | None) -> int:
    """Open tickets for the data-centre staff, sorted as one walks: room, rack, rack unit.

    \b
    Example:
      provision tickets export rack-12 --format csv -o tickets.csv
    """
    from provision.report.tickets import to_csv, to_json

    rows = with_app(inventory, state, lambda app: app.ticket_rows(target, open_only=not everything))
    text = to_csv(rows) if kind == "csv" else to_json(rows) + "\n"
    if file is None:
        sys.stdout.buffer.write(text.encode())
    else:
        try:
            file.write_bytes(text.encode())
        except OSError as error:
            raise MisconfiguredError(f"cannot write {file}: {error.strerror}; give another --file") from error
        click.echo(f"{len(rows)} ticket(s) written to {file}", err=True)
    return 0
