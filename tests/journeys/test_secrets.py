"""Every secret in use, looked for in everything that a whole bring-up writes, prints or shows to other users."""

from __future__ import annotations

import asyncio
import base64
import os
from pathlib import Path

import pytest

from provision.sim.maas.userdata import parse
from tests.journeys.brood import Brood
from tests.journeys.conftest import DEADLINE_S, Site, Start, kill

FAULTY = "gpu-12-02"


def body_lines(pem: str) -> list[str]:
    """The lines of a private key that are the key."""
    return [line for line in pem.splitlines() if line and not line.startswith("-----") and len(line) > 20]


def secrets_of(site: Site) -> dict[str, bytes]:
    """Name → bytes of every secret that is worth anything. Public halves are no secrets."""
    folder = site.fleet.directory / "secrets"
    key = (folder / "maas-key").read_text().strip()
    _, token, secret = key.split(":")
    found = {
        "BMC password": site.world.bmc_password,
        "MAAS key": key,
        "MAAS token": token,
        "MAAS secret": secret,
    }
    # The head of an OpenSSH key is the same in all of them; its second half is the private one.
    found |= {f"SSH key {n}": line for n, line in enumerate(body_lines((folder / "ssh-key").read_text())[2:])}
    for record in site.fleet.maas.region.machines.values():
        host_key = parse(record.user_data).host_key
        assert "PRIVATE KEY" in host_key, "the deployment brought a host key"
        found |= {f"host key {record.hostname} {n}": line for n, line in enumerate(body_lines(host_key)[2:])}
    plain = {name: text.encode() for name, text in found.items()}
    encoded = {f"{name}, base64": base64.b64encode(raw).rstrip(b"=")[:-2] for name, raw in plain.items()}
    return plain | encoded


def files_below(*folders: Path) -> dict[str, bytes]:
    """Every file with its content; names count too."""
    return {str(path): path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


def leaks(secrets: dict[str, bytes], places: dict[str, bytes]) -> list[str]:
    return [
        f"{name} in {place}"
        for place, content in places.items()
        for name, secret in secrets.items()
        if secret in content or secret in place.encode()
    ]


def test_the_search_finds_what_is_there() -> None:
    assert leaks({"a": b"hunter2"}, {"log": b"login with hunter2", "other": b"", "/x/hunter2": b""}) == [
        "a in log",
        "a in /x/hunter2",
    ]


@pytest.mark.parametrize("output", ["json", "text"])
async def test_no_secret_is_anywhere(output: str, site_of: Start, tmp_path: Path) -> None:
    site: Site = await site_of(nodes=2, faults=[(FAULTY, "psu_cord_out:2")], power_by="maas")
    site.from_scratch = True  # a command line shows what was typed
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    printed: list[bytes] = []
    shown: set[bytes] = set()
    seen: set[str] = set()
    commands = [("bringup", "all", "--output", output)]
    if output == "json":
        commands += [("triage", "all"), ("check", "all"), ("history", FAULTY, "--output", "json"), ("status",)]
    for argv in commands:
        process = await site.start(*argv, env={"TMPDIR": str(temporary)})
        async with Brood(process.pid, read=True) as brood:
            try:
                out, err = await asyncio.wait_for(process.communicate(), DEADLINE_S)
            except BaseException:
                kill(process)
                await process.wait()
                raise
        printed += [out, err]
        shown |= brood.shown
        seen |= brood.names
    assert site.world.by_name("gpu-12-01").deployed_count == 1, printed
    assert any("ansible" in line for line in seen), "the playbooks were not caught running"
    assert len(shown) > 5
    folders = {line.split()[-1] for line in seen if "provision.adapters.ansible.child" in line}
    assert folders
    assert not any(map(os.path.exists, folders)), "variables of a wave were left behind"

    secrets = secrets_of(site)
    assert len(secrets) > 12
    places = {f"output {n}": text for n, text in enumerate(printed)}
    places |= {f"process {n}": text for n, text in enumerate(shown)}
    places |= files_below(site.state, site.fleet.inventory, temporary)
    assert any(name.endswith("store.db") for name in places)
    assert leaks(secrets, places) == []

    # The other way round: what is stored is for its owner alone.
    assert site.state.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in site.state.rglob("*"))
