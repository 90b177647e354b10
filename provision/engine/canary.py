"""One goes first: in a rack, profile and image nobody follows until the first has come through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from provision.model.node import Node
from provision.model.profile import Profile
from provision.model.site import CanaryRule

Group = tuple[str, str, str, str]
"""Operation, rack, profile, image."""

STAGE_OF = {"commissioning": "commission", "deployment": "deploy"}


class Canary:
    """Who goes ahead in one run. A group is proved once one of its nodes is seen past the stage."""

    def __init__(self, rule: CanaryRule, nodes: Sequence[Node], profiles: Mapping[str, Profile]) -> None:
        self._rule = rule
        self._profiles = profiles
        self._sizes = Counter((node.rack, *self._kind(node)) for node in nodes)
        self._ahead: dict[Group, set[str]] = {}
        self._proved: set[Group] = set()

    def shut(self, node: Node, operation: str) -> str:
        """Whom the node has to wait for, in words; empty if it may go."""
        group = self._group(node, operation)
        if group is None or group in self._proved:
            return ""
        ahead = self._ahead.get(group, set())
        if len(ahead) < self._rule.nodes or node.name in ahead:
            return ""
        return f"{', '.join(sorted(ahead))} goes first in rack {node.rack} ({operation} of {group[2]}, {group[3]})"

    def began(self, node: Node, operation: str) -> None:
        """The node is in this operation."""
        group = self._group(node, operation)
        if group is not None and group not in self._proved:
            self._ahead.setdefault(group, set()).add(node.name)

    def passed(self, node: Node, stage: str) -> bool:
        """The node is past the stage; True if somebody waited for that."""
        return self._left(node, {op for op, name in STAGE_OF.items() if name == stage}, proves=True)

    def left(self, node: Node) -> bool:
        """The node has ended where it is: the next one goes ahead in its place. True if somebody waits for that."""
        return self._left(node, set(STAGE_OF), proves=False)

    def _left(self, node: Node, operations: set[str], *, proves: bool) -> bool:
        freed = False
        for operation in operations:
            group = self._group(node, operation)
            if group is None or group in self._proved:
                continue
            ahead = self._ahead.get(group, set())
            freed |= proves or node.name in ahead
            ahead.discard(node.name)
            if proves:
                self._proved.add(group)
        return freed

    def _group(self, node: Node, operation: str) -> Group | None:
        if operation not in STAGE_OF or self._rule.nodes == 0:
            return None
        group = (operation, node.rack, *self._kind(node))
        return group if self._sizes[group[1:]] > self._rule.above else None

    def _kind(self, node: Node) -> tuple[str, str]:
        profile = self._profiles[node.profile]
        return profile.name, str(profile.image)
