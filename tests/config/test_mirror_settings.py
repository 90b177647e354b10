"""The mirror, the waves and the roles' variables, as people write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from provision.config.inventory import load
from provision.errors import MisconfiguredError

CUDA = {"name": "cuda", "url": "http://mirror.ams1/cuda/", "key_file": "../cuda.asc", "avoid": ["dkms"]}


def site(folder: Path, provision: dict[str, Any], **variables: object) -> Path:
    profile = {"image": {"series": "jammy"}, "boot_disk": {"model": "BOSS"}}
    told = {"profile": "p", "rack": "r1", "profiles": {"p": profile}, "provision": provision, **variables}
    path = folder / "hosts.yml"
    path.write_text(json.dumps({"all": {"vars": told, "hosts": {"n1": {"bmc_address": "10.0.0.1"}}}}))
    return path


def test_mirror_and_waves(tmp_path: Path) -> None:
    told = {"mirror": {"mbit_s": 4000, "repositories": [CUDA]}, "waves": {"canary_above": 0}}
    settings = load(site(tmp_path, told)).settings
    assert settings.mirror is not None
    (cuda,) = settings.mirror.repositories
    assert (cuda.name, cuda.suite, cuda.avoid) == ("cuda", "./", ("dkms",))
    assert cuda.key_file is not None
    assert cuda.key_file.resolve() == (tmp_path.parent / "cuda.asc").resolve()
    assert (settings.mirror.slots, settings.waves.canary_above, settings.waves.max_hosts) == (4, 0, 128)
    assert load(site(tmp_path, {})).settings.mirror is None


@pytest.mark.parametrize(
    ("mirror", "says"),
    [
        ({"repositories": [CUDA, CUDA]}, "cuda stands twice"),
        ({"repositories": [{**CUDA, "url": "mirror.ams1/cuda"}]}, "begins with http"),
        ({"repositories": [{**CUDA, "name": "Cuda Repo"}]}, "name"),
        ({"repositories": [{"name": "cuda", "url": CUDA["url"]}]}, "key_file"),
        ({"mbit_s": 0}, "mbit_s"),
        ({"mbits": 100}, "mbits"),
    ],
)
def test_a_mistake_is_one_sentence(mirror: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(MisconfiguredError, match=says):
        load(site(tmp_path, {"mirror": mirror}))


def test_variables_of_roles_are_those_that_begin_with_a_roles_name(tmp_path: Path) -> None:
    """They count in the marker's hash: the governor does, somebody's own variable does not."""
    site_variables = {"tuning_governor": "performance", "zfs_expected_drives": 8, "own_note": "x", "kernel": "y"}
    found = load(site(tmp_path, {}, **site_variables)).role_variables
    assert found == {"n1": {"tuning_governor": "performance", "zfs_expected_drives": 8}}


def test_every_role_of_the_playbooks_is_known() -> None:
    from provision.config.inventory import ROLES

    roles = Path(__file__).parents[2] / "playbooks" / "roles"
    assert {path.name for path in roles.iterdir()} == ROLES
