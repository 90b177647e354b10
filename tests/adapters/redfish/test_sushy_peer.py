"""A second opinion: OpenStack's sushy-emulator (its fake driver) as a BMC, for power and boot.

It knows no sessions (Basic), ignores ``$expand`` and takes 1 to 11 seconds to carry out what it accepted.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from redfish_lab import PASSWORD, RealClock

from provision.adapters.redfish.bmc import RedfishBmc
from provision.errors import CredentialRefusedError
from provision.model.bmc import Button, Power
from provision.model.node import Node
from provision.model.profile import BootMethod
from provision.model.secret import Credential, Secret

pytestmark = pytest.mark.journey
UUID, MAC = "2f1c7b1e-3d53-4c0e-9a51-0b8f5d2f7a10", "00:5c:52:31:3a:9c"
PATIENCE_S = 30


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture
async def emulator(tmp_path: Path, certificates: dict[str, tuple[Path, str]]) -> AsyncIterator[Node]:
    """A running emulator with one machine that is off; its node."""
    port, logins = _free_port(), tmp_path / "logins"
    logins.write_text(f"prov:{bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()}\n", encoding="utf-8")
    machine = {"uuid": UUID, "name": "gpu-12-03", "power_state": "Off", "nics": [{"mac": MAC, "ip": "192.0.2.10"}]}
    settings = {
        "SUSHY_EMULATOR_FAKE_DRIVER": True,
        "SUSHY_EMULATOR_FAKE_SYSTEMS": [machine],
        "SUSHY_EMULATOR_STATE_DIR": str(tmp_path),
        "SUSHY_EMULATOR_AUTH_FILE": str(logins),
        "SUSHY_EMULATOR_LISTEN_IP": "127.0.0.1",
        "SUSHY_EMULATOR_LISTEN_PORT": port,
        "SUSHY_EMULATOR_SSL_CERT": str(certificates["old"][0]),
        "SUSHY_EMULATOR_SSL_KEY": str(certificates["old"][0]),
    }
    config = tmp_path / "sushy.conf"
    config.write_text("".join(f"{name} = {value!r}\n" for name, value in settings.items()), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).parent / "sushy-emulator"),
        "--config",
        str(config),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not await _listens(port):
                assert process.returncode is None, "sushy-emulator ended by itself"
                await asyncio.sleep(0.1)
        yield Node("gpu-12-03", "h100", f"127.0.0.1:{port}", "rack-12")
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def _until(bmc: RedfishBmc, power: Power) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await bmc.status()).power is not power:  # noqa: ASYNC110 - a peer over the wire has no event
            await asyncio.sleep(0.5)


async def test_power_and_boot_on_somebody_elses_bmc(emulator: Node, client: Any) -> None:
    bmc: RedfishBmc = client(emulator)
    harvest = await bmc.harvest()
    assert [str(port.mac) for port in harvest.ports] == [MAC]
    assert harvest.identity.family == "generic"
    assert (await bmc.status()).power is Power.OFF
    await bmc.press(Button.FORCE_OFF)  # it is off: success, and nothing is sent
    await bmc.set_network_boot_once(BootMethod.PXE)
    status = await bmc.status()
    # It stores the target and says "Continuous" to whatever was asked for; the next boot goes to the network.
    assert (status.boot_target, status.network_boot_set) == ("Pxe", True)
    await bmc.press(Button.ON)
    await _until(bmc, Power.ON)
    await bmc.press(Button.ON)
    await bmc.press(Button.FORCE_OFF)
    await _until(bmc, Power.OFF)
    await bmc.set_network_boot_once(BootMethod.UEFI_HTTP)
    # Accepted, and stored otherwise: the read-back tells, whatever the answer to the PATCH said.
    assert (await bmc.status()).boot_target == "Pxe"


async def test_its_no_to_a_password_is_a_no(emulator: Node, pins: Any) -> None:
    wrong = RedfishBmc(emulator, Credential("bmc", "prov", Secret("wrong")), pins, clock=RealClock())
    with pytest.raises(CredentialRefusedError):
        await wrong.harvest()
    await wrong.close()
