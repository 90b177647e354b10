"""Who is this machine, and by which addresses will the network know it?"""

from __future__ import annotations

from dataclasses import dataclass

from provision.errors import GarbledError, PeerError, UnavailableError
from provision.model.bmc import Harvest
from provision.model.decision import Act, Decision, Done, Seen, Step, Stuck
from provision.model.node import MacAddress, Node
from provision.model.profile import Goal
from provision.ports import Tools
from provision.stages.lookup import boot_port, macs_of, narrow

# An iDRAC fills its list of systems up to two minutes after its start (cases: redfish R7); so long it is only young.
YOUNG_S = 300.0


@dataclass(frozen=True, slots=True)
class ResetBmc(Step):
    """One restart of a BMC that answers nonsense. The host goes on."""


@dataclass(frozen=True, slots=True)
class SickBmc(Seen):
    """The BMC answers, and what it says cannot be used; the site allows one restart of it."""

    why: str


@dataclass(frozen=True, slots=True)
class Discovered(Seen):
    """Identity against inventory. ``tag_owner`` is the node to which the inventory gives the tag that was found;
    ``clashes`` are (MAC, other node of this run)."""

    node: str
    bmc: str
    tag_wanted: str | None
    tag_found: str | None
    tag_owner: str
    macs: tuple[MacAddress, ...]
    clashes: tuple[tuple[str, str], ...]
    has_boot_port: bool
    ports: tuple[str, ...]


def decide(goal: Goal, seen: Discovered) -> Decision:
    """Go on only with the machine that the inventory means. Pure."""
    wanted, found = seen.tag_wanted, seen.tag_found
    if wanted and found and wanted.strip().upper() != found.strip().upper():
        owner = f", which the inventory gives to {seen.tag_owner}" if seen.tag_owner else ""
        return Stuck(
            f"wrong machine behind BMC {seen.bmc}: the inventory says {seen.node} has service tag {wanted}, "
            f"the BMC says {found}{owner}; correct bmc_address or service_tag, or the cage",
            ours=True,
        )
    if not seen.macs:
        return Stuck(
            f"BMC {seen.bmc} shows no network card with a MAC address: no card seen, or no inventory taken yet"
        )
    if seen.clashes:
        mac, other = seen.clashes[0]
        return Stuck(f"MAC {mac} belongs to {seen.node} and to {other}: one address, two machines", ours=True)
    if not seen.has_boot_port:
        return Stuck(
            f"no port named {goal.profile.boot_nic!r} (boot_nic of profile {goal.profile.name}) with a MAC address; "
            f"the BMC shows {', '.join(seen.ports)}",
            ours=True,
        )
    return Done(f"{len(seen.macs)} MAC addresses, service tag {found or 'not shown'}")


class Discover:
    """Redfish: service tag against the inventory, every NIC's MAC."""

    name = "discover"
    # An iDRAC that restarts shows its resources again after 2 to 7 minutes.
    deadline_s = 600.0
    max_acts = 1

    async def observe(self, node: Node, tools: Tools) -> Discovered | SickBmc:
        """Read the BMC's inventory once per run."""
        try:
            return _discovered(node, tools, await tools.bmc.harvest())
        except (GarbledError, UnavailableError) as error:
            if not tools.site.may_reset_bmc or tools.notes.get("discover.reset") or not _is_sick(error, tools):
                raise
            return SickBmc(f"the BMC is not usable: {error}")

    def decide(self, goal: Goal, seen: Seen) -> Decision:
        """See ``decide`` above."""
        if isinstance(seen, SickBmc):
            return Act(ResetBmc(), seen.why, pause_s=60)
        return decide(goal, narrow(seen, Discovered))

    async def act(self, step: Step, node: Node, tools: Tools) -> None:
        """Restart a sick BMC, once a run."""
        if not isinstance(step, ResetBmc):
            raise TypeError(f"discover does not know {step.name}")
        tools.notes["discover.reset"] = True
        await tools.bmc.reset_bmc()

    def forecast(self, goal: Goal) -> str:
        """For plans."""
        return "read identity and MAC addresses from the BMC"


def _is_sick(error: PeerError, tools: Tools) -> bool:
    """True for nonsense at once, and for a list without a host once the BMC has had time to fill it."""
    if isinstance(error, GarbledError):
        return True
    if error.code != "not-ready":
        return False
    since = tools.notes.setdefault("discover.no-host", tools.clock.monotonic())
    return isinstance(since, float) and tools.clock.monotonic() - since > YOUNG_S * tools.site.pace


def _discovered(node: Node, tools: Tools, harvest: Harvest) -> Discovered:
    profile, found = tools.goal.profile, harvest.identity.service_tag
    macs = macs_of(node, profile, harvest)
    owners = ((str(mac), tools.claims.setdefault(f"mac {mac}", node.name)) for mac in macs)
    owner = tools.claims.get(f"tag {found.strip().upper()}", "") if found else ""
    return Discovered(
        node=node.name,
        bmc=node.bmc_address,
        tag_wanted=node.service_tag,
        tag_found=found,
        tag_owner="" if owner == node.name else owner,
        macs=macs,
        clashes=tuple((mac, other) for mac, other in owners if other != node.name),
        has_boot_port=profile.boot_nic is None or boot_port(profile, harvest) is not None,
        ports=tuple(port.name for port in harvest.ports),
        gaps=harvest.gaps,
    )
