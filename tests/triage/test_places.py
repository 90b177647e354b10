"""The labels of every vendor: what a line names is the locator, as it stands on the metal or in the tool."""

from __future__ import annotations

import pytest

from provision.model.evidence import PartKind
from provision.triage.facts import label
from provision.triage.places import place

ROWS = [
    # memory
    ("MEM0001 Multi-bit memory errors on DIMM_A1.", "dimm", "DIMM_A1"),
    ("Uncorrectable ECC @P1-DIMMA1 - Assertion", "dimm", "P1-DIMMA1"),
    ("[MEM] Correctable ECC @P2-DIMMF1 (CPU2)", "dimm", "P2-DIMMF1"),
    ("Memory training error at P1_DIMM_E1, DIMM disabled", "dimm", "P1_DIMM_E1"),
    ("CPU1_DIMM_A1 uncorrectable error", "dimm", "CPU1_DIMM_A1"),
    ("Uncorrectable Memory Error: PROC 1 DIMM 3", "dimm", "PROC 1 DIMM 3"),
    ("DIMM Initialization Error - Processor 2 DIMM 4", "dimm", "Processor 2 DIMM 4"),
    ("correctable errors on DIMM 12.", "dimm", "DIMM 12"),
    ("memory error, DIMM.Socket.B7", "dimm", "DIMM.Socket.B7"),
    ("EDAC MC0: 1 CE on CPU_SrcID#0_MC#3_Chan#1_DIMM#0 (channel:1)", "dimm", "CPU_SrcID#0_MC#3_Chan#1_DIMM#0"),
    ("EDAC MC0: 2 CE on mc#0csrow#1channel#2 (csrow:1)", "dimm", "mc#0csrow#1channel#2"),
    ("ECC uncorrectable error. Socket=1 Channel=C DIMM=0 Rank=1.", "dimm", "Socket=1 Channel=C DIMM=0"),
    ("DIMM_P0_G1 mapped out", "dimm", "DIMM_P0_G1"),
    ("memory slot DIMM A10 is disabled", "dimm", "DIMM A10"),
    # supplies
    ("Power supply 2 failed.", "psu", "PSU 2"),
    ("Power Supply 2 lost its input", "psu", "PSU 2"),
    ("The power input for power supply 4 is lost.", "psu", "PSU 4"),
    ("(Power Supply 1)", "psu", "PSU 1"),
    ("[PWR] PSU2 Power Supply Failure", "psu", "PSU 2"),
    ("PSU 1 fan fault", "psu", "PSU 1"),
    ("PSU1_STATUS: failure was asserted", "psu", "PSU 1"),
    ("PSU_4 critical", "psu", "PSU 4"),
    ("Power supply unit 2 is not present", "psu", "PSU 2"),
    ("PSU.Slot.3 Status: Critical", "psu", "PSU.Slot.3"),
    ("PS2 Status | Power Supply AC lost", "psu", "PS2"),
    ("PS 1 input out of range", "psu", "PS 1"),
    # fans
    ("FAN3B RPM is low", "fan", "FAN3B"),
    ("Fan 7A is removed", "fan", "Fan 7A"),
    ("FAN2 Lower Critical - Going Low", "fan", "FAN2"),
    ("System Fan 3 failed", "fan", "System Fan 3"),
    ("FAN_8 reads 0 RPM", "fan", "FAN_8"),
    ("Fan module 4 rear rotor failure", "fan", "Fan module 4"),
    # drives
    ("Disk 3 in Backplane 1 of Integrated RAID Controller failed", "drive", "Disk 3 in Backplane 1"),
    ("Drive 3 in disk drive bay 1 is removed", "drive", "Drive 3 in disk drive bay 1"),
    ("Internal Storage Device Failure (Bay 3, Box 1)", "drive", "Bay 3"),
    ("Disk.Bay.5 State=Absent", "drive", "Disk.Bay.5"),
    ("drive slot 6 fault", "drive", "drive slot 6"),
    ("Drive 4 predictive failure", "drive", "Drive 4"),
    ("nvme nvme3: controller is down", "drive", "nvme3"),
    ("I/O error, dev nvme3n1, sector 12", "drive", "nvme3n1"),
    ("md: Disk failure on nvme1n1p2, disabling", "drive", "nvme1n1"),
    ("Device: /dev/sdb [SAT], FAILED", "drive", "sdb"),
    ("sd 0:0:2:0: [sdc] Medium Error", "drive", "sdc"),
    ("Device: /dev/nvme4 smart", "drive", "nvme4"),
    # GPUs and their switches
    ("NVRM: Xid (PCI:0000:19:00): 79, lost", "gpu", "0000:19:00"),
    ("NVRM: GPU at 0000:19:00: lost", "gpu", "0000:19:00"),
    ("NVRM: GPU at PCI:0000:83:00: GPU-1f", "gpu", "0000:83:00"),
    ("Unable to determine the device handle for GPU0000:A1:00.0", "gpu", "0000:A1:00.0"),
    ("GPU 4 is not detected", "gpu", "GPU 4"),
    ("GPU_SXM_3 has detected errors", "gpu", "SXM_3"),
    ("SXM5 fault", "gpu", "SXM5"),
    ("nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 14017, Fatal", "nvswitch", "0000:07:00.0"),
    ("NVSwitch 2 is unreachable", "nvswitch", "NVSwitch 2"),
    # cards, ports, slots
    ("mlx5_core 0000:98:00.0: health compromised", "nic", "0000:98:00.0"),
    ("symbol errors rising on mlx5_4", "nic", "mlx5_4"),
    ("enp26s0f0np0: link is down", "port", "enp26s0f0np0"),
    ("tg3 0000:02:00.0 eno1: Link is down", "port", "eno1"),
    ("ice 0000:31:00.0 ens1f0: NIC Link is Down", "port", "ens1f0"),
    ("bond0: no response", "port", "bond0"),
    ("Comm Error: Backplane 0", "cable", "Backplane 0"),
    ("board riser 2 is not connected", "cable", "riser 2"),
    ("A bus fatal error was detected at slot 31.", "pcie", "slot 31"),
    ("PCIe Slot 7 link training failed", "pcie", "PCIe Slot 7"),
    ("pcieport 0000:64:01.0: AER: error", "pcie", "0000:64:01.0"),
    ("CPU 2 has an internal error (IERR).", "cpu", "CPU 2"),
    ("PROC 1 thermal trip", "cpu", "PROC 1"),
]


@pytest.mark.parametrize(("line", "kind", "locator"), ROWS)
def test_names_the_part_as_it_is_labelled(line: str, kind: str, locator: str) -> None:
    """Kind and label; only a supply that is written out is shortened."""
    found = place(line)
    assert found is not None
    assert (found.kind, found.locator) == (PartKind(kind), locator)


@pytest.mark.parametrize(
    "line",
    [
        "Memory training completed",
        "the power supplies are redundant",
        "all fans run at 100 %",
        "kernel 5.15.0-105 booted in 23.4 s",
        "IPMI 2.0, Redfish 1.15",
        "System Boot Initiated | Initiated by power up",
        "MTU 9000 on the uplink",
    ],
)
def test_a_line_without_a_part_names_none(line: str) -> None:
    """A word of a component alone is no place to send anybody to."""
    assert place(line) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("PSU.Slot.2", "PSU 2"),
        ("psu2", "PSU 2"),
        ("Slot 3", "PCIe Slot 3"),
        ("DIMM_A1", "DIMM A1"),
        ("Bay 4", "bay4"),
        ("GPU_3", "GPU 3"),
        ("Fan 7A", "FAN7A"),
    ],
)
def test_spellings_of_one_label_are_one_place(one: str, other: str) -> None:
    """A ticket is found again whichever probe spelt its place."""
    assert label(one) == label(other)
