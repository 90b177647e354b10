"""The event stream as JSON, one object a line."""

from __future__ import annotations

import json
from typing import TextIO

from provision.model.event import Event


class JsonLines:
    """A sink that writes each event as it is (``event`` names its kind)."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def __call__(self, event: Event) -> None:
        """Write one line and flush it: readers follow a pipe."""
        self._out.write(json.dumps(event.as_dict(), ensure_ascii=True, default=str) + "\n")
        self._out.flush()

    def close(self) -> None:
        """Nothing is held."""
