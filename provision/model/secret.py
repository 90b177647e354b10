"""A value that must never be shown."""

from __future__ import annotations

from dataclasses import dataclass


class Secret:
    """Text whose ``repr``, ``str`` and format are ``***``. ``reveal()`` is the only way to the value.

    Not a dataclass on purpose: ``asdict``, ``vars`` and pickling must not give it away either.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The secret itself, for the one call that needs it."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(("Secret", self._value))

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Secret is not pickled")


@dataclass(frozen=True, slots=True)
class Credential:
    """A user and a password, and the name under which the site knows the pair (``bmc``, ``bmc/dell``)."""

    name: str
    user: str
    password: Secret
