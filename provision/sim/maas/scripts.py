"""MAAS's own scripts, and how their results are opened, written and closed."""

from __future__ import annotations

from provision.sim.maas.region import Region
from provision.sim.maas.state import COMMISSIONING, INSTALLATION, RELEASE, TESTING, Record, ScriptRun, ScriptSet
from provision.sim.maas.statuses import ScriptStatus

# Name → script id, sorted by name as result sets list them (M115).
COMMISSIONING_SCRIPTS: dict[str, int] = {
    "20-maas-01-install-lldpd": 1,
    "20-maas-02-dhcp-unconfigured-ifaces": 2,
    "20-maas-03-machine-resources": 4,
    "30-maas-01-bmc-config": 3,
    "40-maas-01-machine-config-hints": 5,
    "50-maas-01-commissioning": 6,
    "maas-capture-lldpd": 13,
    "maas-get-fruid-api-data": 10,
    "maas-kernel-cmdline": 11,
    "maas-list-modaliases": 9,
    "maas-lshw": 8,
    "maas-serial-ports": 12,
    "maas-support-info": 7,
}
BMC_CONFIG = "30-maas-01-bmc-config"
TESTING_SCRIPTS: dict[str, int] = {
    "smartctl-validate": 14,
    "smartctl-short": 15,
    "smartctl-long": 16,
    "smartctl-conveyance": 17,
    "memtester": 18,
    "internet-connectivity": 19,
    "stress-ng-cpu-short": 20,
    "stress-ng-memory-short": 21,
    "7z": 22,
    "ntp": 23,
    "badblocks": 24,
    "fio": 25,
}
# These run once per drive.
PER_DISK = {name for name in TESTING_SCRIPTS if name.startswith("smartctl")} | {"badblocks", "fio"}
DEFAULT_TESTS = ("smartctl-validate",)
INSTALL_LOG = "/tmp/install.log"  # noqa: S108 - the name of the result, no file of ours
WIPE_DISKS = ("wipe-disks", 31)


def _run(region: Region, name: str, script_id: int | None) -> ScriptRun:
    now = region.now()
    return ScriptRun(region.next_id("result"), name, script_id, now, now)


def _open(region: Region, record: Record, kind: int, runs: list[ScriptRun]) -> ScriptSet:
    item = ScriptSet(region.next_id("set"), kind, runs)
    record.sets.append(item)
    return item


def open_commissioning(
    region: Region, record: Record, *, tests: tuple[str, ...], skip_bmc_config: bool, custom: tuple[str, ...] = ()
) -> None:
    """Result sets of a commissioning. Without tests an empty testing set is made, and not made current (M123)."""
    names = COMMISSIONING_SCRIPTS | {name: region.custom_scripts[name] for name in custom}
    runs = [_run(region, name, script_id) for name, script_id in sorted(names.items())]
    for run in runs:
        if run.name == BMC_CONFIG and skip_bmc_config:
            run.status, run.exit_status = ScriptStatus.SKIPPED, 0
            run.started = run.ended = region.now()
    record.current[COMMISSIONING] = _open(region, record, COMMISSIONING, runs)
    testing = open_testing(region, record, tests)
    if tests:
        record.current[TESTING] = testing


def open_testing(region: Region, record: Record, tests: tuple[str, ...]) -> ScriptSet:
    """A testing set; scripts that look at drives stand in it once per drive."""
    runs: list[ScriptRun] = []
    for name in tests:
        times = max(1, len(record.disks)) if name in PER_DISK else 1
        runs += [_run(region, name, TESTING_SCRIPTS[name]) for _ in range(times)]
    return _open(region, record, TESTING, runs)


def open_installation(region: Region, record: Record) -> None:
    """The set with the installer's log."""
    record.current[INSTALLATION] = _open(region, record, INSTALLATION, [_run(region, INSTALL_LOG, None)])


def open_release(region: Region, record: Record) -> None:
    """The set of an erasing release. Its result stays pending for ever (M243)."""
    record.current[RELEASE] = _open(region, record, RELEASE, [_run(region, *WIPE_DISKS)])


def start(region: Region, item: ScriptSet, run: ScriptRun) -> None:
    """The node says that it runs this script."""
    run.status = ScriptStatus.RUNNING
    run.started = run.updated = item.last_ping = region.now()


def finish(
    region: Region, record: Record, item: ScriptSet, run: ScriptRun, *, exit_status: int = 0, output: str = ""
) -> None:
    """The node reports a script's end; a failure is also an event (M141). Failures write to stderr."""
    text = output.encode()
    run.started = run.started or region.now()
    run.ended = run.updated = region.now()
    run.exit_status, run.output = exit_status, text
    if item.type != INSTALLATION:
        item.last_ping = region.now()
        run.stdout, run.stderr = (text, b"") if exit_status == 0 else (b"", text)
    run.status = ScriptStatus.PASSED if exit_status == 0 else ScriptStatus.FAILED
    if exit_status:
        region.log(record, "Script", f"{run.name} failed", is_status=False)


def stop(item: ScriptSet | None, status: ScriptStatus = ScriptStatus.ABORTED) -> None:
    """End everything of a set that has not ended by itself."""
    for run in item.runs if item else []:
        if run.status in {ScriptStatus.PENDING, ScriptStatus.RUNNING}:
            run.status = status
