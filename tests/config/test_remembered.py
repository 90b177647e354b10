"""The same files give the same listing without Ansible; anything else asks Ansible again."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from provision.config.remembered import list_inventory

HOSTS = "all:\n  hosts:\n    a:\n      x: 1\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "hosts.yml").write_text(HOSTS)
    return folder


def memories(place: Path) -> list[Path]:
    return sorted((place.parent / "cache").rglob("*.json"))


def test_a_changed_byte_asks_again(place: Path) -> None:
    first = list_inventory(place)
    assert '"x": 1' in first.stdout
    [memory] = memories(place)
    assert stat.S_IMODE(memory.stat().st_mode) == 0o600
    assert stat.S_IMODE(memory.parent.stat().st_mode) == 0o700
    assert list_inventory(place) == first
    memory.write_text(memory.read_text().replace("1", "7"))
    assert '"x": 7' in list_inventory(place).stdout, "the memory answered, not Ansible"
    (place / "hosts.yml").write_text(HOSTS.replace("1", "2"))
    assert '"x": 2' in list_inventory(place).stdout
    (place / "group_vars").mkdir()
    (place / "group_vars" / "all.yml").write_text("y: 3\n")
    assert '"y": 3' in list_inventory(place).stdout
    assert '"a"' in list_inventory(place, "--limit=a").stdout
    assert len(memories(place)) == 4


def test_an_ansible_cfg_is_a_part_of_what_is_asked(place: Path) -> None:
    config = place.parent / "ansible.cfg"
    config.write_text("[defaults]\nforks = 5\n")
    list_inventory(place)
    config.write_text("[defaults]\nforks = 6\n")
    list_inventory(place)
    assert len(memories(place)) == 2
    config.write_text("[inventory]\nenable_plugins = yaml\n")
    assert '"x": 1' in list_inventory(place).stdout
    assert len(memories(place)) == 2, "it has a say in how inventories are read"


def test_what_is_more_than_files_is_never_remembered(place: Path) -> None:
    script = place / "more"
    script.write_text('#!/bin/sh\necho \'{"_meta": {"hostvars": {}}, "all": {"hosts": ["b"]}}\'\n')
    script.chmod(0o755)
    assert '"b"' in list_inventory(place).stdout
    script.unlink()
    assert memories(place) == []
    (place / "plug.yml").write_text("plugin: ansible.builtin.constructed\nstrict: false\n")
    list_inventory(place)
    assert memories(place) == []


def test_a_refused_inventory_and_a_spoilt_memory_ask_again(place: Path) -> None:
    (place / "hosts.yml").write_text("all: [")
    assert list_inventory(place).status != 0
    assert memories(place) == []
    (place / "hosts.yml").write_text(HOSTS)
    list_inventory(place)
    [memory] = memories(place)
    memory.write_text("{")
    os.utime(memory)
    assert '"x": 1' in list_inventory(place).stdout
