"""The roof: parse, call the app, print, answer with an exit status.

Nothing here imports redfish, maas, ansible_runner, paramiko, sqlalchemy or rich at module level, so that ``--help``
and shell completion stay quick; tests/cli/test_help.py keeps it so.
"""

from __future__ import annotations

import sys
from importlib import import_module

import click

from provision import __version__
from provision.errors import MisconfiguredError, ProvisionError, RefusedError

# Verb → (module, attribute, what the list of commands says). The modules are imported when their verb is typed.
VERBS = {
    "bringup": ("bringup", "bringup", "Take machines from racked and cabled to accepted."),
    "plan": ("bringup", "plan", "Show what bringup would do, node by node. Writes nothing."),
    "status": ("look", "status", "Every node: stage, since when, why it waits, what happens next."),
    "reimage": ("bringup", "reimage", "Install nodes afresh. ERASES their disks."),
    "release": ("bringup", "release", "Give one machine back to MAAS. What is on it is LOST."),
    "adopt": ("bringup", "adopt", "Accept a machine that was deployed by hand."),
    "check": ("look", "check", "One yes or no per host, every no with its evidence."),
    "triage": ("look", "triage", "Gather evidence now and judge it, without touching anything."),
    "why": ("why", "why", "The reasoning about one node, in plain words."),
    "tickets": ("tickets", "tickets", "List, show, export and import repair tickets."),
    "rules": ("rules", "rules", "List, show and test the triage rules."),
    "macs": ("look", "macs", "Every NIC with its MAC, link and speed."),
    "power": ("power", "power", "Power on, off, cycle or status."),
    "bmc": ("bmc", "bmc", "Restart BMCs, their clocks, sessions and firmware."),
    "runs": ("operators", "runs", "Who runs or ran what, since when, from where."),
    "watch": ("operators", "watch", "Show another process's run."),
    "cancel": ("operators", "cancel", "Let a run end, wherever its process is."),
    "limits": ("operators", "limits", "The site's limits, and who holds what."),
    "resume": ("operators", "resume", "Go on where too many nodes had failed."),
    "history": ("look", "history", "A node's timeline."),
    "inventory": ("inventory", "inventory", "Check the inventory, or import a spreadsheet."),
    "worker": ("worker", "worker", "Bring up what is wanted, beside other workers on any machine."),
    "store": ("store", "store", "What is kept and where: info, check, prune, move."),
    "mirror": ("mirror", "mirror", "Compare the site's mirror with what the profiles need."),
    "sim": ("sim", "sim", "A simulated fleet to try everything on."),
}


class _Verbs(click.Group):
    """A group whose commands are imported when they are named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, attribute, _ = VERBS[cmd_name]
        command: click.Command = getattr(import_module(f"provision.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # The table is enough for the list: a help text imports no verb.
        with formatter.section("Commands"):
            formatter.write_dl([(verb, text) for verb, (_, _, text) in VERBS.items()])


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="provision")
def cli() -> None:
    """Bare-metal provisioning for GPU clusters.

    TARGET is an Ansible host pattern over the inventory: a node, a rack group, or 'rack-12:!gpu-12-03'.

    \b
    Example:
      provision bringup rack-12
      provision tickets export --format csv > tickets.csv

    Exit status: 0 all ready, 1 somebody must look, 2 nothing was tried, 130 interrupted.
    """


def main(argv: list[str] | None = None) -> None:
    """Run the command line and leave with its exit status; never with a traceback for what we foresaw."""
    try:
        status = cli.main(args=argv, prog_name="provision", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (MisconfiguredError, RefusedError) as error:
        _say(error)
        sys.exit(2)
    except ProvisionError as error:
        _say(error)
        sys.exit(1)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): no complaint, and no second one while Python shuts down.
        sys.stdout = open("/dev/null", "w", encoding="utf-8")  # noqa: SIM115
        sys.exit(141)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except Exception as error:
        _unforeseen(error)
        sys.exit(70)
    sys.exit(status if isinstance(status, int) else 0)


def _say(error: ProvisionError) -> None:
    for line in str(error).splitlines() or [type(error).__name__]:
        click.echo(f"provision: {line}", err=True)


def _unforeseen(error: Exception) -> None:
    """Our own bug: one sentence on the screen, the traceback in a file that can be sent to us."""
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="provision-bug-", suffix=".txt", delete=False) as file:
        file.write("".join(traceback.format_exception(error)))
    click.echo(
        f"provision: this is a bug of ours ({type(error).__name__}); nothing more was done. "
        f"The details are in {file.name}: please report it with that file.",
        err=True,
    )
