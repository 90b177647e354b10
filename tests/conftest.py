"""Which tests are quick enough for `make check`."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent

# Real peers in processes of their own, packed modules, thousands of generated cases: seconds of CPU each.
SLOW = {
    "adapters/ansible/test_waves.py",
    "adapters/ansible/test_canary.py",
    "adapters/redfish/test_redfish_mutations.py",
    "adapters/redfish/test_redfish_soak.py",
    "adapters/redfish/test_redfish_trees.py",
    "adapters/redfish/test_sushy_peer.py",
    "adapters/ssh/test_shell.py",
    "app/test_looking.py",
    "config/test_importer.py",
    "engine/test_brakes.py",
    "engine/test_state_machine.py",
    "config/test_inventory.py",
    "config/test_secrets.py",
    "playbooks/test_disks_property.py",
    "playbooks/test_hostid_module.py",
    "playbooks/test_provision_check.py",
    "playbooks/test_stack_checks.py",
    "playbooks/test_wheel.py",
    "playbooks/test_zpool_module.py",
    "sim/test_bmc_sick.py",
    "sim/test_host.py",
    "sim/test_run.py",
    "sim/test_maas_world.py",
    "store/test_store_races.py",
    "store/test_store_server.py",
    "store/test_store_upkeep.py",
    "store/test_store_year.py",
    "triage/test_hostile.py",
    "triage/test_soak.py",
}

# A file stays on one worker (its tests share a fleet): the longest are begun first, or one of them is alone at the end.
LONGEST = (
    "nspawn/test_site.py",
    "journeys/test_kill.py",
    "journeys/test_bad_input.py",
    "journeys/test_maas_kill_reimage.py",
    "journeys/test_verbs.py",
    "journeys/test_faults.py",
    "journeys/test_maas_care.py",
    "journeys/test_maas_reimage.py",
    "journeys/test_maas_trouble.py",
    "journeys/test_tickets.py",
)


def _turn(name: str) -> int:
    if name in LONGEST:
        return LONGEST.index(name)
    return len(LONGEST) + (0 if name.startswith(("journeys/", "nspawn/")) else 1 if name in SLOW else 2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    turns: dict[int, list[pytest.Item]] = {}
    for item in items:
        name = item.path.relative_to(HERE).as_posix() if item.path.is_relative_to(HERE) else ""
        if name in SLOW:
            item.add_marker(pytest.mark.slow)
        turns.setdefault(_turn(name), []).append(item)
    items[:] = [item for turn in sorted(turns) for item in turns[turn]]
