"""Enabling network boot in BIOS: in its own names and words, for the next start, and beside nobody else's settings."""

from __future__ import annotations

from typing import Any

import pytest
from redfish_payloads import ref, ten_nics
from redfish_scripted import SYSTEM, Reply, refusal

from provision.adapters.redfish.bios import changes, network_device_enabled
from provision.errors import RefusedError
from provision.model.profile import BootMethod

BIOS, SETTINGS = f"{SYSTEM}/Bios", f"{SYSTEM}/Bios/Settings"
PXE, HTTP = BootMethod.PXE, BootMethod.UEFI_HTTP
DELL_OFF = {
    "PxeDev1EnDis": "Disabled",
    "PxeDev1Interface": "NIC.Embedded.1-1-1",
    "PxeDev2EnDis": "Disabled",
    "PxeDev2Interface": "NIC.Slot.3-1-1",
    "HttpDev1EnDis": "Disabled",
    "HttpDev1Interface": "NIC.Embedded.1-1-1",
}
AMI_OFF = {"NetworkStack": "Disabled", "IPv4PXESupport_0F3A": "Disabled", "IPv4HTTPSupport": "Disable"}


@pytest.mark.parametrize(
    ("bios", "method", "port", "expected"),
    [
        (DELL_OFF, PXE, "NIC.Slot.3-1-1", {"PxeDev2EnDis": "Enabled"}),
        (DELL_OFF, PXE, "NIC.Slot.9-1-1", {"PxeDev1EnDis": "Enabled", "PxeDev1Interface": "NIC.Slot.9-1-1"}),
        (DELL_OFF, HTTP, None, {"HttpDev1EnDis": "Enabled"}),
        (AMI_OFF, PXE, "EthernetInterface1", {"NetworkStack": "Enabled", "IPv4PXESupport_0F3A": "Enabled"}),
        (AMI_OFF, HTTP, None, {"NetworkStack": "Enabled", "IPv4HTTPSupport": "Enable"}),
        ({"BootMode": "Uefi"}, PXE, None, {}),
        ({**DELL_OFF, "PxeDev1EnDis": "Enabled"}, PXE, None, {}),
    ],
)
def test_what_has_to_change(bios: dict[str, str], method: BootMethod, port: str | None, expected: Any) -> None:
    found = changes(bios, method, port)
    assert found == expected
    if expected:
        assert network_device_enabled({**bios, **found}, method) is True


def _tree(waiting: dict[str, str] | None = None) -> dict[str, Any]:
    tree = ten_nics()
    tree[BIOS] = {
        "@odata.id": BIOS,
        "Attributes": dict(DELL_OFF),
        "@Redfish.Settings": {"SettingsObject": ref(SETTINGS), "SupportedApplyTimes": ["OnReset"]},
    }
    tree[SETTINGS] = {"@odata.id": SETTINGS, "Attributes": dict(waiting or {})}
    return tree


async def test_it_is_written_once_for_the_next_start_and_seen_waiting(serve: Any, client: Any) -> None:
    bmc = await serve(_tree())
    mine = client(bmc.node(), boot_nic="NIC.Slot.3-1-1")
    before = await mine.readiness()
    assert (before.network_device_enabled, before.network_device_pending) == (False, None)
    await mine.enable_network_device([PXE])
    (write,) = bmc.writes
    assert (write.method, write.path) == ("PATCH", SETTINGS)
    assert write.body == {
        "Attributes": {"PxeDev2EnDis": "Enabled"},
        "@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"},
    }
    after = await mine.readiness()
    assert (after.network_device_enabled, after.network_device_pending) == (False, True)
    await mine.enable_network_device([PXE])
    assert len(bmc.writes) == 1


async def test_two_methods_go_into_one_write(serve: Any, client: Any) -> None:
    bmc = await serve(_tree())
    await client(bmc.node()).enable_network_device([HTTP, PXE])
    (write,) = bmc.writes
    assert write.body["Attributes"] == {"HttpDev1EnDis": "Enabled", "PxeDev1EnDis": "Enabled"}


async def test_settings_of_somebody_else_stop_it_with_their_name(serve: Any, client: Any) -> None:
    bmc = await serve(_tree({"ProcVirtualization": "Enabled"}))
    bmc.script("PATCH", SETTINGS, Reply(400, refusal("IDRAC.2.9.SYS011", "The pending values are committed.")))
    with pytest.raises(RefusedError, match=r"SYS011.*let it finish or remove it by hand"):
        await client(bmc.node()).enable_network_device([PXE])


async def test_a_bios_that_does_not_say_how_is_refused_in_words(serve: Any, client: Any) -> None:
    tree = _tree()
    tree[BIOS]["Attributes"] = {"BootMode": "Uefi"}
    bmc = await serve(tree)
    with pytest.raises(RefusedError, match="enable it in the BIOS setup"):
        await client(bmc.node()).enable_network_device([HTTP])
    assert bmc.writes == []
