"""What MAAS 3.6.3 allows in which status, as data, and the sentences with which it refuses.

Source: the op × status matrix measured on a real 3.6.3 region (facts: "Op × status, as measured").
"""

from __future__ import annotations

from enum import IntEnum

from provision.model.machine import Status

S = Status

# Names as the API writes them; the short ones are those of the list filter ``status=``.
NAMES: dict[Status, str] = {
    S.NEW: "New",
    S.COMMISSIONING: "Commissioning",
    S.FAILED_COMMISSIONING: "Failed commissioning",
    S.MISSING: "Missing",
    S.READY: "Ready",
    S.RESERVED: "Reserved",
    S.DEPLOYED: "Deployed",
    S.RETIRED: "Retired",
    S.BROKEN: "Broken",
    S.DEPLOYING: "Deploying",
    S.ALLOCATED: "Allocated",
    S.FAILED_DEPLOYMENT: "Failed deployment",
    S.RELEASING: "Releasing",
    S.FAILED_RELEASING: "Releasing failed",
    S.DISK_ERASING: "Disk erasing",
    S.FAILED_DISK_ERASING: "Failed disk erasing",
    S.RESCUE_MODE: "Rescue mode",
    S.ENTERING_RESCUE_MODE: "Entering rescue mode",
    S.FAILED_ENTERING_RESCUE_MODE: "Failed to enter rescue mode",
    S.EXITING_RESCUE_MODE: "Exiting rescue mode",
    S.FAILED_EXITING_RESCUE_MODE: "Failed to exit rescue mode",
    S.TESTING: "Testing",
    S.FAILED_TESTING: "Failed testing",
}
SHORT: dict[str, Status] = {status.name.lower(): status for status in NAMES}

_EVERYWHERE = frozenset(NAMES)

# Where an operation is accepted. What an operation leads to is in lifecycle.py.
ALLOWED: dict[str, frozenset[Status]] = {
    "commission": frozenset({S.NEW, S.FAILED_COMMISSIONING, S.READY, S.BROKEN}),
    "deploy": frozenset({S.READY, S.ALLOCATED}),
    "release": frozenset(
        {
            S.READY,
            S.RESERVED,
            S.DEPLOYED,
            S.BROKEN,
            S.DEPLOYING,
            S.ALLOCATED,
            S.FAILED_DEPLOYMENT,
            S.RELEASING,
            S.FAILED_RELEASING,
            S.FAILED_DISK_ERASING,
        }
    ),
    "abort": frozenset({S.COMMISSIONING, S.DEPLOYING, S.DISK_ERASING, S.TESTING}),
    "test": _EVERYWHERE
    - {
        S.COMMISSIONING,
        S.DEPLOYING,
        S.RELEASING,
        S.DISK_ERASING,
        S.ENTERING_RESCUE_MODE,
        S.EXITING_RESCUE_MODE,
        S.TESTING,
    },
    "mark_broken": _EVERYWHERE,
    "mark_fixed": frozenset({S.BROKEN}),
    "power_off": _EVERYWHERE,
    "lock": frozenset({S.DEPLOYED, S.DEPLOYING}),
    "rescue_mode": frozenset(
        {
            S.NEW,
            S.FAILED_COMMISSIONING,
            S.MISSING,
            S.READY,
            S.RESERVED,
            S.DEPLOYED,
            S.RETIRED,
            S.BROKEN,
            S.ALLOCATED,
            S.FAILED_DEPLOYMENT,
            S.FAILED_DISK_ERASING,
            S.ENTERING_RESCUE_MODE,
            S.FAILED_ENTERING_RESCUE_MODE,
            S.FAILED_TESTING,
        }
    ),
    "exit_rescue_mode": frozenset(
        {
            S.RESCUE_MODE,
            S.ENTERING_RESCUE_MODE,
            S.FAILED_ENTERING_RESCUE_MODE,
            S.EXITING_RESCUE_MODE,
            S.FAILED_EXITING_RESCUE_MODE,
        }
    ),
    "override_failed_testing": frozenset({S.FAILED_TESTING}),
    "set_storage_layout": frozenset({S.READY}),
    "set_boot_disk": frozenset({S.READY}),
    "create_interface": frozenset({S.NEW, S.READY, S.ALLOCATED, S.BROKEN}),
}

# Refusals of a wrong state: 409 text/plain unless the operation is a form (commission, test: 400 JSON).
REFUSALS: dict[str, str] = {
    "deploy": "Can't deploy a machine that is in the '{status}' state",
    "release": "Machine cannot be released in its current state ('{status}').",
    "abort": "Cannot abort in current state: node {system_id} is in state {status}.",
    "mark_fixed": "Can't mark a non-broken node as 'Ready'.",
    "lock": "Can't lock, node is not deployed or deploying",
    "rescue_mode": "Invalid transition: {status} -> Entering rescue mode.",
    "exit_rescue_mode": "Invalid transition: {status} -> Exiting rescue mode.",
    "override_failed_testing": "Cannot override the testing results of a node that has not failed testing.",
    "set_storage_layout": "Cannot change the storage layout on a machine that is not Ready.",
    "set_boot_disk": "Cannot set as boot disk because the machine is not Ready.",
    "create_interface": "Cannot create interface because the machine is not New, Ready, Allocated, or Broken.",
}
FORM_REFUSALS: dict[str, str] = {
    "commission": "Commission is not available because of the current state of the node.",
    "test": "Test is not available because of the current state of the node.",
}

# Statuses that MAAS watches, with the name of the operation in the event and the minutes (None: node_timeout).
WATCHED: dict[Status, tuple[str, int | None, Status]] = {
    S.COMMISSIONING: ("Commissioning", None, S.FAILED_COMMISSIONING),
    S.DEPLOYING: ("Deploying", None, S.FAILED_DEPLOYMENT),
    S.TESTING: ("Testing", None, S.FAILED_TESTING),
    S.ENTERING_RESCUE_MODE: ("Entering rescue mode", None, S.FAILED_ENTERING_RESCUE_MODE),
    S.EXITING_RESCUE_MODE: ("Exiting rescue mode", 5, S.FAILED_EXITING_RESCUE_MODE),
    S.RELEASING: ("Releasing", 5, S.FAILED_RELEASING),
}


class ScriptStatus(IntEnum):
    """MAAS's SCRIPT_STATUS. UNKNOWN is what a set without results reports."""

    UNKNOWN = -1
    PENDING = 0
    RUNNING = 1
    PASSED = 2
    FAILED = 3
    TIMED_OUT = 4
    ABORTED = 5
    DEGRADED = 6
    INSTALLING = 7
    FAILED_INSTALLING = 8
    SKIPPED = 9
    APPLYING_NETCONF = 10
    FAILED_APPLYING_NETCONF = 11


SCRIPT_NAMES: dict[ScriptStatus, str] = {
    ScriptStatus.UNKNOWN: "Unknown",
    ScriptStatus.PENDING: "Pending",
    ScriptStatus.RUNNING: "Running",
    ScriptStatus.PASSED: "Passed",
    ScriptStatus.FAILED: "Failed",
    ScriptStatus.TIMED_OUT: "Timed out",
    ScriptStatus.ABORTED: "Aborted",
    ScriptStatus.DEGRADED: "Degraded",
    ScriptStatus.INSTALLING: "Installing dependencies",
    ScriptStatus.FAILED_INSTALLING: "Failed installing dependencies",
    ScriptStatus.SKIPPED: "Skipped",
    ScriptStatus.APPLYING_NETCONF: "Applying custom network configuration",
    ScriptStatus.FAILED_APPLYING_NETCONF: "Failed to apply custom network configuration",
}
# A real 3.6.3 looks the name of status -1 up in a list and gets the last entry.
EMPTY_SET_NAME = SCRIPT_NAMES[ScriptStatus.FAILED_APPLYING_NETCONF]

_PRECEDENCE = (
    ScriptStatus.RUNNING,
    ScriptStatus.INSTALLING,
    ScriptStatus.APPLYING_NETCONF,
    ScriptStatus.PENDING,
    ScriptStatus.ABORTED,
    ScriptStatus.FAILED,
    ScriptStatus.FAILED_APPLYING_NETCONF,
    ScriptStatus.FAILED_INSTALLING,
    ScriptStatus.TIMED_OUT,
    ScriptStatus.DEGRADED,
)


def combined(statuses: list[ScriptStatus]) -> ScriptStatus:
    """One status for many results: the first of MAAS's order of precedence, Passed if none, UNKNOWN if empty."""
    if not statuses:
        return ScriptStatus.UNKNOWN
    present = set(statuses)
    return next((status for status in _PRECEDENCE if status in present), ScriptStatus.PASSED)


def accepts(operation: str, status: Status) -> bool:
    """Whether MAAS takes the operation in this status (ownership, locks and forms are judged elsewhere)."""
    return status in ALLOWED[operation]
