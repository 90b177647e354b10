"""The simulated fleet: start it, break it, repair it, count what it was sent."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from provision.errors import MisconfiguredError

if TYPE_CHECKING:
    from provision.sim.control import Control

_DIRECTORY = Path("sim")


@click.group(invoke_without_command=True)
@click.option("--nodes", type=click.IntRange(1, 4096), default=8, show_default=True, help="How many machines.")
@click.option("--racks", type=click.IntRange(1, 512), default=None, help="Over how many racks (default: 8 nodes each).")
@click.option(
    "--fault", "faults", multiple=True, metavar="NODE:KIND[:ARG]", help="A fault to begin with; may be repeated."
)
@click.option(
    "--family",
    "families",
    multiple=True,
    metavar="[NODE|RACK:]NAME",
    help="Maker of the BMCs: idrac9 (default), idrac10, hpe (iLO), supermicro, lenovo (XCC), ami or openbmc. Several "
    "are dealt out in turn; with the name of a node or a rack it is that one's.",
)
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 100_000),
    default=600.0,
    show_default=True,
    help="How many times faster time runs.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same machines.")
@click.option(
    "--power-by",
    type=click.Choice(["maas", "provision"]),
    default="maas",
    show_default=True,
    help="Whose hand is on the power button.",
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=_DIRECTORY,
    show_default="./sim",
    help="Where its inventory, keys and certificates lie.",
)
@click.pass_context
def sim(
    context: click.Context,
    nodes: int,
    racks: int | None,
    faults: tuple[str, ...],
    families: tuple[str, ...],
    speed: float,
    seed: int,
    power_by: str,
    directory: Path,
) -> None:
    """A simulated fleet: BMCs, MAAS and hosts on this machine's loopback addresses.

    Without a command it starts in the foreground, writes an inventory and runs until Ctrl-C.

    \b
    Example:
      provision sim --nodes 8 --fault gpu-12-03:psu_cord_out:2 --speed 600
      provision sim --nodes 16 --family hpe --family rack-13:openbmc --family gpu-12-01:lenovo
      provision bringup rack-12 -i sim/inventory          (in another terminal)
      provision sim repair gpu-12-03
    """
    context.obj = directory
    if context.invoked_subcommand is None:
        _run(directory, nodes, racks, faults, families, speed, seed, power_by)


def _directory(command: Any) -> Any:
    return click.option(
        "--dir",
        "directory",
        type=click.Path(path_type=Path, file_okay=False),
        default=None,
        show_default="./sim",
        help="The simulation's folder.",
    )(command)


@sim.command()
@click.argument("node")
@click.argument("fault", metavar="KIND[:ARG]")
@_directory
@click.pass_context
def fault(context: click.Context, node: str, fault: str, directory: Path | None) -> None:
    """Let a fault strike a machine while the simulation runs.

    \b
    Example:
      provision sim fault gpu-12-03 psu_cord_out:2
      provision sim faults                                (lists the kinds)
    """
    from provision.sim.control import split_fault

    def strike(control: Control) -> str:
        return control.fault(node, *split_fault(fault))

    click.echo(f"{node}: {_ask(context, directory, strike)}", err=True)


@sim.command()
def faults() -> None:
    """List the kinds of faults.

    \b
    Example:
      provision sim faults
    """
    from provision.sim.faults import FAULTS

    for kind, row in FAULTS.items():
        click.echo(f"{kind:20} {row.about}{f' [:{row.argument}]' if row.argument else ''}")


@sim.command()
@click.argument("node")
@click.argument("kind", required=False)
@_directory
@click.pass_context
def repair(context: click.Context, node: str, kind: str | None, directory: Path | None) -> None:
    """Repair a machine: all its faults, or those of one kind.

    \b
    Example:
      provision sim repair gpu-12-03
      provision sim repair gpu-12-03 psu_cord_out
    """
    mended = _ask(context, directory, lambda control: control.repair(node, kind and kind.partition(":")[0]))
    click.echo(f"{node}: repaired {', '.join(mended) or 'nothing, it has no such fault'}", err=True)


@sim.command()
@click.option("--reset", is_flag=True, help="Count anew afterwards.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@_directory
@click.pass_context
def writes(context: click.Context, reset: bool, output: str, directory: Path | None) -> None:
    """How many writes each machine received, by name.

    \b
    Example:
      provision sim writes --output json
    """
    import json

    counted = _ask(context, directory, lambda control: control.writes(reset=reset))
    if output == "json":
        click.echo(json.dumps(counted, indent=2))
        return
    for name, writes_of in counted.items():
        listed = ", ".join(f"{write} {count}" for write, count in sorted(writes_of.items()))
        click.echo(f"{name:14} {sum(writes_of.values()):5}  {listed}")
    click.echo(f"{'all':14} {sum(sum(writes_of.values()) for writes_of in counted.values()):5}")


@sim.command()
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@_directory
@click.pass_context
def show(context: click.Context, output: str, directory: Path | None) -> None:
    """How each machine stands.

    \b
    Example:
      provision sim show
    """
    import json

    told = _ask(context, directory, lambda control: control.show())
    if output == "json":
        click.echo(json.dumps(told, indent=2))
        return
    click.echo(f"inventory {told['inventory']}, MAAS {told['maas']}, {told['speed']:g} times faster", err=True)
    for name, machine in told["machines"].items():
        runs = {"ephemeral": "booted from the network", "installed": "its own system"}.get(machine["host"], "no system")
        faults = ", ".join(machine["faults"]) or "well"
        click.echo(f"{name:14} {machine['power']:3}  {machine['progress']:38} {runs:24} {faults}")


@sim.command()
@_directory
@click.pass_context
def stop(context: click.Context, directory: Path | None) -> None:
    """End the simulation.

    \b
    Example:
      provision sim stop
    """
    _ask(context, directory, lambda control: control.stop())
    click.echo("the simulation has ended", err=True)


def _ask(context: click.Context, directory: Path | None, work: Any) -> Any:
    from provision.sim.control import Control
    from provision.sim.parts import SimError

    try:
        return work(Control.open(directory or context.obj or _DIRECTORY))
    except SimError as error:
        raise MisconfiguredError(str(error)) from None


def _run(
    directory: Path,
    nodes: int,
    racks: int | None,
    faults: tuple[str, ...],
    families: tuple[str, ...],
    speed: float,
    seed: int,
    power_by: Any,
) -> None:
    import asyncio
    import signal

    from provision.sim.parts import SimError
    from provision.sim.run import start_fleet

    everywhere = [name for name in families if ":" not in name] or ["idrac9"]
    places = dict(name.split(":", 1) for name in families if ":" in name)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        end = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end.set)
        async with start_fleet(
            directory,
            nodes=nodes,
            racks=racks,
            seed=seed,
            speed=speed,
            power_by=power_by,
            faults=_parsed(faults),
            family=everywhere,
            families_at=places,
        ) as fleet:
            click.echo(_welcome(directory, fleet), err=True)
            waits = [loop.create_task(end.wait()), loop.create_task(fleet.until_stopped())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        click.echo("the simulation has ended", err=True)

    try:
        asyncio.run(run())
    except SimError as error:
        raise MisconfiguredError(str(error)) from None


def _parsed(faults: tuple[str, ...]) -> list[tuple[str, str]]:
    split = [fault.partition(":") for fault in faults]
    for text, (node, _, kind) in zip(faults, split, strict=True):
        if not node or not kind:
            raise MisconfiguredError(f"--fault {text}: expected NODE:KIND[:ARG], as gpu-12-03:psu_cord_out:2")
    return [(node, kind) for node, _, kind in split]


def _welcome(directory: Path, fleet: Any) -> str:
    machines = list(fleet.world.machines.values())
    racks = list(dict.fromkeys(machine.rack for machine in machines))
    makers = Counter(machine.family.name for machine in machines)
    sick = [f"{machine.name} {fault}" for machine in machines for fault in machine.faults]
    target = racks[0] if len(racks) == 1 else "all"
    lines = [
        f"{len(machines)} simulated machines in {', '.join(racks[:6])}{' …' if len(racks) > 6 else ''}, "
        f"time runs {fleet.world.clock.speed:g} times faster.",
        f"  BMCs       {machines[0].bmc_address}:{machines[0].bmc_port} and on: "
        f"{', '.join(f'{count} {name}' for name, count in makers.items())}",
        f"  MAAS       {fleet.maas_url}",
        f"  inventory  {directory / 'inventory'}",
        f"  faults     {', '.join(sick) or 'none'}",
        "Next, in another terminal:",
        f"  provision bringup {target} -i {directory / 'inventory'}",
        "Ctrl-C ends the simulation.",
    ]
    return "\n".join(lines)
