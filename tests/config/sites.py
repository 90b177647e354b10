"""Small inventories on disk, for tests: a good one, and whatever a test changes in it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

PROFILE: dict[str, Any] = {
    "image": {"series": "jammy"},
    "boot_disk": {"model": "BOSS"},
    "gpus": {"count": 8},
}
PROVISION: dict[str, Any] = {
    "maas": {"url": "http://maas.example:5240/MAAS/", "key": "env:TEST_MAAS_KEY"},
    "bmc": {"user": "root", "password": "env:TEST_BMC_PASSWORD"},
}


def host(number: int, **changes: Any) -> dict[str, Any]:
    """Variables of gpu-12-0N; a change to None takes the variable away."""
    variables = {
        "bmc_address": f"10.1.12.{number}",
        "service_tag": f"TAG000{number}",
        "rack": "rack-12",
        "rack_unit": number,
        **changes,
    }
    return {key: value for key, value in variables.items() if value is not None}


def write_site(
    folder: Path,
    hosts: dict[str, dict[str, Any]] | None = None,
    *,
    provision: Any = None,
    profiles: Any = None,
    profile: str | None = "h100",
    plain: dict[str, str] | None = None,
) -> Path:
    """Write hosts.yml and group_vars; ``plain`` are further files with their text."""
    hosts = hosts if hosts is not None else {f"gpu-12-0{n}": host(n) for n in (1, 2, 3)}
    group: dict[str, Any] = {"hosts": copy.deepcopy(hosts)}
    if profile is not None:
        group["vars"] = {"profile": profile}
    everything = {
        "provision": PROVISION if provision is None else provision,
        "profiles": {"h100": PROFILE} if profiles is None else profiles,
    }
    (folder / "group_vars").mkdir(parents=True, exist_ok=True)
    (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": {"rack-12": group}}}), encoding="utf-8")
    (folder / "group_vars" / "all.yml").write_text(yaml.safe_dump(everything), encoding="utf-8")
    for name, text in (plain or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder
