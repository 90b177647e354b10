"""Stops a rack, power feed, profile or image in which one node after another fails.

The narrowest place that holds the failures is stopped: a feed before its rack, a rack before what all racks share, so
that other racks go on. A node counts once, with how it ended last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from provision.model.node import Node
from provision.model.profile import Profile
from provision.model.site import BreakerRule
from provision.model.slot import Tally
from provision.ports import Gates
from provision.triage.scene import pdu_of


@dataclass(frozen=True, slots=True)
class Outcomes:
    """How nodes ended in one place: the newest of each, oldest first."""

    failed: tuple[str, ...]
    total: int


class Brakes:
    """The breaker of one run over the book that all runs share."""

    def __init__(
        self,
        rule: BreakerRule,
        nodes: Sequence[Node],
        profiles: Mapping[str, Profile],
        gates: Gates,
        run: str,
        pace: float,
    ) -> None:
        self._rule = rule
        self._nodes = {node.name: node for node in nodes}
        self._profiles = profiles
        self._gates = gates
        self._run = run
        self._within_s = rule.within_s * pace
        self._members: dict[str, set[str]] = {}
        for node in nodes:
            for place in self.places(node):
                self._members.setdefault(place, set()).add(node.name)
        self._failed: dict[str, set[str]] = {}
        self.open: set[str] = set()

    def places(self, node: Node) -> tuple[str, ...]:
        """Under which names the node may be stopped: its feeds, its rack, its profile, its image."""
        profile = self._profiles[node.profile]
        feeds = dict.fromkeys(f"feed {pdu_of(feed)}" for feed in node.power_feeds)
        return (*feeds, f"rack {node.rack}", f"profile {profile.name}", f"image {profile.image}")

    def failures(self, place: str) -> int:
        """How many failed there of late. They keep their room, so that no other node walks into the same fault."""
        return len(self._failed.get(place, ()))

    async def look(self) -> None:
        """Forget what somebody has resumed meanwhile."""
        stopped = {brake.place for brake in await self._gates.brakes()}
        for place in self.open - stopped:
            gone = set(self._failed.get(place, ()))
            self._failed = {name: failed - gone for name, failed in self._failed.items()}
        self.open = stopped

    async def tell(self, node: Node, stage: str, *, ok: bool, why: str) -> list[str]:
        """Count how an operation ended; sentences about what is stopped for it."""
        places = self.places(node)
        tallies = await self._gates.tally(self._run, node.name, stage, places, ok=ok, within_s=self._within_s)
        found = {place: self._outcomes(place, tallies) for place in places}
        for place, outcomes in found.items():
            self._failed[place] = set(outcomes.failed)
        said = []
        for place in () if ok else self._candidates(places):
            failed = self._counted(place, found[place].failed)
            if len(failed) <= self._rule.max_fail or (self._is_wide(place) and len(self._racks(failed)) < 2):
                continue
            text = f"{self._words(place, failed, found)}; the last: {node.name} at {stage}: {why}"
            self.open.add(place)
            if await self._gates.brake(self._run, place, text):
                said.append(
                    f"{place} is stopped: {text}. What is begun goes on, other places too; "
                    f"to go on there: provision resume '{place}'"
                )
        return said

    def _candidates(self, places: Sequence[str]) -> Iterator[str]:
        """The node's places, narrow before wide; of several that hold the very same nodes only the rack."""
        rack = next(place for place in places if place.startswith("rack "))
        for place in places:
            same = self._members.get(place) == self._members.get(rack)
            if place == rack or not same:
                yield place

    def _outcomes(self, place: str, tallies: Sequence[Tally]) -> Outcomes:
        newest = {item.node: item for item in tallies if item.place == place}
        recent = sorted(newest.values(), key=lambda item: item.at)[-2 * (self._rule.max_fail + 1) :]
        return Outcomes(tuple(item.node for item in recent if not item.ok), len(recent))

    def _counted(self, place: str, failed: Sequence[str]) -> list[str]:
        """Failures that no narrower place is stopped for already."""
        return [
            name
            for name in failed
            if name not in self._nodes or not (self.open - {place}).intersection(self.places(self._nodes[name]))
        ]

    def _racks(self, names: Sequence[str]) -> set[str]:
        return {self._nodes[name].rack for name in names if name in self._nodes}

    @staticmethod
    def _is_wide(place: str) -> bool:
        return place.startswith(("profile ", "image "))

    def _words(self, place: str, failed: Sequence[str], found: Mapping[str, Outcomes]) -> str:
        """``4 of 4 on pdu-12a; all of image jammy``: the place first, then what else the failed ones share."""
        shared = Counter(other for name in failed if name in self._nodes for other in self.places(self._nodes[name]))
        also = [other for other, count in shared.items() if count == len(failed) and other != place]
        text = f"{len(failed)} of {found[place].total} failed on {place}"
        return f"{text}, all of them on {', '.join(also)}" if also else text
