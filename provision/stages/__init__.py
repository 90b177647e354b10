"""The stages of a bring-up. ``BRING_UP`` holds them in order."""

from __future__ import annotations

from provision.ports import Stage
from provision.stages.accept import Accept
from provision.stages.commission import CommissionStage
from provision.stages.configure import Configure
from provision.stages.deploy import DeployStage
from provision.stages.discover import Discover
from provision.stages.enlist import Enlist
from provision.stages.preflight import Preflight

BRING_UP: tuple[Stage, ...] = (
    Discover(),
    Preflight(),
    Enlist(),
    CommissionStage(),
    DeployStage(),
    Configure(),
    Accept(),
)
