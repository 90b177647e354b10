"""BMC logins that a group or host gives itself: ``bmc_user`` and ``bmc_password``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from provision.config.complaints import Complaints
from provision.config.hostvars import HostSchema
from provision.config.secrets import SecretRef
from provision.config.settings import BmcLogin


def overrides(
    hosts: Mapping[str, HostSchema], provision: Any, base: Path, complaints: Complaints
) -> dict[str, BmcLogin]:
    """One login per distinct pair of user and reference, so that nodes which share a password share its name.

    The name is ``bmc/USER``; a second pair of the same user is ``bmc/USER/2``. A host that gives only one of the
    two takes the other from ``provision.bmc``.
    """
    site = provision.get("bmc") if isinstance(provision, Mapping) else None
    site = site if isinstance(site, Mapping) else {}
    logins: dict[tuple[str, tuple[str, str]], BmcLogin] = {}
    found = {}
    for name, host in hosts.items():
        if host.bmc_user is None and host.bmc_password is None:
            continue
        user = host.bmc_user if host.bmc_user is not None else site.get("user")
        raw = host.bmc_password if host.bmc_password is not None else site.get("password")
        if not isinstance(user, str) or raw is None:
            complaints.host(name, "bmc_user and bmc_password belong together: expected both, or provision.bmc as well")
            continue
        try:
            ref = SecretRef.parse("bmc_password", raw, base=base)
        except ValueError as error:
            complaints.host(name, f"bmc_password: {error}")
            continue
        key = (user, ref.same_as)
        if key not in logins:
            count = 1 + sum(1 for other, _ in logins if other == user)
            logins[key] = BmcLogin(f"bmc/{user}" if count == 1 else f"bmc/{user}/{count}", user, ref)
        found[name] = logins[key]
    return found
