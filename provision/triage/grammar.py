"""What a line of any vendor's log says in two words: which thing, and in which state.

Vendors word the same event in their own way; nearly all of them name a component and a state. Rules that match
``thing`` and ``state`` speak of a kind of failure, not of a wording (rules/kinds.yaml). Source of the vocabularies:
IPMI 2.0 tables 42-1 to 42-3 (sensor types and offsets), the registries of Dell (EEMI), HPE (IML), Lenovo (FQXSP...)
and OpenBMC.
"""

from __future__ import annotations

import re

from provision.model.evidence import PartKind
from provision.triage.patterns import MAX_LINE


def _words(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.IGNORECASE)


# The first that is found is the thing: a cable of a drive is a cable, the temperature of a CPU is a temperature.
_THINGS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("gpu", _words(r"\bXid\b|NVRM")),
    (
        "psu_redundancy",
        _words(
            r"(?:power|PSU|PS)\b.{0,40}redundan|redundan.{0,20}\b(?:power|PSU)|power unit\b.{0,40}redund",
        ),
    ),
    ("fan_redundancy", _words(r"\b(?:fans?|cooling)\b.{0,40}redundan|redundan.{0,20}\bfans?\b")),
    (
        "psu",
        _words(
            r"power ?suppl(?:y|ies)|\bPSU|\bPS[ _-]?\d{1,2}\b|PwrSupply|\bpower (?:input|cord)\b",
        ),
    ),
    ("fan", _words(r"\bfans?\b|\bfan[ _#-]?(?:mod\w*)?[ _#-]?\d|\bFAN\w*\d|\btach\w*")),
    ("leak", _words(r"\bleak(?:age|s)?\b|coolant|\bliquid\b")),
    (
        "temp",
        _words(
            r"\btemp(?:erature)?s?\b|_temp\b|\d ?°?C  ?\(high|therm(?:al|trip)|over-?heat|overtemp|PROCHOT",
        ),
    ),
    ("cable", _words(r"\bcables?\b|\briser\b|backplane|interconnect\b|mezz\w* connector")),
    (
        "voltage",
        _words(
            r"\bvoltages?\b|\bVRMs?\b|\bVR\b|VR ?hot|power ?good|\bP\d{1,2}V\d?\w*|\bV(?:CORE|CC|DD|TT)\w*",
            r"power rail",
        ),
    ),
    (
        "raid_battery",
        _words(
            r"(?:PERC|RAID|controller|BBU|cache|storage)\b.{0,40}\bbatter|\bBBU\b|cache (?:module|vault)",
            r"super ?cap",
        ),
    ),
    ("battery", _words(r"\bbatter(?:y|ies)\b|\bVBAT\b|\bCMOS\b|coin cell")),
    (
        "drive",
        _words(
            r"\b(?:disks?|drives?|SSDs?|HDDs?|NVMe\w*|storage device)\b|Disk\.Bay|physical ?drive",
        ),
    ),
    ("dimm", _words(r"DIMM|\bmemory\b(?! (?:of|on) GPU)|\bMEM_?\w?\d|\bECC\b")),
    ("nvswitch", _words(r"NV ?Switch|NVLink")),
    ("gpu", _words(r"(?<![A-Za-z])GPUs?(?![A-Za-z])|(?<![A-Za-z])SXM[ _]?\d|accelerator|\bHGX\b|baseboard GPU")),
    (
        "nic",
        _words(
            r"\bNICs?\b|network (?:adapter|card|interface|controller|port)|ethernet|\bLOM\b|\bHCA\b",
            r"ConnectX|mlx5_\d",
        ),
    ),
    (
        "pcie",
        _words(
            r"\bPCI(?:e|-?X|[ -]?Express)?\b|\bslot[ _]?\d|\bbus (?:fatal|uncorrect|degraded|time)",
            r"Critical Interrupt|\bAER\b|PERR|SERR",
        ),
    ),
    ("cpu", _words(r"\bCPU|\bprocessors?\b|\bPROC[ _]?\d|CATERR|IERR|\bMCE?RR|machine check")),
    (
        "intrusion",
        _words(r"chassis (?:intru|is open|is closed|lid|opened|closed)|intrusion|\bbezel\b|\bcover\b|\blid\b"),
    ),
    ("watchdog", _words(r"watchdog")),
    (
        "bmc",
        _words(
            r"\bBMC\b|\biDRAC\b|\biLO\b|\bXCC\b|management (?:controller|engine|processor)|/Managers/",
        ),
    ),
    (
        "system",
        _words(
            r"\bSEL\b|event log|System (?:Event|Firmware|Boot|ACPI)|OS (?:Boot|Critical|Stop)|\bPOST\b",
            r"\bBIOS\b|\bUEFI\b|Session Audit|\bBMC\b",
        ),
    ),
)
# Words of managing a machine: what is asked, set, licensed or updated is no part.
_MANAGED_NOUNS = "|".join(
    (
        r"features?|settings?|polic(?:y|ies)|(?<!resource )propert(?:y|ies)|attributes?|licen[sc]es?",
        r"certificates?|security keys?|users?|password|accounts?|sessions?|jobs?|update package",
        r"firmware (?:image|update|package|upgrade)|virtual (?:media|console)|mapping|VLAN|IPv[46]|DNS",
        r"NTP|SNMP|SMTP|LDAP|RACADM|secure boot|export|import|erase|sanitize|lockdown|pass-?through",
        r"key management|self-?encrypt\w*|namespaces?|virtual (?:disks?|drives?)|VD|hot ?spare",
        r"disk groups?|foreign",
    )
)
_MANAGED = _words(
    rf"\b(?:{_MANAGED_NOUNS})\b",
    r"^(?:\S+ )?(?:unable|cannot|could not|failed) to (?!communicate|d"
    r"etect|initiali|read\b|power|boot|train|recover|respond|start up)",
    r"operation .{0,40}(?:cannot|could not|not (?:completed?|perform|allowed|success))",
    r"\b(?:DVD|CD|USB|floppy|LCD|vFlash|SD card)\b",
)
_CLEAR = _words(
    r"de-?assert|\bresolved\b|normal levels?|limit (?:has been |is |was )?reset",
    r"changed to (?:ok|on|good)|reassigned|has corrected errors|less than the critical thr\w*",
    r"no longer at risk|(?:condition|problem|error|alarm|fault) has been removed|recovery has occurred",
    r"not in any\b|completed successfully|at normal|\brestored\b",
    r"return(?:ed|s)? to (?:a )?(?:normal|good|ok)|operating normally|\brecovered\b|\brepaired\b",
    r"now redundant|(?<!from )fully redundant|(?:is|are) redundant|successful\w*|\bcompleted?\b",
    r"\bcleared\b",
    r"\bis (?:now )?(?:ok|present|online|normal|good|healthy|functional|o"
    r"perational|active|installed|connected|inserted|available|working)\b",
    r"has been (?:inserted|installed|added|connected)|\binserted\b|within (?:range|limits|specif\w*)",
    r"to (?:normal|ok) state|below (?:the )?threshold",
    r"\bno (?:errors?|faults?|failures?|issues?|problems?)\b|without errors?",
    r"(?<![\d.])0 (?:errors|failures|faults)\b|\|\s*(?:ok|nominal)\s*(?:\||$)|\bnominal\b",
    r"upper (?:non-?)?(?:critical|recoverable) going low",
    r"lower (?:non-?)?(?:critical|recoverable) going high|threshold (?:is )?no longer",
    r"going (?:ok|normal)|(?:has|have) been replaced",
    r"no longer (?:predict|assert|critical|in|above|below|exceed|degraded|failed)\w*|\bhealthy\b",
    r'"(?:MessageS|S)everity"\W{1,3}(?:OK|Informational)|\bhealth\W{1,3}OK\b',
)
# IPMI says that something went by taking back that it is there.
_NOT_THERE = _words(r"presen(?:t|ce detected)\b.{0,8}\bde-?assert")
_INFO = _words(
    r"\btest (?:event|message|alert|trap)|log (?:area )?(?:was |is )?(?:reset|cleared)",
    r"logg(?:ed|ing) (?:in|out|on|off)\b|\blog(?:in|out)\b|boot completed|initiated by",
    r"powered (?:on|off|up|down)\b|power(?:ed)? cycled?|legacy (?:on|off) state|patrol read",
    r"rebuild (?:start|progress)|firmware (?:or software )?change|\baudit\b|time ?stamp|clock sync",
    r"inventory|new device|device installed|\bpresence detected\W{0,3}$",
    r"drive present\b(?!.{0,30}fault)|\bS[0-5]\b.{0,6}(?:G\d|soft-off|working)|\|\s*ns\s*(?:\||$)",
    r"session|consistency check",
)
_STATES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "no_input",
        _words(
            r"(?:AC|input|DC|line|mains|utility) ?(?:power |voltage |feed )?(?:is |wa"
            r"s |has been )?(?:lost|loss|missing|absent|fail|out[ -]of[ -]range|under)",
            r"(?:lost|loss of|no|without) (?:its )?(?:AC|input|DC|line|mains|power)\b|power lost",
            r"unplugged power|power cord|input lost",
        ),
    ),
    (
        "predicted",
        _words(
            r"predict(?:ive|ed|s)|pre-?fail|imminent|wear-?out|end of life",
            r"life(?:time)? (?:exhausted|remaining 0)",
        ),
    ),
    ("trip", _words(r"therm(?:al)?[ -]?trip|over-?temp\w*|overheat|thermal shutdown|protection trip")),
    (
        "limit",
        _words(
            r"(?<!un)correct.{0,60}(?:limit|threshold|rate|exceed|disabled|storm|persist)",
            r"(?:limit|threshold|rate).{0,40}(?<!un)correct|ADDDC",
        ),
    ),
    (
        "uncorrectable",
        _words(
            r"uncorrect|multi-?bit|double-?bit|\bfatal|PERR|SERR|CATERR|IERR|\bMC?ERR\b|poison",
            r"^(?!.*(?<!un)correct(?:able|ed)).*machine check|bus (?:time-?out|degraded)|unrecoverable",
            r"surprise|link training|parity",
        ),
    ),
    ("correctable", _words(r"correctable|corrected|single-?bit")),
    (
        "critical",
        _words(
            r"(?:upper|lower) (?:critical|non-?recoverable)|critical (?:high|low|threshold|temp)",
            r"\btoo (?:high|hot)\b|\(CRIT\)|\d  ?ALARM",
            r"(?:above|below|exceed\w*|greater than|less than).{0,24}(?:critical|maximum|minimum|fatal)",
            r"\|\s*(?:cr|nr|ucr|lcr|unr|lnr)\s*(?:\||$)|crossed a critical",
            r"transition(?:ed)? to (?:critical|non-?recoverable)",
        ),
    ),
    (
        "warning",
        _words(
            r"non-?critical|warning (?:threshold|high|low)",
            r"(?:above|below|exceed\w*|greater than|less than).{0,24}warning",
            r"\|\s*(?:nc|unc|lnc)\s*(?:\||$)|crossed a warning",
            r"transition(?:ed)? to (?:non-?critical|warning)",
        ),
    ),
    ("unsupported", _words(r"unsupported|not supported|population|incompatib|not authori[sz]ed|unqualified")),
    (
        "config",
        _words(
            r"mismatch|invalid config|config(?:uration)? error",
            r"(?:incorrectly|improperly|not) (?:configured|connected|installed|seated)|misconfig|swapped",
        ),
    ),
    (
        "absent",
        _words(
            r"\babsent\b|\bmissing\b",
            r"not (?:present|detected|found|installed|seated|inserted|populated|connected|plugged)",
            r"unplugged|disconnect\w*|\bopen circuit",
            r"no longer (?:present|detected|available|respond\w*|seen|enumerat\w*)",
        ),
    ),
    ("removed", _words(r"\bremoved\b|\bpulled\b|extracted|\bejected\b")),
    (
        "failed",
        _words(
            r"\bfail(?:ed|ure|s|ing)?\b|\bfault(?:y|ed|s)?\b|\berrors?\b|degraded|\boffline\b|\blost\b",
            r"unresponsive|not (?:respond\w*|functional|working|reachable)|\bproblems?\b|\bissues?\b",
            r"\bstopped\b|\bdead\b|(?<![\d.])0 ?RPM|mapped out|out(?:side)?[ -](?:of )?(?:the )?range",
            r"\bcritical\b|inactive|\bbad\b|low\b|malfunction",
        ),
    ),
)
_OF_PART = {
    PartKind.PSU: "psu",
    PartKind.FAN: "fan",
    PartKind.DIMM: "dimm",
    PartKind.DRIVE: "drive",
    PartKind.GPU: "gpu",
    PartKind.NVSWITCH: "nvswitch",
}
# Start-up switches these off when they fail it; elsewhere "disabled" is a setting.
_SWITCHED_OFF = frozenset({"dimm", "cpu", "gpu"})
_DISABLED = _words(r"\b(?:is|was|been|and) disabled\b")
_REFUSED = _words(r"\b(?:unable|cannot|could not|refused|denied|invalid|expired)\b")
_SOFT = frozenset({"config", "unsupported", "absent", "removed", "failed", "predicted"})
# States that an audit, a test or a boot may name without meaning them.
_TOLD = frozenset({None, "absent", "failed", "config"})
# Things whose mere event is the news: an opened lid, a watchdog that bit.
_SPEAKS = frozenset({"intrusion", "watchdog"})
# Message ids whose letters tell the component: Dell's first letters, Lenovo's after ``FQXSP`` and ``FQXSF``.
_FAMILIES = {
    **dict.fromkeys(("PSU", "PW"), "psu"),
    **dict.fromkeys(("MEM", "MA"), "dimm"),
    **dict.fromkeys(("CPU", "PU"), "cpu"),
    **dict.fromkeys(("PCI", "IO"), "pcie"),
    **dict.fromkeys(("PDR", "SD"), "drive"),
    **{"FAN": "fan", "TMP": "temp", "VLT": "voltage", "BAT": "battery", "NIC": "nic", "NM": "nic", "CBL": "cable"},
}
# Lenovo's power messages speak of rails and of redundancy too.
_NO_SUPPLY = _words(r"(redundan)|sensor|soft power|power control")
# Lenovo ends the ids of what is only noted with an I.
_NOTED = re.compile(r"\W{0,2}FQX\w{4}\d{4}I\b")
_FAMILY = re.compile(
    r"\W{0,2}(?:FQXS[PF](PW|MA|PU|IO|SD|NM)\d{4}[A-Z]|(PSU|MEM|CPU|PCI|PDR|FAN|TMP|VLT|BAT|NIC|CBL)\d{2,4})\b"
)
# What a line of a part may be about besides the part itself.
_ABOUT = frozenset({"psu_redundancy", "fan_redundancy", "leak", "temp", "intrusion", "raid_battery"})


def said(line: str, part: PartKind | None = None) -> dict[str, str]:
    """``thing`` and ``state`` of a line, or nothing if it does not name both.

    ``part`` is the kind of part that the line names by its label, which tells more than a word.

    ``state`` is ``clear`` (over, well, restored), ``info`` (an audit, a test, a boot), or the gravest that is named:
    ``no_input``, ``predicted``, ``trip``, ``limit``, ``uncorrectable``, ``correctable``, ``critical``, ``warning``,
    ``unsupported``, ``config``, ``absent``, ``removed``, ``failed``.
    """
    head = line[:MAX_LINE]
    thing = _thing(head, part)
    if thing in {None, "system"} and _NOTED.match(head):
        return {"thing": "system", "state": "info"}
    if thing in {None, "system"} and _MANAGED.search(head) and not (_CLEAR.search(head) or _INFO.search(head)):
        return {"thing": "managed", "state": "failed"}
    if thing is None:
        return {"thing": "system", "state": "info"} if _INFO.search(head) or _CLEAR.search(head) else {}
    state = _state(head, thing)
    soft = state in _SOFT or (state is None and _REFUSED.search(head))
    if soft and not _NOT_THERE.search(head) and _MANAGED.search(head):
        return {"thing": "managed", "state": "failed"}
    told = _noted(head, state)
    return {"thing": thing, "state": told} if told else {}


def _thing(head: str, part: PartKind | None) -> str | None:
    thing = next((name for name, pattern in _THINGS if pattern.search(head)), None)
    if thing not in _ABOUT and part in _OF_PART:
        return _OF_PART[part]
    if thing is not None or (family := _FAMILY.match(head)) is None:
        return thing
    thing = _FAMILIES[(family[1] or family[2]).upper()]
    if thing == "psu" and (other := _NO_SUPPLY.search(head)):
        return "psu_redundancy" if other[1] else "voltage"
    return thing


def _state(head: str, thing: str) -> str | None:
    if _NOT_THERE.search(head):
        return "absent"
    if _CLEAR.search(head):
        return "clear"
    bad = next((name for name, pattern in _STATES if pattern.search(head)), None)
    if bad is None and ((thing in _SWITCHED_OFF and _DISABLED.search(head)) or thing in _SPEAKS):
        return "failed"
    return bad


def _noted(head: str, state: str | None) -> str | None:
    """The state, or ``info`` where the line only tells what was done or seen."""
    if state == "clear" or (state == "absent" and _NOT_THERE.search(head)):
        return state
    if (_NOTED.match(head) and state != "no_input") or (_INFO.search(head) and state in _TOLD):
        return "info"
    return state
