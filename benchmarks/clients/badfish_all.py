"""badfish as its own command line runs a list of hosts: all at once; it lists ports, sets PXE once, logs out.

It has no reading back of the one-time boot, so it believes every BMC.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from typing import Any

from badfish.main import badfish_factory
from client_lab import Report, job


async def one(node: dict[str, Any], told: dict[str, Any], report: Report) -> None:
    """One host."""
    quiet = logging.getLogger(node["name"])
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    begun, macs, ok, error = time.monotonic(), 0, False, ""
    try:
        host = f"{node['address']}:{node['port']}"
        client = await badfish_factory(
            host, told["user"], told["password"], quiet, _insecure=True, _progress_disabled=True
        )
        try:
            found = dict(await client.get_network_adapters())
            found |= await client.get_ethernet_interfaces()
            macs = len({port["MACAddress"] for port in found.values() if "MACAddress" in port})
            await client.set_next_boot_pxe()
            ok = True
        finally:
            await client.delete_session()
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}"
    report.done(node["name"], time.monotonic() - begun, macs, ok, error)


async def main() -> None:
    told, report = job(), Report(sys.argv[2])
    await asyncio.gather(*(one(node, told, report) for node in told["nodes"]))


asyncio.run(main())
