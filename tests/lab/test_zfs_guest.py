"""ZFS for real: the role over SSH against a guest with six NVMe drives, a pulled drive, a new system drive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from provision.model.finding import Category
from provision.model.node import Node
from provision.model.profile import DiskRule, Profile
from provision.stages.accept import parse_checks
from provision.triage.judge import judge
from tests.lab.zfs_guest import DRIVES, Guest, missing

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]
PLAYBOOKS = Path(__file__).parents[2] / "playbooks"
BAYS = [{"serial": f"D{number}", "bay": str(number)} for number in range(1, DRIVES + 1)]
SITE = """
- name: Pool
  hosts: all
  gather_subset: [min]
  become: true
  roles: [@role@]
"""


class Run:
    """What one run of a role did."""

    def __init__(self, guest: Guest, *, role: str = "zfs", **more: Any) -> None:
        site = guest.folder / "site.yml"
        site.write_text(SITE.replace("@role@", role))
        wanted = {
            "zfs_expected_drives": DRIVES,
            "zfs_min_bytes": 5 * 10**8,
            "zfs_drives": BAYS,
            "zfs_pool": "tank",
        } | more
        (guest.folder / "vars.json").write_text(json.dumps(wanted))
        env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(guest.folder)}
        env |= {"LANG": "C.UTF-8", "ANSIBLE_ROLES_PATH": str(PLAYBOOKS / "roles"), "ANSIBLE_PIPELINING": "1"}
        env |= {"ANSIBLE_LIBRARY": str(PLAYBOOKS / "library"), "ANSIBLE_MODULE_UTILS": str(PLAYBOOKS / "module_utils")}
        env |= {"ANSIBLE_SSH_ARGS": " ".join(guest.ssh_options()), "ANSIBLE_TIMEOUT": "60", "ANSIBLE_NOCOLOR": "1"}
        inventory = guest.folder / "hosts"
        inventory.write_text(
            f"guest ansible_host=127.0.0.1 ansible_port={guest.port} ansible_user=root "
            f"ansible_ssh_private_key_file={guest.image}/key ansible_python_interpreter=/usr/bin/python3\n"
        )
        argv = ["ansible-playbook", str(site), "-i", str(inventory), "-e", f"@{guest.folder}/vars.json"]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=900, check=False)
        self.text = done.stdout + done.stderr
        self.ok = done.returncode == 0
        recap = next((line for line in self.text.splitlines() if line.startswith("guest ") and "changed=" in line), "")
        self.changed = int(recap.split("changed=")[1].split()[0]) if recap else -1


@pytest.fixture
def guest(tmp_path: Path) -> Any:
    reason = missing()
    if reason:
        pytest.skip(f"no guest: {reason}")
    with Guest(tmp_path) as made:
        yield made


def test_a_pool_lives_through_a_pulled_drive_and_a_new_system(guest: Guest) -> None:
    # Two names for each drive, and the doubles, are what real drives have.
    names = guest.ssh("ls /dev/disk/by-id").stdout.split()
    assert [name for name in names if name.endswith("_D1_1") or name.endswith("_D1")]

    first = Run(guest)
    assert first.ok, first.text
    assert guest.ssh("zpool status -x tank").stdout.strip() == "pool 'tank' is healthy"
    assert "raidz1-0" in guest.ssh("zpool status tank").stdout
    guest.ssh("dd if=/dev/urandom of=/tank/data bs=1M count=64 status=none; sync")
    told = guest.ssh("sha256sum /tank/data").stdout
    second = Run(guest)
    assert (second.ok, second.changed) == (True, 0), second.text

    guest.pull("D3")
    guest.ssh("dd if=/dev/urandom of=/tank/more bs=1M count=8 status=none; zpool sync tank")
    guest.until("zpool list -H -o health tank | grep -q DEGRADED", 120)
    pulled = Run(guest)
    assert not pulled.ok
    assert "drive D3 of bay 3 is missing" in pulled.text, pulled.text
    assert Run(guest, zfs_degraded_ok=1).changed == 0
    checked = Run(guest, role="verify", verify_checks=["zpool"], verify_zpools=["tank"], verify_stack={})
    assert "drive D3 in bay 3 is" in checked.text, checked.text
    report = guest.ssh("provision-check || test $? = 1").stdout
    profile = Profile("lab", image="bookworm", boot_disk=DiskRule())
    seen = parse_checks("guest", report, datetime.now(UTC))
    (finding,) = judge(Node("guest", "lab", "127.0.0.1", "lab"), profile, seen, (), datetime.now(UTC)).findings
    assert (finding.category, finding.part.locator) == (Category.NVME, "Bay 3"), report

    guest.new_drive("N3")
    guest.insert("N3", bay=3)
    fresh = Run(guest, zfs_degraded_ok=1)
    assert (fresh.ok, fresh.changed) == (True, 0), fresh.text
    assert "drive N3 (/dev/nvme" in fresh.text
    assert "is not in pool tank" in fresh.text
    bad = guest.ssh("zpool status -g tank | awk '$2 ~ /UNAVAIL|REMOVED|FAULTED/ {print $1}'").stdout.split()[-1]
    link = guest.ssh("ls /dev/disk/by-id/nvme-*N3 | head -1").stdout.strip()
    guest.ssh(f"zpool replace tank {bad} {link}; zpool wait -t resilver tank", timeout_s=600)
    guest.until("zpool list -H -o health tank | grep -q ONLINE", 120)
    guest.serials = ("D1", "D2", "N3", "D4", "D5", "D6")
    assert (again := Run(guest)).ok, again.text

    guest.reinstall()  # power cut: the pool was not exported
    assert guest.ssh("zpool list -H").stdout == ""
    new = Run(guest)
    assert new.ok, new.text
    assert guest.ssh("sha256sum /tank/data").stdout == told
    assert (last := Run(guest)).changed == 0, last.text
    assert guest.ssh("zpool status -x tank").stdout.strip() == "pool 'tank' is healthy"
