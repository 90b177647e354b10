"""Site settings: the group var ``provision``. Addresses of services and references to secrets live here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from provision.config.profile import Strict, Text
from provision.config.secrets import SecretRef
from provision.errors import MisconfiguredError
from provision.model.node import Node
from provision.model.secret import Credential
from provision.model.site import BreakerRule, CanaryRule, Limits, PowerBy, Site

_LIMITS, _CANARY, _BREAKER = Limits(), CanaryRule(), BreakerRule()
StageName = Literal["discover", "preflight", "enlist", "commission", "deploy", "configure", "accept"]


@dataclass(frozen=True, slots=True)
class MaasSettings:
    """Where MAAS is. ``url`` ends before ``/api``: ``http://maas.site:5240/MAAS``. ``proxy`` None: no proxy."""

    url: str
    key: SecretRef
    ca_file: Path | None = None
    proxy: str | None = None


@dataclass(frozen=True, slots=True)
class BmcLogin:
    """A user and where its password is. ``name`` is the same for all nodes that share the pair."""

    name: str
    user: str
    password: SecretRef


@dataclass(frozen=True, slots=True)
class SshSettings:
    """How deployed hosts are reached. ``key_file`` is our private key (mode 0600)."""

    user: str = "ubuntu"
    key_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Repository:
    """One apt repository of the site's mirror. ``suite`` ends with ``/`` for a flat one; ``key_file`` is armoured."""

    name: str
    url: str
    suite: str = "./"
    components: tuple[str, ...] = ()
    key_file: Path | None = None
    avoid: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """What hosts install from, and how much of it at once. Rates are megabits a second; ``mbit_s`` None: no limit."""

    repositories: tuple[Repository, ...] = ()
    mbit_s: float | None = None
    host_mbit_s: float = 1000.0

    @property
    def slots(self) -> int:
        """How many hosts may download at once; 0 for no limit."""
        return 0 if self.mbit_s is None else max(1, int(self.mbit_s // self.host_mbit_s))

    @property
    def host_kbytes_s(self) -> int:
        """The most that one host downloads, in kilobytes a second; 0 for no limit."""
        return 0 if self.mbit_s is None else max(1, int(min(self.host_mbit_s, self.mbit_s) * 125))


@dataclass(frozen=True, slots=True)
class WaveSettings:
    """How playbooks run. More than ``canary_above`` waiting hosts: one goes first; 0 for never."""

    max_hosts: int = 128
    canary_above: int = 8


@dataclass(frozen=True)
class Settings:
    """What one site is set to. ``site`` is the part that the core may know; all paths are absolute.

    ``bmc_overrides`` maps node names to the login that ``bmc_user``/``bmc_password`` gave them; other nodes use
    ``bmc``. ``playbook`` None means the built-in one; ``store`` None means SQLite in the state directory, and
    ``store_password`` None that libpq looks for the password of a server (PGPASSFILE, ~/.pgpass).
    """

    inventory: Path
    site: Site = field(default_factory=Site)
    maas: MaasSettings | None = None
    bmc: BmcLogin | None = None
    bmc_overrides: Mapping[str, BmcLogin] = field(default_factory=dict)
    ssh: SshSettings = field(default_factory=SshSettings)
    playbook: Path | None = None
    ntp: tuple[str, ...] = ()
    apt_proxy: str | None = None
    ca_certificates: tuple[Path, ...] = ()
    store: str | None = None
    rules: Path | None = None
    mirror: MirrorSettings | None = None
    waves: WaveSettings = field(default_factory=WaveSettings)
    store_password: SecretRef | None = None

    def need_maas(self) -> MaasSettings:
        """MAAS's settings, for commands that cannot do without.

        Raises:
            MisconfiguredError: the inventory has none.
        """
        if self.maas is None:
            raise MisconfiguredError(
                f"group var provision: maas is missing in {self.inventory}: expected a mapping with url and key"
            )
        return self.maas

    def secret_refs(self) -> Iterator[SecretRef]:
        """Every reference to a secret, for scrubbing what leaves the program."""
        if self.maas is not None:
            yield self.maas.key
        if self.bmc is not None:
            yield self.bmc.password
        yield from (login.password for login in self.bmc_overrides.values())
        if self.store_password is not None:
            yield self.store_password


def credential_for(settings: Settings, node: Node) -> Credential:
    """The BMC's user and password for one node, fetched now.

    Raises:
        MisconfiguredError: the inventory names none, or the secret cannot be fetched.
    """
    login = settings.bmc_overrides.get(node.name, settings.bmc)
    if login is None:
        raise MisconfiguredError(
            f"host {node.name}: no BMC credential: expected provision.bmc with user and password, "
            f"or bmc_user and bmc_password of the host or its group"
        )
    return Credential(login.name, login.user, login.password.resolve())


class _Maas(Strict):
    url: Text = Field(description="MAAS's address, such as http://maas.example:5240/MAAS")
    key: Any = Field(description="a reference to the API key: env:NAME, file:PATH, cmd:PROGRAM … or !vault")
    ca_file: Text | None = None
    proxy: Text | None = None

    @field_validator("url", "proxy")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        return None if value is None else _http(value)


class _Bmc(Strict):
    user: Text = Field(description="the BMC's user name")
    password: Any = Field(description="a reference to the password: env:NAME, file:PATH, cmd:PROGRAM … or !vault")


class _Ssh(Strict):
    user: Text = "ubuntu"
    key_file: Text | None = None


class _Limits(Strict):
    in_flight: int = Field(default=_LIMITS.in_flight, ge=1)
    per_rack: int = Field(default=_LIMITS.per_rack, ge=1)
    per_power_feed: int = Field(default=_LIMITS.per_power_feed, ge=1)
    deployments: int = Field(default=_LIMITS.deployments, ge=1)
    image_gbps: float | None = Field(default=None, gt=0, description="what one rack controller can send, in Gbit/s")
    image_gb: float = Field(default=_LIMITS.image_gb, gt=0, description="size of an image, in GB")
    installations: int | None = Field(default=None, ge=1, description="hosts that install from the mirror at once")
    reboots_per_minute: int | None = Field(default=_LIMITS.reboots_per_minute, ge=1, description="machines started")
    erasures_per_hour: int | None = Field(default=None, ge=1, description="machines whose disks are erased")


class _Canary(Strict):
    nodes: int = Field(default=_CANARY.nodes, ge=0, description="how many go first; 0: none")
    above: int = Field(default=_CANARY.above, ge=0, description="only where a rack has more nodes than this to do")


class _Breaker(Strict):
    max_fail: int = Field(default=_BREAKER.max_fail, ge=1, description="more failures than this stop the place")
    within_s: float = Field(default=_BREAKER.within_s, gt=0, description="within so many seconds")
    wait_s: float = Field(default=_BREAKER.wait_s, ge=0, description="so long a run waits there for provision resume")


class _Stage(Strict):
    deadline_s: float | None = Field(None, gt=0, description="seconds until the stage gives up")
    max_acts: int | None = Field(None, ge=1, description="how many writes the stage may send to one node")


class _Repository(Strict):
    name: Text = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="a short name such as cuda")
    url: Text = Field(description="its address, such as http://mirror.site/2026-11-01/cuda/")
    suite: Text = "./"
    components: tuple[Text, ...] = Field((), strict=False)
    key_file: Text = Field(description="the armoured key that signs it, relative to the inventory")
    avoid: tuple[Text, ...] = Field((), strict=False, description="packages that never come from there")

    @field_validator("url")
    @classmethod
    def _address(cls, value: str) -> str:
        return _http(value)


class _Mirror(Strict):
    repositories: tuple[_Repository, ...] = Field((), strict=False)
    mbit_s: float | None = Field(None, gt=0, description="megabits a second that installations may take of the mirror")
    host_mbit_s: float = Field(1000.0, gt=0, description="megabits a second that one host takes at most")


class _Waves(Strict):
    max_hosts: int = Field(default=128, ge=1, le=512)
    canary_above: int = Field(default=8, ge=0)


class SettingsSchema(Strict):
    """The group var ``provision`` as people write it."""

    maas: _Maas | None = None
    power_by: Literal["maas", "provision"] = "maas"
    bmc: _Bmc | None = None
    ssh: _Ssh = _Ssh()
    limits: _Limits = _Limits()
    canary: _Canary = _Canary()
    breaker: _Breaker = _Breaker()
    pace: float = Field(1.0, gt=0, le=100)
    stages: dict[StageName, _Stage] = Field(default_factory=dict)
    max_clock_offset_s: float = Field(60.0, gt=0)
    tickets_after_s: float = Field(120.0, gt=0, description="so long a ticket waits for others of one cause")
    may_change_bios: bool = False
    may_reset_bmc: bool = False
    commissioning_scripts: tuple[Text, ...] = Field((), strict=False)
    testing_scripts: tuple[Text, ...] = Field((), strict=False)
    handover_power: bool = False
    playbook: Text | None = None
    ntp: tuple[Text, ...] = Field((), strict=False)
    apt_proxy: Text | None = None
    ca_certificates: tuple[Text, ...] = Field((), strict=False)
    store: Text | None = Field(None, description="a directory, sqlite:///PATH or postgresql://USER@HOST/DATABASE")
    store_password: Any = Field(None, description="a reference to the server's password: env:NAME, file:PATH, …")
    rules: Text | None = Field(None, description="folder of the site's own triage rules, merged over ours")
    mirror: _Mirror | None = None
    waves: _Waves = _Waves()

    @field_validator("apt_proxy")
    @classmethod
    def _proxy(cls, value: str | None) -> str | None:
        return None if value is None else _http(value)

    def to_settings(self, base: Path, overrides: Mapping[str, BmcLogin]) -> Settings:
        """The frozen value. Relative paths are relative to ``base``, the inventory's directory.

        Raises:
            ValueError: a secret is not a reference; the sentence names the setting.
        """

        def path(text: str) -> Path:
            return (base / Path(text).expanduser()).absolute()

        maas = bmc = None
        if self.maas is not None:
            maas = MaasSettings(
                self.maas.url.rstrip("/").removesuffix("/api/2.0"),
                _ref("provision.maas.key", self.maas.key, base),
                path(self.maas.ca_file) if self.maas.ca_file else None,
                self.maas.proxy,
            )
        if self.bmc is not None:
            bmc = BmcLogin("bmc", self.bmc.user, _ref("provision.bmc.password", self.bmc.password, base))
        return Settings(
            inventory=base,
            site=self._site(),
            maas=maas,
            bmc=bmc,
            bmc_overrides=dict(overrides),
            ssh=SshSettings(self.ssh.user, path(self.ssh.key_file) if self.ssh.key_file else None),
            playbook=path(self.playbook) if self.playbook else None,
            ntp=self.ntp,
            apt_proxy=self.apt_proxy,
            ca_certificates=tuple(path(item) for item in self.ca_certificates),
            store=self.store,
            rules=path(self.rules) if self.rules else None,
            mirror=_mirror(self.mirror, path) if self.mirror is not None else None,
            waves=WaveSettings(self.waves.max_hosts, self.waves.canary_above),
            store_password=(
                None if self.store_password is None else _ref("provision.store_password", self.store_password, base)
            ),
        )

    def _site(self) -> Site:
        return Site(
            power_by=PowerBy(self.power_by),
            limits=Limits(**self.limits.model_dump()),
            pace=self.pace,
            deadlines_s={name: s.deadline_s for name, s in self.stages.items() if s.deadline_s is not None},
            max_acts={name: s.max_acts for name, s in self.stages.items() if s.max_acts is not None},
            max_clock_offset_s=self.max_clock_offset_s,
            tickets_after_s=self.tickets_after_s,
            may_change_bios=self.may_change_bios,
            may_reset_bmc=self.may_reset_bmc,
            commissioning_scripts=self.commissioning_scripts,
            testing_scripts=self.testing_scripts,
            handover_power=self.handover_power,
            canary=CanaryRule(**self.canary.model_dump()),
            breaker=BreakerRule(**self.breaker.model_dump()),
        )


def _mirror(told: _Mirror, path: Callable[[str], Path]) -> MirrorSettings:
    names = [each.name for each in told.repositories]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"provision.mirror.repositories: {', '.join(twice)} stands twice: give each its own name")
    repositories = tuple(
        Repository(each.name, each.url, each.suite, each.components, path(each.key_file), each.avoid)
        for each in told.repositories
    )
    return MirrorSettings(repositories, told.mbit_s, told.host_mbit_s)


def _ref(variable: str, value: object, base: Path) -> SecretRef:
    try:
        return SecretRef.parse(variable, value, base=base)
    except ValueError as error:
        raise ValueError(f"{variable}: {error}") from None


def _http(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"expected an address that begins with http:// or https://, found {value!r}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("a user or password in the address would be shown in messages; take it out")
    return value
