"""One intention a write, in the form that MAAS takes, against a region that keeps state."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from dataclasses import replace

import pytest
from aiohttp import web
from maas_lab import BMC_PASSWORD, LabClock, mac, node_at, spec_of
from maas_region import KEY, Fault, Region, disk

from provision.adapters.maas import MaasRegion
from provision.errors import MisconfiguredError, RefusedError, UnavailableError
from provision.model.machine import DeploySpec, Receipt, Status
from provision.model.profile import DiskRule, Image, Profile
from provision.model.secret import Secret
from provision.model.site import PowerBy
from provision.stages.enlist import differences

Make = Callable[..., MaasRegion]
NODE = node_at(3, zone="hall-a", pool="gpu", tags=("h100",))
MACS = [mac(3, 1), mac(3, 2)]
PROFILE = Profile("h100", Image("jammy", "ga-22.04"), DiskRule(model="BOSS"))


async def test_create_says_everything_at_once_and_starts_nothing(client: Make, region: Region) -> None:
    maas = client([NODE])
    await maas.create(spec_of(NODE, *MACS, zone="hall-a", pool="gpu", bmc_address="https://10.0.12.3:8443"))
    form = region.calls[-1].form
    assert [value for name, value in form if name == "mac_addresses"] == [one.text for one in MACS]
    said = dict(form)
    assert said["commission"] == "false"
    assert said["power_type"] == "redfish"
    assert said["power_parameters_power_address"] == "10.0.12.3:8443"
    assert said["power_parameters_power_pass"] == BMC_PASSWORD
    assert region.writes() == ["POST machines/"]
    found = await maas.machine(NODE, MACS)
    assert found is not None
    assert (found.status, found.zone, found.pool, found.macs) == (Status.NEW, "hall-a", "gpu", tuple(MACS))
    assert found.boot_mac == MACS[0]


async def test_tags_are_made_when_missing_and_given_once(client: Make, region: Region) -> None:
    maas = client([NODE])
    await maas.create(spec_of(NODE, *MACS, tags=("h100",)))
    assert region.writes()[1:] == ["POST tags/h100/ update_nodes", "POST tags/", "POST tags/h100/ update_nodes"]
    found = await maas.machine(NODE, MACS)
    assert found is not None
    assert found.tags == ("h100",)
    region.calls.clear()
    await maas.adopt(found.system_id, spec_of(NODE, *MACS, tags=("h100",)))
    assert region.writes() == [f"PUT machines/{found.system_id}/"]


async def test_without_power_by_maas_no_password_travels(client: Make, region: Region) -> None:
    await client([NODE]).create(spec_of(NODE, *MACS, power_by=PowerBy.PROVISION, credential=None))
    assert dict(region.calls[-1].form)["power_type"] == "manual"
    assert not any("power_pass" in name for name, _ in region.calls[-1].form)
    with pytest.raises(MisconfiguredError, match="no BMC credential"):
        await client([NODE]).create(spec_of(NODE, *MACS, credential=None))


async def test_a_create_that_is_there_already_asks_to_look_again(client: Make, region: Region) -> None:
    region.add("ruling-leech", [MACS[1].text], status=1)
    with pytest.raises(UnavailableError, match="already in use on ruling-leech") as caught:
        await client([NODE]).create(spec_of(NODE, *MACS))
    assert caught.value.code == "mac-in-use"
    assert "power type" not in str(caught.value)
    region.add(NODE.name, [mac(9).text])
    with pytest.raises(UnavailableError) as caught:
        await client([NODE]).create(spec_of(NODE, MACS[0]))
    assert caught.value.code == "hostname-in-use"


async def test_what_a_device_or_controller_has_cannot_be_adopted(client: Make, region: Region) -> None:
    region.others = {NODE.name}
    with pytest.raises(RefusedError, match="no machine of that MAAS has it, so nothing can be adopted") as caught:
        await client([NODE]).create(spec_of(NODE, *MACS))
    assert "has this hostname" in str(caught.value)
    region.others = {MACS[1].text}
    with pytest.raises(RefusedError, match="already in use on printer; no machine of that MAAS has it"):
        await client([NODE]).create(spec_of(NODE, *MACS))
    assert region.machines == {}


async def test_a_name_with_its_domain_is_two_fields_of_maas(client: Make, region: Region) -> None:
    node = replace(NODE, name="gpu-12-03.hall.example")
    maas = client([node])
    await maas.create(spec_of(node, *MACS))
    found = await maas.machine(node, [])
    assert found is not None
    assert (found.hostname, found.fqdn) == ("gpu-12-03", "gpu-12-03.hall.example")
    assert differences(found, spec_of(node, *MACS)) == ()
    assert await client([NODE]).machine(NODE, []) is not None, "the short name is its name, too"
    other = replace(node, name="gpu-12-03.room.example")
    assert await client([other]).machine(other, []) is None
    refusal = web.json_response({"hostname": ["Nonexistant domain."]}, status=400)
    region.faults.append(Fault("POST machines/", lambda: refusal))
    with pytest.raises(RefusedError, match="make the domain in MAAS"):
        await maas.create(spec_of(other, mac(9)))


async def test_a_rack_that_misses_a_tag_makes_it_once(client: Make, region: Region) -> None:
    nodes = [node_at(unit) for unit in range(1, 7)]
    maas = client(nodes)
    await asyncio.gather(*(maas.create(spec_of(node, mac(node.unit or 0), tags=("h100",))) for node in nodes))
    assert [one["tag_names"] for one in region.machines.values()] == [["h100"]] * 6
    assert region.writes().count("POST tags/") > 1, "several found it missing"


async def test_adopt_gives_name_power_place_tags_and_the_missing_port(client: Make, region: Region) -> None:
    region.tags.add("h100")
    system_id = region.add("ruling-leech", [MACS[0].text], status=0)
    maas = client([NODE])
    await maas.adopt(system_id, spec_of(NODE, *MACS, zone="hall-a", pool="gpu", tags=("h100",)))
    assert region.writes() == [
        f"PUT machines/{system_id}/",
        f"POST nodes/{system_id}/interfaces/ create_physical",
        "POST tags/h100/ update_nodes",
    ]
    assert dict(region.calls[-2].form) == {"mac_address": MACS[1].text, "name": "eth1"}
    found = await maas.machine(NODE, MACS)
    assert found is not None
    assert (found.hostname, found.power_type, found.zone, found.tags) == (NODE.name, "redfish", "hall-a", ("h100",))
    assert found.macs == tuple(MACS)


async def test_adopt_leaves_ports_alone_where_maas_takes_none(client: Make, region: Region) -> None:
    system_id = region.add("ruling-leech", [MACS[0].text], status=1)
    await client([NODE]).adopt(system_id, spec_of(NODE, *MACS))
    assert region.writes() == [f"PUT machines/{system_id}/"]


async def test_adopt_names_the_machine_that_holds_a_port(client: Make, region: Region) -> None:
    system_id = region.add("ruling-leech", [MACS[0].text], status=0)
    region.add("gpu-12-04", [MACS[1].text])
    with pytest.raises(RefusedError, match=r"eno1 \(physical\) on gpu-12-04") as caught:
        await client([NODE]).adopt(system_id, spec_of(NODE, *MACS))
    assert caught.value.code == "mac-in-use"
    assert NODE.name in str(caught.value)


async def test_commissioning_leaves_the_bmc_alone(client: Make, region: Region) -> None:
    system_id = region.add(NODE.name, [MACS[0].text])
    await client([NODE]).commission(system_id, scripts=(), tests=())
    assert dict(region.calls[-1].form) == {"enable_ssh": "0", "skip_bmc_config": "1", "testing_scripts": "none"}
    region.machines[system_id]["status"] = 2
    await client([NODE], enable_ssh=True).commission(system_id, scripts=("a", "b"), tests=("smart", "mem"))
    said = dict(region.calls[-1].form)
    assert (said["enable_ssh"], said["commissioning_scripts"], said["testing_scripts"]) == ("1", "a,b", "smart,mem")


async def test_abort_is_believed_only_after_another_look(client: Make, region: Region) -> None:
    system_id = region.add(NODE.name, [MACS[0].text], status=1)
    maas = client([NODE], run="20291129-190501-7f3a")
    await maas.abort(system_id, "operator stop")
    assert dict(region.calls[-1].form) == {"comment": "operator stop (provision run 20291129-190501-7f3a)"}
    found = await maas.machine(NODE, MACS)
    assert found is not None
    assert found.status is Status.NEW


async def test_from_the_right_disk_to_a_deployment_and_back(client: Make, region: Region) -> None:
    system_id = region.add(
        NODE.name,
        [MACS[0].text],
        status=4,
        blockdevice_set=[disk(41, "Dell P5600", "D1"), disk(42, "Dell BOSS-N1", "B1"), disk(43, "Dell P5600", "D2")],
    )
    maas = client([NODE], run="r7")
    await maas.set_boot_disk(system_id, 42)
    await maas.set_layout(system_id, "flat", 42)
    found = await maas.fresh(NODE, MACS)
    assert found is not None
    assert (found.boot_disk_id, found.root_disk_ids) == (42, (42,))
    assert [(one.id, one.facts.serial) for one in found.disks] == [(41, "D1"), (42, "B1"), (43, "D2")]
    with pytest.raises(RefusedError, match="acquired"):
        await maas.write_receipt(system_id, Receipt(3, "jammy/ga-22.04"))
    await maas.allocate(system_id)
    region.machines[system_id]["owner_data"]["ticket"] = "T-1"
    await maas.write_receipt(system_id, Receipt(3, "jammy/ga-22.04"))
    text = "#cloud-config\nhostname: gpü\n"
    await maas.deploy(system_id, DeploySpec("jammy", "ga-22.04", Secret(text)))
    said = dict(region.calls[-1].form)
    assert base64.b64decode(said["user_data"]).decode() == text
    assert (said["distro_series"], said["hwe_kernel"]) == ("jammy", "ga-22.04")
    found = await maas.machine(NODE, MACS)
    assert found is not None
    assert (found.status, found.series, found.kernel) == (Status.DEPLOYING, "jammy", "ga-22.04")
    assert found.receipt == Receipt(3, "jammy/ga-22.04")
    assert region.machines[system_id]["owner_data"]["ticket"] == "T-1"
    await maas.release(system_id, "reimage")
    found = await maas.machine(NODE, MACS)
    assert found is not None
    assert (found.status, found.receipt, found.owner) == (Status.READY, None, None)


async def test_a_deploy_that_fails_shows_no_user_data(client: Make, region: Region) -> None:
    system_id = region.add(NODE.name, [MACS[0].text], status=4)
    coded = base64.b64encode(b"#cloud-config\nPRIVATE").decode()
    body = {"user_data": [f"'{coded}' will not do"]}
    region.faults.append(Fault(".* deploy", lambda: web.json_response(body, status=400)))
    with pytest.raises(RefusedError, match="will not do") as caught:
        await client([NODE]).deploy(system_id, DeploySpec("jammy", None, Secret("#cloud-config\nPRIVATE")))
    assert coded not in str(caught.value)


async def test_reasons_of_a_failure_come_from_single_results(client: Make, region: Region) -> None:
    system_id = region.add(NODE.name, [MACS[0].text], status=2)

    def script(name: str, status: str, code: int | None, said: str = "") -> dict[str, object]:
        output = base64.b64encode(said.encode()).decode()
        started = "Sun, 29 Nov 2026 17:59:36 +0000" if code is not None else None
        return {"name": name, "status_name": status, "exit_status": code, "output": output, "started": started}

    lines = "\n".join(f"line {i}" for i in range(100)) + "\nlspci: no BMC\n"
    region.results[system_id] = [
        {"id": 1, "type_name": "Commissioning", "results": [script("old", "Failed", 9)]},
        {"id": 2, "type_name": "Testing", "status_name": "Failed to apply custom network configuration", "results": []},
        {
            "id": 3,
            "type_name": "Commissioning",
            "results": [
                script("20-a", "Passed", 0),
                script("50-b", "Failed", 1, lines),
                script("60-c", "Pending", None),
            ],
        },
    ]
    found = await client([NODE]).results(system_id)
    assert [(one.name, one.run, one.status, one.exit_status) for one in found] == [
        ("20-a", "commissioning", "passed", 0),
        ("50-b", "commissioning", "failed", 1),
        ("60-c", "commissioning", "pending", None),
    ]
    assert found[1].output_tail.endswith("line 99\nlspci: no BMC")
    assert len(found[1].output_tail.splitlines()) == 20
    assert found[1].started_at is not None
    assert len([call for call in region.calls if "results" in call.path]) == 2


async def test_events_are_dated_in_utc(client: Make, region: Region) -> None:
    system_id = region.add(NODE.name, [MACS[0].text])
    region.logs = [
        {"created": "Tue, 01 Sept. 2026 07:09:05", "level": "ERROR", "type": "Marking node failed", "description": "x"},
        {"created": "Fri, 1 May 2026 07:09:05", "level": "INFO", "type": "Script", "description": "b failed"},
        {"created": "yesterday", "level": "INFO", "type": "Ready", "description": ""},
    ]
    found = await client([NODE]).events(system_id)
    assert [one.at.isoformat() for one in found] == ["2026-09-01T07:09:05+00:00", "2026-05-01T07:09:05+00:00"]
    assert found[0].type == "Marking node failed"


async def test_a_site_in_order_has_nothing_to_complain_of(client: Make, region: Region) -> None:
    assert await client([NODE]).check_site([PROFILE]) == ()
    assert region.writes() == []


async def test_what_stops_every_deployment_is_said_in_one_sentence_each(
    client: Make, region: Region, clock: LabClock
) -> None:
    region.is_superuser, region.racks, region.version = False, [], "2.9.2"
    clock.wrong_by_s = 130
    lost = node_at(4, zone="hall-z", pool="none")
    profiles = [
        replace(PROFILE, name="noble", image=Image("noble")),
        replace(PROFILE, name="arm", architecture="arm64/generic"),
        replace(PROFILE, name="kernel", image=Image("jammy", "ga-99.04")),
        PROFILE,
    ]
    said = await client([NODE, lost]).check_site(profiles)
    for words in (
        "s behind this machine's",
        "robot, who is not an administrator",
        "MAAS 2.9.2; 3.4 or later",
        "no image of noble for amd64, which profile noble wants (there is ubuntu/jammy)",
        "no image of jammy for arm64, which profile arm wants (there is none at all)",
        "no kernel ga-99.04, which profile kernel wants",
        "no zone hall-z, which gpu-12-04 is to be in",
        "no pool none, which gpu-12-04 is to be in",
        "no rack controller is registered",
    ):
        assert len([line for line in said if words in line]) == 1, words
    assert len(said) == 9


async def test_a_key_or_clock_that_maas_does_not_take_is_the_one_complaint(
    client: Make, region: Region, clock: LabClock
) -> None:
    said = await client([NODE], key=KEY + "x").check_site([PROFILE])
    assert len(said) == 1
    assert "third part" in said[0]
    clock.wrong_by_s = -4000
    said = await client([NODE]).check_site([PROFILE])
    assert len(said) == 1
    assert "behind" in said[0]
    region.faults.append(Fault("GET users/.*", lambda: web.Response(status=503), times=9))
    with pytest.raises(UnavailableError):
        await client([NODE]).check_site([PROFILE])
