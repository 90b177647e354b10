"""What cloud-init makes of a deployment's user data on a simulated host."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any

import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


@dataclass(frozen=True)
class UserData:
    """The parts of a cloud-config that matter here. ``host_key`` is empty if it brings none."""

    host_key: str = ""
    authorized_keys: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)


def parse(encoded: str | None) -> UserData:
    """Read base64 cloud-config. Whatever cannot be read is nothing, as on a real host: the deployment goes on."""
    try:
        text = base64.b64decode(encoded or "", validate=True).decode()
        config: Any = yaml.safe_load(text) if text.startswith("#cloud-config") else None
    except (binascii.Error, UnicodeDecodeError, yaml.YAMLError):
        return UserData()
    if not isinstance(config, dict):
        return UserData()
    keys = config.get("ssh_keys")
    kinds = ("ed25519_private", "ecdsa_private", "rsa_private")
    given = [str(keys[kind]) for kind in kinds if keys.get(kind)] if isinstance(keys, dict) else []
    host_key = given[0] if given else ""
    return UserData(host_key, tuple(_authorized(config)), dict(_files(config)))


def _authorized(config: dict[str, Any]) -> list[str]:
    keys = [str(key) for key in config.get("ssh_authorized_keys") or []]
    for account in config.get("users") or []:
        if isinstance(account, dict):
            keys += [str(key) for key in account.get("ssh_authorized_keys") or []]
    return keys


def _files(config: dict[str, Any]) -> list[tuple[str, str]]:
    entries = [entry for entry in config.get("write_files") or [] if isinstance(entry, dict)]
    return [(str(entry.get("path")), str(entry.get("content") or "")) for entry in entries]


def random_host_key() -> str:
    """A key as a host makes one for itself at its first boot."""
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
