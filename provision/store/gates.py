"""Room for operations, turns for what may happen only so often, and brakes: shared by all processes of a site."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, text, update

from provision.model.slot import Ask, Brake, Slot, Tally
from provision.store import leases
from provision.store.database import Database
from provision.store.journal import Store
from provision.store.schema import brakes, runs, slot_places, slots, tallies, turns
from provision.store.texts import Scrub, clean

# One number for all transactions that count before they write; any would do, so long as nobody else uses it.
_LOCK = 7_301_907


class Gates:
    """Fulfils ports.Gates. Every count and what is written upon it are one transaction."""

    def __init__(self, database: Database, now: Callable[[], datetime], scrub: Callable[[], Scrub]) -> None:
        self._database = database
        self._now = now
        self._scrub = scrub

    async def take(self, run: str, asks: Sequence[Ask]) -> tuple[str, ...]:
        """Give room to those who find it, in this order; for each empty, or what keeps it out, in words."""

        def work(connection: Connection) -> tuple[str, ...]:
            _alone(connection)
            counts = _counts(connection, {place for ask in asks for place, _ in ask.places})
            stopped = dict(connection.execute(select(brakes.c.place, brakes.c.why).where(brakes.c.open)).all())
            answers = []
            for ask in asks:
                answers.append(_kept_out(ask, counts, stopped))
                if not answers[-1]:
                    _put(connection, run, ask, self._now())
                    for place, _ in ask.places:
                        counts[place] = counts.get(place, 0) + 1
            return tuple(answers)

        return await self._database.write("take a slot", work)

    async def hold(self, run: str, ask: Ask) -> None:
        """The node is seen in this operation: a fact, so no limit is asked."""

        def work(connection: Connection) -> None:
            leases.must_hold(connection, run, "hold a slot", ask.node)
            _put(connection, run, ask, self._now())

        await self._database.write("hold a slot", work)

    async def free(self, node: str, run: str | None = None) -> None:
        """The operation is over; with ``run`` only if it is that run's."""

        def work(connection: Connection) -> None:
            here = slots.c.node == node if run is None else (slots.c.node == node) & (slots.c.run == run)
            if connection.execute(delete(slots).where(here)).rowcount:
                connection.execute(delete(slot_places).where(slot_places.c.node == node))

        await self._database.write("free a slot", work)

    async def inherit(self, run: str, nodes: Sequence[str]) -> Mapping[str, str]:
        """Operations in which earlier runs left these nodes; they are ``run``'s from here."""

        def work(connection: Connection) -> Mapping[str, str]:
            found: dict[str, str] = {}
            for chunk in leases.chunks(nodes):
                here = slots.c.node.in_(chunk)
                found |= dict(connection.execute(select(slots.c.node, slots.c.operation).where(here)).all())
                connection.execute(update(slots).where(here).values(run=run))
            return found

        return await self._database.write("take slots over", work)

    async def slots(self) -> tuple[Slot, ...]:
        """Who holds what, oldest first."""

        def work(connection: Connection) -> tuple[Slot, ...]:
            held: dict[str, list[str]] = {}
            for node, place in connection.execute(select(slot_places.c.node, slot_places.c.place)):
                held.setdefault(node, []).append(place)
            query = select(slots.c.node, slots.c.operation, slots.c.since, runs).join(runs, runs.c.id == slots.c.run)
            now = leases.moment(connection, self._now)
            return tuple(
                Slot(
                    row.node,
                    row.operation,
                    tuple(held.get(row.node, ())),
                    row.id,
                    row.since,
                    row.user,
                    row.host,
                    leases.is_live(row, now),
                )
                for row in connection.execute(query.order_by(slots.c.since, slots.c.node))
            )

        return await self._database.read("list slots", work)

    async def turn(self, run: str, node: str, place: str, limit: int, window_s: float) -> float:
        """Reserve the next moment at which no more than ``limit`` happen in ``window_s``; seconds until then."""
        window = timedelta(seconds=window_s)

        def work(connection: Connection) -> float:
            _alone(connection)
            now = self._now()
            # What was reserved in the future is a clock that has been set back; it would keep us waiting for it.
            stale = (turns.c.made_at > now + window) | (turns.c.at < now - 2 * window)
            connection.execute(delete(turns).where(turns.c.place == place, stale))
            newest = select(turns.c.at).where(turns.c.place == place).order_by(turns.c.at.desc(), turns.c.id.desc())
            before = connection.execute(newest.offset(limit - 1).limit(1)).scalar()
            at = now if before is None else max(now, before + window)
            connection.execute(insert(turns).values(place=place, node=node, run=run, at=at, made_at=now))
            return (at - now).total_seconds()

        return await self._database.write("reserve a turn", work)

    async def turns(self, place: str, window_s: float) -> tuple[tuple[str, str, datetime], ...]:
        """(node, run, moment) of what happened in the last ``window_s`` or has a turn reserved."""
        query = select(turns.c.node, turns.c.run, turns.c.at).order_by(turns.c.at)

        def work(connection: Connection) -> tuple[tuple[str, str, datetime], ...]:
            since = self._now() - timedelta(seconds=window_s)
            rows = connection.execute(query.where(turns.c.place == place, turns.c.at > since))
            return tuple((row.node, row.run, row.at) for row in rows)

        return await self._database.read("list turns", work)

    async def tally(
        self, run: str, node: str, stage: str, places: Sequence[str], *, ok: bool, within_s: float
    ) -> tuple[Tally, ...]:
        """Count how an operation ended; what was counted in these places since then, oldest first.

        What lies before a resume, or longer ago than ``within_s``, is not told.
        """

        def work(connection: Connection) -> tuple[Tally, ...]:
            _alone(connection)
            now = self._now()
            connection.execute(delete(tallies).where(tallies.c.at < now - timedelta(seconds=within_s)))
            rows = [{"place": p, "node": node, "stage": stage, "ok": ok, "at": now, "run": run} for p in places]
            connection.execute(insert(tallies), rows)
            found = connection.execute(select(tallies).where(tallies.c.place.in_(places)).order_by(tallies.c.id))
            return tuple(Tally(row.place, row.node, row.stage, row.ok, row.at) for row in found)

        return await self._database.write("count an outcome", work)

    async def brake(self, run: str, place: str, why: str) -> bool:
        """Begin nothing more in this place; False if it is stopped already."""
        values = {"open": True, "why": clean(why, self._scrub()), "run": run, "at": self._now()}

        def work(connection: Connection) -> bool:
            _alone(connection)
            stands = connection.execute(select(brakes.c.open).where(brakes.c.place == place)).scalar()
            if stands is None:
                connection.execute(insert(brakes).values(place=place, **values))
            elif not stands:
                connection.execute(update(brakes).where(brakes.c.place == place).values(values))
            return not stands

        return await self._database.write("stop a place", work, durable=True)

    async def brakes(self) -> tuple[Brake, ...]:
        """What is stopped, oldest first."""
        query = select(brakes).where(brakes.c.open).order_by(brakes.c.at, brakes.c.place)

        def work(connection: Connection) -> tuple[Brake, ...]:
            return tuple(Brake(row.place, row.why, row.run, row.at) for row in connection.execute(query))

        return await self._database.read("list what is stopped", work)

    async def resume(self, places: Sequence[str]) -> None:
        """Go on in these places. Failures of before are forgotten, so that none is counted a second time."""

        def work(connection: Connection) -> None:
            connection.execute(update(brakes).where(brakes.c.place.in_(places)).values(open=False))
            # A failure counts in each of its places; in none of them may it stop the next ones again.
            nodes = select(tallies.c.node).where(tallies.c.place.in_(places))
            connection.execute(delete(tallies).where(tallies.c.node.in_(nodes)))

        await self._database.write("resume", work, durable=True)


def gates_of(store: Store) -> Gates:
    """The gates of a store, over the same database."""
    return Gates(store._database, store._now, lambda: store.scrub)


def _alone(connection: Connection) -> None:
    """Nobody else counts until this transaction is over. SQLite has one writer at any rate."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})


def _counts(connection: Connection, places: Collection[str]) -> dict[str, int]:
    query = select(slot_places.c.place, func.count()).where(slot_places.c.place.in_(places))
    return dict(connection.execute(query.group_by(slot_places.c.place)).all())


def _kept_out(ask: Ask, counts: Mapping[str, int], stopped: Mapping[str, str]) -> str:
    for name in ask.brakes:
        if name in stopped:
            return f"{name} is stopped ({stopped[name]}); to go on there: provision resume {name}"
    for place, limit in ask.places:
        if counts.get(place, 0) >= limit:
            return f"{counts[place]} of {limit} {place}"
    return ""


def _put(connection: Connection, run: str, ask: Ask, now: datetime) -> None:
    """Write the slot in place of one that the node holds."""
    connection.execute(delete(slot_places).where(slot_places.c.node == ask.node))
    connection.execute(delete(slots).where(slots.c.node == ask.node))
    values: dict[str, Any] = {"node": ask.node, "operation": ask.operation, "run": run, "since": now}
    connection.execute(insert(slots).values(values))
    if ask.places:
        connection.execute(insert(slot_places), [{"node": ask.node, "place": place} for place, _ in ask.places])
