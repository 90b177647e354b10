"""The part that a line names, by the labels that vendors, kernels and tools print.

A locator is what stands in the text, for that is what stands on the metal or in the tool (``DIMM_A1``, ``P1-DIMMA1``,
``PROC 1 DIMM 3``, ``Disk 3 in Backplane 1``, ``mlx5_4``); only a power supply that is written out is shortened
(``Power Supply 2`` is ``PSU 2``). Source of the forms: facts/triage.md 4.1 and the vendors' message references.
"""

from __future__ import annotations

import re

from provision.model.evidence import Part, PartKind

BDF = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"
_LONG = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}"
_DIMM = (
    r"Socket=\w+ Channel=\w+ DIMM=\w+|CPU_SrcID#\S+DIMM#\d+"
    r"|(?:PROC|CPU|Processor) ?\d{1,2},? DIMM ?\d{1,2}|mc#\d+\w*#\d+\w*#\d+|DIMM\.Socket\.\w+"
    r"|(?:CPU|P|PROC)_?\d{1,2}[-_ ](?:DIMM|CH)[-_ ]?\w{1,6}|DIMM[-_ ]?P\d[-_]\w{1,3}|DIMM ?#\w+"
    r"|DIMM[-_ ]?(?:[A-Z]{1,2}\d{0,2}|\d{1,2})(?![A-Za-z0-9_])"
)

# The most telling first: a line may name a device and the slot, the port or the controller that it hangs on.
_INLINE: tuple[tuple[PartKind, re.Pattern[str]], ...] = (
    (PartKind.NVSWITCH, re.compile(rf"nvswitch\d*:.*?\(PCI:(?P<name>{BDF})\)")),
    (PartKind.GPU, re.compile(rf"\(PCI:(?P<name>{BDF})\)")),
    (PartKind.GPU, re.compile(rf"\bGPU ?(?:at )?(?:PCI:)?(?P<name>{_LONG}(?:\.\d)?)")),
    (PartKind.NIC, re.compile(rf"mlx5_core (?P<name>{BDF})")),
    (PartKind.DRIVE, re.compile(r"\bnvme (?P<name>nvme\d+)\b")),
    (PartKind.DRIVE, re.compile(r"\b(?P<name>nvme\d+n\d+)(?:p\d+)?\b")),
    (PartKind.DRIVE, re.compile(r"(?:\[|/dev/|dev(?:ice)? |on )(?P<name>sd[a-z]{1,2})(?:\d+)?\b")),
    (PartKind.DRIVE, re.compile(r"/dev/(?P<name>nvme\d+)\b")),
    (PartKind.DIMM, re.compile(rf"(?<![A-Za-z])(?P<name>{_DIMM})")),
    (PartKind.PSU, re.compile(r"(?P<name>PSU\.Slot\.\d+)")),
    (PartKind.PSU, re.compile(r"(?i)(?<![A-Za-z])(?:power[ _]?supply|psu)(?: unit| bay| slot)?[ _#-]*"
                                r"(?P<number>\d{1,2})(?!\d|\.\d)")),
    (PartKind.PSU, re.compile(r"(?P<name>\bPS[ _]?\d{1,2}\b)")),
    (PartKind.DRIVE, re.compile(r"(?i)(?P<name>\b(?:(?:physical )?disk|drive) \d{1,3} in "
                                  r"(?:backplane|enclosure|slot|disk drive bay) \d{1,2})")),
    (PartKind.DRIVE, re.compile(r"(?P<name>Disk\.Bay\.\d+)")),
    (PartKind.DRIVE, re.compile(r"(?i)(?P<name>\b(?:drive )?bay[ :#]?\d{1,3})\b")),
    (PartKind.DRIVE, re.compile(r"(?i)(?P<name>\b(?:drive|disk|SSD|NVMe)(?: slot)?[ #_]\d{1,3})\b")),
    (PartKind.FAN, re.compile(r"(?i)(?P<name>(?<![A-Za-z])(?:sys(?:tem)? ?)?fan(?: ?mod\w*)?[ _]?\d{1,2}[A-D]?)\b")),
    (PartKind.CABLE, re.compile(r"(?i)(?P<name>\b(?:backplane|riser|PSB|mezzanine)[ _]?\d{1,2})\b")),
    (PartKind.NVSWITCH, re.compile(r"(?i)(?P<name>\bnv ?switch[ _]?\d)\b")),
    (PartKind.GPU, re.compile(r"(?P<name>(?<![A-Za-z])GPU[ _]?\d{1,2}|(?<![A-Za-z])SXM[ _]?\d{1,2})(?![\w:])")),
    (PartKind.NIC, re.compile(r"\b(?P<name>mlx5_\d+)\b")),
    (PartKind.PORT, re.compile(r"\b(?P<name>(?:en[opsx]\d\w*|ens\w*\d|eth\d+|ib(?:s|p)?\d\w*|bond\d+))\b(?!\.\w)")),
    (PartKind.PCIE, re.compile(r"(?i)(?P<name>\b(?:pcie?[ _-]?)?slot[ _#:]?\d{1,2})\b")),
    (PartKind.CPU, re.compile(r"(?P<name>\b(?:CPU|PROC|Processor)[ _]?\d{1,2})\b(?!:)")),
    (PartKind.PCIE, re.compile(r"\b(?P<name>[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\b")),
)  # fmt: skip


def place(line: str) -> Part | None:
    """The part that ``line`` names, or None."""
    for kind, pattern in _INLINE:
        if found := pattern.search(line):
            name = found.groupdict().get("name") or f"PSU {int(found['number'])}"
            return Part(kind, name, name)
    return None
