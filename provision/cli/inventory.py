"""The inventory verbs: check, import."""

from __future__ import annotations

from pathlib import Path

import click

from provision.cli.common import output_option, print_json, site_options, with_app


@click.group()
def inventory() -> None:
    """Check the inventory, or import a data-centre spreadsheet.

    \b
    Example:
      provision inventory import racks.csv -i inventory
    """


@inventory.command("check")
@site_options
@output_option("text", "json")
def check(inventory: Path, state: Path | None, output: str) -> int:
    """Read the whole inventory and name everything that is wrong with it.

    \b
    Example:
      provision inventory check -i inventory
    """
    summary = with_app(inventory, state, lambda app: app.inventory_summary(), store=False)
    if output == "json":
        print_json(summary)
        return 0
    for line in summary["warnings"]:
        click.echo(f"warning: {line}", err=True)
    click.echo(
        f"{inventory}: {summary['nodes']} node(s) in {len(summary['racks'])} rack(s), profiles: "
        f"{', '.join(summary['profiles']) or 'none'}; nothing to complain about"
    )
    return 0


@inventory.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-i",
    "--inventory",
    type=click.Path(path_type=Path),
    envvar="PROVISION_INVENTORY",
    default=Path("inventory"),
    show_default="./inventory",
    help="Directory to write into.",
)
@click.option("--replace", is_flag=True, help="Overwrite a hosts file that an earlier import wrote.")
def import_file(file: Path, inventory: Path, replace: bool) -> int:
    """Turn a spreadsheet (CSV, one machine a line, columns by header) into inventory YAML.

    \b
    Example:
      provision inventory import racks.csv -i inventory
    """
    from provision.app import import_inventory

    written, notes = import_inventory(file, inventory, replace=replace)
    for note in notes:
        click.echo(note, err=True)
    click.echo(f"written: {written}")
    return 0
