"""How many nodes install at once behind one rack controller."""

from __future__ import annotations

from dataclasses import replace

from provision.engine.admission import Admission
from provision.model.site import Limits
from tests.fakes import rack


def test_images_are_counted_by_rack_controller_and_nothing_else_is() -> None:
    admission = Admission(Limits(image_gbps=0.5, image_gb=8))  # two at once: an image takes 128 s alone
    nodes = [replace(node, rack_controller="rc-1" if number < 4 else "rc-2") for number, node in enumerate(rack(8))]
    taken = [admission.try_hold(node, "deployment") for node in nodes]
    assert taken == [True, True, False, False, True, True, False, False]
    assert admission.full(nodes[2], "deployment") == "2 of 2 images on rc-1"
    assert admission.try_hold(nodes[2], "commissioning")
    admission.hold(nodes[0], "")
    assert admission.try_hold(nodes[3], "deployment")
    free = Admission(Limits())
    assert all(free.try_hold(node, "deployment") for node in nodes)
