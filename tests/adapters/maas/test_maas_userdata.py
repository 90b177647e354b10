"""What cloud-init is told, read back with a YAML reader and with real tools."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from maas_lab import node_at

from provision.adapters.maas import user_data
from provision.errors import MisconfiguredError
from provision.model.secret import Secret

NODE = node_at(3)
PEM = serialization.Encoding.PEM
OPENSSH = serialization.PrivateFormat.OpenSSH
OLD = serialization.PrivateFormat.TraditionalOpenSSL
OPEN = serialization.NoEncryption()
CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def read(secret: Secret) -> dict[str, Any]:
    text = secret.reveal()
    assert text.startswith("#cloud-config\n")
    found = yaml.safe_load(text)
    assert isinstance(found, dict)
    return found


def ed25519_key() -> tuple[Secret, str]:
    key = ed25519.Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return Secret(key.private_bytes(PEM, OPENSSH, OPEN).decode()), public.decode()


def test_everything_a_host_is_told() -> None:
    private, public = ed25519_key()
    told = read(
        user_data(
            NODE,
            private,
            ntp=("10.0.0.1", "ntp.example"),
            ca_pem=CA,
            apt_proxy="http://10.0.0.2:3128",
            authorized_keys=('ssh-ed25519 AAAA it\'s "Anna": #1 ü',),
        )
    )
    assert told["hostname"] == NODE.name
    assert told["ssh_keys"] == {"ed25519_private": private.reveal(), "ed25519_public": public}
    assert told["ssh_deletekeys"] is True
    assert told["ca_certs"] == {"trusted": [CA]}
    assert told["apt"] == {"http_proxy": "http://10.0.0.2:3128", "https_proxy": "http://10.0.0.2:3128"}
    assert told["ssh_authorized_keys"] == ['ssh-ed25519 AAAA it\'s "Anna": #1 ü']
    assert told["ntp"] == {"enabled": True, "servers": ["10.0.0.1", "ntp.example"]}
    script = told["bootcmd"][0][-1]
    assert "NTP=10.0.0.1 ntp.example" in script
    assert subprocess.run(["sh", "-n", "-c", script], check=False).returncode == 0


def test_what_is_not_asked_for_is_not_said() -> None:
    told = read(user_data(NODE, ed25519_key()[0]))
    assert set(told) == {"hostname", "preserve_hostname", "ssh_deletekeys", "ssh_keys"}


@pytest.mark.parametrize(
    ("key", "form", "names"),
    [
        (ec.generate_private_key(ec.SECP256R1()), OPENSSH, {"ecdsa_private", "ecdsa_public"}),
        (ec.generate_private_key(ec.SECP256R1()), OLD, {"ecdsa_private"}),
        (rsa.generate_private_key(65537, 2048), OPENSSH, {"rsa_private", "rsa_public"}),
        (rsa.generate_private_key(65537, 2048), OLD, {"rsa_private"}),
    ],
)
def test_other_keys_get_the_names_cloud_init_knows(key: Any, form: Any, names: set[str]) -> None:
    told = read(user_data(NODE, Secret(key.private_bytes(PEM, form, OPEN).decode())))
    assert set(told["ssh_keys"]) == names


def test_a_key_that_cloud_init_does_not_take_is_refused_without_being_shown() -> None:
    private = ed25519_key()[0].reveal()
    bad = [
        "secretgarbage",
        "\n".join([private.splitlines()[0], "c2VjcmV0Z2FyYmFnZQ==", private.splitlines()[-1]]),
        "\n".join([private.splitlines()[0], "secret*garbage", private.splitlines()[-1]]),
        "\n".join([private.splitlines()[0], private.splitlines()[1][:28], private.splitlines()[-1]]),
        dsa.generate_private_key(2048).private_bytes(PEM, OLD, OPEN).decode(),
    ]
    for one in bad:
        with pytest.raises(MisconfiguredError, match="host key is not one") as caught:
            user_data(NODE, Secret(one))
        assert "garbage" not in str(caught.value)


@pytest.mark.parametrize("server", ["10.0.0.1; rm -rf /", "", "$(x)", "-x", "a b", "a'b"])
def test_a_time_server_is_a_name(server: str) -> None:
    with pytest.raises(MisconfiguredError, match="time server"):
        user_data(NODE, ed25519_key()[0], ntp=(server,))


def test_a_ca_is_a_certificate() -> None:
    with pytest.raises(MisconfiguredError, match="not a PEM certificate"):
        user_data(NODE, ed25519_key()[0], ca_pem="-----BEGIN PRIVATE KEY-----\nx")


@pytest.mark.parametrize("odd", ["\x7f", "\x85", "\x9b", "\ufeff", "😀", "\u2028", "a: b # c", "'\"\\", "\t\x00"])
def test_any_text_survives_the_way_through_yaml(odd: str) -> None:
    told = read(user_data(NODE, ed25519_key()[0], authorized_keys=(f"ssh-rsa AAAA {odd}",)))
    assert told["ssh_authorized_keys"] == [f"ssh-rsa AAAA {odd}"]


def test_the_user_data_is_a_secret() -> None:
    assert repr(user_data(NODE, ed25519_key()[0])) == "***"
