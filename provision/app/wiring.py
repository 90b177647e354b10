"""The one place that builds adapters, store and tools from the site's settings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from provision.app.clock import SystemClock
from provision.app.guard import Guard
from provision.app.rules import site_rules
from provision.config.inventory import SiteInventory, load, select
from provision.config.secrets import scrubber
from provision.config.settings import Settings, credential_for
from provision.errors import MisconfiguredError
from provision.model.node import Node
from provision.model.profile import Goal, Profile
from provision.model.secret import Credential, Secret
from provision.ports import Bmc, Judge, Maas, Playbooks, Shell, Tools
from provision.store.journal import Store, open_store
from provision.triage.judge import judge_by

if TYPE_CHECKING:
    from provision.adapters.redfish.bmc import RedfishBmc


def builtin_playbook() -> Path:
    """``site.yml`` as the wheel carries it, or as the checkout has it."""
    package = Path(__file__).parent.parent
    for candidate in (package / "_playbooks" / "site.yml", package.parent / "playbooks" / "site.yml"):
        if candidate.exists():
            return candidate
    raise MisconfiguredError(f"the built-in playbooks are missing beside {package}; install provision again")


class Wiring:
    """Everything one command needs, built when it is first asked for and closed together."""

    def __init__(self, inventory: Path, state: Path | None, *, adopt_host_keys: bool = False) -> None:
        self._adopt_host_keys = adopt_host_keys
        self.clock = SystemClock()
        self._inventory = inventory
        self._state = state
        self._site: SiteInventory | None = None
        self._store: Store | None = None
        self._maas: Maas | None = None
        self._playbooks: Playbooks | None = None
        self._shell: Shell | None = None
        self._credentials: dict[str, Credential] = {}
        self.guard = Guard()

    @property
    def site(self) -> SiteInventory:
        """The inventory, read once."""
        if self._site is None:
            self._site = load(self._inventory)
        return self._site

    @property
    def settings(self) -> Settings:
        """The site's settings."""
        return self.site.settings

    @property
    def state(self) -> Path:
        """The state directory."""
        if self._state is None:
            raise MisconfiguredError("this command keeps no state")
        return self._state

    @property
    def store(self) -> Store:
        """The store, opened once; it writes down no secret that was resolved in this process."""
        if self._store is None:
            password = self.settings.store_password
            self._store = open_store(
                self.settings.store or self.state, password=password.resolve() if password is not None else None
            )
            self._store.scrub = self._scrub
        return self._store

    def _scrub(self, text: str) -> str:
        return scrubber(self._secrets())(text)

    def _secrets(self) -> Iterator[Secret]:
        for ref in self.settings.secret_refs():
            if ref.resolved is not None:
                yield ref.resolved

    def select(self, target: str) -> tuple[Node, ...]:
        """The nodes of a target."""
        return select(self.site, target)

    @cached_property
    def judge(self) -> Judge:
        """Triage by our rules and the site's own."""
        return partial(judge_by, site_rules(self.settings.rules))

    def profile(self, node: Node) -> Profile:
        """The node's profile; the inventory check made sure that it exists."""
        return self.site.profiles[node.profile]

    def credential(self, node: Node) -> Credential:
        """The node's BMC login; the secret is fetched once per login, not once per node."""
        login = self.settings.bmc_overrides.get(node.name, self.settings.bmc)
        key = login.name if login is not None else node.name
        if key not in self._credentials:
            self._credentials[key] = credential_for(self.settings, node)
        return self._credentials[key]

    def bmc(self, node: Node) -> Bmc:
        """A client for one BMC; the caller closes it."""
        return self.redfish(node)

    def redfish(self, node: Node, *, guids: bool = False, patient: bool = True, guarded: bool = True) -> RedfishBmc:
        """The same with what only the verbs need: ``guids`` as RedfishBmc has it, not ``patient``: one try per read.

        ``guarded``: a credential that three BMCs of this command refused is tried at no other.
        """
        from provision.adapters.redfish.bmc import RedfishBmc
        from provision.adapters.redfish.limits import BmcLimits

        profile, credential = self.profile(node), self.credential(node)
        return RedfishBmc(
            node,
            credential,
            self.store,
            clock=self.clock,
            profile_boot_nic=profile.boot_nic,
            boot_method=profile.boot_method,
            limits=BmcLimits() if patient else BmcLimits(attempts=1, request_s=20.0, operation_s=60.0),
            guids=guids,
            ntp=self.settings.ntp,
            turnstile=self.guard.of(node, credential.name) if guarded else None,
        )

    def maas(self) -> Maas:
        """The region, shared by all nodes of the command."""
        if self._maas is None:
            from provision.adapters.maas import MaasRegion

            settings = self.settings.need_maas()
            self._maas = MaasRegion(
                settings.url,
                settings.key.resolve(),
                tuple(self.site.nodes.values()),
                clock=self.clock,
                ca_file=str(settings.ca_file) if settings.ca_file else None,
                proxy=settings.proxy,
                interval_s=10.0 * self.settings.site.pace,
                scripts=(*self.settings.site.commissioning_scripts, *self.settings.site.testing_scripts),
            )
        return self._maas

    def playbooks(self) -> Playbooks:
        """Ansible waves."""
        if self._playbooks is None:
            from provision.adapters.ansible import AnsibleWaves

            self._playbooks = AnsibleWaves(
                self.settings.playbook or builtin_playbook(),
                self._variables,
                self.store,
                ssh_user=self.settings.ssh.user,
                ssh_key_file=self.settings.ssh.key_file,
                clock=self.clock,
                pace=self.settings.site.pace,
                artifacts_dir=self.state / "waves",
                inventory_dir=self.settings.inventory,
                max_hosts=self.settings.waves.max_hosts,
                canary_above=self.settings.waves.canary_above,
                download_slots=self.settings.mirror.slots if self.settings.mirror else 0,
                counts_for=lambda node: self.site.role_variables.get(node.name, {}),
            )
        return self._playbooks

    def _variables(self, node: Node) -> Mapping[str, object]:
        """What the playbooks are told about a node beside the site's own variables."""
        profile = self.profile(node)
        counts = {
            "gpus": profile.gpus,
            "nics": profile.nics,
            "nvme": profile.nvme,
            "dimms": profile.dimms,
        }
        return {
            "provision_packages": dict(profile.packages),
            "provision_expected": {kind: spec.count for kind, spec in counts.items() if spec is not None},
            "provision_ntp": list(self.settings.ntp),
            "provision_apt_proxy": self.settings.apt_proxy or "",
            **self._mirror(),
        }

    def _mirror(self) -> Mapping[str, object]:
        mirror = self.settings.mirror
        if mirror is None:
            return {}
        repositories = [
            {
                "name": each.name,
                "url": each.url,
                "suite": each.suite,
                "components": list(each.components),
                "key": _text(each.key_file) if each.key_file else "",
                "avoid": list(each.avoid),
            }
            for each in mirror.repositories
        ]
        return {
            "provision_mirror": {"repositories": repositories},
            "provision_download_kbytes_s": mirror.host_kbytes_s,
        }

    def shell(self) -> Shell:
        """SSH to deployed hosts."""
        if self._shell is None:
            from provision.adapters.ssh import ParamikoShell

            ssh = self.settings.ssh
            self._shell = ParamikoShell(self.store, user=ssh.user, key_file=ssh.key_file, adopt=self._adopt_host_keys)
        return self._shell

    def absent_peers(self, node: Node) -> frozenset[str]:
        """Peers that this site has no settings for, or that this node has no address at."""
        absent = set()
        if self.settings.maas is None:
            absent.add("maas")
            if node.ssh is None:
                absent.add("ssh")
        return frozenset(absent)

    async def tools_of(self, node: Node) -> Tools:
        """Tools for looking at one node, with its goal as the store has it."""
        return self.tools(node, Goal(self.profile(node), await self.store.epoch(node.name)), guarded=True)

    def tools(self, node: Node, goal: Goal, *, guarded: bool = False) -> Tools:
        """Tools of one node for one run, whose engine has a breaker of its own; ``guarded`` as ``redfish`` has it."""
        return Tools(
            bmc=self.redfish(node, guarded=guarded),
            maas=self.maas() if self.settings.maas is not None else cast("Maas", _NoMaas(self.settings)),
            playbooks=self.playbooks(),
            shell=self.shell(),
            clock=self.clock,
            judge=self.judge,
            site=self.settings.site,
            goal=goal,
            credential=self.credential(node),
            user_data=self._user_data,
            names=frozenset(self.site.nodes),
        )

    def _user_data(self, node: Node, host_key: Secret) -> Secret:
        from provision.adapters.maas import user_data

        return user_data(
            node,
            host_key,
            ntp=self.settings.ntp,
            ca_pem="".join(_text(path) for path in self.settings.ca_certificates) or None,
            apt_proxy=self.settings.apt_proxy,
            authorized_keys=self._public_keys(),
        )

    def _public_keys(self) -> Sequence[str]:
        """The public half of the site's SSH key, so that the deployed host lets us in."""
        key = self.settings.ssh.key_file
        if key is None:
            return ()
        public = key.with_name(key.name + ".pub")
        return (_text(public).strip(),) if public.exists() else ()

    async def close(self) -> None:
        """Close what was built, newest first; no failure to close hides another error."""
        for part in (self._playbooks, self._shell, self._maas, self._store):
            if part is not None:
                await part.close()


class _NoMaas:
    """Stands where MAAS would on a site without one: whoever asks it anything hears which setting is missing."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def __getattr__(self, name: str) -> object:
        return self._settings.need_maas()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MisconfiguredError(f"cannot read {path}: {error}; correct the path in group var provision") from None


def whoami() -> tuple[str, str, int]:
    """User, host and process for the history."""
    import getpass
    import socket

    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return user, socket.gethostname(), os.getpid()
