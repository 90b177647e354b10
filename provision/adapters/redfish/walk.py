"""Reading a tree politely: members by ``$expand`` where it is offered, pages with a cap, failures as gaps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from provision.adapters.redfish.answers import Answer, Json
from provision.adapters.redfish.problems import FATAL, NoAnswerError
from provision.adapters.redfish.session import RedfishSession
from provision.adapters.redfish.values import link
from provision.errors import GarbledError, PeerError, RefusedError, UnavailableError
from provision.model.evidence import Gap

# So many silent reads in one operation mean that the BMC is gone, not one resource.
_SILENT = 3
_NEXT = ("Members@odata.nextLink", "@odata.nextLink")


@dataclass(frozen=True, slots=True)
class Listing:
    """Members of a collection. ``complete`` is False when one of them, or a page, could not be read."""

    members: tuple[Json, ...] = ()
    complete: bool = True


@dataclass(slots=True)
class Expand:
    """What ``$expand`` this service offers, and whether it kept its word so far."""

    query: str = ""
    levels: int = 0
    counted: bool = True

    @classmethod
    def offered(cls, root: Mapping[str, Any], *, most: int = 6) -> Expand:
        """Read ``ProtocolFeaturesSupported.ExpandQuery``; ``.`` (no links) is the lightest that inlines members."""
        features = root.get("ProtocolFeaturesSupported")
        offer = features.get("ExpandQuery") if isinstance(features, Mapping) else None
        if not isinstance(offer, Mapping) or most < 1:
            return cls()
        kind = "." if offer.get("NoLinks") is True else "*" if offer.get("ExpandAll") is True else ""
        if not kind:
            return cls()
        deep = offer.get("MaxLevels")
        deepest = deep if isinstance(deep, int) and not isinstance(deep, bool) and deep > 0 else 1
        counted = offer.get("Levels") is True
        return cls(kind, min(deepest, most) if counted else 1, counted)

    def applied(self, path: str, levels: int) -> str:
        """``path`` with the query, or unchanged where nothing is offered."""
        if not self.query or not self.levels or "?" in path:
            return path
        depth = f"($levels={min(levels, self.levels)})" if self.counted else ""
        return f"{path}?$expand={self.query}{depth}"


@dataclass(slots=True)
class _Read:
    """One address being read for all who wait for it. It ends with the last of them, never with the first."""

    task: asyncio.Task[Answer]
    waiting: int = 0


@dataclass(slots=True)
class Reader:
    """One operation's reading: every address once, one deadline for all, gaps collected on the way.

    ``source`` of a gap is the evidence source that lacks it. ``transient`` is True if a gap may close by itself.
    """

    session: RedfishSession
    expand: Expand
    until: float
    gaps: list[Gap] = field(default_factory=list)
    transient: bool = False
    _kept: dict[str, _Read] = field(default_factory=dict)
    _silent: int = 0

    async def answer(self, path: str) -> Answer:
        """The answer for ``path``, asked for once per operation."""
        key = path.rstrip("/") if "?" not in path else path
        read = self._kept.get(key)
        if read is None:
            read = self._kept[key] = _Read(asyncio.ensure_future(self.session.get(path, until=self.until)))
        read.waiting += 1
        try:
            return await asyncio.shield(read.task)
        finally:
            read.waiting -= 1
            if not read.waiting and not read.task.done():
                read.task.cancel()
                del self._kept[key]

    async def resource(self, path: str) -> Json:
        """The object at ``path``.

        Raises:
            PeerError: it cannot be read.
        """
        return (await self.answer(path)).json(self.session.peer)

    async def optional(self, path: str | None, source: str) -> Json | None:
        """The object at ``path``, or None with a gap; None without a gap if there is no such link."""
        if path is None:
            return None
        try:
            return await self.resource(path)
        except PeerError as error:
            self.lost(path, source, error)
            return None

    async def all(self, paths: Iterable[str], source: str) -> Listing:
        """Several objects at once; those that cannot be read are gaps."""
        wanted = tuple(dict.fromkeys(paths))
        if len(wanted) < 2:  # a task for each read is what a large fleet would pay for
            one = await self.optional(wanted[0], source) if wanted else None
            return Listing((one,) if one is not None else (), one is not None or not wanted)
        found = await self.gather(*(self.optional(path, source) for path in wanted))
        return Listing(tuple(item for item in found if item is not None), all(item is not None for item in found))

    async def gather(self, *work: Any) -> list[Any]:
        """Like asyncio.gather, but nothing goes on behind our back after the first failure."""
        tasks = [asyncio.ensure_future(item) for item in work]
        try:
            return await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    def lost(self, path: str, source: str, error: PeerError) -> None:
        """Make a gap of a failed read.

        Raises:
            PeerError: after it no other read can succeed.
        """
        if isinstance(error, FATAL):
            raise error
        if isinstance(error, NoAnswerError):
            self._silent += 1
            if error.code != "timeout" or self._silent >= _SILENT:
                raise error
        self.transient = self.transient or isinstance(error, UnavailableError)
        self.gap(source, path, error.detail)

    def gap(self, source: str, where: str, why: str) -> None:
        """Note once that something could not be looked at."""
        gap = Gap(source, where, why)
        if gap not in self.gaps:
            self.gaps.append(gap)

    async def members(self, path: str | None, source: str, *, levels: int = 1) -> Listing:
        """Every member of a collection as a full object. No link: an empty, incomplete listing without a gap."""
        if path is None:
            return Listing((), False)
        try:
            first = await self._first_page(path, levels)
        except PeerError as error:
            self.lost(path, source, error)
            return Listing((), False)
        inline, complete = await self._pages(path, first, source)
        return await self._filled(inline, complete, source)

    async def below(self, holder: Json, key: str, source: str) -> Listing:
        """Members of the collection that ``holder`` links under ``key``; nothing is asked where they stand inside."""
        inside = holder.get(key)
        found = inside.get("Members") if isinstance(inside, dict) else None
        if not isinstance(inside, dict) or not isinstance(found, list) or not all(_whole(one) for one in found):
            return await self.members(link(holder, key), source)
        inline, complete = await self._pages(link(inside) or key, inside, source)
        return await self._filled(inline, complete, source)

    async def pages(self, path: str, source: str, *, most: int) -> AsyncIterator[list[Json]]:
        """A log page by page, as inlined by the BMC; entries that are only links are read. Cut after ``most`` pages."""
        seen: set[str] = set()
        following: str | None = path
        while following is not None:
            if following in seen or len(seen) >= most:
                why = "its pages go round in circles" if following in seen else f"only {most} pages of it were read"
                self.gap(source, path, why)
                return
            seen.add(following)
            page = await self.optional(following, source)
            if page is None:
                return
            found = page.get("Members")
            if not isinstance(found, list):
                self.gap(source, following, "the collection has no list of members")
                return
            yield list((await self._filled(found, True, source)).members)
            following = next((link(page, key) for key in _NEXT if page.get(key)), None)

    async def _first_page(self, path: str, levels: int) -> Json:
        expanded = self.expand.applied(path, levels)
        if expanded == path:
            return await self.resource(path)
        deep = min(levels, self.expand.levels) > 1
        try:
            return await self.resource(expanded)
        except RefusedError:
            if deep:
                self.expand.levels = 1
                return await self._first_page(path, 1)
            plain = await self.resource(path)
            # A service that refuses what its root offers is not asked that way again.
            self.expand.levels = 0
            return plain
        except (UnavailableError, GarbledError) as error:
            # Expanding is heavy: what is too much at once may still be had one by one.
            if isinstance(error, FATAL) or (isinstance(error, NoAnswerError) and error.code != "timeout"):
                raise
        return await (self._first_page(path, 1) if deep else self.resource(path))

    async def _pages(self, path: str, first: Json, source: str) -> tuple[list[Any], bool]:
        members: list[Any] = []
        page, seen, complete = first, {path}, True
        while True:
            found = page.get("Members")
            if not isinstance(found, list):
                self.gap(source, path, "the collection has no list of members")
                return members, False
            members += found
            following = next((link(page, key) for key in _NEXT if page.get(key)), None)
            if following is None:
                return members, complete
            if following in seen:
                self.gap(source, path, f"its pages go round in circles at {following}")
                return members, False
            seen.add(following)
            if len(seen) > self.session.limits.pages:
                self.gap(source, path, f"more than {self.session.limits.pages} pages; the rest was not read")
                return members, False
            following_page = await self.optional(following, source)
            if following_page is None:
                return members, False
            page = following_page

    async def _filled(self, inline: list[Any], complete: bool, source: str) -> Listing:
        done: dict[str, Json] = {}
        missing: list[str] = []
        for number, member in enumerate(inline):
            if not isinstance(member, dict):
                self.gap(source, f"member {number}", f"a {type(member).__name__} where an object was expected")
                complete = False
                continue
            address = link(member)
            key = unquote(address.rstrip("/")) if address else f"#{number}"
            if _whole(member):
                done.setdefault(key, member)
            elif address and key not in done and address not in missing:
                missing.append(address)
        missing = [address for address in missing if unquote(address.rstrip("/")) not in done]
        rest = await self.all(missing, source)
        return Listing((*done.values(), *rest.members), complete and rest.complete)


def _whole(member: Any) -> bool:
    """True for a member that stands inside its collection, False for a mere link."""
    return isinstance(member, dict) and bool(set(member) - {"@odata.id"})
