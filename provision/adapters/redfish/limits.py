"""How patient and how gentle the client is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BmcLimits:
    """How patient and how gentle we are with one BMC. Seconds, unless said otherwise.

    ``connect_s`` bounds a TCP connection, ``request_s`` one request, ``operation_s`` everything a read does with its
    retries, ``logout_s`` the goodbye. ``connections`` is also the number of requests in flight. ``pause_s`` is the
    wait before a read is repeated where the BMC names none. ``allow_basic`` lets a run go on without a session when
    the BMC's table is full. ``conflict_s`` is how long a button is pressed against a 409 after power-off.
    ``contact_gap_s`` lies between the first requests of one process to different BMCs.
    """

    connect_s: float = 10.0
    request_s: float = 60.0
    operation_s: float = 180.0
    logout_s: float = 10.0
    connections: int = 2
    attempts: int = 5
    pause_s: float = 3.0
    pages: int = 40
    conflict_s: float = 60.0
    allow_basic: bool = True
    contact_gap_s: float = 0.001
