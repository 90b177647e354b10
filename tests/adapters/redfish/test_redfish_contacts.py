"""First contacts are spread; one that is alone does not wait."""

from __future__ import annotations

import asyncio
import time

from provision.adapters.redfish.contacts import Contacts


async def test_contacts_follow_each_other_in_the_order_of_asking() -> None:
    contacts, served = Contacts(), list[tuple[int, float]]()

    async def one(number: int) -> None:
        await contacts.turn(0.02)
        served.append((number, time.monotonic()))

    began = time.monotonic()
    await asyncio.gather(*(one(number) for number in range(5)))
    assert [number for number, _ in served] == [0, 1, 2, 3, 4]
    assert all(at - began >= 0.02 * number for number, at in served)


async def test_turns_that_nobody_took_are_not_saved_up() -> None:
    contacts = Contacts()
    await contacts.turn(0.01)
    await asyncio.sleep(0.05)
    first = asyncio.ensure_future(contacts.turn(0.01))
    second = asyncio.ensure_future(contacts.turn(10.0))
    third = asyncio.ensure_future(contacts.turn(0.01))
    await asyncio.wait({first, second}, timeout=5)
    assert first.done()
    assert second.done()
    assert not third.done(), "ten seconds after the second"
    third.cancel()
