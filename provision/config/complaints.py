"""Many complaints at once, each one line, each saying where, what was expected and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from provision.errors import MisconfiguredError

_SHOWN_HOSTS = 3
_SHOWN_CHARACTERS = 60
_NEVER_SHOWN = {"password", "key", "bmc_password", "store_password"}
_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


class InventoryError(MisconfiguredError):
    """The inventory (or a file to import) is wrong. ``complaints`` are sorted; ``str()`` is one a line."""

    def __init__(self, complaints: Iterable[str]) -> None:
        self.complaints = tuple(sorted(set(complaints)))
        super().__init__("\n".join(self.complaints))


class Complaints:
    """Collects complaints; the same one about many hosts becomes one line."""

    def __init__(self) -> None:
        self._plain: set[str] = set()
        self._hosts: dict[str, list[str]] = {}

    def add(self, text: str) -> None:
        """A complaint that names its place itself."""
        self._plain.add(text)

    def host(self, name: str, text: str) -> None:
        """A complaint about a variable of one host."""
        hosts = self._hosts.setdefault(text, [])
        if name not in hosts:
            hosts.append(name)

    def lines(self) -> tuple[str, ...]:
        """All of them, sorted."""
        return tuple(sorted({*self._plain, *(f"{_hosts(names)}: {text}" for text, names in self._hosts.items())}))

    def raise_if_any(self) -> None:
        """Raises InventoryError when there is a complaint."""
        if lines := self.lines():
            raise InventoryError(lines)


def _hosts(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"host {names[0]}"
    listed = ", ".join(sorted(names)[:_SHOWN_HOSTS])
    return f"{len(names)} hosts ({listed}{', …' if len(names) > _SHOWN_HOSTS else ''})"


def near(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """``; did you mean bmc_address?`` or an empty text."""
    matches = difflib.get_close_matches(word, sorted(known), n=3, cutoff=cutoff)
    return f"; did you mean {' or '.join(matches)}?" if matches else ""


def shown(value: object) -> str:
    """A value as a complaint may show it: one short line without control characters."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def sentences(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Each error of pydantic as ``variable: what is wrong: what was expected``."""
    return [_sentence(item, model) for item in error.errors(include_url=False)]


def _sentence(item: Mapping[str, Any], model: type[BaseModel]) -> str:
    loc = tuple(part for part in item["loc"] if part != "[key]")
    where, kind = _path(loc), str(item["type"])
    secret = bool(loc) and str(loc[-1]) in _NEVER_SHOWN
    found = "a value that is not shown" if secret else shown(item["input"])
    expected = _expected(loc, model)
    if kind == "missing":
        return f"{where} is missing" + (f": expected {expected}" if expected else "")
    if kind == "extra_forbidden":
        known = _known(loc[:-1], model)
        return f"{where} is not known{near(str(loc[-1]), known) or '; known are ' + ', '.join(sorted(known))}"
    if kind in {"value_error", "assertion_error"}:
        return f"{where}: {item['ctx']['error']}"
    if kind in {"literal_error", "enum"}:
        return f"{where}: expected one of {item['ctx']['expected']}, found {found}".replace("'", "")
    if kind == "string_type" and isinstance(item["input"], int | float):
        return f"{where}: expected text, found the number {found}: put the value in quotes (YAML read it as a number)"
    if kind in _KINDS:
        return f"{where}: expected {_KINDS[kind]}{f' ({expected})' if expected else ''}, found {found}"
    return f"{where}: {_lower(str(item['msg']))}, found {found}"


def _lower(text: str) -> str:
    return (text[:1].lower() + text[1:]).replace("input should be", "expected a value").replace("Value error, ", "")


def _path(loc: Sequence[object]) -> str:
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".") or "value"


def _walk(loc: Sequence[object], model: type[BaseModel]) -> type[BaseModel] | None:
    """The model at the end of ``loc``; list places and mapping keys are stepped over."""
    here: type[BaseModel] | None = model
    for part in loc:
        if here is None:
            return None
        field = here.model_fields.get(str(part))
        if field is not None:
            here = _model_in(field.annotation)
    return here


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        if (inner := _model_in(argument)) is not None:
            return inner
    return None


def _known(loc: Sequence[object], model: type[BaseModel]) -> set[str]:
    here = _walk(loc, model)
    return set(here.model_fields) if here is not None else set()


def _expected(loc: Sequence[object], model: type[BaseModel]) -> str:
    here = _walk(loc[:-1], model) if loc else None
    field = here.model_fields.get(str(loc[-1])) if here is not None else None
    return (field.description or "") if field is not None else ""
