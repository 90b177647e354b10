"""Simulated BMCs: Redfish over HTTPS as an iDRAC9 speaks it, one loopback address each.

An own reading of Redfish (DSP0266) and of captured iDRAC9 trees (facts: redfish.md); it shares nothing with the
program's adapter on purpose.
"""

from provision.sim.bmc.server import BmcServers

__all__ = ["BmcServers"]
