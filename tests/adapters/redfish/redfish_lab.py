"""Certificates, clocks and clients for the Redfish tests. Everything runs on real sockets on loopback."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from redfish_scripted import ScriptedBmc

from provision.adapters.redfish import login
from provision.adapters.redfish.bmc import RedfishBmc
from provision.adapters.redfish.limits import BmcLimits
from provision.model.node import Node
from provision.model.secret import Credential, Secret

PASSWORD = "sesame-öffne"
QUICK = BmcLimits(pause_s=0.01, request_s=5.0, operation_s=10.0, conflict_s=1.0, logout_s=2.0)


class RealClock:
    """The wall clock, optionally shifted."""

    def __init__(self, at: datetime | None = None) -> None:
        self._shift = (at - datetime.now(UTC)) if at else timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self._shift

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class DictPins(dict[tuple[str, str], str]):
    """Pins in memory."""

    def get_pin(self, kind: str, name: str) -> str | None:
        return self.get((kind, name))

    def set_pin(self, kind: str, name: str, value: str) -> None:
        self[(kind, name)] = value


def make_certificate(path: Path, name: str) -> str:
    """Write a self-signed certificate with its key; returns its SHA-256."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(pem + secret)
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.decode())).hexdigest()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, str]]:
    """Two certificates, ``old`` and ``new``, each with its fingerprint."""
    folder = tmp_path_factory.mktemp("certificates")
    return {
        name: (folder / f"{name}.pem", make_certificate(folder / f"{name}.pem", f"idrac-{name}"))
        for name in ("old", "new")
    }


@pytest.fixture(autouse=True)
def _forget_refusals() -> None:
    """Refusals are remembered for a process; tests share ports."""
    for address in list(login._refusals):
        login.forget_refusal(address)


@pytest.fixture
def pins() -> DictPins:
    """An empty store of pins."""
    return DictPins()


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    """Everything opened in a test is closed after it, clients before servers."""
    async with AsyncExitStack() as opened:
        yield opened


@pytest.fixture
def serve(stack: AsyncExitStack, certificates: dict[str, tuple[Path, str]]) -> Callable[..., Any]:
    """Start a scripted BMC over a tree."""

    async def start(tree: dict[str, Any], certificate: str = "old", port: int = 0) -> ScriptedBmc:
        return await stack.enter_async_context(ScriptedBmc(tree).serving(certificates[certificate][0], port))

    return start


@pytest.fixture
def client(stack: AsyncExitStack, pins: DictPins) -> Callable[..., RedfishBmc]:
    """Make a client for a node; it is closed at the end of the test."""

    def make(node: Node, *, clock: RealClock | None = None, boot_nic: str | None = None, **limits: Any) -> RedfishBmc:
        bmc = RedfishBmc(
            node,
            Credential("bmc", "prov", Secret(PASSWORD)),
            pins,
            clock=clock or RealClock(),
            profile_boot_nic=boot_nic,
            limits=replace(QUICK, **limits),
        )
        stack.push_async_callback(bmc.close)
        return bmc

    return make
