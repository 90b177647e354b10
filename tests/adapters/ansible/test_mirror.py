"""``provision mirror check`` against a signed repository on loopback."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dummy_mirror import Deb, Mirror

from provision.adapters.ansible.mirror import read_repository
from provision.config.settings import MirrorSettings
from provision.errors import GarbledError, RefusedError, UnavailableError

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(
        not all(shutil.which(tool) for tool in ("dpkg-deb", "gpg", "gpgv")), reason="dpkg-deb, gpg and gpgv are needed"
    ),
]
FAMILY = (
    "nvidia-dkms-570-open",
    "nvidia-utils-570",
    "nvidia-persistenced",
    "nvidia-fabricmanager-570",
    "libnvidia-nscq-570",
)


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    made = Mirror(tmp_path / "mirror")
    made.add(*(Deb(name, "570.124.06-1") for name in FAMILY[:-1]), Deb(FAMILY[-1], "570.133.20-1"))
    made.publish()
    yield made
    made.close()


def site(folder: Path, url: str, key: str, packages: dict[str, str]) -> Path:
    """Two nodes of one profile. The key lies beside the inventory: inside, Ansible would read it as hosts."""
    inventory = folder / "inventory"
    inventory.mkdir()
    (folder / "site.asc").write_text(key)
    repository = {"name": "site", "url": url, "key_file": "../site.asc"}
    profile = {"image": {"series": "jammy"}, "boot_disk": {"model": "BOSS"}, "packages": packages}
    variables = {
        "profile": "h100",
        "rack": "r1",
        "profiles": {"h100": profile},
        "provision": {"mirror": {"mbit_s": 2500, "host_mbit_s": 1000, "repositories": [repository]}},
    }
    hosts = {f"n{number}": {"bmc_address": f"10.0.0.{number}"} for number in (1, 2)}
    (inventory / "hosts.yml").write_text(json.dumps({"all": {"vars": variables, "hosts": hosts}}))
    return inventory


def check(inventory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "provision", "mirror", "check", "all", "-i", str(inventory), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_what_a_partial_mirror_lacks_is_named_before_any_node_is_touched(mirror: Mirror, tmp_path: Path) -> None:
    inventory = site(tmp_path, mirror.serve("127.0.0.1"), mirror.key, {"nvidia-driver": "570.124.06"})
    done = check(inventory, "--output", "json")
    assert done.returncode == 1, done.stderr
    rows = {row["package"]: row for row in json.loads(done.stdout)["packages"]}
    assert rows["nvidia-fabricmanager-570"]["found"] == "570.124.06-1"
    assert (
        rows["libnvidia-nscq-570"] | {"found": None, "ok": False, "others": ["570.133.20-1"]}
        == rows["libnvidia-nscq-570"]
    )
    assert "1 of 5 packages are missing" in done.stderr
    assert "2 nodes at 2500 Mbit/s, 2 at once" in done.stderr
    mirror.add(Deb("libnvidia-nscq-570", "570.124.06-1"))
    mirror.publish()
    done = check(inventory)
    assert done.returncode == 0, done.stderr
    assert "MISSING" not in done.stdout


@pytest.mark.parametrize(
    ("packages", "says"),
    [
        ({"nvidia-drvier": "570.124.06"}, "profiles: h100: packages: nvidia-drvier is not known"),
        ({"nvidia-driver": "570"}, "a full version such as"),
    ],
)
def test_packages_that_nobody_understands_are_one_sentence(
    packages: dict[str, str], says: str, mirror: Mirror, tmp_path: Path
) -> None:
    inventory = site(tmp_path, mirror.serve("127.0.0.1"), mirror.key, packages)
    done = check(inventory)
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_another_key_a_changed_index_and_a_silent_mirror_are_each_their_own_error(
    mirror: Mirror, tmp_path: Path
) -> None:
    url = mirror.serve("127.0.0.1")
    stranger = Mirror(tmp_path / "other")
    key = tmp_path / "other.asc"
    key.write_text(stranger.key)
    stranger.close()
    with pytest.raises(RefusedError, match="not signed by the key"):
        read_repository("site", url, key_file=key)
    key.write_text(mirror.key)
    assert read_repository("site", url, key_file=key).packages["nvidia-utils-570"] == ("570.124.06-1",)
    mirror.publish(in_s=3 * 86400)
    assert any("from the future" in note for note in read_repository("site", url, key_file=key).notes)
    (mirror.folder / "Packages.gz").write_bytes(b"something else")
    with pytest.raises(GarbledError, match="not the one that InRelease lists"):
        read_repository("site", url, key_file=key)
    with pytest.raises(RefusedError, match="status 404"):
        read_repository("site", url + "nowhere/")
    with pytest.raises(UnavailableError):
        read_repository("site", "http://127.0.0.1:9/", timeout_s=2)


def test_slots_follow_the_bandwidth() -> None:
    """Slots times what one host takes is never more than the site gives; a single host may not take more either."""
    for mbit_s, slots, kbytes in ((None, 0, 0), (25_000.0, 25, 125_000), (1500.0, 1, 125_000), (400.0, 1, 50_000)):
        settings = MirrorSettings(mbit_s=mbit_s)
        assert (settings.slots, settings.host_kbytes_s) == (slots, kbytes)
