"""Which Debian packages a node needs: computed from source and branch, never typed twice. Pure.

A want is ``{"role", "names", "version", "pin", "family"}``: the first of ``names`` (other spellings of one thing) that
a mirror offers in ``version``. A version matches with or without its epoch and its packaging revision: ``570.124.06``
is ``570.124.06-0ubuntu1``; ``*`` stands for anything; the empty version for any.

The keys of ``packages`` (a profile's ``packages``) are in KEYS. What is not named is not installed.

NVIDIA renamed its packages twice: from branch 580 fabric manager, NSCQ and IMEX lose the branch in the CUDA
repository, from 590 everything does, and ``nvidia-driver-pinning-<branch>`` comes first (driver installation guide,
"Recent updates"). Standard library of Python 3.8 and later: it runs on the nodes, too.
"""

from __future__ import annotations

import fnmatch
import functools
import re

KEYS = {
    "kernel": "release of the kernel, such as 5.15.0-130-generic",
    "doca-ofed": "version of the doca-ofed metapackage",
    "nvidia-driver": "version of the driver, such as 570.124.06",
    "nvidia-source": "cuda (NVIDIA's repository, the default) or ubuntu (the distribution's archive)",
    "nvidia-modules": "dkms-open (the default), dkms-proprietary or prebuilt-open (signed, ubuntu only)",
    "nvidia-fabricmanager": "yes (the default) or no, for machines without NVSwitch",
    "nvidia-imex": "no (the default) or yes, for machines of one NVLink domain",
    "docker": "version of docker-ce",
    "containerd": "version of containerd.io",
    "nvidia-container-toolkit": "version of the toolkit",
    "dcgm": "version of the data centre GPU manager, such as 1:4.2.3-1",
    "dcgm-exporter": "version of dcgm-exporter",
    "node-exporter": "version of prometheus-node-exporter",
    "chrony": "version of chrony, or any",
    "zfs": "version of zfsutils-linux, or any",
}
SOURCES = ("cuda", "ubuntu")
MODULES = ("dkms-open", "dkms-proprietary", "prebuilt-open")
# The oldest branch that these names were compared with, and the first with open kernel modules for data centre GPUs.
OLDEST_BRANCH = 515
_DRIVER = re.compile(r"(\d{3})\.\d+(\.\d+)?")
_RELEASE = re.compile(r"\d+\.\d+\.\d+-\d+-([a-z0-9-]+)")


class NamesError(ValueError):
    """The wishes contradict themselves or are not understood; the text is a sentence for an operator."""


def wants(packages):
    """Everything a node needs, in the order of the roles. ``packages`` maps KEYS to texts.

    Raises:
        NamesError: an unknown key, a version that is none, a combination that does not exist.
    """
    unknown = sorted(set(packages) - set(KEYS))
    if unknown:
        raise NamesError(f"packages: {', '.join(unknown)} is not known; known are {', '.join(sorted(KEYS))}")
    told = {key: str(value) for key, value in packages.items() if str(value) not in ("", "None")}
    found = []
    if "chrony" in told:
        found += [_want("clock", ["chrony"], told["chrony"], [])]
    if "kernel" in told:
        found += kernel_wants(told["kernel"])
    if "doca-ofed" in told:
        found += [_want("ofed", ["doca-ofed"], told["doca-ofed"], [])]
    if "nvidia-driver" in told:
        found += driver_wants(
            told["nvidia-driver"],
            source=told.get("nvidia-source", "cuda"),
            modules=told.get("nvidia-modules", "dkms-open"),
            fabric=_yes("nvidia-fabricmanager", told, True),
            imex=_yes("nvidia-imex", told, False),
            kernel=told.get("kernel"),
        )
    found += _docker(told)
    found += _dcgm(told)
    if "node-exporter" in told:
        found += [_want("exporters", ["prometheus-node-exporter"], told["node-exporter"], [])]
    if "zfs" in told:
        found += [_want("zfs", [name], told["zfs"], []) for name in ("zfsutils-linux", "zfs-zed")]
    return found


def kernel_wants(release):
    """Image, headers and, on the flavours that have them, extra modules of one kernel release."""
    if not _RELEASE.fullmatch(release):
        raise NamesError(f"kernel {release!r}: a release such as 5.15.0-130-generic was expected")
    return [_want("kernel", [f"linux-{part}-{release}"], "", []) for part in ("image", "headers")]


def driver_wants(version, source="cuda", modules="dkms-open", fabric=True, imex=False, kernel=None):
    """The driver's whole family. All but the pinning package and prebuilt modules carry the driver's version."""
    branch = driver_branch(version)
    if source not in SOURCES:
        raise NamesError(f"nvidia-source {source!r}: expected one of {', '.join(SOURCES)}")
    if modules not in MODULES:
        raise NamesError(f"nvidia-modules {modules!r}: expected one of {', '.join(MODULES)}")
    if modules == "prebuilt-open" and source != "ubuntu":
        raise NamesError(
            "nvidia-modules prebuilt-open: only the ubuntu archive has prebuilt modules; set nvidia-source"
        )
    server = source == "ubuntu"
    suffix = f"-{branch}-server" if server else ("" if branch >= 590 else f"-{branch}")
    side = f"-{branch}" if server or branch < 580 else ""
    family = ["nvidia-*", "libnvidia-*", "linux-modules-nvidia-*", "linux-objects-nvidia-*"]

    def own(*names):
        return _want("gpu", list(names), version, family, aligned=True)

    found = []
    if source == "cuda" and branch >= 590:
        first = [f"nvidia-driver-pinning-{version}", f"nvidia-driver-pinning-{branch}"]
        found.append(_want("gpu", first, "", family, first=True))
    found.append(_module(branch, suffix, version, modules, kernel, family))
    found.append(own(f"nvidia-utils{suffix}"))
    # Who carries the persistence daemon changed with the branches: whichever of these the mirror has.
    found.append(own("nvidia-persistenced", f"nvidia-compute-utils{suffix}"))
    if fabric:
        found += [own(f"nvidia-fabricmanager{side}"), own(f"libnvidia-nscq{side}")]
    if imex:
        found.append(own(f"nvidia-imex{side}"))
    return found


def _module(branch, suffix, version, modules, kernel, family):
    kind = "" if modules == "dkms-proprietary" else "-open"
    if modules == "prebuilt-open":
        match = _RELEASE.fullmatch(kernel or "")
        if match is None:
            raise NamesError("nvidia-modules prebuilt-open: the modules are built for one kernel; set packages.kernel")
        # Its version is the kernel's, so only the loaded module can tell the driver's (check driver-version).
        names = [f"linux-modules-nvidia-{branch}-server-open-{kernel}"]
        return _want("gpu", names, "", family)
    return _want("gpu", [f"nvidia-dkms{suffix}{kind}"], version, family, aligned=True)


def driver_branch(version):
    """570 of 570.124.06.

    Raises:
        NamesError: not a full version, or too old a branch.
    """
    match = _DRIVER.fullmatch(str(version))
    if match is None:
        raise NamesError(
            f"nvidia-driver {version!r}: a full version such as 570.124.06 was expected, not only a branch"
        )
    branch = int(match.group(1))
    if branch < OLDEST_BRANCH:
        raise NamesError(f"nvidia-driver {version}: branches before {OLDEST_BRANCH} are not known here")
    return branch


def cuda_major(branch):
    """The CUDA major version that a driver branch brings: DCGM 4 has a package for each."""
    return 13 if branch >= 580 else 12 if branch >= 525 else 11


def rivals(packages, role=None):
    """Regular expressions of packages that may not stay beside what is wanted: other branches, other spellings.

    What is wanted itself matches, too; whoever uses them leaves that out.
    """
    found = []
    if role in (None, "gpu") and packages.get("nvidia-driver"):
        branch = driver_branch(packages["nvidia-driver"])
        parts = (
            "dkms",
            "utils",
            "compute-utils",
            "fabricmanager",
            "imex",
            "open",
            "headless",
            "driver",
            "kernel-source",
        )
        found += [rf"nvidia-{part}(-\d{{3}})?(-server)?(-open)?" for part in parts]
        found += [r"libnvidia-nscq(-\d{3})?", r"nvidia-driver-pinning-[0-9.]+", r"linux-modules-nvidia-\d{3}-.*"]
        # Libraries are nobody's wish, and held nevertheless: those of another branch are named, or apt keeps them.
        found.append(rf"(lib)?nvidia-(?!container|docker)[a-z0-9-]+-(?!{branch}(?!\d))\d{{3}}(-[a-z-]+)?")
    if role in (None, "dcgm") and packages.get("dcgm"):
        # Version 4 has other names than 3, and one package for each CUDA version.
        found += [r"datacenter-gpu-manager", r"datacenter-gpu-manager-\d+-.*"]
    return found


# What belongs to the driver by its name only, or stays beside any driver.
PROTECTED = ("nvidia-container-*", "libnvidia-container*", "nvidia-docker*")


def _docker(told):
    found = []
    if "docker" in told:
        found += [_want("docker", [name], told["docker"], ["docker-ce*"]) for name in ("docker-ce", "docker-ce-cli")]
    if "containerd" in told:
        found += [_want("docker", ["containerd.io"], told["containerd"], ["containerd.io"])]
    if "nvidia-container-toolkit" in told:
        family = ["nvidia-container-*", "libnvidia-container*"]
        names = (
            "nvidia-container-toolkit",
            "nvidia-container-toolkit-base",
            "libnvidia-container-tools",
            "libnvidia-container1",
        )
        found += [_want("docker", [name], told["nvidia-container-toolkit"], family) for name in names]
    return found


def _dcgm(told):
    found = []
    if "dcgm" in told:
        if "nvidia-driver" not in told:
            raise NamesError("dcgm: its package is chosen by the driver's CUDA version; set nvidia-driver too")
        major = int(strip_epoch(told["dcgm"]).split(".")[0] or 0)
        family = ["datacenter-gpu-manager*"]
        if major <= 3:
            names = ["datacenter-gpu-manager"]
        else:
            cuda = cuda_major(driver_branch(told["nvidia-driver"]))
            names = [f"datacenter-gpu-manager-{major}-{part}" for part in ("core", f"cuda{cuda}", "proprietary")]
        found += [_want("dcgm", [name], told["dcgm"], family) for name in names]
    if "dcgm-exporter" in told:
        names = ["datacenter-gpu-manager-exporter", "dcgm-exporter"]
        found += [_want("dcgm", names, told["dcgm-exporter"], [])]
    return found


def _want(role, names, version, family, aligned=False, first=False):
    version = "" if version == "any" else version
    return {"role": role, "names": names, "version": version, "family": family, "aligned": aligned, "first": first}


def _yes(key, told, default):
    text = told.get(key, "").lower()
    if text not in ("", "yes", "no", "true", "false"):
        raise NamesError(f"{key} {text!r}: yes or no was expected")
    return default if not text else text in ("yes", "true")


def preferences(found):
    """The lines of an apt preferences file: the families of ``found`` at their versions, and never at another.

    Priority 1001 also takes a family back to an older version. What is protected gets its own stanza first: apt takes
    the first stanza that names a package.
    """
    stanzas = {}
    for want in found:
        if want["version"] and want["names"]:
            for name in want["names"]:
                stanzas[name] = want["version"]
    lines = []
    for name, version in stanzas.items():
        lines += _stanza(name, version)
    globs = {}
    for want in found:
        if want["version"]:
            for glob in want["family"]:
                globs.setdefault(glob, want["version"])
    # The more exact a glob, the earlier: nvidia-container-* before nvidia-*.
    for glob in sorted(globs, key=lambda text: (-len(text), text)):
        lines += _stanza(glob, globs[glob])
    return lines


def _stanza(name, version):
    text = version if version.endswith("*") else version + "*"
    texts = [text] if ":" in text else [text, "?:" + text]
    lines = []
    for pattern in texts:
        lines += [f"Package: {name}", f"Pin: version {pattern}", "Pin-Priority: 1001", ""]
    return lines


def in_family(name, globs):
    """True if ``name`` belongs to a family of globs; what is protected belongs to a family that says so itself."""
    if any(fnmatch.fnmatchcase(name, glob) for glob in PROTECTED):
        globs = [glob for glob in globs if glob in PROTECTED or fnmatch.fnmatchcase(glob.rstrip("*"), "*container*")]
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def strip_epoch(version):
    """``4.2.3-1`` of ``1:4.2.3-1``."""
    return version.split(":", 1)[-1]


def upstream(version):
    """``4.2.3`` of ``1:4.2.3-1``: what the makers call the version."""
    return strip_epoch(version).rsplit("-", 1)[0]


def matches(wanted, version):
    """True if the package version ``version`` is the wanted one."""
    if not wanted:
        return True
    if "*" in wanted:
        return fnmatch.fnmatchcase(version, wanted) or fnmatch.fnmatchcase(strip_epoch(version), wanted)
    return wanted in (version, strip_epoch(version), upstream(version))


def resolve(found, offers):
    """Names and exact versions for wants, from ``offers`` (name → versions a mirror or apt offers).

    Returns ``(resolved, missing)``: ``resolved`` maps name to version, in order; ``missing`` are sentences.
    """
    resolved, missing = {}, []
    for want in found:
        for name in want["names"]:
            good = [version for version in offers.get(name, ()) if matches(want["version"], version)]
            if good:
                resolved[name] = max(good, key=functools.cmp_to_key(compare))
                break
        else:
            missing.append(_missing(want, offers))
    return resolved, missing


def _missing(want, offers):
    what = " or ".join(want["names"]) + (f" {want['version']}" if want["version"] else "")
    others = [f"{name} {version}" for name in want["names"] for version in offers.get(name, ())]
    return f"{what} (offered: {', '.join(others[:4])})" if others else f"{what} (no such package)"


def compare(one, other):
    """Debian's order of versions: negative, zero, positive. Source: Debian policy 5.6.12."""
    epochs = [int(text.split(":", 1)[0]) if ":" in text else 0 for text in (one, other)]
    if epochs[0] != epochs[1]:
        return epochs[0] - epochs[1]
    halves = [strip_epoch(text).rsplit("-", 1) for text in (one, other)]
    halves = [half if len(half) == 2 else [half[0], "0"] for half in halves]
    return _compare_part(halves[0][0], halves[1][0]) or _compare_part(halves[0][1], halves[1][1])


def _compare_part(one, other):
    while one or other:
        left, right = re.match(r"\D*", one).group(), re.match(r"\D*", other).group()
        for a, b in zip((*map(_order, left), 0), (*map(_order, right), 0)):  # noqa: B905 - Python 3.8
            if a != b:
                return a - b
        one, other = one[len(left) :], other[len(right) :]
        left, right = re.match(r"\d*", one).group(), re.match(r"\d*", other).group()
        if int(left or 0) != int(right or 0):
            return int(left or 0) - int(right or 0)
        one, other = one[len(left) :], other[len(right) :]
    return 0


def _order(letter):
    return -1 if letter == "~" else ord(letter) if letter.isalpha() else ord(letter) + 256
