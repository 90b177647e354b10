"""The client against what a real MAAS 3.6.3 answered."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from maas_lab import LabClock, spec_of
from maas_recording import FILE, Player, Recording
from maas_region import KEY

from provision.adapters.maas import MaasRegion, parse
from provision.adapters.maas.answers import Answer, error_of
from provision.errors import CredentialRefusedError, PeerError, RefusedError, UnavailableError
from provision.model.machine import DeploySpec, Receipt, Status
from provision.model.node import MacAddress, Node
from provision.model.secret import Credential, Secret

pytestmark = pytest.mark.skipif(not FILE.exists(), reason="the recording (../shared/facts) is not here")

NODE = Node(name="gpu-r01-u01", profile="h100", bmc_address="10.20.0.1", rack="r01", unit=1)
MACS = (MacAddress("b0:7b:25:00:01:01"), MacAddress("b0:7b:25:00:01:02"))
SPEC = spec_of(NODE, *MACS, credential=Credential("bmc", "root", Secret("dummy-pw-1")))


@pytest.fixture(scope="session")
def recording() -> Recording:
    return Recording()


@pytest.fixture
async def player(recording: Recording) -> AsyncIterator[Player]:
    player = Player(recording)
    runner = web.AppRunner(player.app(), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    player.port = runner.addresses[0][1]  # type: ignore[attr-defined]
    yield player
    await runner.cleanup()
    assert player.complaints == []
    assert player.play == []


@pytest.fixture
async def maas(player: Player) -> AsyncIterator[MaasRegion]:
    url = f"http://127.0.0.1:{player.port}/MAAS"  # type: ignore[attr-defined]
    maas = MaasRegion(url, Secret(KEY), [NODE], clock=LabClock(), run="r1")
    yield maas
    await maas.close()


async def test_from_nothing_to_deployed(player: Player, maas: MaasRegion, recording: Recording) -> None:
    """One machine through the port, each request as it was recorded or with fewer fields."""
    boot, first, second = (recording.value(f"{{m1.bd.nvme{i}n1}}") for i in range(3))
    player.play = ["M025?", "M025?", "M026", "M120*"]
    assert await maas.fresh(NODE, MACS) is None
    await maas.create(SPEC)
    seen = await maas.machine(NODE, MACS)
    assert seen is not None
    assert (seen.status, seen.macs, seen.boot_mac, seen.hardware_uuid) == (Status.READY, MACS, MACS[0], None)
    assert [(one.id, one.facts.serial, one.facts.size_bytes) for one in seen.disks] == [
        (boot, "SN-M1-0", 480_000_000_000),
        (first, "SN-M1-1", 3_840_000_000_000),
        (second, "SN-M1-2", 3_840_000_000_000),
    ]
    assert (seen.boot_disk_id, seen.root_disk_ids, seen.tags, seen.zone) == (boot, (boot,), ("xe9680",), "default")
    sid = seen.system_id

    player.play = ["M111", "M113", "M162", "M163*", "M168", "M167?"]
    await maas.commission(sid, scripts=(), tests=())
    await maas.abort(sid, "operator stop")
    await maas.set_boot_disk(sid, first)
    seen = await maas.fresh(NODE, MACS)
    assert seen is not None
    assert (seen.boot_disk_id, seen.root_disk_ids) == (first, (boot,)), "set_boot_disk does not move the layout"
    await maas.set_layout(sid, "flat", second)
    await maas.set_layout(sid, "lvm", first)

    player.play = ["M185", "M189?", "M201", "M206*", "M191"]
    await maas.allocate(sid)
    await maas.write_receipt(sid, Receipt(2, "jammy"))
    assert player.forms[-1] == {"provision_epoch": "2", "provision_image": "jammy"}
    await maas.deploy(sid, DeploySpec("jammy", None, Secret("#cloud-config\npackages: [htop]\n")))
    seen = await maas.machine(NODE, MACS)
    assert seen is not None
    assert (seen.status, seen.series, seen.kernel) == (Status.DEPLOYED, "jammy", "ga-22.04")
    assert seen.addresses == ("10.12.250.1",)
    assert (seen.owner, seen.receipt) == ("admin", None)
    await maas.release(sid, "not needed")


async def test_an_enlisted_machine_is_adopted(player: Player, maas: MaasRegion) -> None:
    node = Node(name="gpu-r01-u07", profile="h100", bmc_address="10.20.0.7", rack="r01", unit=7)
    macs = (MacAddress("b0:7b:25:00:07:01"), MacAddress("b0:7b:25:00:07:02"))
    spec = spec_of(node, *macs, zone="hall-a", pool="gpu", credential=SPEC.credential)
    player.play = ["M025?", "M289?"]
    seen = await maas.fresh(node, macs)
    assert seen is not None
    assert (seen.hostname, seen.status) == ("civil-mule", Status.COMMISSIONING)
    player.play = ["M291", "M295", "M291?"]
    await maas.adopt(seen.system_id, spec)
    await maas.abort(seen.system_id, "")
    await maas.adopt(seen.system_id, spec)


async def test_why_commissioning_failed(player: Player, maas: MaasRegion) -> None:
    player.play = ["M139*", "M140?", "M141?"]
    found = await maas.results("sysm2")
    [failed] = [one for one in found if one.status == "failed"]
    assert (failed.name, failed.run, failed.exit_status) == ("50-maas-01-commissioning", "commissioning", 1)
    assert failed.output_tail == "lspci: cannot find the BMC\nexit 1"
    said = await maas.events("sysm2")
    assert [(one.level, one.type, one.description) for one in said if one.type == "Script"] == [
        ("INFO", "Script", "50-maas-01-commissioning failed")
    ]
    assert said[0].at.isoformat().startswith("2026-11-29T17:59:3")


async def test_an_empty_testing_run_is_no_failure(player: Player, maas: MaasRegion) -> None:
    player.play = ["M123?"]
    assert await maas.results("sysm1") == ()


Ask = Callable[[MaasRegion], Awaitable[object]]
DEPLOY: Ask = lambda maas: maas.deploy("sysm1", DeploySpec("jammy", None, Secret("x")))  # noqa: E731
CREATE: Ask = lambda maas: maas.create(SPEC)  # noqa: E731
RELEASE: Ask = lambda maas: maas.release("sysm1", "x")  # noqa: E731
COMMISSION: Ask = lambda maas: maas.commission("sysm1", scripts=(), tests=())  # noqa: E731
ALLOCATE: Ask = lambda maas: maas.allocate("sysm1")  # noqa: E731


@pytest.mark.parametrize(
    ("name", "ask", "kind", "said"),
    [
        ("M034", CREATE, UnavailableError, "b0:7b:25:00:01:01 already in use on gpu-r01-u01"),
        ("M037", CREATE, UnavailableError, "b0:7b:25:00:01:02 already in use on gpu-r01-u01"),
        ("M038", CREATE, UnavailableError, "has this hostname"),
        ("M039", CREATE, RefusedError, "hostname: Host label cannot contain underscore"),
        ("M042", CREATE, RefusedError, "should be one of: 'amd64/generic'"),
        ("M043", CREATE, RefusedError, "pool: Select a valid choice"),
        ("M047", CREATE, RefusedError, "Redfish address: Invalid IPv4/IPv6 address"),
        ("M301", CREATE, UnavailableError, "No rack controllers can access the BMC"),
        ("M096", RELEASE, RefusedError, "cannot be released in its current state"),
        ("M112", COMMISSION, RefusedError, "commission sysm1: Commission is not available because of"),
        ("M108", COMMISSION, RefusedError, "testing_scripts: Select a valid choice. no-such-script"),
        ("M305", COMMISSION, UnavailableError, "look before asking again"),
        ("M178", DEPLOY, RefusedError, "distro_series: 'warty-nope' is not a valid distro_series"),
        ("M179", DEPLOY, RefusedError, "configured to use a network; link its boot interface to a subnet"),
        ("M183", DEPLOY, RefusedError, "Mount the root '/' filesystem"),
        ("M194", DEPLOY, RefusedError, "hwe_kernel: ga-99.04 is not available"),
        ("M202", DEPLOY, RefusedError, "Can't deploy a machine that is in the 'Deploying' state"),
        ("M222", DEPLOY, RefusedError, "locked, or nobody or somebody else owns it"),
        ("M186", ALLOCATE, RefusedError, "No machine with system ID"),
        ("M281", RELEASE, RefusedError, "malformed"),
        ("M324", RELEASE, RefusedError, "No Machine matches"),
    ],
)
async def test_a_recorded_refusal_is_one_typed_sentence(
    player: Player, maas: MaasRegion, name: str, ask: Ask, kind: type[PeerError], said: str
) -> None:
    # A name or an address that is taken is looked for: some machine has it.
    player.play = [name + "?", *(["M055?"] if name in {"M034", "M037", "M038"} else [])]
    with pytest.raises(kind) as caught:
        await ask(maas)
    assert said in str(caught.value)
    assert "dummy-pw-1" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "kind", "code"),
    [
        ("M012", CredentialRefusedError, "401"),
        ("M013", CredentialRefusedError, "401"),
        ("M014", CredentialRefusedError, "401"),
        ("M015", RefusedError, "clock-skew"),
        ("M019", UnavailableError, "nonce"),
    ],
)
def test_the_recorded_401s(recording: Recording, name: str, kind: type[PeerError], code: str) -> None:
    answer = recording.by_name[name]["response"]
    error = error_of("MAAS", "x", Answer(401, "text/html", answer["body"].encode(), {}), write=False)
    assert type(error) is kind
    assert error.code == code
    assert "Authorization Error" not in str(error)


def test_every_recorded_refusal_is_one_line_of_words(recording: Recording) -> None:
    seen = 0
    for name, exchange in recording.by_name.items():
        answer = exchange["response"]
        if answer["status"] < 400:
            continue
        kind = answer["content_type"].partition(";")[0]
        content = json.dumps(answer["body"]) if kind.endswith("json") else answer.get("body") or ""
        error = error_of("MAAS", "x", Answer(answer["status"], kind, content.encode(), {}), write=True)
        assert "\n" not in str(error), name
        assert len(error.detail) > 10, name
        assert "{" not in error.detail, name
        seen += 1
    assert seen > 80


def test_every_recorded_machine_is_read(recording: Recording) -> None:
    seen: set[Status] = set()
    for exchange in recording.by_name.values():
        for body in _machines(exchange["response"].get("body")):
            machine = parse.machine(body)
            assert machine.system_id == body["system_id"]
            assert machine.status is not Status.UNRECOGNISED
            if "rescue" not in body["status_name"]:
                assert machine.status.label == body["status_name"]
            seen.add(machine.status)
    assert len(seen) > 15


def test_the_root_is_followed_through_the_volume_group(recording: Recording) -> None:
    second = recording.value("{m1.bd.nvme1n1}")
    assert parse.root_disk_ids(recording.body("M167")) == (second,)
    assert parse.root_disk_ids(recording.body("M166")) == (second,)
    assert parse.root_disk_ids(recording.body("M168")) == (recording.value("{m1.bd.nvme2n1}"),)


def test_annotations_live_and_die_as_a_receipt_must(recording: Recording) -> None:
    """What is claimed in ``parse.receipt``, exchange by exchange."""

    def kept(name: str) -> bool:
        return "provision_run" in recording.body(name)["owner_data"]

    survives = ["M190", "M206", "M234", "M237", "M268", "M269"]
    dies = ["M192", "M244", "M248", "M270"]
    assert [name for name in survives if not kept(name)] == []
    assert [name for name in dies if kept(name)] == []
    assert recording.body("M206")["workload_annotations"] == recording.body("M206")["owner_data"]


def _machines(body: Any) -> list[dict[str, Any]]:
    listed = body if isinstance(body, list) else [body]
    return [one for one in listed if isinstance(one, dict) and "status_name" in one and "hostname" in one]
