"""Whether a node's clock has to be set before anything is fetched over TLS or checked for its age. Pure."""

from __future__ import annotations


def decide(ours, theirs, tolerance_s):
    """Seconds to move the clock by, and a sentence. ``ours`` is the node's time, ``theirs`` the controller's.

    ``theirs`` is a little old when it arrives, never young: being behind by the way it took is no fault.
    """
    behind = theirs - ours
    if abs(behind) <= tolerance_s:
        return 0.0, ""
    return behind, f"{words(abs(behind))} {'behind' if behind > 0 else 'ahead of'} the controller"


def words(seconds):
    """``3.0 days``, ``2.5 h``, ``40 s``."""
    if seconds >= 2 * 86400:
        return f"{seconds / 86400:.1f} days"
    return f"{seconds / 3600:.1f} h" if seconds >= 2 * 3600 else f"{seconds:.0f} s"
