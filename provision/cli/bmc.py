"""The verbs that look after BMCs."""

from __future__ import annotations

from pathlib import Path

import click

from provision.cli.common import output_option, print_rows, site_options, with_app


@click.group()
def bmc() -> None:
    """Look after BMCs: restart, clock, sessions, firmware. The hosts go on.

    \b
    Example:
      provision bmc info rack-12
      provision bmc reset gpu-12-03
    """


@bmc.command()
@click.argument("target")
@site_options
@output_option("table", "json", "csv")
def reset(target: str, inventory: Path, state: Path | None, output: str) -> int:
    """Restart BMCs, and wait until they are really back: host and every port shown again.

    The hosts go on. Everybody's sessions on the BMC end.

    \b
    Example:
      provision bmc reset gpu-12-03
    """
    rows = with_app(inventory, state, lambda app: app.bmc_reset(target), typed=True)
    print_rows(output, ["node", "result"], rows, empty="no nodes")
    return 0 if all(row["ok"] for row in rows) else 1


@bmc.command()
@click.argument("target")
@click.option("--set", "write", is_flag=True, help="Set clocks that are off: our time, or the site's NTP servers.")
@site_options
@output_option("table", "json", "csv")
def clock(target: str, write: bool, inventory: Path, state: Path | None, output: str) -> int:
    """How far the BMCs' clocks are off. Log entries are judged by them. Writes only with --set.

    \b
    Example:
      provision bmc clock rack-12
      provision bmc clock gpu-12-03 --set
    """
    rows = with_app(inventory, state, lambda app: app.bmc_clock(target, write=write), typed=write)
    print_rows(output, ["node", "offset_s", "ntp", "result"], rows, empty="no nodes")
    return 0 if all(row["ok"] for row in rows) else 1


@bmc.command()
@click.argument("target")
@click.option("--end-ours", is_flag=True, help="End what killed runs of this program left behind on the BMC.")
@site_options
@output_option("table", "json", "csv")
def sessions(target: str, end_ours: bool, inventory: Path, state: Path | None, output: str) -> int:
    """Who is logged in to the BMCs. Other people's sessions are never ended.

    \b
    Example:
      provision bmc sessions gpu-12-03
      provision bmc sessions rack-12 --end-ours
    """
    rows = with_app(inventory, state, lambda app: app.bmc_sessions(target, end_ours=end_ours), typed=end_ours)
    columns = ["node", "session", "user", "client", "created", "whose"]
    print_rows(output, columns, rows, empty="nobody is logged in")
    return 0 if all(row["ok"] for row in rows) else 1


@bmc.command()
@click.argument("target")
@site_options
@output_option("table", "json", "csv")
def info(target: str, inventory: Path, state: Path | None, output: str) -> int:
    """Firmware of BMC, BIOS, cards, drives and GPUs, beside what the profile wants. Writes nothing.

    \b
    Example:
      provision bmc info gpu-12-03
      provision bmc info rack-12 --output csv > firmware.csv
    """
    rows = with_app(inventory, state, lambda app: app.bmc_info(target))
    columns = ["node", "part", "locator", "model", "version", "wanted", "result"]
    print_rows(output, columns, rows, empty="no nodes")
    return 0 if all(row["ok"] is not False for row in rows) else 1
