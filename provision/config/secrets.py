"""Secrets are references, resolved when they are needed: ``env:NAME``, ``file:PATH``, ``cmd:PROGRAM …``, Vault."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from provision.config.listing import run_ansible
from provision.errors import MisconfiguredError
from provision.model.secret import Secret

_COMMAND_DEADLINE_S = 30.0
_FORMS = "env:NAME, file:PATH, cmd:PROGRAM … or an Ansible Vault value"
# Shorter texts occur by chance in every log; replacing them would shred it.
_SHORTEST_SCRUBBED = 4


class SecretRef:
    """Where one secret is to be found. ``resolve()`` fetches it once and keeps it; ``repr`` never shows it.

    ``variable`` names the setting for messages. A relative ``file:`` path is relative to ``base``.
    """

    __slots__ = ("_base", "_kept", "_text", "_vaulted", "variable")

    def __init__(self, variable: str, text: str, *, base: Path, vaulted: bool = False) -> None:
        self.variable = variable
        self._text = text
        self._base = base
        self._vaulted = vaulted
        self._kept: Secret | None = None

    @classmethod
    def parse(cls, variable: str, value: object, *, base: Path) -> SecretRef:
        """Read what the inventory says.

        Args:
            value: a reference, a plain text (the caller has made sure that it came from Vault), or the
                ``{"__ansible_vault": …}`` that ``ansible-inventory`` prints for a ``!vault`` value.

        Raises:
            ValueError: not a text or empty; the sentence holds no part of the value.
        """
        if isinstance(value, Mapping) and set(value) == {"__ansible_vault"}:
            return cls(variable, str(value["__ansible_vault"]), base=base, vaulted=True)
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"expected {_FORMS}")
        scheme, _, rest = value.partition(":")
        if scheme in {"env", "file", "cmd"} and not rest.strip():
            raise ValueError(f"nothing stands after {scheme}:; expected {_FORMS}")
        return cls(variable, value, base=base)

    @property
    def scheme(self) -> str:
        """``env``, ``file``, ``cmd``, ``vault`` (a ``!vault`` value) or ``plain`` (from an encrypted file)."""
        if self._vaulted:
            return "vault"
        scheme = self._text.partition(":")[0]
        return scheme if scheme in {"env", "file", "cmd"} else "plain"

    @property
    def same_as(self) -> tuple[str, str]:
        """Equal for references that give one value, for grouping only. Never shown."""
        return self.scheme, self._text

    def resolve(self) -> Secret:
        """Fetch the secret.

        Raises:
            MisconfiguredError: it is not there, empty, or others can read its file.
        """
        if self._kept is None:
            value = self._fetch()
            if not value:
                raise MisconfiguredError(f"{self.variable}: {self} gave an empty value; put the secret there")
            if "\0" in value or "\n" in value:
                raise MisconfiguredError(f"{self.variable}: {self} gave more than one line; one line was expected")
            self._kept = Secret(value)
        return self._kept

    @property
    def resolved(self) -> Secret | None:
        """The value, if somebody has asked for it already."""
        return self._kept

    def _fetch(self) -> str:
        rest = self._text.partition(":")[2]
        match self.scheme:
            case "env":
                return self._environment(rest)
            case "file":
                return self._file(rest)
            case "cmd":
                return self._command(rest)
            case "vault":
                return self._vault()
            case _:
                return self._text

    def _environment(self, name: str) -> str:
        if name not in os.environ:
            raise MisconfiguredError(f"{self.variable}: the environment has no {name}; set it or change {self}")
        return os.environ[name]

    def _file(self, name: str) -> str:
        path = self._base / Path(name).expanduser()
        try:
            with path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                if not stat.S_ISREG(mode):
                    raise MisconfiguredError(f"{self.variable}: {path} is not a file; expected a file with the secret")
                if mode & 0o077:
                    raise MisconfiguredError(
                        f"{self.variable}: {path} can be read by others (mode {stat.S_IMODE(mode):04o}); "
                        f"close it with: chmod 600 {path}"
                    )
                return file.read(65536).decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise MisconfiguredError(f"{self.variable}: {path} is not UTF-8 text; expected one line") from None
        except OSError as error:
            raise MisconfiguredError(
                f"{self.variable}: cannot read {path}: {error.strerror}; make the file or change the reference"
            ) from None

    def _command(self, line: str) -> str:
        try:
            argv = shlex.split(line)
        except ValueError as error:
            raise MisconfiguredError(f"{self.variable}: cmd: is not a command line: {error}") from None
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMMAND_DEADLINE_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise MisconfiguredError(f"{self.variable}: {self} gave no answer in {_COMMAND_DEADLINE_S:g} s") from None
        except OSError as error:
            raise MisconfiguredError(f"{self.variable}: cannot start {self}: {error.strerror}") from None
        if done.returncode != 0:
            raise MisconfiguredError(f"{self.variable}: {self} ended with status {done.returncode}; run it by hand")
        return done.stdout.decode("utf-8", "replace").rstrip("\r\n")

    def _vault(self) -> str:
        done = run_ansible("ansible-vault", "decrypt", "--output", "-", "-", stdin=self._text)
        if done.status != 0:
            raise MisconfiguredError(
                f"{self.variable}: Ansible Vault could not decrypt it; "
                f"set ANSIBLE_VAULT_PASSWORD_FILE to its password file"
            )
        return done.stdout.rstrip("\r\n")

    def __repr__(self) -> str:
        rest = self._text.partition(":")[2]
        match self.scheme:
            case "env" | "file":
                return f"{self.scheme}:{rest}"
            case "cmd":
                # Arguments may hold a token.
                return f"cmd:{rest.split()[0]} …"
            case scheme:
                return f"{scheme}:***"

    __str__ = __repr__

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a SecretRef is not pickled")


def scrubber(secrets: Iterable[Secret]) -> Callable[[str], str]:
    """A function that replaces every secret by ``***``; parts of a MAAS key (``a:b:c``) count as secrets too."""
    words: set[str] = set()
    for secret in secrets:
        value = secret.reveal()
        parts = value.split(":") if value.count(":") == 2 else []
        words.update(word for word in (value, *parts) if len(word) >= _SHORTEST_SCRUBBED)
    ordered = sorted(words, key=len, reverse=True)

    def scrub(text: str) -> str:
        for word in ordered:
            if word in text:
                text = text.replace(word, "***")
        return text

    return scrub
