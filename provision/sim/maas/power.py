"""MAAS's hand on the power button: its redfish driver over real HTTPS, and the manual type that presses nothing.

The driver, as read in MAAS 3.6: switching on is ForceOff if the machine is on, then the boot override (Pxe, Once),
then On; switching off sets the override too; it tries again with growing pauses, except when the BMC refuses the
credentials. Certificates are not checked.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol
from urllib.parse import urljoin

import aiohttp

from provision.sim.maas.region import Clock
from provision.sim.maas.state import Record

PAUSES_S = (1.0, 2.0, 2.0, 4.0, 6.0)
TIMEOUT_S = 30.0
HTTP_DENIED = (401, 403)


class PowerError(Exception):
    """The button could not be pressed; the text is what MAAS writes into its events."""

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class PowerDriver(Protocol):
    """Whatever presses power buttons. ``query`` answers ``on`` or ``off``. All raise PowerError."""

    async def on(self, record: Record) -> None:
        """Network boot: off if on, boot override, on."""

    async def off(self, record: Record) -> None:
        """Cut power."""

    async def query(self, record: Record) -> str:
        """Ask the BMC."""

    async def close(self) -> None:
        """Drop connections."""


def controllable(record: Record) -> bool:
    """Whether MAAS can press this machine's button at all."""
    return record.power_type not in {"", "manual"}


class RedfishPower:
    """The redfish power type. One connection pool for all BMCs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None

    async def on(self, record: Record) -> None:
        """Network boot: off if on, boot override, on."""
        await self._tried(self._switch_on, record)

    async def off(self, record: Record) -> None:
        """Cut power, with the override set for the next boot as MAAS does."""
        await self._tried(self._switch_off, record)

    async def query(self, record: Record) -> str:
        """``on`` or ``off``, asked once."""
        try:
            return await self._state(record, await self._system(record))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise PowerError(f"Redfish request failed: {type(error).__name__}") from error

    async def close(self) -> None:
        """Drop connections."""
        if self._session is not None:
            await self._session.close()

    async def _tried(self, work: Callable[[Record], Awaitable[None]], record: Record) -> None:
        for pause in (*PAUSES_S, None):
            try:
                await work(record)
                return
            except PowerError as error:
                if error.final or pause is None:
                    raise
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                if pause is None:
                    raise PowerError(f"Redfish request failed: {type(error).__name__}") from error
            await self._clock.sleep(pause)

    async def _switch_on(self, record: Record) -> None:
        system = await self._system(record)
        if await self._state(record, system) == "on":
            await self._reset(record, system, "ForceOff")
        await self._override(record, system)
        await self._reset(record, system, "On")

    async def _switch_off(self, record: Record) -> None:
        system = await self._system(record)
        await self._override(record, system)
        if await self._state(record, system) == "on":
            await self._reset(record, system, "ForceOff")

    async def _system(self, record: Record) -> str:
        node_id = record.power_parameters.get("node_id")
        if node_id:
            return f"/redfish/v1/Systems/{node_id}"
        members = (await self._ask(record, "GET", "/redfish/v1/Systems"))[0].get("Members") or []
        if not members:
            raise PowerError("Redfish service lists no system")
        return str(members[0]["@odata.id"])

    async def _state(self, record: Record, system: str) -> str:
        body, _ = await self._ask(record, "GET", system)
        return "on" if str(body.get("PowerState", "")).lower() in {"on", "reset"} else "off"

    async def _override(self, record: Record, system: str) -> None:
        _, etag = await self._ask(record, "GET", system)
        boot = {"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}}
        await self._ask(record, "PATCH", system, boot, {"If-Match": etag} if etag else {})

    async def _reset(self, record: Record, system: str, kind: str) -> None:
        await self._ask(record, "POST", f"{system}/Actions/ComputerSystem.Reset", {"ResetType": kind})

    async def _ask(
        self, record: Record, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[dict[str, Any], str | None]:
        address = record.power_parameters.get("power_address", "")
        login = f"{record.power_parameters.get('power_user', '')}:{record.power_parameters.get('power_pass', '')}"
        sent = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"} | (headers or {})
        url = urljoin(f"https://{address}", path)
        async with self._pool().request(method, url, json=body, headers=sent) as answer:
            if answer.status in HTTP_DENIED:
                raise PowerError(f"Redfish request failed with response status code: {answer.status}.", final=True)
            if answer.status >= 400:
                raise PowerError(f"Redfish request failed with response status code: {answer.status}.")
            content = await answer.read()
            if not content:
                return {}, answer.headers.get("ETag")
            try:
                parsed = await answer.json(content_type=None)
            except ValueError as error:
                raise PowerError("Redfish request failed: the answer is not JSON.") from error
            return (parsed if isinstance(parsed, dict) else {}), answer.headers.get("ETag")

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
            connector = aiohttp.TCPConnector(ssl=False, limit=64, keepalive_timeout=5)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False)
        return self._session


class PowerQueue:
    """One power operation per machine at a time; a newer one replaces an older one that still tries."""

    def __init__(self, driver: PowerDriver) -> None:
        self.driver = driver
        self.closed = False
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def put(self, system_id: str, work: Coroutine[Any, Any, None]) -> None:
        """Start ``work`` for this machine in place of what is still under way; nothing once closed."""
        if self.closed:
            work.close()
            return
        older = self._tasks.pop(system_id, None)
        if older is not None and older is not _current():
            older.cancel()
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[system_id] = task
        task.add_done_callback(lambda done: self._ended(system_id, done))

    def _ended(self, system_id: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(system_id) is task:
            del self._tasks[system_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            task.get_loop().call_exception_handler({"message": f"power of {system_id}", "exception": error})

    async def settle(self) -> None:
        """Wait until nothing is under way."""
        while self._tasks:
            await asyncio.wait(list(self._tasks.values()))
            # Callbacks that empty the table run after the tasks themselves.
            await asyncio.sleep(0)

    async def close(self) -> None:
        """End what is under way."""
        self.closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.driver.close()


def _current() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
