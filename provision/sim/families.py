"""Makers of BMCs as data: what each calls its resources, where it keeps what, and what it insists on.

An own reading of captured trees and reports (facts: redfish.md); it shares nothing with the program's adapter on
purpose. ``bmc/plain.py`` builds the trees of all rows but Dell's, which have modules of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from provision.sim.parts import SimError, SimNic

ROOT = "/redfish/v1"
RESETS = (
    "On",
    "ForceOff",
    "ForceRestart",
    "GracefulRestart",
    "GracefulShutdown",
    "PushPowerButton",
    "Nmi",
    "PowerCycle",
)


@dataclass(frozen=True)
class Family:
    """One row. Paths are whole; ``settings`` is empty where the system has no settings resource.

    ``override_in_settings``: the boot override is written to and shown in the settings resource; ``elsewhere`` is the
    message id with which the system refuses it. ``whole_boot``: keys left out of a Boot object fall back to defaults.
    ``tags`` is none, weak or strong; ``if_match``: a PATCH without If-Match is refused. ``mode_makes_job``: naming the
    boot mode queues a BIOS job. ``action_info``: allowed reset types stand in a resource of their own.
    ``expand`` is (ExpandAll, NoLinks, MaxLevels) of the root. ``interfaces``: ids in EthernetInterfaces with ``{n}``,
    empty where cards alone tell of ports; ``all_interfaces``: InfiniBand ports stand there too. ``cards``: ids in
    NetworkAdapters with ``{n}``, empty for none; ``ports`` is Ports or NetworkPorts. ``macs`` is upper, lower or bare.
    ``link_told``: EthernetInterfaces show a link state. ``to_manager``: a host interface of the BMC stands among them.
    ``gpus`` is processors, pcie or tray (a second system). ``psus``: Power, PowerSubsystem. ``log``: id of the system's
    log. ``progress``: where POST progress stands. ``already`` is the status that refuses a press for a
    state that holds. ``generation`` is the system's (Dell) or the manager's (HPE); ``idle_s`` a session's life.
    """

    name: str
    vendor: str
    product: str
    maker: str
    model: str
    oem: str
    system: str
    chassis: str
    manager: str
    server: str
    bmc_version: str
    settings: str = ""
    override_in_settings: bool = False
    elsewhere: str = "Base.1.12.PropertyNotWritable"
    whole_boot: bool = False
    tags: str = "strong"
    if_match: bool = False
    mode_makes_job: bool = False
    resets: tuple[str, ...] = RESETS
    action_info: bool = False
    expand: tuple[bool, bool, int] = (True, True, 2)
    generation: str = ""
    idle_s: int = 1800
    interfaces: str = ""
    all_interfaces: bool = False
    cards: str = ""
    ports: str = "NetworkPorts"
    macs: str = "upper"
    link_told: bool = True
    to_manager: bool = False
    gpus: str = "processors"
    tray: str = ""
    psus: tuple[str, ...] = ("Power",)
    pcie: bool = True
    log: str = ""
    progress: str = "BootProgress"
    already: int = 400

    @property
    def dell(self) -> bool:
        """True for iDRACs, whose tree is built by modules of its own."""
        return self.oem == "Dell"

    def port_name(self, nic: SimNic, number: int) -> str:
        """What an operator calls this port in a cabling plan; ``number`` counts all ports of the machine from 1."""
        if self.dell:
            return nic.name
        return nic.slot_label if self.cards else f"NIC {number}"


_IDRAC = Family(
    name="idrac9",
    vendor="Dell",
    product="Integrated Dell Remote Access Controller",
    maker="Dell Inc.",
    model="PowerEdge XE9680",
    oem="Dell",
    system=f"{ROOT}/Systems/System.Embedded.1",
    chassis=f"{ROOT}/Chassis/System.Embedded.1",
    manager=f"{ROOT}/Managers/iDRAC.Embedded.1",
    server="iDRAC/9",
    bmc_version="7.10.30.00",
    settings=f"{ROOT}/Systems/System.Embedded.1/Settings",
    tags="none",
    mode_makes_job=True,
    expand=(True, True, 1),
    generation="16G Monolithic",
    already=409,
)


def _idrac10() -> Family:
    changed = {
        "name": "idrac10",
        "model": "PowerEdge XE9780",
        "server": "iDRAC/10",
        "bmc_version": "1.20.50.00",
        "override_in_settings": True,
        "elsewhere": "SYS427",
        "generation": "17G Monolithic",
    }
    return Family(**{**vars(_IDRAC), **changed})


_ROWS = (
    _IDRAC,
    _idrac10(),
    Family(
        name="hpe",
        vendor="HPE",
        product="ProLiant XL675d Gen10 Plus",
        maker="HPE",
        model="ProLiant XL675d Gen10 Plus",
        oem="Hpe",
        system=f"{ROOT}/Systems/1",
        chassis=f"{ROOT}/Chassis/1",
        manager=f"{ROOT}/Managers/1",
        server="HPE-iLO-Server/1.30",
        bmc_version="iLO 5 v2.72",
        tags="weak",
        # No PowerCycle on an iLO 5.
        resets=("On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi", "PushPowerButton", "GracefulRestart"),
        expand=(False, True, 1),
        generation="iLO 5",
        idle_s=30,
        interfaces="{n}",
        cards="DE07A00{n}",
        macs="lower",
        link_told=False,
        pcie=False,
        log="IML",
        progress="Hpe",
    ),
    Family(
        name="supermicro",
        vendor="Supermicro",
        product="",
        maker="Supermicro",
        model="SYS-821GE-TNHR",
        oem="Supermicro",
        system=f"{ROOT}/Systems/1",
        chassis=f"{ROOT}/Chassis/1",
        manager=f"{ROOT}/Managers/1",
        server="Supermicro",
        bmc_version="01.02.06",
        whole_boot=True,
        if_match=True,
        resets=("On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi", "ForceOn"),
        action_info=True,
        idle_s=300,
        interfaces="{n}",
        all_interfaces=True,
        to_manager=True,
        gpus="pcie",
        log="Log1",
    ),
    Family(
        name="lenovo",
        vendor="Lenovo",
        product="",
        maker="Lenovo",
        model="ThinkSystem SR675 V3",
        oem="Lenovo",
        system=f"{ROOT}/Systems/1",
        chassis=f"{ROOT}/Chassis/1",
        manager=f"{ROOT}/Managers/1",
        server="XCC",
        bmc_version="QGX328C",
        if_match=True,
        resets=("On", "Nmi", "GracefulShutdown", "GracefulRestart", "ForceOn", "ForceOff", "ForceRestart"),
        action_info=True,
        idle_s=300,
        interfaces="NIC{n}",
        cards="slot-{n}",
        macs="bare",
        to_manager=True,
        log="PlatformLog",
        progress="Lenovo",
    ),
    Family(
        name="ami",
        vendor="AMI",
        product="AMI Redfish Server",
        maker="GIGABYTE",
        model="G593-SD0",
        oem="Ami",
        system=f"{ROOT}/Systems/Self",
        chassis=f"{ROOT}/Chassis/Self",
        manager=f"{ROOT}/Managers/Self",
        server="AMI MegaRAC Redfish Service",
        bmc_version="13.06.12",
        settings=f"{ROOT}/Systems/Self/SD",
        override_in_settings=True,
        elsewhere="Ami.1.0.OperationSupportedInFutureStateURI",
        whole_boot=True,
        if_match=True,
        resets=("ForceOff", "ForceRestart", "GracefulShutdown", "On"),
        action_info=True,
        expand=(True, True, 5),
        idle_s=30,
        interfaces="EthernetInterface{n}",
        cards="DevType7_NIC{n}",
        ports="Ports",
        psus=("PowerSubsystem",),
        log="SEL",
        progress="",
    ),
    Family(
        name="openbmc",
        vendor="NVIDIA",
        product="GB200 NVL",
        maker="NVIDIA",
        model="GB200 NVL",
        oem="Nvidia",
        system=f"{ROOT}/Systems/System_0",
        chassis=f"{ROOT}/Chassis/Chassis_0",
        manager=f"{ROOT}/Managers/BMC_0",
        server="nginx",
        bmc_version="GB200Nvl-25.01-A",
        action_info=True,
        resets=(
            "On",
            "ForceOff",
            "ForceOn",
            "ForceRestart",
            "GracefulRestart",
            "GracefulShutdown",
            "PowerCycle",
            "Nmi",
        ),
        expand=(True, True, 6),
        cards="NIC_{n}",
        ports="Ports",
        gpus="tray",
        tray=f"{ROOT}/Systems/HGX_Baseboard_0",
        psus=("PowerSubsystem",),
        log="EventLog",
    ),
)
FAMILIES: dict[str, Family] = {row.name: row for row in _ROWS}


# What people call them beside the name of the maker.
_ALSO = {"idrac": "idrac9", "dell": "idrac9", "ilo": "hpe", "xcc": "lenovo", "smc": "supermicro", "megarac": "ami"}


def family(name: str) -> Family:
    """The row of this name (``hpe``) or of the product's (``ilo``). Raises SimError."""
    known = _ALSO.get(name.lower(), name.lower())
    if known not in FAMILIES:
        raise SimError(f"there is no family of BMCs called {name!r}; the families are {', '.join(FAMILIES)}")
    return FAMILIES[known]


def spelled(row: Family, mac: str) -> str:
    """A MAC as this maker writes it."""
    return {"upper": mac.upper(), "lower": mac.lower(), "bare": mac.replace(":", "").upper()}[row.macs]
