"""Writing with If-Match, as far as a service wants it."""

from __future__ import annotations

from provision.adapters.redfish.answers import Answer, Json, etags
from provision.adapters.redfish.session import RedfishSession

# Makers that complain of the tag with another status than 412 and 428.
_TAG_IDS = {"SYS404", "PreconditionHeaderMissing", "PreconditionRequired", "PreconditionFailed"}


async def patch_with_tag(session: RedfishSession, path: str, seen: Answer, body: Json) -> Answer:
    """PATCH with the tags of the answer just read; 412 and 428 did nothing, so the next tag may be tried.

    Ladder of R20: fresh tag, its strong form, a tag read again, no tag at all.
    """
    waiting: list[str | None] = [*etags(seen)] or [None]
    tried: set[str | None] = set()
    while True:
        tag = waiting.pop(0)
        tried.add(tag)
        reply = await session.send("PATCH", path, body, etag=tag)
        if reply.status not in {412, 428} and not {message.id for message in reply.messages()} & _TAG_IDS:
            return reply
        if len(tried) == 1:
            waiting = [*etags(await session.get(path)), *waiting]
        waiting = [tag for tag in dict.fromkeys(waiting) if tag not in tried]
        last_resort = None if reply.status == 412 and tag is not None else "*"
        if not waiting and last_resort in tried:
            return reply
        waiting = waiting or [last_resort]
