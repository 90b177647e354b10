"""The verb that tells the reasoning."""

from __future__ import annotations

from pathlib import Path

import click

from provision.cli.common import output_option, print_json, site_options, with_app


@click.command()
@click.argument("node")
@site_options
@output_option("text", "json")
def why(node: str, inventory: Path, state: Path | None, output: str) -> int:
    """The reasoning about one node, in plain words: tickets, what carried them, what would change it.

    Tells what is stored; it asks no BMC and no MAAS.

    \b
    Example:
      provision why gpu-12-03
    """
    from provision.app import desk

    async def ask(app: object) -> list[str]:
        wiring = desk.wiring_of(app)
        return await desk.why(wiring, desk.one(wiring, node).name)

    lines = with_app(inventory, state, ask)
    if output == "json":
        print_json(lines)
    else:
        for line in lines:
            click.echo(line)
    return 0
