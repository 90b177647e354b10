"""How a sick BMC treats a request. One function per fault; more misbehaviour is more rows of the table.

Each gets the request and ``proceed``, which answers it as a healthy BMC would: it may answer in its place, wait
first, spoil the answer, or raise AnswerError.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from aiohttp import web

from provision.sim.bmc.answers import AnswerError
from provision.sim.machine import SimMachine
from provision.sim.parts import Fault

Proceed = Callable[[], Awaitable[web.StreamResponse]]
Sick = Callable[[SimMachine, Fault, web.BaseRequest, Proceed], Awaitable[web.StreamResponse]]


async def _dead(machine: SimMachine, fault: Fault, request: web.BaseRequest, proceed: Proceed) -> web.StreamResponse:
    """``refused`` closes the door in ``server``; ``hang`` lets a client in and never answers."""
    await asyncio.Event().wait()  # until the client goes away
    return await proceed()


async def _busy(machine: SimMachine, fault: Fault, request: web.BaseRequest, proceed: Proceed) -> web.StreamResponse:
    """503 with SYS518 until the time is over, then the fault is gone by itself."""
    left = machine.bmc_busy_until - machine.world.clock.seconds()
    if left > 0:
        text = "The BMC has no data to show at the moment."
        raise AnswerError(503, "SYS518", text, severity="Informational").with_headers(Retry_After="5")
    if fault in machine.faults:
        machine.repair(fault)
    return await proceed()


async def _stores_nothing(
    machine: SimMachine, fault: Fault, request: web.BaseRequest, proceed: Proceed
) -> web.StreamResponse:
    """A PATCH of the boot override is judged and answered as usual, and forgotten."""
    before = replace(machine.boot_override)
    reply = await proceed()
    if request.method == "PATCH" and request.path.rstrip("/") in {
        machine.family.system,
        machine.family.settings,
    }:
        machine.boot_override = before
    return reply


SICKNESS: dict[str, Sick] = {
    "bmc_dead": _dead,
    "bmc_busy": _busy,
    "bmc_stores_nothing": _stores_nothing,
}
