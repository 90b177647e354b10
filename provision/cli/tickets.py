"""The ticket verbs: list, show, export, import, set, done-remotely, review."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from provision.cli.common import output_option, print_json, print_rows, site_options, with_app
from provision.errors import MisconfiguredError


@click.group(invoke_without_command=True)
@click.pass_context
def tickets(ctx: click.Context) -> None:
    """Repair tickets: list, show, export, import. Without a verb: the open ones.

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


_FORMATS = ("csv", "json", "jira", "servicenow", "html")


@tickets.command("export")
@click.argument("target", required=False, default="all")
@click.option("--format", "kind", type=click.Choice(_FORMATS), default="csv", show_default=True)
@click.option("--all", "everything", is_flag=True, help="Verified ones too.")
@click.option("-o", "--file", type=click.Path(path_type=Path, dir_okay=False), help="Write here instead of stdout.")
@site_options
def export(target: str, kind: str, everything: bool, file: Path | None, inventory: Path, state: Path | None) -> int:
    """Open tickets for the data-centre staff, sorted as one walks: room, rack, rack unit.

    html is one printable page per rack, with the box and the bay marked.

    \b
    Example:
      provision tickets export rack-12 --format csv -o tickets.csv
      provision tickets export rack-12 --format html -o rack-12.html
    """
    rows = with_app(inventory, state, lambda app: app.ticket_rows(target, open_only=not everything))
    text = _written(kind, rows, inventory)
    if file is None:
        sys.stdout.buffer.write(text.encode())
    else:
        try:
            file.write_bytes(text.encode())
        except OSError as error:
            raise MisconfiguredError(f"cannot write {file}: {error.strerror}; give another --file") from error
        click.echo(f"{len(rows)} ticket(s) written to {file}", err=True)
    return 0


def _written(kind: str, rows: list[dict[str, str]], inventory: Path) -> str:
    if kind == "json":
        from provision.report.tickets import to_json

        return to_json(rows) + "\n"
    if kind == "jira":
        from provision.report.jira import ROWS_FOR_ALL, to_jira

        if len(rows) > ROWS_FOR_ALL:
            click.echo(
                f"Jira takes {ROWS_FOR_ALL} rows at once from non-administrators; these are {len(rows)}", err=True
            )
        return to_jira(rows)
    if kind == "servicenow":
        from provision.report.servicenow import to_servicenow

        return to_servicenow(rows)
    if kind == "html":
        from provision.app.desk import nodes_of
        from provision.report.html import to_html

        return to_html(rows, nodes_of(inventory) if rows else ())
    from provision.report.tickets import to_csv

    return to_csv(rows)


@tickets.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@site_options
def import_file(file: Path, inventory: Path, state: Path | None) -> int:
    """Take back what the staff filled in: Status, Finding, Part swapped, New serial, Technician note.

    Nothing else of the file is read. Rows that are right are taken even if others are not; exit status 1 if a row
    was complained about. Only the machine closes a ticket, when it has looked again.

    \b
    Example:
      provision tickets import tickets-filled.csv
    """
    from provision.app import desk
    from provision.report.text import clean

    try:
        raw = file.read_bytes()
    except OSError as error:
        raise MisconfiguredError(f"cannot read {file}: {error.strerror}") from error
    moved, complaints = with_app(inventory, state, lambda app: desk.import_filled(desk.wiring_of(app), raw), typed=True)
    for ticket in moved:
        click.echo(clean(f"{ticket.id}  {ticket.status.value}  {ticket.node}  {ticket.locator}"))
    for line in complaints:
        click.echo(clean(f"{file.name}: {line}"), err=True)
    click.echo(f"{len(moved)} ticket(s) changed, {len(complaints)} complaint(s)", err=True)
    return 1 if complaints else 0


@tickets.command("set")
@click.argument("ticket")
@click.argument("status", type=click.Choice(["sent", "in-work", "done-by-technician"]))
@click.option("--note", default="", help="Words of the technician; added to what stands there.")
@click.option("--finding", type=click.Choice(["fixed", "no-fault-found", "other-part", "not-done"]))
@click.option("--new-serial", default="", help="Serial number of the part that was put in.")
@site_options
def set_status(
    ticket: str, status: str, note: str, finding: str | None, new_serial: str, inventory: Path, state: Path | None
) -> int:
    """Say how far a ticket is. Only the machine closes it, when it has looked again.

    \b
    Example:
      provision tickets set T-0003 done-by-technician --finding fixed --note "cord was loose"
    """
    from provision.app import desk
    from provision.model.ticket import Found, TicketStatus, Told

    told = Told(ticket, TicketStatus(status), note, Found(finding) if finding else None, "", new_serial)
    after, complaint = with_app(inventory, state, lambda app: desk.report(desk.wiring_of(app), told), typed=True)
    click.echo(f"{after.id}  {after.status.value}")
    if complaint:
        click.echo(complaint, err=True)
    return 1 if complaint else 0


@tickets.command("done-remotely")
@click.argument("ticket")
@click.argument("step")
@site_options
def done(ticket: str, step: str, inventory: Path, state: Path | None) -> int:
    """Count a remote step (reboot, ac_power_cycle, reset_gpu, ...) on a ticket.

    The next bringup looks again: the ticket closes, or somebody is asked to go, with the next step.

    \b
    Example:
      provision tickets done-remotely T-0003 ac_power_cycle
    """
    from provision.app import desk

    after = with_app(inventory, state, lambda app: desk.count_remote(desk.wiring_of(app), ticket, step), typed=True)
    click.echo(f"{after.id}  done remotely: {', '.join(after.steps_done)}; next: provision bringup {after.node}")
    return 0


@tickets.command("review")
@click.option(
    "--installed",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="CSV with model and count: how many of each are installed; bad lots are judged against it.",
)
@site_options
@output_option("text", "json")
def review(installed: Path | None, inventory: Path, state: Path | None, output: str) -> int:
    """What many tickets say together: lemons, moved faults, bad lots, visits for nothing.

    \b
    Example:
      provision tickets review --installed parts.csv
    """
    from provision.app import desk
    from provision.report.text import clean

    counts = desk.installed_from(installed.read_bytes()) if installed is not None else {}
    found = with_app(inventory, state, lambda app: desk.review(desk.wiring_of(app), counts))
    if output == "json":
        print_json(found)
        return 0
    for row in found["lemons"]:
        click.echo(clean(f"lemon: {row['name']}: {row['why']} ({', '.join(row['tickets'])})"))
    for row in found["bad_lots"]:
        said = f"bad lot: {row['model']} ({row['category']}): {row['failed']} of {row['of']}, odds {row['odds']:g} : 1"
        click.echo(clean(said))
    for row in found["rules"]:
        said = f"rule {row['rule']}: {row['no_fault_found']} of {row['visits']} visits found no fault"
        click.echo(clean(f"{said}; it weighs {row['weight']:g} by now"))
    if not any(found.values()):
        click.echo("nothing that stands out", err=True)
    return 0
