"""Who may talk to a BMC: sessions with their limit, Basic, and the block after bad logins."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import time
from collections import deque
from dataclasses import dataclass, field

from provision.sim.bmc.answers import AnswerError
from provision.sim.bmc.shapes import ROOT, Resource, collection, resource
from provision.sim.machine import SimMachine

SESSIONS = f"{ROOT}/SessionService/Sessions"
# WebServer.1.MaxNumberOfSessions, SessionTimeout and IPBlocking.1.* of an iDRAC9 7.10.30.
MOST_SESSIONS = 8
IDLE_S = 1800.0
FAIL_COUNT = 3
FAIL_WINDOW_S = 60.0
PENALTY_S = 60.0


@dataclass
class Session:
    """One login. ``used`` is monotonic time."""

    number: int
    user: str
    token: str
    used: float = field(default_factory=time.monotonic)

    @property
    def path(self) -> str:
        """Its resource."""
        return f"{SESSIONS}/{self.number}"

    def resource(self) -> Resource:
        """As Redfish shows it."""
        return resource(self.path, "Session", "1_6_0", "User Session", UserName=self.user)


class Doorkeeper:
    """Sessions of one BMC. Idle time runs in true time, because clients do not keep theirs by the world's clock."""

    def __init__(self, machine: SimMachine) -> None:
        self._machine = machine
        self._next = 1
        self.sessions: dict[str, Session] = {}
        self._failures: dict[str, deque[float]] = {}
        self._blocked: dict[str, float] = {}

    def blocked(self, address: str) -> bool:
        """True while this client address gets no service."""
        return self._machine.world.clock.seconds() < self._blocked.get(address, 0.0)

    def log_in(self, user: object, password: object, address: str) -> Session:
        """Open a session. Raises AnswerError: 401 for a wrong password, 503 when all sessions are taken."""
        self._check(user, password, address)
        self._expire()
        if len(self.sessions) >= MOST_SESSIONS:
            self._machine.sessions["full"] += 1
            raise AnswerError(503, "RAC0218", "All user sessions are taken.", severity="Informational")
        session = Session(self._next, str(user), secrets.token_hex(16))
        self._next += 1
        self.sessions[session.token] = session
        self._machine.sessions["login"] += 1
        return session

    def log_out(self, path: str) -> bool:
        """Close the session of this path; False if there is none."""
        for token, session in self.sessions.items():
            if session.path == path:
                del self.sessions[token]
                self._machine.sessions["logout"] += 1
                return True
        return False

    def admit(self, token: str | None, authorization: str | None, address: str) -> None:
        """Let a request in by its token or by Basic. Raises AnswerError 401."""
        self._expire()
        if token is not None and (session := self.sessions.get(token)) is not None:
            session.used = time.monotonic()
            return
        if token is None and authorization is not None and authorization.startswith("Basic "):
            try:
                user, _, password = base64.b64decode(authorization[6:], validate=True).decode().partition(":")
            except (binascii.Error, UnicodeDecodeError):
                raise _unknown() from None
            self._check(user, password, address)
            return
        text = "There is no valid session for this token."
        raise AnswerError(401, "Base.1.12.NoValidSession", text, severity="Critical")

    def forget(self) -> None:
        """The BMC restarts: all sessions are gone."""
        self.sessions.clear()

    def collection(self) -> Resource:
        """The sessions as Redfish shows them."""
        return collection(SESSIONS, "Session", "Session Collection", [s.path for s in self.sessions.values()])

    def by_path(self, path: str) -> Session | None:
        """The session of this path."""
        return next((session for session in self.sessions.values() if session.path == path), None)

    def _check(self, user: object, password: object, address: str) -> None:
        world = self._machine.world
        right = str(user) == world.bmc_user and hmac.compare_digest(str(password), world.bmc_password)
        if right:
            self._failures.pop(address, None)
            return
        self._machine.sessions["refused"] += 1
        failures = self._failures.setdefault(address, deque(maxlen=FAIL_COUNT))
        failures.append(time.monotonic())
        if len(failures) == FAIL_COUNT and failures[-1] - failures[0] <= FAIL_WINDOW_S:
            self._blocked[address] = world.clock.seconds() + PENALTY_S
            failures.clear()
        raise _unknown()

    def _expire(self) -> None:
        oldest = time.monotonic() - IDLE_S
        self.sessions = {token: session for token, session in self.sessions.items() if session.used > oldest}


def _unknown() -> AnswerError:
    return AnswerError(401, "SYS415", "The user name or the password is not valid.")
