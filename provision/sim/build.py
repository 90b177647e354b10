"""Machines as the factory and the cabling crew deliver them: profile h100-8gpu, everything well."""

from __future__ import annotations

import hashlib
import random
from uuid import UUID

from provision.sim.machine import Parts, SimMachine
from provision.sim.parts import SimDimm, SimDrive, SimGpu, SimNic, SimPcieSlot, SimPsu

GB = 10**9
ETHERNET_SLOT = 35
# Slot → riser. Two InfiniBand cards and two GPUs hang on each riser; the Ethernet card sits on the board.
INFINIBAND_SLOTS = {31: 1, 32: 1, 33: 2, 34: 2, 37: 3, 38: 3, 39: 4, 40: 4}


def build_machine(
    rack_number: int,
    number: int,
    *,
    seed: int = 1,
    units: int = 6,
    family: str = "idrac9",
    infiniband: bool = True,
) -> SimMachine:
    """``gpu-12-03`` of rack-12: eight GPUs, two Ethernet and eight InfiniBand ports, eight data drives, six PSUs.

    ``units`` is its height, for its place in the rack; ``family`` the maker of its BMC, a row of ``families``.
    Without ``infiniband`` the eight rails are Ethernet cards.
    """
    name = f"gpu-{rack_number:02d}-{number:02d}"
    draw = random.Random(f"{seed}/{name}")
    tag = "".join(draw.choices("BCDFGHJKLMNPQRSTVWXYZ0123456789", k=7))
    serial = f"{draw.randrange(16**6):06X}"
    parts = Parts(
        nics=_nics(rack_number, number, draw, infiniband=infiniband),
        drives=_drives(serial),
        psus=[
            SimPsu(
                n,
                serial=f"PS{serial}{n}",
                feed=_feed(rack_number, number, n),
            )
            for n in range(1, 7)
        ],
        gpus=[SimGpu(n, f"165{serial}{n:03d}", "NVIDIA H100 80GB HBM3", riser=(n + 1) // 2) for n in range(1, 9)],
        dimms=[SimDimm(f"{bank}{n}", f"M{serial}{bank}{n:02d}", 64 * 2**30) for bank in "AB" for n in range(1, 17)],
        slots=[
            *(SimPcieSlot(slot, riser=riser) for slot, riser in INFINIBAND_SLOTS.items()),
            SimPcieSlot(ETHERNET_SLOT, gen=4, max_gen=5),
        ],
    )
    uuid = str(UUID(bytes=hashlib.sha256(f"{seed}/{name}".encode()).digest()[:16], version=4))
    unit = 1 + (number - 1) * units
    return SimMachine(name, parts, rack=f"rack-{rack_number}", unit=unit, service_tag=tag, uuid=uuid, maker=family)


def _feed(rack_number: int, number: int, psu: int) -> str:
    """Odd supplies hang on PDU a, even ones on PDU b; three outlets of each for a machine."""
    return f"pdu-{rack_number}{'a' if psu % 2 else 'b'}-{number * 3 - 2 + (psu - 1) // 2}"


def _drives(serial: str) -> list[SimDrive]:
    data = [
        SimDrive(
            f"S6{serial}{bay:02d}", "Dell Ent NVMe v2 AGN RI U.2 7.68TB", 7_681_501_126_656, bay,
            id_path=f"pci-0000:{0x80 + bay:02x}:00.0-nvme-1",
        )
        for bay in range(8)
    ]  # fmt: skip
    boot = SimDrive(
        f"BT{serial}B0", "Dell BOSS-N1", 480_036_519_936, 0, boot=True, width=2, max_width=8, gen=3,
        id_path="pci-0000:01:00.0-nvme-1",
    )  # fmt: skip
    return [*data, boot]


def _nics(rack_number: int, number: int, draw: random.Random, *, infiniband: bool) -> list[SimNic]:
    # The last two octets are the machine's own, so no two machines of a world share a MAC.
    tail = f"{rack_number % 256:02x}:{number % 256:02x}"
    pair = f"{draw.randrange(16):x}"
    nics = []
    for port in (1, 2):
        switch = f"leaf-{rack_number}{'ab'[port - 1]}"
        plug = f"swp{number}"
        nics.append(
            SimNic(
                f"b0:26:28:{pair}{port}:{tail}", f"Slot {ETHERNET_SLOT} Port {port}",
                f"NIC.Slot.{ETHERNET_SLOT}-{port}-1", "ethernet", switch, plug, switch, plug,
                f"C-{rack_number}-{number:02d}-{port:02d}", boot=port == 1, slot=ETHERNET_SLOT,
                model="Broadcom Adv. Dual 25Gb Ethernet", device=f"eno{port}np{port - 1}",
            )
        )  # fmt: skip
    for rail, (slot, riser) in enumerate(INFINIBAND_SLOTS.items(), start=1):
        switch = f"ib-{rack_number}-r{rail}"
        plug = f"ib{number}"
        mac = f"a0:88:c2:{pair}{rail:x}:{tail}"
        nics.append(
            SimNic(
                mac, f"Slot {slot} Port 1", f"InfiniBand.Slot.{slot}-1" if infiniband else f"NIC.Slot.{slot}-1-1",
                "infiniband" if infiniband else "ethernet", switch, plug, switch, plug,
                f"I-{rack_number}-{number:02d}-{rail:02d}", slot=slot, riser=riser,
                model="NVIDIA ConnectX-7 NDR400 InfiniBand", speed_mbps=400_000,
                guid=f"0x{mac.replace(':', '')[:6]}0300{mac.replace(':', '')[6:]}", device=f"ibp{slot}s0",
            )
        )  # fmt: skip
    return nics
