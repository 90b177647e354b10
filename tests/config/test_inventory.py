"""A site is read as a whole, and everything that is wrong with it is said at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from provision.config.complaints import InventoryError
from provision.config.inventory import load, select
from provision.config.settings import credential_for
from provision.errors import MisconfiguredError
from provision.model.node import Address
from provision.model.profile import BootMethod
from provision.model.site import PowerBy
from tests.config.sites import PROFILE, PROVISION, host, write_site

EXAMPLE = Path(__file__).parents[2] / "inventory"
NOBODY = 65534


def test_the_example_site_is_a_whole_rack() -> None:
    site = load(EXAMPLE)

    assert list(site.nodes) == [f"gpu-12-0{n}" for n in range(1, 9)]
    assert site.warnings == ()
    node, profile = site.nodes["gpu-12-03"], site.profiles["h100-8gpu"]
    assert (node.rack, node.unit, node.room, len(node.power_feeds), len(node.cabling)) == (
        "rack-12",
        13,
        "hall-2",
        6,
        10,
    )
    assert {feed.split("-")[1] for feed in node.power_feeds} == {"12a", "12b"}
    counts = [part.count for part in (profile.gpus, profile.nics, profile.nvme, profile.psus, profile.dimms) if part]
    assert counts == [8, 10, 9, 6, 32]
    assert profile.boot_disk.max_bytes == 500 * 10**9
    assert profile.boot_method is BootMethod.UEFI_HTTP
    assert site.settings.site.power_by is PowerBy.MAAS
    assert site.settings.site.deadlines_s == {"deploy": 7200.0}


def test_plain_ansible_reads_the_example_too() -> None:
    program = Path(sys.executable).parent / "ansible-inventory"
    done = subprocess.run([program, "-i", EXAMPLE, "--list"], capture_output=True, text=True, check=True, timeout=60)
    assert '"gpu-12-08"' in done.stdout
    assert "Unable to parse" not in done.stderr


def test_everything_wrong_is_said_at_once_and_sorted(tmp_path: Path) -> None:
    cable = {"nic": "NIC.1", "switch": "leaf-a", "port": "7"}
    hosts = {
        "gpu-12-01": host(1, macs=["B8:3F:D2:00:1A:07"], cabling=[cable]),
        "gpu-12-02": host(2, bmc_address="10.1.12.1:443", service_tag="tag0001", rack_unit=1, profile="h10"),
        "gpu-12-03": host(3, macs=["b83f.d200.1a07"], cabling=[{**cable, "nic": "NIC.2"}]),
        "gpu-12-04": host(4, macs=["00:00:00:00:00:00"], rack_unit=99),
        "gpu-12-05": host(5, service_tag=42798, bmc_adress="10.1.12.5", bmc_address=None),
        "gpu-12-06": host(6, bmc_address="http://10.1.12.6/", cabling=[{"nic": "x", "swich": "y"}]),
        "gpu-12-07": host(7, site="{{ dc }}"),
    }
    provision = {**PROVISION, "powerby": "maas", "stages": {"deplo": {}}, "limits": {"in_flight": 0}}
    profiles = {"h100": {**PROFILE, "gpu": {"count": 8}, "boot_disk": {"max_size": "400 apples"}}}

    with pytest.raises(InventoryError) as caught:
        load(write_site(tmp_path, hosts, provision=provision, profiles=profiles))

    assert caught.value.complaints == tuple(str(caught.value).splitlines())
    assert list(caught.value.complaints) == [
        "BMC address 10.1.12.1 is given to gpu-12-01 and gpu-12-02: it belongs to one; correct the other",
        "MAC address b8:3f:d2:00:1a:07 is given to gpu-12-01 and gpu-12-03: it belongs to one; correct the other",
        "group var profiles: h100: boot_disk.max_size: expected a size such as 400GB or 3.84TB, found '400 apples'",
        "group var profiles: h100: gpu is not known; did you mean gpus?",
        "group var provision: limits.in_flight: expected a value greater than or equal to 1, found 0",
        "group var provision: powerby is not known; did you mean power_by?",
        "group var provision: stages.deplo: expected one of discover, preflight, enlist, commission, deploy, configure "
        "or accept, found deplo",
        "host gpu-12-02: profile: h10 is not in the group var profiles; did you mean h100?",
        "host gpu-12-04: macs[0]: '00:00:00:00:00:00' is all zero: an empty slot, not a network card",
        "host gpu-12-04: rack_unit: expected a value less than or equal to 60, found 99",
        "host gpu-12-05: bmc_address is missing: expected host or host:port of its BMC",
        "host gpu-12-05: bmc_adress is not known; did you mean bmc_address?",
        "host gpu-12-05: service_tag: expected text, found the number 42798: put the value in quotes "
        "(YAML read it as a number)",
        "host gpu-12-06: bmc_address: expected an address such as 10.1.12.3 or bmc-3.site:8443, "
        "found 'http://10.1.12.6/'",
        "host gpu-12-06: cabling[0].port is missing: expected the switch's port, in quotes",
        "host gpu-12-06: cabling[0].swich is not known; did you mean switch?",
        "host gpu-12-06: cabling[0].switch is missing: expected the switch's name",
        "host gpu-12-07: site: a template is not evaluated here; write the value itself",
        "rack unit rack-12 U1 is given to gpu-12-01 and gpu-12-02: it belongs to one; correct the other",
        "service tag TAG0001 is given to gpu-12-01 and gpu-12-02: it belongs to one; correct the other",
        "switch port leaf-a port 7 is given to gpu-12-01 NIC.1 and gpu-12-03 NIC.2: it belongs to one; "
        "correct the other",
    ]


def test_one_mistake_of_many_hosts_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InventoryError) as caught:
        load(write_site(tmp_path, {f"n{i}": host(i) for i in range(1, 10)}, profile="h10"))
    assert caught.value.complaints == (
        "9 hosts (n1, n2, n3, …): profile: h10 is not in the group var profiles; did you mean h100?",
    )


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "{path} is empty: expected an Ansible inventory"),
        ({"hosts.yml": b"all:\n  hosts: [a\n  b: c\n"}, "{path}/hosts.yml:3: broken YAML: "),
        ({"hosts.yml": b"\x7fELF\x02\x01\x00\xff\xfe" * 50}, "{path}/hosts.yml:1: a binary file or not UTF-8 text"),
        ({"hosts.yml": b"all:\n  hosts:\n    a:\n    a:\n"}, "{path}/hosts.yml:4: a stands there twice"),
        ({"hosts.yml": b"all:\n  hosts:\n    a:\n", "group_vars/all.yml": b"x: [1\n"}, "{path}/group_vars/all.yml:2: "),
        (
            {"hosts.yml": b"all: {hosts: {localhost: {}}}\n"},
            "{path} has 1 hosts, but none with bmc_address and profile",
        ),
    ],
    ids=["empty", "broken", "binary", "twice", "group-vars", "no-node"],
)
def test_an_inventory_that_cannot_be_read_says_where(tmp_path: Path, files: dict[str, bytes], sentence: str) -> None:
    for name, raw in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(raw)
    with pytest.raises(InventoryError) as caught:
        load(tmp_path)
    assert str(caught.value).startswith(sentence.format(path=tmp_path)), str(caught.value)
    assert len(caught.value.complaints) == 1


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match=r"/nowhere does not exist: expected an inventory directory"):
        load(tmp_path / "nowhere")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user who may not read the file")
def test_an_unreadable_inventory(tmp_path: Path) -> None:
    site = write_site(tmp_path / "site")
    (site / "hosts.yml").chmod(0o600)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for folder in (*tmp_path.parents, tmp_path):
                if folder.stat().st_uid == 0 and folder.name.startswith(("pytest-", "popen-")):
                    folder.chmod(0o755)
            tmp_path.chmod(0o755)
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            load(site)
        except InventoryError as error:
            status = 0 if str(error).startswith(f"{site}/hosts.yml cannot be read: permission denied") else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_ini_with_settings_beside_it(tmp_path: Path) -> None:
    site = write_site(tmp_path)
    (site / "hosts.yml").unlink()
    (site / "hosts").write_text(
        "[rack-12]\ngpu-[01:02] profile=h100 rack=rack-12\n"
        "[rack-12:vars]\nansible_port=2222\n"
        "[others]\nswitch-1 ansible_host=10.0.0.1\n"
    )
    (site / "host_vars").mkdir()
    for n in (1, 2):
        (site / "host_vars" / f"gpu-0{n}.yml").write_text(f"bmc_address: 10.1.1.{n}\nansible_host: 10.2.1.{n}\n")

    loaded = load(site)

    assert [(n.name, n.bmc_address, n.ssh) for n in loaded.nodes.values()] == [
        ("gpu-01", "10.1.1.1", Address("10.2.1.1", 2222)),
        ("gpu-02", "10.1.1.2", Address("10.2.1.2", 2222)),
    ]
    assert loaded.warnings == ("1 hosts without bmc_address and profile are left alone: switch-1",)
    with pytest.raises(MisconfiguredError, match="selects 1 hosts, but none is a node"):
        select(loaded, "others")


def test_an_inventory_plugin_works(tmp_path: Path) -> None:
    site = write_site(tmp_path, {})
    (site / "hosts.yml").write_text(
        "plugin: ansible.builtin.generator\n"
        "hosts: {name: 'gpu-{{ n }}', parents: [{name: rack-12}]}\n"
        "layers: {n: ['1', '2']}\n"
    )
    (site / "group_vars" / "rack-12.yml").write_text("{profile: h100, rack: rack-12}")
    (site / "host_vars").mkdir()
    for n in (1, 2):
        (site / "host_vars" / f"gpu-{n}.yml").write_text(f"bmc_address: bmc-{n}.mgmt\n")
    assert [node.bmc_address for node in load(site).nodes.values()] == ["bmc-1.mgmt", "bmc-2.mgmt"]


def test_logins_of_groups_share_a_name_per_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_BMC_PASSWORD", "site-password")
    monkeypatch.setenv("TEST_OTHER", "other-password")
    hosts = {
        "a": host(1),
        "b": host(2, bmc_password="env:TEST_OTHER"),
        "c": host(3, bmc_password="env:TEST_OTHER"),
        "d": host(4, bmc_user="admin", bmc_password="env:TEST_OTHER"),
    }
    site = load(write_site(tmp_path, hosts))

    found = [credential_for(site.settings, node) for node in site.nodes.values()]

    assert [(c.name, c.user, c.password.reveal()) for c in found] == [
        ("bmc", "root", "site-password"),
        ("bmc/root", "root", "other-password"),
        ("bmc/root", "root", "other-password"),
        ("bmc/admin", "admin", "other-password"),
    ]
    assert "password" not in repr(found).replace("password=***", "")
    assert site.settings.need_maas().url == "http://maas.example:5240/MAAS"


def test_patterns_are_ansible_s_own(tmp_path: Path) -> None:
    site = load(write_site(tmp_path, {f"gpu-12-{n:02d}": host(n) for n in (1, 2, 10)}))

    def names(pattern: str) -> list[str]:
        return [node.name for node in select(site, pattern)]

    assert names("rack-12") == names("all") == ["gpu-12-01", "gpu-12-02", "gpu-12-10"]
    assert names("gpu-12-02") == ["gpu-12-02"]
    assert names("rack-12:!gpu-12-02") == ["gpu-12-01", "gpu-12-10"]
    with pytest.raises(MisconfiguredError) as caught:
        select(site, "rack-21:rack-12:!gpu-12-20")
    assert "no host or group matches rack-21; did you mean rack-12?" in str(caught.value)
    assert "no host or group matches gpu-12-20; did you mean gpu-12-10 or gpu-12-02" in str(caught.value)
    with pytest.raises(MisconfiguredError, match="selects no host"):
        select(site, "rack-12:!rack-12")
    for hostile in ("", "  ", "@/etc/passwd"):
        with pytest.raises(MisconfiguredError, match="the target is empty"):
            select(site, hostile)
