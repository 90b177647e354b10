"""The store itself: what is in it, whether it is whole, how it is kept small, and into another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from provision.app.wiring import Wiring
from provision.config.secrets import SecretRef
from provision.errors import MisconfiguredError
from provision.store import moving, upkeep
from provision.store.database import Database
from provision.store.opening import open_database


def _now() -> datetime:
    return datetime.now(UTC)


class Upkeep:
    """The store of a site, opened for one command."""

    def __init__(self, wiring: Wiring, source: str | None = None) -> None:
        self._wiring = wiring
        self._database = self._open(source)

    @classmethod
    def open(cls, inventory: Path, state: Path, source: str | None = None) -> Self:
        """The store in use; ``source``: another one, as ``store`` would name it."""
        return cls(Wiring(inventory, state), source)

    def close(self) -> None:
        """Release it."""
        self._database.close()

    def _open(self, other: str | None, password: str | None = None) -> Database:
        settings = self._wiring.settings
        ref = _reference(password) if password is not None else settings.store_password
        secret = ref.resolve() if ref is not None else None
        return open_database(other or settings.store or self._wiring.state, password=secret)

    def info(self) -> dict[str, Any]:
        """What is stored."""
        return asdict(upkeep.info(self._database, _now()))

    def check(self) -> tuple[str, ...]:
        """What is wrong with it."""
        return upkeep.check(self._database)

    def prune(self, *, days: float | None, keep: int | None, dry_run: bool) -> Mapping[str, int]:
        """Delete old history and evidence; rows of each table. The space goes back to the file system."""
        before = _now() - timedelta(days=days) if days is not None else None
        gone = upkeep.prune(self._database, before=before, keep=keep, dry_run=dry_run)
        if not dry_run and any(gone.values()):
            self._database.compact()
        return gone

    def move(self, to: str, *, password: str | None) -> Mapping[str, int]:
        """Copy everything into another store. ``password``: a reference to the target's, if it is not the site's."""
        target = self._open(to, password)
        try:
            return moving.move(self._database, target, _now)
        finally:
            target.close()


def _reference(text: str) -> SecretRef:
    try:
        found = SecretRef.parse("--to-password", text, base=Path.cwd())
    except ValueError as error:
        raise MisconfiguredError(f"--to-password: {error}") from None
    if found.scheme == "plain":
        raise MisconfiguredError(
            "--to-password: expected env:NAME, file:PATH or cmd:PROGRAM …: others would see a password typed there"
        )
    return found
