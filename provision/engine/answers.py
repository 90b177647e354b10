"""A peer's answer, or the lack of one, as evidence: ``bmc/answer`` and ``ssh/answer``."""

from __future__ import annotations

from datetime import datetime

from provision.errors import CredentialRefusedError, GarbledError, PeerError, UnavailableError
from provision.model.evidence import Evidence, Gap, Part, PartKind, Reading, Severity


def peer_of(error: PeerError) -> str:
    """Whom the error speaks of: ``bmc``, ``maas``, ``ssh`` or ``playbooks``."""
    first = error.peer.split(" ", 1)[0].lower()
    return {"bmc": "bmc", "maas": "maas", "host": "ssh"}.get(first, "playbooks")


def kind_of(error: PeerError) -> str:
    """``unavailable``, ``credential``, ``refused`` or ``garbled``."""
    match error:
        case UnavailableError():
            return "unavailable"
        case CredentialRefusedError():
            return "credential"
        case GarbledError():
            return "garbled"
        case _:
            return "refused"


def answer_evidence(node: str, error: PeerError, seen_at: datetime) -> tuple[Evidence, ...]:
    """What the error says of the peer itself; nothing for MAAS and playbooks, which are no part of the node."""
    peer = peer_of(error)
    if peer not in {"bmc", "ssh"}:
        return ()
    text = f"{error}; it sent {error.payload!r}" if isinstance(error, GarbledError) and error.payload else str(error)
    return (_answer(node, peer, seen_at, error=kind_of(error), text=text, code=error.code),)


def well(node: str, peer: str, seen_at: datetime) -> Evidence:
    """The peer answered."""
    return _answer(node, peer, seen_at)


def answer_gap(error: PeerError) -> Gap:
    """What could not be looked at because of the error."""
    return Gap(peer_of(error), f"{error.peer}: {error.operation}", error.detail)


def _answer(
    node: str, peer: str, at: datetime, *, error: str = "", text: str = "", code: str | None = None
) -> Evidence:
    part = Part(PartKind.BMC, "BMC", "BMC port") if peer == "bmc" else Part(PartKind.NODE, node, node)
    reading = Reading.OK if not error else Reading.DOWN if error == "unavailable" else Reading.FAILED
    return Evidence(
        node=node,
        part=part,
        reading=reading,
        source=f"{peer}/answer",
        seen_at=at,
        text=text,
        code=code,
        severity=Severity.CRITICAL if error else Severity.INFO,
        values={"error": error} if error else {},
    )
