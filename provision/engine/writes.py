"""Every write that a bring-up may send, stage by stage, and what it can do to a machine. For plans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from provision.model.site import PowerBy, Site


class Risk(StrEnum):
    """What a write can do, worst last."""

    RECORD = "record"
    SETTING = "setting"
    STOP = "stop"
    SOFTWARE = "software"
    RESTART = "restart"
    INSTALL = "install"


@dataclass(frozen=True, slots=True)
class Write:
    """One kind of write. ``needs`` names the site setting without which it is never sent."""

    stage: str
    step: str
    risk: Risk
    what: str
    needs: str = ""


_BOOT = "power_by: provision"
WRITES = (
    Write("discover", "reset-bmc", Risk.RESTART, "restarts the BMC, not the host; once", "may_reset_bmc"),
    Write("preflight", "set-clock", Risk.SETTING, "sets the BMC's clock"),
    Write("preflight", "enable-network-device", Risk.SETTING, "BIOS settings for network boot", "may_change_bios"),
    Write("preflight", "start-for-bios", Risk.RESTART, "one start, so that BIOS takes its settings", "may_change_bios"),
    Write("enlist", "create-machine", Risk.RECORD, "a record in MAAS"),
    Write("enlist", "adopt-machine", Risk.RECORD, "changes the machine's record in MAAS"),
    Write("commission", "commission", Risk.RESTART, "boots a system in memory that looks at all parts"),
    Write("commission", "abort", Risk.STOP, "stops a commissioning in which the machine never answered"),
    Write("commission", "mark-fixed", Risk.RECORD, "takes our own mark off the machine in MAAS"),
    Write("commission", "set-network-boot", Risk.SETTING, "network boot for one start", _BOOT),
    Write("commission", "press", Risk.RESTART, "the power button", _BOOT),
    Write("deploy", "set-boot-disk", Risk.RECORD, "names the system disk in MAAS; the disk is written by deploy"),
    Write("deploy", "set-layout", Risk.RECORD, "lays the system disk out in MAAS; it is written by deploy"),
    Write("deploy", "allocate", Risk.RECORD, "takes the machine out of MAAS's pool"),
    Write("deploy", "write-receipt", Risk.RECORD, "notes in MAAS which wish the deployment answers"),
    Write("deploy", "deploy", Risk.INSTALL, "installs: what is on the system disk of a machine in Ready is lost"),
    Write("deploy", "abort-deployment", Risk.STOP, "stops an installation that MAAS should have given up"),
    Write("deploy", "release", Risk.STOP, "gives a machine whose installation failed back; erases nothing unasked"),
    Write("deploy", "set-network-boot", Risk.SETTING, "network boot for one start", _BOOT),
    Write("deploy", "press", Risk.RESTART, "the power button", _BOOT),
    Write("configure", "join-wave", Risk.SOFTWARE, "the playbooks: packages, settings, up to two restarts"),
    Write("accept", "hand-over", Risk.RECORD, "gives the power button to MAAS", "handover_power"),
)


def writes_from(stage: str, stages: tuple[str, ...], site: Site) -> Iterator[Write]:
    """What may be written from this stage on, on this site."""
    ahead = stages[stages.index(stage) :]
    allowed = {
        "": True,
        "may_reset_bmc": site.may_reset_bmc,
        "may_change_bios": site.may_change_bios,
        "handover_power": site.handover_power,
        _BOOT: site.power_by is PowerBy.PROVISION,
    }
    yield from (write for write in WRITES if write.stage in ahead and allowed[write.needs])
