"""Configuration jobs: those of others, which are named and left alone, and those that a BMC makes of our override.

Some BMCs queue a BIOS job for an override (R660 when the mode is named although it is unchanged, 13G for every UEFI
override; case R16). The host then starts once more than was asked for; whoever waits for it must know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from provision.adapters.redfish.answers import Answer, Json
from provision.adapters.redfish.problems import FATAL
from provision.adapters.redfish.service import Service
from provision.adapters.redfish.values import last_segment, link, text
from provision.adapters.redfish.walk import Reader
from provision.errors import PeerError

SOURCE = "redfish/host"
_OPEN = {
    "new", "scheduled", "scheduling", "running", "downloading", "downloaded", "readyforexecution", "waiting", "pending",
    "starting", "rebootpending", "rebootcompleted", "pendingactivation", "paused", "suspended",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Job:
    """One job that is not over. ``kind`` and ``state`` are the BMC's words, empty where it does not say."""

    name: str
    kind: str
    state: str

    def __str__(self) -> str:
        return " ".join(word for word in (self.name, self.kind, self.state) if word)


def open_jobs(resources: Iterable[Json]) -> tuple[Job, ...]:
    """Jobs and tasks that wait or run; pure."""
    found = []
    for one in resources:
        state = text(one, "JobState") or text(one, "TaskState") or ""
        if state.lower().replace(" ", "") in _OPEN:
            name = text(one, "Id") or last_segment(link(one) or "")
            found.append(Job(name, text(one, "JobType") or "", state))
    return tuple(found)


async def read_jobs(reader: Reader, service: Service) -> tuple[Job, ...]:
    """What waits in the job queue; nothing for services without one. What cannot be read is a gap."""
    if not service.quirks.jobs or service.manager is None:
        return ()
    listing = await reader.members(f"{service.manager.rstrip('/')}/{service.quirks.jobs}", SOURCE)
    return open_jobs(listing.members)


@dataclass(slots=True)
class JobWatch:
    """Tells the jobs that came of our own override from those that were there before. Nothing is ever cleared.

    It looks once after an override was sent, and again for as long as a job of it is open.
    """

    _before: set[str] = field(default_factory=set)
    _tasks: set[str] = field(default_factory=set)
    _looking: bool = False

    def knew(self, jobs: Iterable[Job]) -> None:
        """These wait already."""
        self._before |= {job.name for job in jobs}

    def sent(self, reply: Answer) -> None:
        """An override went out and was accepted; an answer may name the task that it has become."""
        self._looking = True
        place = reply.headers.get("location", "")
        if reply.status == 202 and place.startswith("/"):
            self._tasks.add(place)

    async def look(self, reader: Reader, service: Service) -> tuple[str, ...]:
        """Open jobs of our override, as shown to people. One that cannot be looked at is looked at again next time."""
        if not self._looking:
            return ()
        try:
            queue = await read_jobs(reader, service)
            tasks = await reader.all(sorted(self._tasks), SOURCE)
        except FATAL:
            raise
        except PeerError:
            return ()
        made = (*open_jobs(tasks.members), *(job for job in queue if job.name not in self._before))
        found = {job.name: job for job in made}
        self._looking = bool(found) or bool(reader.gaps)
        return tuple(str(job) for job in found.values())
