"""The recorded exchanges of a real MAAS 3.6.3, played back on a socket to whoever asks what was asked then.

The recording lies beside the checkout (``../shared/facts``); tests that need it are skipped without it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from aiohttp import web
from maas_region import description

FILE = Path(__file__).parents[4] / "shared" / "facts" / "maas-3.6.3-exchanges.jsonl"


class Recording:
    """The exchanges by name, with numbers and system ids in the places of their placeholders."""

    def __init__(self, file: Path = FILE) -> None:
        self.by_name: dict[str, dict[str, Any]] = {}
        self._numbers: dict[str, int] = {}
        for line in file.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            self.by_name[one["id"]] = self._filled(one)

    def value(self, placeholder: str) -> Any:
        """What stands for ``{m1}`` (a text) or ``{m1.if0}`` (a number)."""
        name = placeholder.strip("{}")
        if re.fullmatch(r"m\d+", name):
            return f"sys{name}"
        return self._numbers.setdefault(name, 1000 + len(self._numbers))

    def body(self, name: str) -> Any:
        """The body of an answer."""
        return self.by_name[name]["response"]["body"]

    def _filled(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._filled(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._filled(one) for one in value]
        if not isinstance(value, str) or not re.search(r"\{[a-z]+\d*[.\w/-]*\}", value):
            return value
        if re.fullmatch(r"\{[^{}]+\}", value) and value not in {"{nonce}", "{timestamp}"}:
            return self.value(value)
        return re.sub(r"\{[a-z]+\d*[.\w/-]*\}", lambda found: str(self.value(found[0])), value)


class Player:
    """Answers one client request per entry of ``play``, in order, and complains of any other request.

    An entry is an exchange's name. ``M120*`` puts the recorded machine into a list: the client polls by ``id=``, the
    recording read the machine alone. ``M049?`` does not compare what was asked.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.play: list[str] = []
        self.complaints: list[str] = []
        self.forms: list[dict[str, str]] = []

    def app(self) -> web.Application:
        """The server."""
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._serve)
        return app

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path = unquote(request.path.partition("/api/2.0/")[2])
        if path == "describe/":
            return web.json_response(description("http://not.here"))
        query = parse_qsl(request.query_string, keep_blank_values=True)
        form = parse_qsl((await request.read()).decode(), keep_blank_values=True)
        self.forms.append(dict(form))
        if not self.play:
            self.complaints.append(f"{request.method} {path} {query} was not expected")
            return web.Response(status=418)
        entry = self.play.pop(0)
        exchange = self.recording.by_name[entry.rstrip("*?")]
        if entry[-1] not in "*?":
            self._compare(entry, exchange["request"], (request.method, path, query, form))
        return _answer(exchange["response"], as_list=entry.endswith("*"))

    def _compare(self, name: str, recorded: dict[str, Any], asked: tuple[str, str, Any, Any]) -> None:
        def plain(path: str, query: Any, form: Any) -> tuple[str, set[tuple[str, str]], set[tuple[str, str]]]:
            found = re.fullmatch(r"(.*/)op-(\w+)", path)
            pairs = {(str(key), str(value)) for key, value in query}
            path, pairs = (found[1], pairs | {("op", found[2])}) if found else (path, pairs)
            return path, pairs, {(str(key), str(value)) for key, value in form if key not in {"comment", "erase"}}

        method, path, query, form = asked
        then = plain(recorded["path"], recorded["query"], recorded.get("form", []))
        now = plain(path, query, form)
        if (method, *then[:2]) != (recorded["method"], *now[:2]) or not now[2] <= then[2]:
            self.complaints.append(f"{name}: recorded {recorded['method']} {then}, asked {method} {now}")


def _answer(recorded: dict[str, Any], *, as_list: bool) -> web.Response:
    body, kind = recorded.get("body"), recorded["content_type"].partition(";")[0]
    shown = json.dumps([body] if as_list else body) if kind.endswith("/json") else body or ""
    headers = dict(recorded["headers"]) | ({"Content-Type": kind} if kind else {})
    return web.Response(status=recorded["status"], body=shown.encode(), headers=headers)
