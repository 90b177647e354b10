"""sushy in 64 threads: its own ways to the ports and to the override, and a refresh to read it back."""

from __future__ import annotations

from typing import Any

import sushy
import urllib3
from client_lab import in_threads

urllib3.disable_warnings()


def work(node: dict[str, Any], told: dict[str, Any]) -> tuple[int, bool]:
    """Ethernet interfaces, device functions of the adapters, network boot once, read back, log out."""
    url = f"https://{node['address']}:{node['port']}/redfish/v1"
    auth = sushy.auth.SessionAuth(told["user"], told["password"])
    root = sushy.Sushy(url, auth=auth, verify=False)
    try:
        system = root.get_system(root.get_system_collection().members_identities[0])
        macs = {one.mac_address for one in system.ethernet_interfaces.get_members()}
        for chassis in system.chassis:
            for adapter in chassis.network_adapters.get_members():
                macs |= {one.ethernet.mac_address for one in adapter.network_device_functions.get_members()}
        system.set_system_boot_options(sushy.BootSource.PXE, enabled=sushy.BootSourceOverrideEnabled.ONCE)
        system.refresh(force=True)
        stored = (system.boot.target, system.boot.enabled)
        return len(macs), stored == (sushy.BootSource.PXE, sushy.BootSourceOverrideEnabled.ONCE)
    finally:
        auth.close()


in_threads(work)
