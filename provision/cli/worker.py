"""The verb ``worker``."""

from __future__ import annotations

from pathlib import Path

import click

from provision.cli.common import default_state, site_options


@click.command()
@site_options
@click.option("--nodes", "most", type=click.IntRange(min=1), default=256, show_default=True, help="How many at once.")
@click.option(
    "--lease",
    "lease_s",
    type=click.FloatRange(min=2, max=300),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="After so much silence of this worker others take its nodes over.",
)
@click.option("--once", is_flag=True, help="End when nothing is wanted any more.")
def worker(inventory: Path, state: Path | None, most: int, lease_s: float, once: bool) -> None:
    """Bring up what is wanted, beside other workers, here or on other machines that share the store.

    While a worker is alive, `provision bringup` only says what is wanted and watches. Ctrl-C or SIGTERM: nothing is
    begun any more, and what is unfinished goes to the others; so workers are upgraded one after the other.

    \b
    Example:
      provision worker --nodes 128
    """
    import asyncio

    from provision.app.process import ready_for_many_connections
    from provision.app.workers import serve

    ready_for_many_connections()
    asyncio.run(serve(inventory, state or default_state(), most=most, lease_s=lease_s, once=once))
