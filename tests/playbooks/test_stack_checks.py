"""Checks of the software stack, and the small decisions that the own modules make: real files, real processes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.playbooks.test_names import load
from tests.playbooks.test_provision_check import Host, Report, only

boot, clock = load("provision_boot"), load("provision_clock")
DRIVER = "570.124.06"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def answers(report: Report) -> dict[str, bool | None]:
    return {f"{check['name']}/{check['part']['name']}": check["ok"] for check in report["checks"]}


def test_without_a_stack_nothing_is_judged_but_dpkg(host: Host) -> None:
    host.command("dpkg", "")
    names = ["driver-version", "nvidia-smi", "fabric-manager", "peer-memory", "ofed", "dkms", "package-holds"]
    names += ["container-runtime", "dcgm", "exporters", "cpu-governor", "acs", "dpkg-audit"]
    assert answers(host.look(*names)) == {"dpkg-audit/dpkg": True}


def test_the_loaded_module_counts_and_the_family_moves_together(host: Host) -> None:
    """A1 and A2: the fabric manager moved alone; the module is still the old one."""
    family = f"nvidia-dkms-570-open\t{DRIVER}-0ubuntu1\thold\tinstalled\n"
    host.command("dpkg-query", family + "nvidia-fabricmanager-570\t570.133.20-1\thold\tinstalled\n")
    host.file("sys/module/nvidia/version", "570.86.15")
    report = host.look("driver-version", stack={"driver": DRIVER})
    assert report["noes"] == [
        f"driver-version: loaded 570.86.15, wanted {DRIVER}",
        "driver-version: nvidia-fabricmanager-570 570.133.20-1",
    ]
    host.command("dpkg-query", family + "nvidia-container-toolkit\t1.17.4-1\thold\tinstalled\n")
    host.file("sys/module/nvidia/version", DRIVER)
    assert host.look("driver-version", stack={"driver": DRIVER})["noes"] == []


def test_every_gpu_answers_with_the_driver_and_persistence(host: Host) -> None:
    told = {"stack": {"driver": DRIVER}, "expected": {"gpus": 2}}
    host.command("nvidia-smi", f"{DRIVER}, Enabled\n{DRIVER}, Disabled\n")
    check = only(host.look("nvidia-smi", **told))
    assert (check["ok"], f"others: {DRIVER}, Disabled" in check["why"]) == (False, True)
    host.command("nvidia-smi", f"{DRIVER}, Enabled\n" * 2)
    assert only(host.look("nvidia-smi", **told))["ok"] is True
    host.command("nvidia-smi", "Failed to initialize NVML: Driver/library version mismatch", status=18)
    assert only(host.look("nvidia-smi", **told))["ok"] is None


def test_fabric(host: Host) -> None:
    told = {"stack": {"fabric": True}, "expected": {"gpus": 2}}
    host.command("systemctl", "failed\n", status=3)
    assert only(host.look("fabric-manager", **told))["why"] == "nvidia-fabricmanager is failed"
    host.command("systemctl", "active\n")
    gpu = "GPU 0\n    Fabric\n        State                  : {}\n        Status                 : Success\n"
    host.command("nvidia-smi", gpu.format("Completed") + gpu.format("In Progress"))
    assert answers(host.look("fabric-manager", **told))["fabric-manager/*"] is False
    host.command("nvidia-smi", gpu.format("Completed") * 2)
    assert host.look("fabric-manager", **told)["noes"] == []


def test_peer_memory_loaded_is_not_registered(host: Host) -> None:
    """A12: the module is there, and the network cards' stack knows nothing of it."""
    told = {"stack": {"peer_memory": "peermem"}}
    assert only(host.look("peer-memory", **told))["why"] == "nvidia-peermem is not loaded"
    host.file("sys/module/nvidia_peermem/initstate", "live")
    check = only(host.look("peer-memory", **told))
    assert (check["ok"], check["why"]) == (False, "nvidia-peermem is loaded, not registered")
    host.file("sys/kernel/mm/memory_peers/nv_mem/version", "1.3")
    assert only(host.look("peer-memory", **told))["ok"] is True
    host.command("modinfo", "NVIDIA")
    assert only(host.look("peer-memory", stack={"peer_memory": "dmabuf"}))["ok"] is False
    host.command("modinfo", "Dual MIT/GPL")
    assert only(host.look("peer-memory", stack={"peer_memory": "dmabuf"}))["ok"] is True


def test_ofed_installed_and_loaded(host: Host) -> None:
    host.command("ofed_info", "OFED-internal-24.10-1.1.4:\n")
    host.command("dpkg-query", "doca-ofed\t2.9.1-1\thold\tinstalled\n")
    host.command("modinfo", "24.10-1.1.4")
    told = {"stack": {"ofed": "2.9.1"}}
    assert answers(host.look("ofed", **told)) == {"ofed/doca-ofed": True, "ofed/mlx5_core": False}
    host.file("sys/module/mlx5_core/version", "24.10-1.1.4")
    assert host.look("ofed", **told)["noes"] == []
    assert answers(host.look("ofed", stack={"ofed": "2.9.2"}))["ofed/doca-ofed"] is False


def test_dkms_is_built_for_the_kernel_that_runs(host: Host) -> None:
    host.file("proc/sys/kernel/osrelease", "6.8.0-60-generic")
    host.command("dkms", "nvidia/570.124.06, 6.8.0-58-generic, x86_64: installed\nofed/24.10: added\n")
    check = only(host.look("dkms", stack={"dkms": True}))
    assert (check["ok"], check["why"]) == (False, "not built for 6.8.0-60-generic: nvidia, ofed")
    host.command("dkms", "nvidia/570.124.06, 6.8.0-60-generic, x86_64: installed\n")
    assert only(host.look("dkms", stack={"dkms": True}))["ok"] is True
    host.command("dkms", "")
    assert only(host.look("dkms", stack={"dkms": True}))["why"] == "DKMS knows no module"


def test_a_package_left_half_way_is_seen(host: Host) -> None:
    """A13: apt says ok over it."""
    host.command("dpkg", "The following packages are only half configured:\n nvidia-dkms-570-open  a dummy\n")
    assert only(host.look("dpkg-audit"))["why"] == "not whole: nvidia-dkms-570-open"


def test_holds(host: Host) -> None:
    host.command("dpkg-query", "doca-ofed\t2.9.1-1\tinstall\tinstalled\nold\t1\tinstall\tconfig-files\n")
    assert only(host.look("package-holds", stack={"held": ["doca-ofed"]}))["why"] == "not held: doca-ofed"


def test_containers_and_dcgm(host: Host) -> None:
    host.command("docker", '{"runc": {}}')
    assert only(host.look("container-runtime", stack={"runtime": True}))["ok"] is False
    host.command("docker", '{"runc": {}, "nvidia": {}}')
    assert only(host.look("container-runtime", stack={"runtime": True}))["ok"] is True
    host.command("systemctl", "active\n")
    host.command("dcgmi", "7 GPUs found.\n")
    report = host.look("dcgm", stack={"dcgm": True}, expected={"gpus": 8})
    assert report["noes"] == ["dcgm: 7 of 8 in DCGM"]


@pytest.fixture
def exporter() -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'# HELP\nDCGM_FI_DEV_GPU_TEMP{gpu="0"} 40\n')

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    server.server_close()


def test_exporters_answer_with_their_metric(exporter: str, host: Host) -> None:
    assert only(host.look("exporters", stack={"exporters": {exporter: "DCGM_FI_DEV_GPU_TEMP"}}))["ok"] is True
    assert only(host.look("exporters", stack={"exporters": {exporter: "node_uname_info"}}))["ok"] is False
    assert only(host.look("exporters", stack={"exporters": {"http://127.0.0.1:9/": "x"}}))["ok"] is False


def test_a_core_that_is_capped_is_seen(host: Host) -> None:
    core = "sys/devices/system/cpu/cpu0/cpufreq"
    assert only(host.look("cpu-governor", stack={"governor": "performance"}))["ok"] is None
    for name, text in (("scaling_governor", "performance"), ("scaling_max_freq", "2000"), ("cpuinfo_max_freq", "3800")):
        host.file(f"{core}/{name}", text)
    check = only(host.look("cpu-governor", stack={"governor": "performance"}))
    assert (check["ok"], check["why"]) == (False, "1 of 1 cores are performance; 1 are capped")
    host.file(f"{core}/scaling_max_freq", "3800")
    assert only(host.look("cpu-governor", stack={"governor": "performance"}))["ok"] is True


def test_acs_that_came_back_is_seen(host: Host) -> None:
    """A25."""
    line = "\t\tACSCtl:\tSrcValid{} TransBlk-\n"
    host.command(
        "lspci", "3a:01.0 PCI bridge: x\n" + line.format("+") + "3b:00.0 3D controller: y\n" + line.format("-")
    )
    assert only(host.look("acs", stack={"acs": "disable"}))["why"] == "ACS is on at 3a:01.0"
    host.command("lspci", "3a:01.0 PCI bridge: x\n" + line.format("-"))
    assert only(host.look("acs", stack={"acs": "disable"}))["ok"] is True


SEEN = {
    "kernel": "6.8.0-60-generic",
    "cmdline": "quiet iommu=pt",
    "modules": {"nvidia": DRIVER, "mlx5_core": "", "nouveau": None},
    "asked_by": None,
}


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({}, []),
        ({"kernel": "6.8.0-60-generic", "arguments": ["iommu=pt"], "modules": {"nvidia": DRIVER}}, []),
        ({"kernel": "6.8.0-61-generic"}, ["kernel 6.8.0-60-generic runs, 6.8.0-61-generic is wanted"]),
        ({"arguments": ["iommu=pt", "nohz=off"]}, ["the kernel was started without nohz=off"]),
        ({"modules": {"nvidia": "580.1"}}, [f"module nvidia is loaded as {DRIVER}, 580.1 is installed"]),
        (
            {"modules": {"mlx5_core": "24.10"}},
            ["module mlx5_core is loaded as the one of the kernel, 24.10 is installed"],
        ),
        ({"modules": {"other": "1"}}, []),
        ({"conflicting": ["nouveau"]}, []),
        ({"conflicting": ["nvidia"]}, ["module nvidia is loaded"]),
    ],
)
def test_reboots_are_decided_by_facts(wanted: dict[str, object], why: list[str]) -> None:
    assert boot.reasons(SEEN, **wanted) == why


def test_facts_are_read_from_the_running_system(tmp_path: Path) -> None:
    for path, text in {
        "proc/sys/kernel/random/boot_id": "one\n",
        "proc/sys/kernel/osrelease": "6.8.0\n",
        "proc/cmdline": "quiet\n",
        "sys/module/nvidia/version": DRIVER,
        "run/reboot-required": "",
        "run/reboot-required.pkgs": "linux-base\nlinux-base\n",
        boot.SECURE_BOOT: "\x06\0\0\0\x01",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    seen = boot.read(tmp_path, ["nvidia", "nouveau"])
    assert (seen["boot_id"], seen["secure_boot"], seen["modules"]) == ("one", True, {"nvidia": DRIVER, "nouveau": None})
    assert boot.reasons(seen, heed_packages=True) == ["packages ask for it: linux-base"]
    assert boot.reasons(seen) == []
    (tmp_path / boot.SECURE_BOOT).unlink()
    assert boot.read(tmp_path, [])["secure_boot"] is None
    assert json.dumps(seen)


@pytest.mark.parametrize(
    ("theirs", "move", "why"),
    [
        (1000.0, 0.0, ""),
        (1020.0, 0.0, ""),
        (1040.0, 40.0, "40 s behind the controller"),
        (-9000.0, -10000.0, "2.8 h ahead of the controller"),
        (1000.0 + 3 * 86400, 3 * 86400.0, "3.0 days behind the controller"),
    ],
)
def test_the_clock_is_moved_only_when_it_is_far_off(theirs: float, move: float, why: str) -> None:
    assert clock.decide(1000.0, theirs, 30.0) == (move, why)
