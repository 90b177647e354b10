"""Package names from (source, branch): a table, and versions against dpkg itself."""

from __future__ import annotations

import importlib.util
import itertools
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest


def load(name: str) -> ModuleType:
    path = Path(__file__).parents[2] / "playbooks" / "module_utils" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


names = load("provision_names")
apt = load("provision_apt")

FAMILIES = [
    (
        {"nvidia-driver": "550.127.08"},
        [
            "nvidia-dkms-550-open",
            "nvidia-utils-550",
            "nvidia-persistenced|nvidia-compute-utils-550",
            "nvidia-fabricmanager-550",
            "libnvidia-nscq-550",
        ],
    ),
    (
        {"nvidia-driver": "570.124.06", "nvidia-modules": "dkms-proprietary", "nvidia-fabricmanager": "no"},
        ["nvidia-dkms-570", "nvidia-utils-570", "nvidia-persistenced|nvidia-compute-utils-570"],
    ),
    (
        {"nvidia-driver": "580.126.20"},
        [
            "nvidia-dkms-580-open",
            "nvidia-utils-580",
            "nvidia-persistenced|nvidia-compute-utils-580",
            "nvidia-fabricmanager",
            "libnvidia-nscq",
        ],
    ),
    (
        {"nvidia-driver": "590.48.01", "nvidia-imex": "yes"},
        [
            "nvidia-driver-pinning-590.48.01|nvidia-driver-pinning-590",
            "nvidia-dkms-open",
            "nvidia-utils",
            "nvidia-persistenced|nvidia-compute-utils",
            "nvidia-fabricmanager",
            "libnvidia-nscq",
            "nvidia-imex",
        ],
    ),
    (
        {"nvidia-driver": "580.126.20", "nvidia-source": "ubuntu", "nvidia-imex": "yes"},
        [
            "nvidia-dkms-580-server-open",
            "nvidia-utils-580-server",
            "nvidia-persistenced|nvidia-compute-utils-580-server",
            "nvidia-fabricmanager-580",
            "libnvidia-nscq-580",
            "nvidia-imex-580",
        ],
    ),
    (
        {
            "kernel": "6.8.0-60-generic",
            "nvidia-driver": "570.124.06",
            "nvidia-source": "ubuntu",
            "nvidia-modules": "prebuilt-open",
        },
        [
            "linux-image-6.8.0-60-generic",
            "linux-headers-6.8.0-60-generic",
            "linux-modules-nvidia-570-server-open-6.8.0-60-generic",
            "nvidia-utils-570-server",
            "nvidia-persistenced|nvidia-compute-utils-570-server",
            "nvidia-fabricmanager-570",
            "libnvidia-nscq-570",
        ],
    ),
    ({"nvidia-driver": "570.124.06", "dcgm": "1:4.2.3-1"}, ["datacenter-gpu-manager-4-cuda12"]),
    ({"nvidia-driver": "580.126.20", "dcgm": "1:4.5.2-1"}, ["datacenter-gpu-manager-4-cuda13"]),
    ({"nvidia-driver": "570.124.06", "dcgm": "1:3.3.9"}, ["datacenter-gpu-manager"]),
    ({"docker": "5:27.3.1-1"}, ["docker-ce", "docker-ce-cli"]),
    ({}, []),
]


@pytest.mark.parametrize(("packages", "expected"), FAMILIES, ids=lambda value: str(value)[:60])
def test_names_follow_source_and_branch(packages: dict[str, str], expected: list[str]) -> None:
    found = ["|".join(want["names"]) for want in names.wants(packages)]
    if "dcgm" in packages:
        assert set(expected) <= set(found)
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("packages", "says"),
    [
        ({"nvidia-drvier": "570.124.06"}, "nvidia-drvier is not known"),
        ({"nvidia-driver": "570"}, "a full version such as"),
        ({"nvidia-driver": "470.256.02"}, "before 515"),
        ({"nvidia-driver": "570.124.06", "nvidia-source": "debian"}, "cuda, ubuntu"),
        ({"nvidia-driver": "570.124.06", "nvidia-modules": "open"}, "dkms-open"),
        ({"nvidia-driver": "570.124.06", "nvidia-modules": "prebuilt-open"}, "only the ubuntu archive"),
        (
            {"nvidia-driver": "570.124.06", "nvidia-modules": "prebuilt-open", "nvidia-source": "ubuntu"},
            "set packages.kernel",
        ),
        ({"nvidia-driver": "570.124.06", "nvidia-fabricmanager": "maybe"}, "yes or no"),
        ({"dcgm": "1:4.2.3-1"}, "set nvidia-driver"),
        ({"kernel": "generic"}, "such as 5.15.0-130-generic"),
    ],
)
def test_what_contradicts_itself_is_a_sentence(packages: dict[str, str], says: str) -> None:
    with pytest.raises(names.NamesError, match=says):
        names.wants(packages)


def test_the_driver_fabric_manager_and_nscq_have_one_version_to_the_last_component() -> None:
    """A mirror with a fabric manager of another version lacks it: nothing is installed that would not start."""
    found = names.wants({"nvidia-driver": "570.124.06"})
    offers = {
        "nvidia-dkms-570-open": ["570.124.06-0ubuntu1", "570.133.20-0ubuntu1"],
        "nvidia-utils-570": ["570.124.06-0ubuntu1"],
        "nvidia-compute-utils-570": ["570.124.06-0ubuntu1"],
        "nvidia-fabricmanager-570": ["570.133.20-1", "570.124.06-1"],
        "libnvidia-nscq-570": ["570.133.20-1"],
    }
    resolved, missing = names.resolve(found, offers)
    assert {names.upstream(version) for version in resolved.values()} == {"570.124.06"}
    assert resolved["nvidia-compute-utils-570"] == "570.124.06-0ubuntu1"
    assert missing == ["libnvidia-nscq-570 570.124.06 (offered: libnvidia-nscq-570 570.133.20-1)"]


@pytest.mark.parametrize(
    ("wanted", "version", "good"),
    [
        ("570.124.06", "570.124.06-0ubuntu1", True),
        ("570.124.06", "570.124.06", True),
        ("570.124.06", "570.124.061-1", False),
        ("4.2.3", "1:4.2.3-1", True),
        ("1:4.2.3-1", "1:4.2.3-1", True),
        ("1:4.2.3-1", "1:4.2.3-2", False),
        ("5:27.3.1-1~*", "5:27.3.1-1~ubuntu.22.04~jammy", True),
        ("", "anything", True),
    ],
)
def test_matching(wanted: str, version: str, good: bool) -> None:
    assert names.matches(wanted, version) is good


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="dpkg is the judge and is not here")
def test_versions_are_ordered_as_dpkg_does() -> None:
    versions = [
        "1:1.0",
        "1.0",
        "1.0~rc1",
        "1.0-1",
        "1.0-1~bpo",
        "1.0+b1",
        "1.0a",
        "2:0.1",
        "10",
        "9",
        "1.0-10",
        "1.0-9",
    ]
    for one, other in itertools.product(versions, repeat=2):
        said = names.compare(one, other)
        word = "lt" if said < 0 else "gt" if said > 0 else "eq"
        assert subprocess.run(["dpkg", "--compare-versions", one, word, other], check=False).returncode == 0, (
            one,
            other,
        )


def test_pins_hold_the_family_and_not_the_toolkit() -> None:
    text = "\n".join(names.preferences(names.wants({"nvidia-driver": "570.124.06"})))
    assert "Package: libnvidia-*\nPin: version 570.124.06*\nPin-Priority: 1001" in text
    globs = ["nvidia-*", "libnvidia-*"]
    assert names.in_family("nvidia-dkms-570-open", globs)
    assert not names.in_family("nvidia-container-toolkit", globs)
    assert names.in_family("nvidia-container-toolkit-base", ["nvidia-container-*"])


SIMULATED = """\
Remv nvidia-fabricmanager-570 [570.124.06-1]
Remv docker-ce [5:27.3.1-1]
Inst nvidia-fabricmanager (580.126.20-1 provision:stable [amd64])
Inst nvidia-utils-580 [580.1-1] (580.126.20-1 provision:stable [amd64])
Conf nvidia-fabricmanager (580.126.20-1 provision:stable [amd64])
"""


def test_removals_that_nobody_named_are_found() -> None:
    installed, removed = apt.parse_simulation(SIMULATED)
    assert installed == {"nvidia-fabricmanager": "580.126.20-1", "nvidia-utils-580": "580.126.20-1"}
    assert apt.unasked_removals(removed, ["nvidia-fabricmanager-570"], []) == ["docker-ce"]
    status = {"docker-ce": {"held": True}, "nvidia-utils-580": {"held": True}}
    moved = {"docker-ce": "5:28", "nvidia-utils-580": "580.126.20-1"}
    assert apt.unasked_moves(moved, status, {}, lambda name: name.startswith("nvidia")) == ["docker-ce"]
    assert apt.unasked_removals(removed, [], [r"nvidia-fabricmanager(-\d+)?", "docker-.*"]) == []


def test_rivals_are_other_branches_and_never_what_is_wanted() -> None:
    status = apt.parse_status(
        "nvidia-dkms-570-open\t570.124.06-0ubuntu1\thold\tinstalled\n"
        "nvidia-utils-570-server\t570.1-1\tinstall\tinstalled\n"
        "nvidia-fabricmanager\t580.126.20-1\thold\tinstalled\n"
        "libnvidia-compute-570\t570.1-1\thold\tinstalled\n"
        "libnvidia-compute-580\t580.1-1\thold\tinstalled\n"
        "libnvidia-container1\t1.17\tinstall\tinstalled\n"
        "nvidia-imex-570\t570.1-1\tdeinstall\tconfig-files\n"
        "nvidia-container-toolkit\t1.17\tinstall\tinstalled\n"
    )
    patterns = names.rivals({"nvidia-driver": "580.126.20"})
    rivals = apt.rivals_installed(status, patterns, {"nvidia-fabricmanager": "580.126.20-1"})
    assert rivals == ["libnvidia-compute-570", "nvidia-dkms-570-open", "nvidia-utils-570-server"]
    status["nvidia-fabricmanager"]["state"] = "half-configured"
    assert apt.differences({"nvidia-fabricmanager": "580.126.20-1"}, status) == {"nvidia-fabricmanager": "580.126.20-1"}


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        # A5: who holds the lock.
        (
            "Reading package lists...\nE: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 "
            "(unattended-upgr)\nN: Be aware that removing the lock file is not a solution\n",
            "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (unattended-upgr)",
        ),
        # A3: which packages do not go together.
        (
            "The following packages have unmet dependencies:\n nvidia-utils-570 : Depends: libnvidia-compute-570 "
            "(= 570.133.20) but 570.124.06 is to be installed\nE: Unable to correct problems, you have held broken "
            "packages.\n",
            "nvidia-utils-570 : Depends: libnvidia-compute-570 (= 570.133.20) but 570.124.06 is to be installed; "
            "E: Unable to correct problems, you have held broken packages.",
        ),
        # A15: the node is behind its mirror.
        (
            "E: Release file for http://mirror/InRelease is not valid yet (invalid for another 2d 23h 59min 58s).\n",
            "E: Release file for http://mirror/InRelease is not valid yet (invalid for another 2d 23h 59min 58s).",
        ),
        ("Reading package lists...\nBuilding dependency tree...\n", ""),
    ],
)
def test_of_apts_output_the_reason_is_kept(said: str, kept: str) -> None:
    assert apt.apt_words(said) == kept
