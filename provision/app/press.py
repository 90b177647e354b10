"""`provision power`: press once, then look until the BMC says that it is so."""

from __future__ import annotations

from typing import Any

from provision.app.desk import count_step
from provision.app.wiring import Wiring
from provision.errors import PeerError, UnavailableError
from provision.model.bmc import Button, Power
from provision.model.finding import Action
from provision.model.node import Node
from provision.ports import Bmc

_WANTED = {"on": Power.ON, "off": Power.OFF, "cycle": Power.ON}
DEADLINE_S = 180.0  # a server takes one to three minutes to shut down cleanly
POLL_S = 2.0


async def press(wiring: Wiring, run: str, node: Node, verb: str, *, force: bool) -> dict[str, Any]:
    """Carry out one power verb on one node; a row with what the BMC says afterwards."""
    bmc = wiring.bmc(node)
    try:
        before = await bmc.status()
        if verb == "status":
            return _row(node, before.power, before.power.value, ok=before.power is not Power.UNKNOWN)
        if verb != "cycle" and before.power is _WANTED[verb]:
            return _row(node, before.power, f"already {verb}")
        if verb == "cycle":
            return await _cycle(wiring, run, node, bmc, force=force)
        return await _switch(wiring, run, node, bmc, verb, force=force)
    except PeerError as error:
        return _row(node, Power.UNKNOWN, str(error), ok=False)
    finally:
        await bmc.close()


async def _switch(wiring: Wiring, run: str, node: Node, bmc: Bmc, verb: str, *, force: bool) -> dict[str, Any]:
    button = Button.ON if verb == "on" else Button.FORCE_OFF if force else Button.OFF
    await _send(wiring, run, node, bmc, button)
    power = await _wait(wiring, bmc, _WANTED[verb])
    if power is _WANTED[verb]:
        return _row(node, power, f"switched {verb}")
    if button is Button.OFF:
        await _send(wiring, run, node, bmc, Button.FORCE_OFF)
        power = await _wait(wiring, bmc, Power.OFF)
        if power is Power.OFF:
            return _row(node, power, f"did not shut down in {DEADLINE_S:g} s; forced off")
    return _row(node, power, f"the BMC accepted, but says {power.value} after {DEADLINE_S:g} s", ok=False)


async def _cycle(wiring: Wiring, run: str, node: Node, bmc: Bmc, *, force: bool) -> dict[str, Any]:
    before = await bmc.status()
    if before.power is Power.OFF:
        return await _switch(wiring, run, node, bmc, "on", force=force)
    off = await _switch(wiring, run, node, bmc, "off", force=force)
    if not off["ok"]:
        return off
    on = await _switch(wiring, run, node, bmc, "on", force=force)
    if on["ok"]:
        await count_step(wiring, run, node.name, Action.REBOOT)
    return {**on, "result": "restarted" if on["ok"] else on["result"]}


async def _send(wiring: Wiring, run: str, node: Node, bmc: Bmc, button: Button) -> None:
    """One write, with its intent on disk first. An answer that was lost is looked up by the wait that follows."""
    attempt = await wiring.store.open_attempt(run, node.name, "power", button.value, "asked by an operator")
    try:
        await bmc.press(button)
    except UnavailableError as error:
        await wiring.store.close_attempt(attempt, "unknown", error.detail)
        return
    except PeerError as error:
        await wiring.store.close_attempt(attempt, "refused", error.detail)
        raise
    await wiring.store.close_attempt(attempt, "sent")


async def _wait(wiring: Wiring, bmc: Bmc, wanted: Power) -> Power:
    pace = wiring.settings.site.pace
    end = wiring.clock.monotonic() + DEADLINE_S * pace
    power = Power.UNKNOWN
    while True:
        try:
            power = (await bmc.status()).power
        except UnavailableError:
            power = Power.UNKNOWN
        if power is wanted or wiring.clock.monotonic() >= end:
            return power
        await wiring.clock.sleep(POLL_S * pace)


def _row(node: Node, power: Power, result: str, *, ok: bool = True) -> dict[str, Any]:
    return {"node": node.name, "power": power.value, "result": result, "ok": ok}
