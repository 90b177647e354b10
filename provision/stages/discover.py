"""Who is this machine, and by which addresses will the network know it?"""

from __future__ import annotations

from dataclasses import dataclass

from provision.model.decision import Decision, Done, Seen, Step, Stuck
from provision.model.node import MacAddress, Node
from provision.model.profile import Goal
from provision.ports import Tools
from provision.stages.lookup import boot_port, macs_of, narrow


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

    async def observe(self, node: Node, tools: Tools) -> Discovered:
        """Read the BMC's inventory once per run."""
        harvest = await tools.bmc.harvest()
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

    def decide(self, goal: Goal, seen: Seen) -> Decision:
        """See ``decide`` above."""
        return decide(goal, narrow(seen, Discovered))

    async def act(self, step: Step, node: Node, tools: Tools) -> None:
        """Nothing is written here."""
        raise TypeError(f"discover does not act: {step.name}")

    def forecast(self, goal: Goal) -> str:
        """For plans."""
        return "read identity and MAC addresses from the BMC"
