"""The power verbs."""

from __future__ import annotations

from pathlib import Path

import click

from provision.cli.common import output_option, print_rows, site_options, with_app


@click.group()
def power() -> None:
    """Power on, off, cycle or status, over the BMCs.

    \b
    Example:
      provision power status rack-12
    """


def _verb(name: str, help_text: str, *, force: bool) -> None:
    @power.command(name, help=f"{help_text}\n\n\b\nExample:\n  provision power {name} gpu-12-03")
    @click.argument("target")
    @click.option("--force", is_flag=True, hidden=not force, help="Do not ask the operating system first.")
    @site_options
    @output_option("table", "json", "csv")
    def command(target: str, force: bool, inventory: Path, state: Path | None, output: str) -> int:
        rows = with_app(inventory, state, lambda app: app.power(target, name, force=force), typed=name != "status")
        print_rows(output, ["node", "power", "result"], rows, empty="no nodes")
        return 0 if all(row["ok"] for row in rows) else 1


_verb("on", "Switch on, and look until the BMC says so.", force=False)
_verb("off", "Switch off: the operating system is asked first, then the button is held.", force=True)
_verb("cycle", "Restart the host.", force=True)
_verb("status", "Read the power state. Writes nothing.", force=False)
