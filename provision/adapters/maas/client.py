"""The port ``Maas`` on a region's API 2.0. What MAAS does not do is written where it is worked around."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from provision.adapters.maas import parse
from provision.adapters.maas.answers import HOSTNAME_IN_USE, MAC_IN_USE
from provision.adapters.maas.listing import Listing, parsed
from provision.adapters.maas.power import Powers, drift, identity
from provision.adapters.maas.site import complaints, unknown_scripts
from provision.adapters.maas.transport import Form, Transport
from provision.errors import RefusedError, UnavailableError
from provision.model.machine import DeploySpec, MaasEvent, Machine, MachineSpec, Receipt, ScriptResult, Status
from provision.model.node import MacAddress, Node
from provision.model.profile import Profile
from provision.model.secret import Secret
from provision.ports import Clock

# MAAS takes a new interface in these states only (recorded: 409 elsewhere).
_TAKES_INTERFACES = {Status.NEW, Status.READY, Status.ALLOCATED, Status.BROKEN}
_EVENTS = 50
_SAD = ("failed", "timed out", "degraded")


class MaasRegion:
    """One MAAS region, for one run.

    Args:
        url, key, ca_file, proxy, deadline_s: see ``Transport``.
        nodes: the nodes of the run; they share one machine list per rack.
        interval_s: how old a listing may be, in the clock's seconds. At a pace other than 1, hand in the product.
        run: the run's id, left as a comment beside every act in MAAS's log.
        scripts: names that the site commissions and tests with, to be checked by ``check_site``.
        enable_ssh: leave a machine on and open to SSH after commissioning.

    Raises:
        MisconfiguredError: URL, key or CA file cannot be used.
    """

    def __init__(
        self,
        url: str,
        key: Secret,
        nodes: Sequence[Node],
        *,
        clock: Clock,
        ca_file: str | None = None,
        proxy: str | None = None,
        interval_s: float = 10.0,
        deadline_s: float = 60,
        run: str = "",
        enable_ssh: bool = False,
        scripts: Sequence[str] = (),
    ) -> None:
        self._transport = Transport(url, key, clock, ca_file=ca_file, proxy=proxy, deadline_s=deadline_s)
        self._listing = Listing(self._transport, nodes, clock, interval_s=interval_s)
        self._nodes = tuple(nodes)
        self._run = run
        self._enable_ssh = enable_ssh
        self._scripts = tuple(scripts)
        self._powers = Powers(self._transport)
        self._wipes: bool | None = None

    async def machine(self, node: Node, macs: Sequence[MacAddress], *, uuid: str | None = None) -> Machine | None:
        """The machine with one of these MACs (or this hostname), from the rack's newest listing."""
        return await self._listing.shared(node, macs, uuid)

    async def fresh(self, node: Node, macs: Sequence[MacAddress], *, uuid: str | None = None) -> Machine | None:
        """The same, read for this node just now. With ``uuid``, unfinished machines are searched for it at last."""
        return await self._listing.fresh(node, macs, uuid)

    async def power_drift(self, system_id: str, spec: MachineSpec) -> str:
        """How MAAS's power parameters differ; read once a run and after our own edits. They hold the password."""
        return await drift(self._transport.peer, spec, await self._powers.of(system_id))

    async def erases_on_release(self) -> bool:
        """The region's setting, read once a run."""
        if self._wipes is None:
            query = [("name", "enable_disk_erasing_on_release")]
            answer = await self._transport.read("MAAS.get_config", "read whether a release erases disks", query)
            self._wipes = answer not in (False, None, "", "false", "False", 0)
        return self._wipes

    async def create(self, spec: MachineSpec) -> None:
        """Make the machine in one request, zone and pool included, without starting its commissioning.

        Tags have no field there: each is a second request (to a machine of our own making).

        Raises:
            UnavailableError: nobody knows whether it was made, or it was there already (an earlier create that
                answered 503 and worked, or a machine that enlisted itself): look again, then adopt.
            RefusedError: name or address are taken by something that is no machine, and cannot be adopted.
        """
        form = [
            *await identity(self._transport.peer, spec),
            ("commission", "false"),
            *(("mac_addresses", mac.text) for mac in spec.macs),
        ]
        operation = f"create {spec.hostname}"
        try:
            async with self._changing(hostname=spec.hostname):
                body = await self._transport.write("Machines.create", operation, form)
        except RefusedError as error:
            if error.code not in {MAC_IN_USE, HOSTNAME_IN_USE}:
                raise
            if not await self._listing.any_machine(
                [spec.hostname, spec.hostname.partition(".")[0]], [mac.text for mac in spec.macs]
            ):
                detail = error.detail.rstrip(".")
                detail += "; no machine of that MAAS has it, so nothing can be adopted: look among its devices and "
                detail += "controllers, delete or rename it there, or correct the inventory"
                raise RefusedError(error.peer, operation, detail, code=error.code) from error
            raise UnavailableError(
                error.peer, operation, f"MAAS has it already: {error.detail}: look again", code=error.code
            ) from error
        made = parsed(self._transport, operation, parse.machine, body)
        await self._tag(made, spec)

    async def adopt(self, system_id: str, spec: MachineSpec) -> None:
        """Make an existing machine ours: one edit for name, power, zone and pool; tags and missing MACs follow.

        The answer to the edit says which MACs are missing. Each takes a request, in New, Ready, Allocated and
        Broken only; in other states they wait for the next adoption.

        Raises:
            RefusedError: a MAC of the node is on another machine (boards were swapped), the machine is locked.
        """
        operation = f"adopt {self._name(system_id)} as {spec.hostname}"
        seen = self._listing.last_seen(system_id)
        # The architecture that commissioning found is only corrected, never repeated: MAAS checks it against images.
        known = await identity(self._transport.peer, spec)
        form = [pair for pair in known if pair[0] != "architecture" or not _agrees(seen, spec)]
        self._powers.forget(system_id)
        async with self._changing(system_id=system_id, hostname=spec.hostname):
            body = await self._write("Machine.update", operation, form, system_id=system_id)
            machine = parsed(self._transport, operation, parse.machine, body)
            await self._add_macs(machine, spec, _interface_names(body))
        await self._tag(machine, spec)

    async def commission(self, system_id: str, *, scripts: Sequence[str], tests: Sequence[str]) -> None:
        """Start commissioning. Without ``scripts`` MAAS runs its own; without ``tests`` it runs none.

        MAAS never sets up the BMC: its users and addresses are the site's.
        """
        form = [
            ("enable_ssh", "1" if self._enable_ssh else "0"),
            ("skip_bmc_config", "1"),
            ("testing_scripts", ",".join(tests) or "none"),
        ]
        if scripts:
            form.append(("commissioning_scripts", ",".join(scripts)))
        await self._act("Machine.commission", "commission", system_id, form)

    async def abort(self, system_id: str, why: str) -> None:
        """Stop what goes on. The answer still shows the state before (recorded), so it is not looked at."""
        await self._act("Machine.abort", "abort", system_id, self._comment(why))

    async def set_boot_disk(self, system_id: str, disk_id: int) -> None:
        """Where the operating system goes. The layout stays where it was: set it afterwards (recorded)."""
        await self._act("BlockDevice.set_boot_disk", "set the boot disk of", system_id, id=str(disk_id))

    async def set_layout(self, system_id: str, layout: str, root_disk_id: int) -> None:
        """Partition anew. MAAS takes the disk by its number only, whatever its documentation says (recorded)."""
        form = [("storage_layout", layout)]
        # A custom layout names its drives itself: a commissioning script of the site has written it.
        if layout != "custom":
            form.append(("root_device", str(root_disk_id)))
        await self._act("Machine.set_storage_layout", f"lay out {layout} on", system_id, form)

    async def allocate(self, system_id: str) -> None:
        """Ready → Allocated, to this key's user."""
        form = [("system_id", system_id), *self._comment("provision")]
        async with self._changing(system_id=system_id):
            await self._transport.write("Machines.allocate", f"allocate {self._name(system_id)}", form)

    async def write_receipt(self, system_id: str, receipt: Receipt) -> None:
        """Which wish the coming deployment answers, as workload annotations; others' annotations stay.

        Annotations need an owner, live through deployment, rescue mode and a failed or aborted deployment, and are
        gone after a release: see ``parse.receipt``. Tags and the description survive a release, so they cannot tell
        this deployment from the one before.
        """
        form = [(parse.EPOCH_KEY, str(receipt.epoch)), (parse.IMAGE_KEY, receipt.image)]
        known = await self._transport.offers("Machine.set_workload_annotations")
        call = "Machine.set_workload_annotations" if known else "Machine.set_owner_data"
        await self._act(call, "write the receipt of", system_id, form)

    async def deploy(self, system_id: str, spec: DeploySpec) -> None:
        """Install. MAAS takes user data that is not base64 without a word (recorded), so the coding is ours."""
        coded = Secret(base64.b64encode(spec.user_data.reveal().encode()).decode())
        form: list[tuple[str, str | Secret]] = [("distro_series", spec.series), ("user_data", coded)]
        if spec.kernel:
            form.append(("hwe_kernel", spec.kernel))
        if spec.ephemeral:
            form.append(("ephemeral_deploy", "true"))
        await self._act("Machine.deploy", "deploy", system_id, [*form, *self._comment("")])

    async def release(self, system_id: str, why: str, *, erase: bool = False) -> None:
        """Give the machine back. ``erase`` wipes every drive, quickly: MAAS has no time limit for the slow way.

        Without it MAAS is told to wipe nothing; whether it obeys where its own setting says otherwise depends on the
        version, so ask ``erases_on_release`` first.
        """
        form = [("erase", "true"), ("quick_erase", "true")] if erase else [("erase", "false")]
        await self._act("Machine.release", "release", system_id, [*form, *self._comment(why)])

    async def mark_broken(self, system_id: str, why: str) -> None:
        """Keep it out of the pool. MAAS takes this from the owner only (403 otherwise, recorded)."""
        await self._act("Machine.mark_broken", "mark broken", system_id, [("comment", why[:250])])

    async def mark_fixed(self, system_id: str, why: str) -> None:
        """Broken → Ready. A broken mark under power leaves the owner; this takes it away."""
        await self._act("Machine.mark_fixed", "mark fixed", system_id, self._comment(why))

    async def results(self, system_id: str) -> tuple[ScriptResult, ...]:
        """Scripts of the newest commissioning, testing and installation runs; outputs of those that did not pass."""
        operation = f"read script results of {self._name(system_id)}"
        sets = await self._transport.read("NodeScriptResults.read", operation, system_id=system_id)
        shown: list[ScriptResult] = []
        for one in parsed(self._transport, operation, parse.result_sets, sets):
            bare = parse.results([one])
            if isinstance(one.get("id"), int) and any(script.status.startswith(_SAD) for script in bare):
                # Any value of include_output includes it, "false" too; a body with all outputs is megabytes.
                query = [("include_output", "1")]
                again = await self._transport.read(
                    "NodeScriptResult.read", operation, query, system_id=system_id, id=str(one["id"])
                )
                bare = parsed(self._transport, operation, parse.results, [again])
            shown.extend(bare)
        return tuple(shown)

    async def events(self, system_id: str) -> tuple[MaasEvent, ...]:
        """The newest fifty lines of its log, newest first."""
        operation = f"read the events of {self._name(system_id)}"
        query = [("id", system_id), ("limit", str(_EVENTS))]
        body = await self._transport.read("Events.query", operation, query)
        return parsed(self._transport, operation, parse.events, body)

    async def check_site(self, profiles: Iterable[Profile]) -> tuple[str, ...]:
        """Complaints that stop every deployment; empty if none."""
        found = await complaints(self._transport, tuple(profiles), self._nodes)
        return found or tuple(await unknown_scripts(self._transport, self._scripts))

    async def close(self) -> None:
        """Drop connections. Never raises."""
        self._listing.close()
        await self._transport.close()

    @property
    def lists(self) -> dict[str, int]:
        """Requests for machine lists so far: ``poll`` (shared by a rack) and ``look`` (one node, before a write)."""
        return dict(self._listing.asked)

    def _name(self, system_id: str) -> str:
        seen = self._listing.last_seen(system_id)
        return system_id if seen is None else f"{seen.hostname} ({system_id})"

    def _comment(self, why: str) -> list[tuple[str, str | Secret]]:
        said = " ".join(part for part in (why, f"(provision run {self._run})" if self._run else "") if part)
        return [("comment", said[:250])] if said else []

    @asynccontextmanager
    async def _changing(self, *, system_id: str | None = None, hostname: str | None = None) -> AsyncIterator[None]:
        """What was seen before the end of this block is old, however the block ends."""
        self._listing.written(system_id=system_id, hostname=hostname)
        try:
            yield
        finally:
            self._listing.written(system_id=system_id, hostname=hostname)

    async def _act(self, call: str, verb: str, system_id: str, form: Form = (), **params: str) -> None:
        async with self._changing(system_id=system_id):
            await self._write(call, f"{verb} {self._name(system_id)}", form, system_id=system_id, **params)

    async def _write(self, call: str, operation: str, form: Form, *, system_id: str, **params: str) -> Any:
        try:
            return await self._transport.write(call, operation, form, system_id=system_id, **params)
        except RefusedError as error:
            seen = self._listing.last_seen(system_id)
            if error.code != "403" or seen is None or not seen.locked:
                raise
            detail = "the machine is locked in MAAS: somebody wants it left alone; unlock it there to go on"
            raise RefusedError(error.peer, operation, detail, code="locked") from error

    async def _add_macs(self, machine: Machine, spec: MachineSpec, names: set[str]) -> None:
        if machine.status not in _TAKES_INTERFACES:
            return
        missing = [mac for mac in spec.macs if mac not in machine.macs]
        free = (f"eth{i}" for i in range(len(names) + len(missing)) if f"eth{i}" not in names)
        for mac, name in zip(missing, free, strict=False):
            operation = f"add {mac} to {machine.hostname} ({machine.system_id})"
            form = [("mac_address", mac.text), ("name", name)]
            await self._write("Interfaces.create_physical", operation, form, system_id=machine.system_id)

    async def _tag(self, machine: Machine, spec: MachineSpec) -> None:
        for tag in spec.tags:
            if tag in machine.tags:
                continue
            operation = f"tag {spec.hostname} with {tag}"
            async with self._changing(system_id=machine.system_id, hostname=spec.hostname):
                form = [("add", machine.system_id)]
                try:
                    await self._transport.write("Tag.update_nodes", operation, form, name=tag)
                except RefusedError as error:
                    if error.code != "404":
                        raise
                    await self._make_tag(tag)
                    await self._transport.write("Tag.update_nodes", operation, form, name=tag)

    async def _make_tag(self, tag: str) -> None:
        try:
            await self._transport.write("Tags.create", f"make the tag {tag}", [("name", tag)])
        except RefusedError as error:
            # The nodes of a rack find it missing together; one of them makes it.
            if "already exists" not in error.detail:
                raise


def _agrees(seen: Machine | None, spec: MachineSpec) -> bool:
    return seen is not None and seen.architecture == spec.architecture


def _interface_names(body: Any) -> set[str]:
    return {str(one.get("name")) for one in body.get("interface_set") or [] if isinstance(one, dict)}
