"""A judged fault: what is broken, where, and what somebody is asked to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from provision.model.evidence import Evidence, Gap, Part


class Category(StrEnum):
    """What kind of fault it is (facts: triage, the seventeen classes), and unknown."""

    CABLING_ETHERNET = "cabling_ethernet"
    CABLING_INFINIBAND = "cabling_infiniband"
    INTERNAL_CABLE = "internal_cable"
    PSU = "psu"
    NVME = "nvme"
    PCIE_LINK = "pcie_link"
    GPU = "gpu"
    NVLINK = "nvlink"
    NIC = "nic"
    BMC = "bmc"
    MEMORY = "memory"
    THERMAL = "thermal"
    CPU_THROTTLE = "cpu_throttle"
    FIRMWARE = "firmware"
    GDR_PEERMEM = "gdr_peermem"
    WRONG_DISK = "wrong_disk"
    NOT_HARDWARE = "not_hardware"
    UNKNOWN = "unknown"


class Action(StrEnum):
    """What is asked for. Remote ones need nobody in the cage."""

    NONE = "none"
    RETRY = "retry"
    COLLECT_MORE = "collect_more"
    FIX_CONFIG = "fix_config"
    FIX_SOFTWARE = "fix_software"
    UPDATE_FIRMWARE = "update_firmware"
    RESET_BMC = "reset_bmc"
    REBOOT = "reboot"
    RESET_GPU = "reset_gpu"
    AC_POWER_CYCLE = "ac_power_cycle"
    CHECK_POWER_FEED = "check_power_feed"
    CHECK_COOLING = "check_cooling"
    RESEAT_CABLE = "reseat_cable"
    RECABLE_PORT = "recable_port"
    REPLACE_CABLE = "replace_cable"
    RESEAT_DRIVE = "reseat_drive"
    REPLACE_DRIVE = "replace_drive"
    RESEAT_DEVICE = "reseat_device"
    REPLACE_GPU = "replace_gpu"
    REPLACE_DIMM = "replace_dimm"
    REPLACE_PSU = "replace_psu"
    REPLACE_FAN = "replace_fan"
    REPLACE_PART = "replace_part"

    @property
    def remote(self) -> bool:
        """True if it needs nobody in the cage (an AC cycle by a switched PDU outlet)."""
        return self in {
            *(Action.RETRY, Action.REBOOT, Action.RESET_BMC, Action.RESET_GPU, Action.AC_POWER_CYCLE),
            *(Action.UPDATE_FIRMWARE, Action.FIX_CONFIG, Action.FIX_SOFTWARE, Action.COLLECT_MORE),
        }


class Dispatch(StrEnum):
    """Whether somebody goes: now, after the remote step has failed to help, or never."""

    NOW = "now"
    AFTER_REPEAT = "after_repeat"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of one node (or of what several nodes share).

    ``part.locator`` is what is printed on the metal; ``peer_end`` the other end of a cable. ``ask`` is the
    sentence for the technician, ``why`` the reasoning for the operator. ``confidence`` is 0…1. ``absorbed`` are
    findings that this one explains. ``nodes`` lists all hosts when the cause is shared. ``in_metal`` is set by a rule
    that knows better than its category (a link event that is only counted, a CPU held down by power delivery).
    """

    rule: str
    node: str
    category: Category
    component: str
    part: Part
    action: Action
    dispatch: Dispatch
    ask: str
    why: str = ""
    escalate: Action | None = None
    confidence: float = 0.5
    peer_end: str = ""
    evidence: tuple[Evidence, ...] = ()
    absorbed: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    in_metal: bool | None = None

    @property
    def hardware(self) -> bool:
        """True if the fault lies in metal: something a technician can touch."""
        if self.in_metal is not None:
            return self.in_metal
        return self.category not in {
            Category.NOT_HARDWARE,
            Category.UNKNOWN,
            Category.FIRMWARE,
            Category.GDR_PEERMEM,
            Category.CPU_THROTTLE,
            Category.WRONG_DISK,
        }

    def key(self, site: str, asset: str) -> str:
        """Dedupe key ``site|asset|category|locator`` (facts: triage 4.1): the same fault keeps its ticket."""
        return "|".join((site, asset, self.category.value, self.part.locator))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What triage makes of one node's evidence.

    ``facts`` are versions and models by name, for what several nodes have in common.
    """

    findings: tuple[Finding, ...]
    gaps: tuple[Gap, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def blocking(self) -> tuple[Finding, ...]:
        """Findings that must be settled before a bring-up goes on."""
        return tuple(f for f in self.findings if f.dispatch is not Dispatch.NEVER)
