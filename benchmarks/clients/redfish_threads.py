"""The synchronous ``redfish`` client in 64 threads, with time limits (by default it has none) and three retries."""

from __future__ import annotations

from typing import Any

import redfish
from client_lab import in_threads


def work(node: dict[str, Any], told: dict[str, Any]) -> tuple[int, bool]:
    """Ethernet interfaces, device functions of the adapters, network boot once, read back, log out."""
    client = redfish.redfish_client(
        base_url=f"https://{node['address']}:{node['port']}",
        username=told["user"],
        password=told["password"],
        timeout=(10, 60),
        max_retry=3,
    )
    client.login(auth="session")
    try:
        return _used(client)
    finally:
        client.logout()


def _used(client: Any) -> tuple[int, bool]:
    def get(path: str) -> dict[str, Any]:
        reply = client.get(path)
        if reply.status != 200:
            raise RuntimeError(f"{path}: {reply.status}")
        return dict(reply.dict)

    def members(path: str) -> list[dict[str, Any]]:
        return [get(one["@odata.id"]) for one in get(path)["Members"]]

    path = get("/redfish/v1/Systems")["Members"][0]["@odata.id"]
    system = get(path)
    macs = {one["MACAddress"] for one in members(system["EthernetInterfaces"]["@odata.id"])}
    for chassis in system["Links"]["Chassis"]:
        for adapter in members(get(chassis["@odata.id"])["NetworkAdapters"]["@odata.id"]):
            functions = members(adapter["NetworkDeviceFunctions"]["@odata.id"])
            macs |= {one["Ethernet"]["MACAddress"] for one in functions}
    wanted = {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}
    reply = client.patch(path, body={"Boot": wanted})
    if reply.status not in {200, 202, 204}:
        raise RuntimeError(f"PATCH: {reply.status}")
    boot = get(path)["Boot"]
    return len(macs), all(boot[name] == value for name, value in wanted.items())


in_threads(work)
