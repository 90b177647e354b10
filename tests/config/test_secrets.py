"""Secrets are fetched late, from closed places only, and never shown."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from provision.config.complaints import InventoryError
from provision.config.inventory import load
from provision.config.listing import run_ansible
from provision.config.secrets import SecretRef, scrubber
from provision.errors import MisconfiguredError
from provision.model.secret import Secret
from tests.config.sites import PROVISION, host, write_site

WORD = "tr0ub4dor-and-3"


def ref(text: object, base: Path = Path("/")) -> SecretRef:
    return SecretRef.parse("provision.bmc.password", text, base=base)


def vault(command: str, text: str, password_file: Path) -> str:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-vault"), command, "--output", "-", "-"],
        input=text, capture_output=True, text=True, check=True, timeout=60,
        env={**os.environ, "ANSIBLE_VAULT_PASSWORD_FILE": str(password_file)},
    )  # fmt: skip
    return done.stdout


def test_from_environment_file_and_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_WORD", WORD)
    (tmp_path / "word").write_text(WORD + "\n")
    (tmp_path / "word").chmod(0o600)
    references = [ref("env:TEST_WORD"), ref("file:word", tmp_path), ref(f"cmd:echo '{WORD}'")]
    assert [item.resolve().reveal() for item in references] == [WORD] * 3
    assert [repr(item) for item in references] == ["env:TEST_WORD", "file:word", "cmd:echo …"]
    assert WORD not in f"{references} {[item.resolve() for item in references]}"
    for item in references:
        with pytest.raises(TypeError):
            pickle.dumps(item)


def test_a_program_runs_once_and_without_a_shell(tmp_path: Path) -> None:
    counter = tmp_path / "calls"
    program = tmp_path / "ask"
    program.write_text(f'#!/bin/sh\necho "$#" >> {counter}\necho "$1"\n')
    program.chmod(0o700)
    item = ref(f"cmd:{program} '$(id);|' b")
    assert (item.resolve().reveal(), item.resolve().reveal()) == ("$(id);|", "$(id);|")
    assert counter.read_text() == "2\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("env:TEST_NOT_SET_ANYWHERE", "the environment has no TEST_NOT_SET_ANYWHERE; set it"),
        ("file:nowhere", "cannot read {base}/nowhere: No such file or directory"),
        ("file:.", "cannot read {base}: Is a directory"),
        ("file:open", "{base}/open can be read by others (mode 0644); close it with: chmod 600 {base}/open"),
        ("file:group", "{base}/group can be read by others (mode 0640)"),
        ("file:empty", "file:empty gave an empty value"),
        ("file:two", "file:two gave more than one line"),
        ("file:binary", "{base}/binary is not UTF-8 text"),
        ("cmd:false", "cmd:false … ended with status 1"),
        ("cmd:/nowhere/at-all x", "cannot start cmd:/nowhere/at-all …: No such file"),
        ("cmd:echo 'a", "cmd: is not a command line"),
    ],
)
def test_a_secret_that_is_not_there_says_which_and_what_to_do(tmp_path: Path, text: str, sentence: str) -> None:
    for name, content, mode in (
        ("open", b"x", 0o644),
        ("group", b"x", 0o640),
        ("empty", b"\n", 0o600),
        ("two", b"a\nb\n", 0o600),
        ("binary", b"\xff\xfe", 0o600),
    ):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(mode)
    with pytest.raises(MisconfiguredError) as caught:
        ref(text, tmp_path).resolve()
    assert str(caught.value).startswith("provision.bmc.password: " + sentence.format(base=tmp_path))


@pytest.mark.parametrize("value", [None, 7, "", "  ", "env:", ["a"], {"x": "y"}])
def test_what_is_no_reference(value: object) -> None:
    with pytest.raises(ValueError, match="env:NAME, file:PATH, cmd:PROGRAM"):
        ref(value)


def test_plain_text_in_the_inventory_is_refused_with_its_line(tmp_path: Path) -> None:
    provision = {**PROVISION, "bmc": {"user": "root", "password": WORD}}
    site = write_site(tmp_path, {"a": host(1, bmc_password="c4lvin-x"), "b": host(2)}, provision=provision)
    with pytest.raises(InventoryError) as caught:
        load(site)
    lines = [line.partition(" ")[0] for line in caught.value.complaints]
    assert [Path(line.rstrip(":")).name.split(":")[0] for line in lines] == ["all.yml", "hosts.yml"]
    assert "provision.bmc.password stands there in plain text: write env:NAME" in str(caught.value)
    assert WORD not in str(caught.value)
    assert "c4lvin" not in str(caught.value)


def test_vault_values_and_vault_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    password_file = tmp_path / "vault-password"
    password_file.write_text("opener")
    inline = vault("encrypt", WORD, password_file).strip().replace("\n", "\n            ")
    site = write_site(
        tmp_path / "site",
        {"a": host(1)},
        plain={
            "group_vars/all.yml": "provision:\n    bmc:\n        user: root\n"
            f"        password: !vault |\n            {inline}\n"
            "profiles: {h100: {image: {series: jammy}, boot_disk: {model: BOSS}}}\n",
            "host_vars/a.yml": vault("encrypt", "bmc_user: admin\nbmc_password: whole-file-word\n", password_file),
        },
    )

    with pytest.raises(InventoryError, match="Ansible Vault has no password for it; set ANSIBLE_VAULT_PASSWORD_FILE"):
        load(site)

    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(password_file))
    settings = load(site).settings
    assert settings.bmc is not None
    assert [repr(item) for item in settings.secret_refs()] == ["vault:***", "plain:***"]
    assert settings.bmc.password.resolve().reveal() == WORD
    assert settings.bmc_overrides["a"].password.resolve().reveal() == "whole-file-word"
    assert WORD not in repr(settings)
    assert "whole-file" not in repr(settings)


def test_an_inventory_that_hangs_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And it has seen no more of our environment than it needs."""
    monkeypatch.setenv("TEST_BMC_PASSWORD", WORD)
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", "nonsense")
    program = tmp_path / "slow.sh"
    program.write_text(f"#!/bin/sh\nenv > {tmp_path}/seen\nsleep 300 & echo $! > {tmp_path}/child\nwait\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    for deadline_s in (1.5, 6.0, 20.0):  # a busy machine may need longer to arrive at the script
        began = time.monotonic()
        with pytest.raises(MisconfiguredError, match=r"ansible-inventory gave no answer in .* s; run it by hand"):
            run_ansible("ansible-inventory", "-i", str(program), "--list", deadline_s=deadline_s)
        assert time.monotonic() - began < deadline_s + 10
        if (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip():
            break
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 5
    while _running(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _running(child)
    seen = (tmp_path / "seen").read_text()
    assert WORD not in seen
    assert "nonsense" not in seen
    assert "ANSIBLE_TRANSFORM_INVALID_GROUP_CHARS=ignore" in seen


def _running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_scrubbing_takes_a_maas_key_apart() -> None:
    scrub = scrubber([Secret("consumer1:token22:secret333"), Secret(WORD), Secret("abc")])
    assert scrub(f"key=consumer1:token22:secret333 oauth_token=token22 {WORD}{WORD} abc") == (
        "key=*** oauth_token=*** ****** abc"
    )
