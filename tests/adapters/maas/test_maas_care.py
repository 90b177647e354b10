"""Power parameters, releases and broken marks: what is said, and what is refused before it is said."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web
from maas_lab import BMC_PASSWORD, mac, node_at, spec_of
from maas_region import HANDLERS, Fault, Region, disk

from provision.adapters.maas import MaasRegion, parse
from provision.adapters.maas.listing import same_uuid
from provision.adapters.maas.power import power_address
from provision.adapters.maas.site import unknown_scripts
from provision.errors import RefusedError
from provision.model.machine import DeploySpec, Status
from provision.model.profile import DiskRule, Image, Profile
from provision.model.secret import Credential, Secret

Make = Callable[..., MaasRegion]
NODE = node_at(3)
MACS = [mac(3, 1)]
UUID = "4c4c4544-0044-4810-8057-c7c04f4d3533"
TURNED = "44454c4c-4400-1048-8057-c7c04f4d3533"


async def test_a_release_says_that_disks_are_to_be_left_alone(client: Make, region: Region) -> None:
    system_id = region.add(NODE.name, [MACS[0].text], status=6, owner="admin")
    await client([NODE]).release(system_id, "why")
    assert dict(region.calls[-1].form) == {"erase": "false", "comment": "why"}


async def test_wiping_every_drive_is_said_in_words(client: Make, region: Region) -> None:
    region.wipes = True
    system_id = region.add(NODE.name, [MACS[0].text], status=6, owner="admin")
    maas = client([NODE])
    assert await maas.erases_on_release()
    await maas.release(system_id, "why", erase=True)
    assert dict(region.calls[-1].form) == {"erase": "true", "quick_erase": "true", "comment": "why"}
    region.wipes = False
    assert await maas.erases_on_release(), "read once a run"
    assert not await client([NODE]).erases_on_release()


async def test_broken_is_marked_by_the_owner_alone_and_mended(client: Make, region: Region) -> None:
    system_id = region.add(NODE.name, [MACS[0].text], status=4)
    maas = client([NODE])
    with pytest.raises(RefusedError):
        await maas.mark_broken(system_id, "provision: T-0007")
    await maas.allocate(system_id)
    await maas.mark_broken(system_id, "provision: T-0007")
    found = await maas.machine(NODE, MACS)
    assert found is not None
    assert (found.status, found.error_description) == (Status.BROKEN, "provision: T-0007")
    await maas.mark_fixed(system_id, "repaired")
    found = await maas.machine(NODE, MACS)
    assert found is not None
    assert (found.status, found.owner) == (Status.READY, None)


async def test_power_drift_names_what_differs_and_no_password(client: Make, region: Region) -> None:
    maas = client([NODE])
    await maas.create(spec_of(NODE, *MACS))
    system_id = next(iter(region.machines))
    assert await maas.power_drift(system_id, spec_of(NODE, *MACS)) == ""
    moved = spec_of(NODE, *MACS, bmc_address="10.0.12.99", credential=Credential("bmc", "anna", Secret("other")))
    said = await maas.power_drift(system_id, moved)
    assert "10.0.12.3 → 10.0.12.99" in said
    assert "root → anna" in said
    assert "password differs" in said
    assert BMC_PASSWORD not in said
    await maas.adopt(system_id, moved)
    assert await maas.power_drift(system_id, moved) == ""
    assert len([call for call in region.calls if call.op == "power_parameters"]) == 2


async def test_a_bmc_by_name_reaches_maas_as_an_address() -> None:
    assert await power_address("MAAS", spec_of(NODE, bmc_address="localhost:8443")) == "127.0.0.1:8443"
    assert await power_address("MAAS", spec_of(NODE, bmc_address="[::1]:8443")) == "[::1]:8443"
    assert await power_address("MAAS", spec_of(NODE, bmc_address="fe80::1")) == "fe80::1"
    with pytest.raises(RefusedError, match=r"no-such-bmc\.invalid has none"):
        await power_address("MAAS", spec_of(NODE, bmc_address="no-such-bmc.invalid"))


async def test_memory_only_is_said(client: Make, region: Region) -> None:
    system_id = region.add(NODE.name, [MACS[0].text], status=4)
    await client([NODE]).deploy(system_id, DeploySpec("jammy", None, Secret("#cloud-config"), ephemeral=True))
    assert dict(region.calls[-1].form)["ephemeral_deploy"] == "true"


def test_one_uuid_in_two_spellings() -> None:
    assert same_uuid(UUID, UUID.upper())
    assert same_uuid(UUID, TURNED)
    assert not same_uuid(UUID, UUID.replace("33", "34"))
    assert not same_uuid(None, None)


async def test_a_machine_is_found_by_its_hardware_when_all_cards_were_exchanged(client: Make, region: Region) -> None:
    region.add("ruling-leech", [mac(9).text], status=0, hardware_uuid=UUID)
    maas = client([NODE])
    assert await maas.fresh(NODE, MACS) is None
    found = await maas.fresh(NODE, MACS, uuid=TURNED)
    assert found is not None
    assert found.hostname == "ruling-leech"


@pytest.mark.parametrize(("kind", "used"), [("flat", ""), ("lvm", "LVM volume for vgroot"), ("other", "RAID")])
def test_the_layout_is_read_from_what_carries_the_root(kind: str, used: str) -> None:
    root = {"filesystem": {"mount_point": "/"}, "used_for": "x"}
    drive = disk(1, "BOSS", "S1") | {"partitions": [root if kind == "flat" else {"filesystem": None, "used_for": used}]}
    volume = {"id": 9, "type": "virtual", "name": "vgroot-lvroot", "partitions": []} | root
    assert parse.layout({"blockdevice_set": [drive, *([] if kind == "flat" else [volume])]}) == kind
    assert parse.layout({"blockdevice_set": []}) == ""


async def test_scripts_that_maas_does_not_have_are_named(client: Make, region: Region) -> None:
    maas = client([NODE])
    assert await unknown_scripts(maas._transport, ["20-a", "gpu", "none"]) == []
    said = await unknown_scripts(maas._transport, ["20-a", "99-burnin"])
    assert len(said) == 1
    assert "99-burnin" in said[0]


async def test_an_image_that_is_still_being_imported_is_named(client: Make, region: Region) -> None:
    profile = Profile("h100", Image("jammy"), DiskRule(model="BOSS"))
    assert await client([NODE]).check_site([profile]) == ()
    region.importing = 41.5
    said = await client([NODE]).check_site([profile])
    assert [line.partition(": ")[2][:60] for line in said] == [
        "the image of jammy for amd64 is still being imported (42 %): "[:60]
    ]
    region.lacks = frozenset({"BootResource GET"})
    assert await client([NODE]).check_site([profile]) == ()
    region.lacks = frozenset()
    region.faults.append(Fault("GET boot-resources/7/", lambda: web.Response(status=404, text="Not Found")))
    assert await client([NODE]).check_site([profile]) == (), "listed, and gone or closed to us: that stops nobody"


CALLS = re.compile(r'"((?:MAAS|[A-Z][A-Za-z]+)\.[a-z_]+)"')


def test_every_call_stands_in_the_reference() -> None:
    root = Path(__file__).parents[3]
    code = "".join(file.read_text(encoding="utf-8") for file in (root / "provision/adapters/maas").glob("*.py"))
    used = {name for name in CALLS.findall(code) if name.split(".")[0] in {*HANDLERS, "MAAS"}}
    listed = set(re.findall(r"`([A-Za-z]+\.[a-z_]+)`", (root / "docs/reference/maas-calls.md").read_text("utf-8")))
    assert len(used) > 25
    assert used == listed
