"""`provision bmc`: restart a BMC and wait until it is really back, its clock, its sessions, its firmware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from provision.app.desk import count_step
from provision.app.wiring import Wiring
from provision.errors import PeerError, UnavailableError
from provision.model.bmc import Firmware
from provision.model.finding import Action
from provision.model.node import Node
from provision.model.profile import FirmwareSpec

if TYPE_CHECKING:
    from provision.adapters.redfish.bmc import RedfishBmc

GONE_S = 180.0  # so long a BMC may go on answering after it accepted a restart
BACK_S = 900.0  # an iDRAC takes 2 to 7 minutes until Redfish is complete again (facts: redfish)
POLL_S = 5.0


async def reset(wiring: Wiring, run: str, node: Node) -> dict[str, Any]:
    """Restart one BMC: seen to go, and seen to be back with its host and every port."""
    bmc = wiring.redfish(node)
    began = wiring.clock.monotonic()
    try:
        doubt = await _sent(wiring, run, node, "bmc-reset", bmc.reset_bmc())
        if not await _goes(wiring, bmc):
            why = doubt or "it accepted, and goes on as if nothing had been asked"
            return _row(node, f"did not restart in {GONE_S * wiring.settings.site.pace:g} s: {why}", ok=False)
    except PeerError as error:
        return _row(node, str(error), ok=False)
    finally:
        await bmc.close()
    await count_step(wiring, run, node.name, Action.RESET_BMC)
    missing = await _returns(wiring, node)
    took = wiring.clock.monotonic() - began
    if missing:
        return _row(node, f"restarted and is not whole after {took:.0f} s: {missing}", ok=False)
    return _row(node, f"restarted and is back after {took:.0f} s")


async def _goes(wiring: Wiring, bmc: RedfishBmc) -> bool:
    """True once the login of before the reset is refused or nothing answers."""
    pace = wiring.settings.site.pace
    end = wiring.clock.monotonic() + GONE_S * pace
    while wiring.clock.monotonic() < end:
        if not await bmc.still_there():
            return True
        await wiring.clock.sleep(POLL_S * pace)
    return False


async def _returns(wiring: Wiring, node: Node) -> str:
    """Wait for host and ports; what is still missing at the deadline, empty if nothing is."""
    pace = wiring.settings.site.pace
    end = wiring.clock.monotonic() + BACK_S * pace
    while True:
        bmc = wiring.redfish(node, patient=False)
        try:
            harvest = await bmc.harvest()
            missing = "; ".join(f"{gap.where}: {gap.why}" for gap in harvest.gaps[:3])
            missing = missing or ("" if harvest.ports else "it shows no port yet")
        except UnavailableError as error:
            missing = str(error)
        except PeerError as error:
            return str(error)  # a clear no does not become a yes by waiting
        finally:
            await bmc.close()
        if not missing or wiring.clock.monotonic() >= end:
            return missing
        await wiring.clock.sleep(POLL_S * pace)


async def clock(wiring: Wiring, run: str | None, node: Node) -> dict[str, Any]:
    """The BMC's clock against ours; with a ``run`` it is set first where it is off."""
    bmc = wiring.redfish(node)
    limit = wiring.settings.site.max_clock_offset_s
    try:
        seen = await bmc.clock()
        doubt, wrong = "", abs(seen.offset_s) > limit
        if run is not None and wrong:
            doubt = await _sent(wiring, run, node, "bmc-clock", bmc.set_clock())
            seen = await bmc.clock()
        ok = abs(seen.offset_s) <= limit
        result = doubt or ("right" if not wrong else "set" if ok else _advice(seen.ntp, written=run is not None))
        return {**_row(node, result, ok=ok), "offset_s": round(seen.offset_s, 1), "ntp": seen.ntp}
    except PeerError as error:
        return {**_row(node, str(error), ok=False), "offset_s": None, "ntp": None}
    finally:
        await bmc.close()


def _advice(ntp: bool | None, *, written: bool) -> str:
    if written and ntp:
        return "given NTP servers; they need some minutes to take hold, look again"
    return "wrong; to set it: provision bmc clock --set" if not written else "accepted, and still wrong"


async def sessions(wiring: Wiring, run: str | None, node: Node) -> list[dict[str, Any]]:
    """Who is logged in; with a ``run`` our own leftovers are ended first. A row that is not ok says why."""
    bmc = wiring.redfish(node)
    try:
        if run is not None:
            await _sent(wiring, run, node, "bmc-end-sessions", bmc.end_stale_sessions())
        return [
            {
                "node": node.name,
                "session": one.name,
                "user": one.user,
                "client": one.client,
                "created": one.created,
                "whose": "ours, left behind" if one.stale else "ours" if one.ours else "",
                "ok": True,
            }
            for one in await bmc.sessions()
        ]
    except PeerError as error:
        return [{"node": node.name, "whose": str(error), "ok": False}]
    finally:
        await bmc.close()


async def info(wiring: Wiring, node: Node) -> list[dict[str, Any]]:
    """Versions of every part that tells one, beside what the profile wants. Rows that could not be read are not ok."""
    bmc = wiring.redfish(node)
    wanted = wiring.profile(node).firmware
    try:
        who = await bmc.identity()
        found, gaps = await bmc.firmware(baseboard=any(spec.part == "gpu-baseboard" for spec in wanted))
    except PeerError as error:
        return [{"node": node.name, "part": "bmc", "locator": "BMC", "result": str(error), "ok": False}]
    finally:
        await bmc.close()
    about = {
        "node": node.name,
        "maker": who.maker,
        "server": who.model,
        "service_tag": who.service_tag,
        "family": who.family,
    }
    rows = [{**about, **row} for row in judged(found, wanted)]
    rows += [
        {**about, "part": "", "locator": gap.where, "result": f"could not be read: {gap.why}", "ok": False}
        for gap in gaps
    ]
    return rows


def judged(found: Sequence[Firmware], wanted: Sequence[FirmwareSpec]) -> list[dict[str, Any]]:
    """One row per part with its wish, and one per wish that no part answers. ``ok`` None: nothing was wished. Pure."""
    rows: list[dict[str, Any]] = []
    answered: set[FirmwareSpec] = set()
    for item in found:
        spec = next((one for one in wanted if one.means(item.part, item.model)), None)
        row = {"part": item.part, "locator": item.locator, "model": item.model, "version": item.version}
        if spec is None:
            rows.append({**row, "wanted": None, "result": "", "ok": None})
            continue
        answered.add(spec)
        ok = item.version is not None and spec.agrees(item.version)
        result = "as wanted" if ok else "differs" if item.version else "not told"
        rows.append({**row, "wanted": spec.version, "result": result, "ok": ok})
    for spec in wanted:
        if spec not in answered:
            row = {"part": spec.part, "locator": "", "model": spec.model, "version": None}
            rows.append({**row, "wanted": spec.version, "result": "no such part tells its version", "ok": False})
    return rows


async def _sent(wiring: Wiring, run: str, node: Node, step: str, write: Any) -> str:
    """One write, with its intent on disk first. Returns the doubt that a lost answer leaves; the caller looks."""
    attempt = await wiring.store.open_attempt(run, node.name, "bmc", step, "asked by an operator")
    try:
        await write
    except UnavailableError as error:
        await wiring.store.close_attempt(attempt, "unknown", error.detail)
        return str(error)
    except PeerError as error:
        await wiring.store.close_attempt(attempt, "refused", error.detail)
        raise
    await wiring.store.close_attempt(attempt, "sent")
    return ""


def _row(node: Node, result: str, *, ok: bool = True) -> dict[str, Any]:
    return {"node": node.name, "result": result, "ok": ok}
