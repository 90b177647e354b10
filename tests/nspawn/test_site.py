"""The whole site.yml on four real hosts: from scratch, again, broken on purpose, and converged or refused.

Where each kind of the public failures is shown (shared/cases/ansible.md); "here" is this file.

| kind | what was broken | where |
|---|---|---|
| A1 | fabric manager moved alone, pins gone | here, gpu-1: comes back |
| A2 | user space right, loaded module old | here, gpu-2: one reboot |
| A3 | another branch; names and CUDA change | here, gpu-1: up in one transaction; down in lab, below |
| A5 | somebody holds dpkg's lock | here, gpu-3: waited for |
| A6 | held packages, run again, moved down | here: second run changed=0; gpu-1 |
| A7 | no python3-debian on the host | here: the image has none, the first run converges |
| A8 | a stranger's package needs the old DCGM | here, gpu-3: refused, names it |
| A10 | daemon-reload on a converged node | here: systemctl is asked for nothing on the second run |
| A11 | OFED after the driver; unknown symbols | here, gpu-4: built again; then refused with the reason |
| A12 | peer memory gone; loaded, not registered | here, gpu-1: loaded again; gpu-4: refused |
| A13 | DKMS fails, dpkg is left half way | here, gpu-4: refused with make.log, then goes on |
| A14 | Secure Boot, unsigned driver | here, gpu-2: refused before anything |
| A15 | clock years off and not to be set | here, gpu-1: refused first of all; step: playbooks/test_stack_checks |
| A16, A17, A19 | pools and drives | playbooks/test_disks*, test_zpool_module; lab/test_zfs_guest |
| A20 | exporters without a way out | here: the network ends at the mirror |
| A21 | the same repository with another key | here, gpu-3: the other file leaves |
| A22 | reboot answered, nothing restarted | here, gpu-2: refused |
| A24 | event handler slow or raising | adapters/ansible/test_tally |
| A25 | ACS is on after every boot | here, gpu-2: off again after its reboot, and proved |
"""

from __future__ import annotations

import asyncio
import fcntl
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from dummy_mirror import Deb
from dummy_stack import GPUS, PACKAGES, rest
from nspawn_hosts import USER, Lab
from rack import CHECKS, SECRET, Rack, said
from ssh_peer import node, public_line, write_key

from provision.adapters.ansible.reap import Marks, find
from provision.model.node import Address
from provision.ports import WaveState, WaveVerdict

pytestmark = [pytest.mark.nspawn, pytest.mark.timeout(1200)]
NAMES = ("gpu-1", "gpu-2", "gpu-3", "gpu-4")
SECURE_BOOT = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


@pytest.fixture
def names() -> tuple[str, ...]:
    """Which hosts stand in the rack."""
    return NAMES


@pytest.fixture
async def rack(lab: Lab, tmp_path: Path, names: tuple[str, ...]) -> AsyncIterator[Rack]:
    made = Rack(lab, tmp_path)
    await made.start(names)
    try:
        yield made
    finally:
        await made.close()


def told(*keys: str, **others: str) -> dict[str, object]:
    """Only these of the packages are wanted, and ``others`` in another version: what is not named is not looked at."""
    return {
        "provision_packages": {key: PACKAGES[key] for key in keys} | {k.replace("_", "-"): v for k, v in others.items()}
    }


LEFT = (
    "dpkg-query -W -f '${{Package}} ${{Version}} ${{db:Status-Status}}\\n' '*nvidia*' | grep '{}.* installed' || true"
)
DRIVER = ("kernel", "doca-ofed", "nvidia-driver")


async def test_the_whole_stack_from_scratch_again_and_broken_on_purpose(rack: Rack) -> None:
    boots = [await rack.sh(name, "cat /proc/sys/kernel/random/boot_id") for name in NAMES]
    first = await rack.run(*NAMES)
    assert {v.state for v in first.values()} == {WaveState.OK}, said(first)
    assert all(v.changed > 0 for v in first.values())
    await everything_is_proved(rack, boots)
    await again_nothing_happens(rack)
    await drift_comes_back(rack)
    await refusals_say_why(rack)
    await one_moves_on_and_others_cannot(rack)
    kept = "".join(path.read_text() for path in (rack.folder / "waves").iterdir())
    assert "the mirror lacks" in kept
    assert SECRET not in kept


async def everything_is_proved(rack: Rack, boots: list[str]) -> None:
    """Each was restarted (another kernel was wanted), is pinned and held, and proves it."""
    for name, before in zip(NAMES, boots, strict=True):
        assert await rack.sh(name, "cat /proc/sys/kernel/random/boot_id") != before
        assert await rack.marked(name) == rack.waves.wanted(node(name))
        # The first start, the wanted kernel, the driver: two reboots and not one more.
        assert await rack.sh(name, "wc -l < /var/lib/fake-boots") == "3"
    report = await rack.report(NAMES[0])
    assert report["noes"] == []
    assert {check["name"] for check in report["checks"]} == set(CHECKS)
    assert await rack.sh(NAMES[0], "cat /sys/module/nvidia/version") == "570.124.06"
    assert await rack.sh(NAMES[0], "cat /sys/devices/system/cpu/cpu1/cpufreq/scaling_max_freq") == "3800000"
    held = (await rack.sh(NAMES[0], "apt-mark showhold")).split()
    assert {"nvidia-dkms-570-open", "libnvidia-compute-570", "nvidia-fabricmanager-570", "doca-ofed"} <= set(held)


async def again_nothing_happens(rack: Rack) -> None:
    """changed=0 everywhere, no write of the marker, and systemd is asked how things are and for nothing else."""
    for name in NAMES:
        await rack.sh(name, ": > /run/fake/systemctl")
    marker = await rack.sh(NAMES[0], "stat -c %Y%i /etc/provision/marker.json")
    assert await rack.run(*NAMES) == dict.fromkeys(NAMES, WaveVerdict(WaveState.OK, changed=0))
    assert await rack.sh(NAMES[0], "stat -c %Y%i /etc/provision/marker.json") == marker
    asked = (await rack.sh(NAMES[1], "cat /run/fake/systemctl")).splitlines()
    verbs = {line.split()[0] for line in asked}
    assert verbs
    assert verbs <= {"show", "is-active", "list-units", "is-system-running", "--failed"}, asked


async def drift_comes_back(rack: Rack) -> None:
    """Some kinds of drift a host; the same command brings each back, and so does plain ansible-playbook."""
    # A1: fabric manager moved alone. A9: somebody's own keys in daemon.json. A12: openibd took peer memory away.
    await rack.sh("gpu-1", "apt-mark unhold nvidia-fabricmanager-570; rm /etc/apt/preferences.d/provision.pref")
    await rack.sh("gpu-1", "apt-get install -y nvidia-fabricmanager-570=570.133.20-1")
    await rack.sh("gpu-1", """echo '{"data-root": "/data", "runtimes": {"own": {}}}' > /etc/docker/daemon.json""")
    await rack.sh("gpu-1", "rmdir /sys/module/nvidia_peermem /sys/kernel/mm/memory_peers/nv_mem")
    noes = str((await rack.report("gpu-1"))["noes"])
    for words in ("nvidia-fabricmanager-570 570.133.20-1", "nvidia-peermem is not loaded"):
        assert words in noes
    for name in ("gpu-2", "gpu-4"):
        rack.told[name] = told(*DRIVER)
    # A2: user space is right, the loaded module is an old one: only a reboot helps. A25: and then ACS is on again.
    await rack.sh("gpu-2", "echo 570.86.15 > /sys/module/nvidia/version")
    assert "could not look: nvidia-smi" in str((await rack.report("gpu-2"))["noes"])
    # A5: somebody holds dpkg's lock for a while. A21: the same repository again, with another key.
    legacy = rack.root("gpu-3") / "etc/apt/sources.list.d/docker.list"
    legacy.write_text(f"deb [signed-by=/etc/apt/keyrings/other.asc] {rack.url} ./\n")
    await rack.sh("gpu-3", "dpkg --force-depends --remove --force-remove-essential prometheus-node-exporter")
    rack.told["gpu-3"] = told("node-exporter")
    # A13 and A11: OFED came after the driver, so it is built again, and that fails.
    await rack.sh("gpu-4", "touch -d '+1 minute' /var/lib/dpkg/info/doca-ofed.list; touch /etc/fake/dkms-fail")
    with (rack.root("gpu-3") / "var/lib/dpkg/lock-frontend").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        asyncio.get_running_loop().call_later(12, fcntl.lockf, lock, fcntl.LOCK_UN)
        by_hand, found = await asyncio.gather(rack.by_hand("gpu-3"), rack.run("gpu-1", "gpu-2", "gpu-4"))
    assert "failed=0" in by_hand
    checked = await rack.by_hand("gpu-3", "--check", "--diff")
    assert "changed=0 " in checked, checked
    assert not legacy.exists()
    assert await rack.marked("gpu-3") == "by-hand"
    assert [found[name].state for name in NAMES[:2]] == [WaveState.OK] * 2, said(found)
    assert found["gpu-4"].state is WaveState.FAILED
    assert found["gpu-4"].task == "gpu : Install the whole family in one transaction"
    for words in ("not whole after it: nvidia-dkms-570-open", "make.log", "no such symbol"):
        assert words in found["gpu-4"].why
    assert await rack.sh("gpu-1", "dpkg-query -W -f '${Version}' nvidia-fabricmanager-570") == "570.124.06-1"
    daemon = json.loads(await rack.sh("gpu-1", "cat /etc/docker/daemon.json"))
    assert (daemon["data-root"], set(daemon["runtimes"])) == ("/data", {"own", "nvidia"})
    assert await rack.sh("gpu-2", "cat /sys/module/nvidia/version; ls /run/fake/acs-off") == (
        "570.124.06\n/run/fake/acs-off"
    )


async def refusals_say_why(rack: Rack) -> None:
    """What cannot end well is refused with its sentence; what was mended goes on."""
    # A15: the node is decades behind, and its clock cannot be set (a container has no clock of its own).
    rack.told["gpu-1"] = {"clock_controller_s": 4102444800.0}
    # A14: Secure Boot and a driver that nobody signed.
    await rack.sh("gpu-2", "mkdir -p /sys/firmware/efi/efivars")
    await rack.sh("gpu-2", f"printf '\\006\\0\\0\\0\\001' > /sys/firmware/efi/efivars/{SECURE_BOOT}")
    # A partial mirror.
    rack.told["gpu-3"] = told(*DRIVER[:2], nvidia_driver="575.57.08")
    # The compiler is well again: dpkg goes on where it stopped. A GPU is missing, and A12: nobody registers.
    await rack.sh("gpu-4", "rm /etc/fake/dkms-fail; touch /var/lib/dpkg/info/nvidia-dkms-570-open.list")
    await rack.sh("gpu-4", "touch -d '-1 hour' /var/lib/dpkg/info/doca-ofed.list")
    await rack.sh("gpu-4", "rmdir /sys/module/nvidia_peermem /sys/kernel/mm/memory_peers/nv_mem")
    await rack.sh("gpu-4", "touch /etc/fake/peermem-unregistered")
    rack.told["gpu-4"] = told(*DRIVER) | {"provision_expected": {"gpus": GPUS + 1}}
    # And the way to it leads through another host.
    rack.told["gpu-4"]["ansible_ssh_common_args"] = f"-o ProxyCommand='{rack.way_through('gpu-3')}'"
    found = await rack.run(*NAMES)
    assert {v.state for v in found.values()} == {WaveState.FAILED}, said(found)
    logged = f"journalctl -q -u ssh -g 'Accepted publickey for {USER} from {rack.host('gpu-3').address.host} '"
    assert await rack.sh("gpu-4", logged)
    assert "behind the controller and cannot be set" in found["gpu-1"].why
    assert "Secure Boot is on" in found["gpu-2"].why
    assert found["gpu-3"].task == "apt : Fetch what will be installed"
    assert "the mirror lacks" in found["gpu-3"].why
    assert "nvidia-dkms-575-open 575.57.08 (no such package)" in found["gpu-3"].why
    assert found["gpu-4"].task.startswith("verify : Refuse a node"), said(found)
    for words in ("gpu-count: 8 of 9", "nvidia-peermem is loaded, not registered"):
        assert words in found["gpu-4"].why
    assert await rack.sh("gpu-4", "dpkg --audit") == ""
    assert await rack.marked("gpu-4") != rack.waves.wanted(node("gpu-4"))
    rack.told.clear()


async def one_moves_on_and_others_cannot(rack: Rack) -> None:
    """570 → 580 beside refusals, a host that is gone and one that is a stranger: each has a verdict of its own."""
    rack.told["gpu-1"] = told(*DRIVER[:2], nvidia_driver="580.126.20", dcgm="1:4.5.2-1")
    # A22: the module is an old one, and the machine says yes to a reboot and stays up.
    await rack.sh("gpu-2", "rm -r /sys/firmware/efi; echo 570.86.15 > /sys/module/nvidia/version")
    await rack.sh("gpu-2", "touch /etc/fake/does-not-restart")
    rack.told["gpu-2"] = told(*DRIVER) | {"reboot_timeout_s": 5}
    # A8: a package of somebody else's would have to leave.
    rack.mirror.add(Deb("site-monitor", "1.0", depends="datacenter-gpu-manager-4-core (= 1:4.2.3-1)"))
    rack.mirror.publish()
    await rack.sh("gpu-3", "apt-get update -q && apt-get install -y site-monitor")
    rack.told["gpu-3"] = told("nvidia-driver", dcgm="1:4.5.2-1")
    rack.told["gpu-4"] = told(*DRIVER)
    # A11: the driver was built before OFED.
    await rack.sh("gpu-4", "rm /etc/fake/peermem-unregistered; rmdir /sys/module/nvidia_peermem")
    await rack.sh("gpu-4", "touch /etc/fake/peermem-fails")
    for name in ("gone", "stranger"):
        rack.pins.set_pin("ssh-host-key", name, public_line(write_key(rack.folder / name)))
    gone = Address(f"{rack.lab.subnet}.250")
    found = await rack.run(*NAMES, gone=gone, stranger=rack.host("gpu-1").address)
    assert found["gpu-1"].state is WaveState.OK, said(found)
    assert (await rack.report("gpu-1"))["noes"] == []
    assert await rack.sh("gpu-1", LEFT.format("570")) == ""
    assert found["gpu-2"].task == "reboot : Restart the node", said(found)
    assert "Timed out waiting for last boot time check" in found["gpu-2"].why
    assert "site-monitor" in found["gpu-3"].why
    assert "1:4.2.3-1" in await rack.sh("gpu-3", "dpkg-query -W datacenter-gpu-manager-4-core")
    assert found["gpu-4"].task == "gpu : Load and start the driver"
    assert "Unknown symbol in module; the driver was built before OFED" in found["gpu-4"].why
    assert found["gone"].state is WaveState.UNREACHABLE
    assert found["stranger"].state is WaveState.UNREACHABLE
    assert "another SSH host key than the pinned one" in found["stranger"].why
    rack.told.clear()


# Minutes beside the others; that a cancelled wave leaves no process is in make test (adapters/ansible/test_waves.py).
@pytest.mark.lab
@pytest.mark.parametrize("names", [("gpu-1",)])
async def test_cancelled_in_the_middle_of_dpkg_the_next_run_goes_on(rack: Rack, names: tuple[str, ...]) -> None:
    """No process of the wave is left here; dpkg on the host is waited for or finished, and all is whole.

    A later run takes an older branch: other names, another CUDA, and dpkg goes down as it went up.
    """
    slow = next(deb for deb in rest() if deb.name == "prometheus-node-exporter")
    rack.mirror.add(replace(slow, version="1.9.0-1", postinst="touch /run/in-postinst; sleep 6"))
    rack.mirror.publish()
    rack.packages = {"node-exporter": "1.9.0"}
    rack.told["gpu-1"] = {"apt_refresh_s": 0}
    where = rack.host("gpu-1").address
    rack.waves.join(node("gpu-1"), where)
    async with asyncio.timeout(120):
        while (await rack.shell.run(node("gpu-1"), where, "test -e /run/in-postinst", deadline_s=30)).status:
            state = rack.waves.verdict("gpu-1")
            assert state.state in {WaveState.WAITING, WaveState.RUNNING}, state
            await asyncio.sleep(0.2)
    tag = f"{rack.waves._id}.{rack.waves._count}"
    marks = Marks(tag, f"/provision-{tag[-8:]}-")
    assert find(marks)
    await rack.waves.close()
    assert find(marks) == []
    assert rack.waves.verdict("gpu-1").state is WaveState.NOT_ATTEMPTED
    rack.waves = rack.make()
    for driver, dcgm in (("580.126.20", "1:4.5.2-1"), ("570.124.06", "1:4.2.3-1")):
        rack.told["gpu-1"] = told(*DRIVER[:2], "chrony", nvidia_driver=driver, dcgm=dcgm, node_exporter="1.9.0")
        found = await rack.run("gpu-1")
        assert found["gpu-1"].state is WaveState.OK, said(found)
    assert (await rack.report("gpu-1"))["noes"] == []
    assert await rack.sh("gpu-1", LEFT.format("580")) == ""
    checked = await rack.by_hand("gpu-1", "--check", "--diff")
    assert "changed=0 " in checked, checked
    whole = "dpkg --audit; dpkg-query -W -f '${db:Status-Status}' prometheus-node-exporter"
    assert await rack.sh("gpu-1", whole) == "installed"
