"""How many nodes install at once behind one rack controller."""

from __future__ import annotations

from dataclasses import replace

from provision.engine.admission import Admission
from provision.engine.brakes import Brakes
from provision.engine.canary import Canary
from provision.engine.gates import LocalGates
from provision.model.node import Node
from provision.model.site import BreakerRule, CanaryRule, Limits
from tests.fakes import PROFILE, FakeClock, rack


def admission_of(limits: Limits, nodes: list[Node]) -> Admission:
    clock, profiles = FakeClock(), {"h100": PROFILE}
    gates = LocalGates(clock)
    return Admission(
        limits,
        gates=gates,
        run="run-1",
        clock=clock,
        pace=1.0,
        canary=Canary(CanaryRule(), nodes, profiles),
        brakes=Brakes(BreakerRule(), nodes, profiles, gates, "run-1", 1.0),
        wait_s=60,
    )


async def test_images_are_counted_by_rack_controller_and_nothing_else_is() -> None:
    nodes = [replace(node, rack_controller="rc-1" if number < 4 else "rc-2") for number, node in enumerate(rack(8))]
    # Two at once: an image takes 128 s alone.
    admission = admission_of(Limits(image_gbps=0.5, image_gb=8), nodes)
    kept_out = [await admission.try_hold(node, "deployment") for node in nodes]
    full = ["2 of 2 images on rc-1"] * 2, ["2 of 2 images on rc-2"] * 2
    assert kept_out == ["", "", *full[0], "", "", *full[1]]
    assert not await admission.try_hold(nodes[2], "commissioning")
    await admission.hold(nodes[0], "")
    assert not await admission.try_hold(nodes[3], "deployment")
    free = admission_of(Limits(), nodes)
    assert not any([await free.try_hold(node, "deployment") for node in nodes])
