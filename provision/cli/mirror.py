"""The verb ``mirror``: what hosts install from."""

from __future__ import annotations

from pathlib import Path

import click

from provision.cli.common import output_option, print_json, print_table, site_options, with_app


@click.group()
def mirror() -> None:
    """What hosts install from.

    \b
    Example:
      provision mirror check rack-12
    """


@mirror.command()
@click.argument("target", required=False, default="all")
@site_options
@output_option("table", "json")
def check(target: str, inventory: Path, state: Path | None, output: str) -> int:
    """Compare the site's mirror with what the target's profiles need. Reads the mirror's index, asks no node.

    \b
    Example:
      provision mirror check rack-12
    """
    rows, notes = with_app(inventory, state, lambda app: app.mirror_check(target), store=False)
    if output == "json":
        print_json({"packages": rows, "notes": notes})
    else:
        print_table(
            ["", "profile", "role", "package", "wanted", "found", "repository"],
            [
                [
                    "ok" if row["ok"] else "MISSING",
                    row["profile"],
                    row["role"],
                    row["package"],
                    row["wanted"],
                    row["found"] or ("only " + ", ".join(row["others"]) if row["others"] else "nothing"),
                    row["repository"] or "",
                ]
                for row in rows
            ],
            empty="the profiles name no packages, so nothing is needed",
        )
    for note in notes:
        click.echo(note, err=True)
    missing = [row for row in rows if not row["ok"]]
    if missing:
        click.echo(
            f"{len(missing)} of {len(rows)} packages are missing: a bring-up would stop at these nodes", err=True
        )
    return 1 if missing else 0
