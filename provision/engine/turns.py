"""Acts that may happen only so often: machines that start draw current at once, and an erasure has no way back."""

from __future__ import annotations

from collections.abc import Iterator

from provision.model.bmc import Button
from provision.model.decision import Act
from provision.model.site import PowerBy, Site
from provision.stages.boot import Press
from provision.stages.commission import Commission
from provision.stages.preflight import StartForBios
from provision.stages.steps import Deploy

MINUTE_S, HOUR_S = 60.0, 3600.0
REBOOTS, ERASURES = "reboots", "erasures"


def turns_of(act: Act, site: Site) -> Iterator[tuple[str, int, float]]:
    """Each (name, limit, window in seconds) that the act counts against. Pure."""
    limits = site.limits
    if limits.reboots_per_minute is not None and _starts(act, site):
        yield REBOOTS, limits.reboots_per_minute, MINUTE_S
    if limits.erasures_per_hour is not None and act.erases:
        yield ERASURES, limits.erasures_per_hour, HOUR_S


def _starts(act: Act, site: Site) -> bool:
    """The machine starts by it; where MAAS has the button, it starts by what MAAS is told to do."""
    match act.step:
        case Press(button):
            return button in {Button.ON, Button.RESTART}
        case StartForBios():
            return True
        case Commission() | Deploy():
            return site.power_by is PowerBy.MAAS
        case _:
            return False
