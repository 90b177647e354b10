"""Checks of the software stack for provision-check: driver, fabric manager, peer memory, OFED, containers, DCGM.

Each looks only if /etc/provision/expected.json names its key below ``stack``; it yields (ok, why, part, values) and
raises the CannotLook that ``node`` carries. Standard library of Python 3.8 and later.
"""

import json
import re
import urllib.error
import urllib.request

PATIENCE_S = 10


def software(name):
    """A part that nobody can touch."""
    return ("software", name, name)


def check_driver(node):
    """The loaded module has the wanted version, and so has the whole installed family."""
    want = node.told["stack"].get("driver")
    if not want:
        return
    loaded = node.text(node.path("/sys/module/nvidia/version"), "not loaded")
    yield (
        loaded == want,
        f"loaded {loaded}, wanted {want}",
        software("nvidia driver"),
        {"loaded": loaded, "wanted": want},
    )
    odd = []
    for name, version, _ in packages(node, "nvidia-*", "libnvidia-nscq*"):
        own = re.match(r"(nvidia-(dkms|utils|fabricmanager|imex)|libnvidia-nscq)", name)
        if own and upstream(version) != want:
            odd.append(f"{name} {version}")
    yield not odd, "; ".join(odd) or f"the family is {want}", software("nvidia packages"), {"odd": len(odd)}


def check_smi(node):
    """Every GPU answers, with the driver's version and persistence mode on."""
    want, count = node.told["stack"].get("driver"), node.expected.get("gpus")
    if not want or not count:
        return
    query = "--query-gpu=driver_version,persistence_mode"
    status, out, err = node.run("nvidia-smi", query, "--format=csv,noheader")
    if status != 0:
        raise node.CannotLook(f"nvidia-smi: {(err or out).strip()[:200] or status}")
    rows = [line.strip() for line in out.splitlines() if line.strip()]
    good = [row for row in rows if row == f"{want}, Enabled"]
    others = "; ".join(sorted(set(rows) - set(good))[:3])
    why = f"{len(good)} of {count} with driver {want} and persistence" + (f"; others: {others}" if others else "")
    yield len(good) == count == len(rows), why, ("gpu", "*", "all GPUs"), {"expected": count, "found": len(good)}


def check_fabric(node):
    """The fabric manager runs, and every GPU's fabric is complete."""
    if not node.told["stack"].get("fabric"):
        return
    state = active(node, "nvidia-fabricmanager.service")
    yield state == "active", f"nvidia-fabricmanager is {state}", software("nvidia-fabricmanager"), {"state": state}
    count = node.expected.get("gpus")
    if state != "active" or not count:
        return
    _, out, _ = node.run("nvidia-smi", "-q")
    states = re.findall(
        r"^\s+State\s+: (\S.*)$", "".join(re.findall(r"(?ms)^    Fabric\n(?:\s{8}.*\n)+", out)), re.MULTILINE
    )
    done = sum(1 for text in states if text.strip() == "Completed")
    why = f"the fabric is complete on {done} of {count} GPUs"
    yield done == count, why, ("gpu", "*", "NVLink fabric"), {"expected": count, "found": done}


def check_peer_memory(node):
    """Peer memory is loaded and registered: loaded alone is not enough for collective operations."""
    mode = node.told["stack"].get("peer_memory")
    if mode == "peermem":
        loaded = node.path("/sys/module/nvidia_peermem").is_dir()
        clients = node.path("/sys/kernel/mm/memory_peers")
        found = sorted(entry.name for entry in clients.iterdir()) if clients.is_dir() else []
        registered = any(name.startswith("nv_mem") for name in found)
        why = "loaded and registered" if registered else "loaded, not registered" if loaded else "not loaded"
        values = {"loaded": loaded, "registered": registered}
        yield loaded and registered, f"nvidia-peermem is {why}", software("nvidia-peermem"), values
    if mode == "dmabuf":
        status, out, err = node.run("modinfo", "-F", "license", "nvidia")
        if status != 0:
            raise node.CannotLook(f"modinfo: {err.strip()[:200] or status}")
        is_open = out.strip() == "Dual MIT/GPL"
        yield is_open, f"the module's licence is {out.strip()!r}", software("nvidia driver"), {"open": is_open}


def check_ofed(node):
    """The installed OFED is the wanted one, and its modules are the loaded ones."""
    want = node.told["stack"].get("ofed")
    if not want:
        return
    status, out, err = node.run("ofed_info", "-s")
    if status != 0:
        raise node.CannotLook(f"ofed_info: {err.strip()[:200] or status}")
    said = out.strip().rstrip(":")
    rows = packages(node, "doca-ofed")
    good = bool(rows) and want in (rows[0][1], upstream(rows[0][1]))
    found = rows[0][1] if rows else "not installed"
    yield good, f"doca-ofed {found}, wanted {want} ({said})", software("doca-ofed"), {"found": found, "wanted": want}
    status, out, _ = node.run("modinfo", "-F", "version", "mlx5_core")
    installed = out.strip() if status == 0 else ""
    loaded = node.text(node.path("/sys/module/mlx5_core/version"), "not loaded or the kernel's own")
    if installed:
        why = f"mlx5_core: loaded {loaded}, installed {installed}"
        yield loaded == installed, why, software("mlx5_core"), {"loaded": loaded, "installed": installed}


def check_dkms(node):
    """Every module that DKMS knows is built for the running kernel."""
    if not node.told["stack"].get("dkms"):
        return
    status, out, err = node.run("dkms", "status")
    if status != 0:
        raise node.CannotLook(f"dkms: {err.strip()[:200] or status}")
    kernel, built, known = node.text(node.path("/proc/sys/kernel/osrelease")), set(), set()
    for line in out.splitlines():
        match = re.match(r"([^/,]+)/([^,:]+)(?:, ([^,:]+), [^:]+)?: (\w+)", line)
        if match:
            known.add(match.group(1))
            if match.group(3) == kernel and match.group(4) == "installed":
                built.add(match.group(1))
    missing = sorted(known - built)
    why = f"not built for {kernel}: {', '.join(missing)}" if missing else f"{len(built)} built for {kernel}"
    yield bool(known) and not missing, why if known else "DKMS knows no module", software("dkms"), {"kernel": kernel}


def check_dpkg(node):
    """No package was left half way."""
    status, out, err = node.run("dpkg", "--audit")
    if status != 0:
        raise node.CannotLook(f"dpkg: {err.strip()[:200] or status}")
    names = re.findall(r"^ (\S+)", out, re.MULTILINE)
    yield (
        not names,
        f"not whole: {', '.join(names)}" if names else "all whole",
        software("dpkg"),
        {"broken": len(names)},
    )


def check_holds(node):
    """What is pinned is held as well."""
    globs = node.told["stack"].get("held") or []
    if not globs:
        return
    loose = [name for name, _, want in packages(node, *globs) if want != "hold"]
    yield not loose, f"not held: {', '.join(loose)}" if loose else "all held", software("apt"), {"loose": len(loose)}


def check_containers(node):
    """Docker knows the NVIDIA runtime."""
    if not node.told["stack"].get("runtime"):
        return
    status, out, err = node.run("docker", "info", "--format", "{{json .Runtimes}}")
    if status != 0:
        raise node.CannotLook(f"docker info: {err.strip()[:200] or status}")
    try:
        runtimes = sorted(json.loads(out))
    except ValueError:
        raise node.CannotLook(f"docker info: {out.strip()[:200]}") from None
    yield "nvidia" in runtimes, f"runtimes: {', '.join(runtimes)}", software("docker"), {"runtimes": ",".join(runtimes)}


def check_dcgm(node):
    """DCGM runs and sees every GPU."""
    if not node.told["stack"].get("dcgm"):
        return
    state = active(node, "nvidia-dcgm.service")
    yield state == "active", f"nvidia-dcgm is {state}", software("nvidia-dcgm"), {"state": state}
    want = node.expected.get("gpus")
    if state != "active" or not want:
        return
    status, out, err = node.run("dcgmi", "discovery", "-l")
    match = re.search(r"(\d+) GPUs? found", out)
    if status != 0 or match is None:
        raise node.CannotLook(f"dcgmi: {(err or out).strip()[:200] or status}")
    found = int(match.group(1))
    yield found == want, f"{found} of {want} in DCGM", ("gpu", "*", "all GPUs"), {"expected": want, "found": found}


def check_exporters(node):
    """Each exporter answers, with the metric that proves that it looks at something."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for url, metric in sorted((node.told["stack"].get("exporters") or {}).items()):
        try:
            with opener.open(url, timeout=PATIENCE_S) as answer:
                text = answer.read(8 * 1024 * 1024).decode(errors="replace")
        except (OSError, ValueError, urllib.error.URLError) as error:
            yield False, f"{url}: {getattr(error, 'reason', error)}", software(url), {"metric": metric}
            continue
        lines = len(re.findall(rf"(?m)^{re.escape(metric)}[ {{]", text))
        yield lines > 0, f"{url}: {lines} lines of {metric}", software(url), {"metric": metric, "lines": lines}


def check_governor(node):
    """Every core has the wanted governor and may run as fast as it can."""
    want = node.told["stack"].get("governor")
    if not want:
        return
    cores = sorted(node.path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq"))
    if not cores:
        raise node.CannotLook("no core has a governor: the kernel or the firmware manages frequencies alone")
    odd = [core.parent.name for core in cores if node.text(core / "scaling_governor", "") != want]
    capped = [
        core.parent.name
        for core in cores
        if node.text(core / "scaling_max_freq", "") != node.text(core / "cpuinfo_max_freq", "")
    ]
    why = f"{len(cores) - len(odd)} of {len(cores)} cores are {want}" + (
        f"; {len(capped)} are capped" if capped else ""
    )
    yield not odd and not capped, why, ("cpu", "*", "all cores"), {"odd": len(odd), "capped": len(capped)}


def check_acs(node):
    """No PCIe bridge validates sources: it would send traffic between GPUs and network cards the long way."""
    if node.told["stack"].get("acs") != "disable":
        return
    status, out, err = node.run("lspci", "-vvv")
    if status != 0:
        raise node.CannotLook(f"lspci: {err.strip()[:200] or status}")
    bridges, device = [], ""
    for line in out.splitlines():
        if line and not line[0].isspace():
            device = line.split()[0]
        elif "ACSCtl:" in line and "SrcValid+" in line:
            bridges.append(device)
    why = f"ACS is on at {', '.join(bridges[:4])}" if bridges else "ACS is off"
    yield not bridges, why, ("pcie", "*", "PCIe bridges"), {"bridges": len(bridges)}


def packages(node, *globs):
    """Installed packages that match: (name, version, what is wanted of it)."""
    form = r"${Package}\t${Version}\t${db:Status-Want}\t${db:Status-Status}\n"
    _, out, _ = node.run("dpkg-query", "-W", "-f", form, *globs)
    rows = [line.split("\t") for line in out.splitlines()]
    return [tuple(row[:3]) for row in rows if len(row) == 4 and row[3] not in ("config-files", "not-installed")]


def active(node, unit):
    """What systemd says of a unit."""
    return node.run("systemctl", "is-active", unit)[1].strip() or "unknown"


def upstream(version):
    """``570.124.06`` of ``1:570.124.06-0ubuntu1``."""
    return version.split(":", 1)[-1].rsplit("-", 1)[0]


CHECKS = {
    "driver-version": check_driver,
    "nvidia-smi": check_smi,
    "fabric-manager": check_fabric,
    "peer-memory": check_peer_memory,
    "ofed": check_ofed,
    "dkms": check_dkms,
    "dpkg-audit": check_dpkg,
    "package-holds": check_holds,
    "container-runtime": check_containers,
    "dcgm": check_dcgm,
    "exporters": check_exporters,
    "cpu-governor": check_governor,
    "acs": check_acs,
}
