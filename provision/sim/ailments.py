"""Misbehaviour of BMCs by name: what ``bmc_sick:NAME`` may be. ``bmc/sickness`` carries it out.

The cases R… are those of reports about real BMCs (cases: redfish.md). ``bmc_sick:R6`` is the first name of case R6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provision.sim.parts import SimError

if TYPE_CHECKING:
    from provision.sim.machine import SimMachine

# Name: (case, what it does).
AILMENTS: dict[str, tuple[str, str]] = {
    "sessions_full": ("R1", "no session is free: 503 at every login, Basic still works"),
    "sessions_full_400": ("R1", "no session is free, said with 400 and another id"),
    "session_vanishes": ("R2", "the first session is forgotten after a few requests, and its end is answered 401"),
    "logout_refused": ("R2", "the end of a session is answered 401"),
    "sessions_missing": ("R3", "a login is answered 405: there are no sessions"),
    "sessions_elsewhere": ("R3", "logins are taken at /redfish/v1/Sessions only, as the root says"),
    "session_without_location": ("R3", "a login's address stands in its body only"),
    "session_without_token": ("R3", "a login is answered 201 without a token"),
    "password_change": ("R5", "a login makes a session that may do nothing but change the password"),
    "password_change_403": ("R5", "a login is answered 403: the password must change first"),
    "collects_data": ("R6", "every address but the root answers 503 once, with the pause to wait"),
    "collects_data_silently": ("R6", "every address but the root answers 503 once and names no pause"),
    "root_busy": ("R6", "the service root answers 503 once"),
    "flaky": ("R6", "one answer in twenty is a 503"),
    "systems_empty": ("R7", "the list of systems is empty twice"),
    "systems_without_members": ("R7", "the list of systems has no Members twice"),
    "system_missing": ("R7", "the system that is listed is not found twice"),
    "tray_dead": ("R9", "the accelerator tray beside the host answers 503"),
    "links_empty": ("R10", "link states and healths are empty texts"),
    "links_null": ("R10", "link states and healths are null"),
    "links_missing": ("R10", "link states and healths are left out"),
    "mac_empty": ("R11", "the boot port's interface has an empty MAC"),
    "mac_zero": ("R11", "the boot port's interface has a MAC of zeros"),
    "mac_in_boot_option_only": ("R11", "the boot port's MAC stands in its boot options and nowhere else"),
    "macs_odd": ("R13", "MACs are written with dots"),
    "port_missing": ("R14", "the ports of network cards are linked and not found"),
    "adapters_refused": ("R14", "the list of network adapters is answered 400"),
    "expand_refused": ("R14", "$expand is offered and answered 400"),
    "override_makes_job": ("R16", "an accepted override queues a BIOS job, so the host starts once more"),
    "mode_lost": ("R17", "an accepted override reads back as Disabled"),
    "tag_required": ("R19", "a PATCH without If-Match is answered 428"),
    "tag_weak": ("R20", "weak tags are given and strong ones are wanted"),
    "tag_doubled": ("R20", "the tag is given twice in one header"),
    "tag_empty": ("R20", "the tag is empty, and If-Match is answered 412"),
    "tag_number": ("R20", "the tag is a bare number and wanted in quotes"),
    "tag_stale": ("R20", "the first tag is refused although it is fresh"),
    "tag_never": ("R20", "no tag is ever right"),
    "settings_refuse": ("R21", "the settings resource refuses the override, the system takes it"),
    "job_pending": ("R22", "somebody's BIOS job waits for the next start"),
    "settles_slowly": ("R25", "the first two presses are answered 409"),
    "press_ignored": ("R27", "a press is answered 204 and nothing happens"),
    "graceful_refused": ("R27", "graceful and cycling reset types are offered and refused"),
    "press_answer_lost": ("R28", "a press is carried out and its answer never comes"),
    "press_lost": ("R28", "a press is neither carried out nor answered"),
    "patch_answer_lost": ("R28", "an override is stored and the answer never comes"),
    "log_shifts": ("R29", "the log grows while it is read: pages overlap"),
    "log_loops": ("R29", "the log's next page is the same page"),
    "ntp_on": ("R30", "NTP is on, so the clock cannot be set by hand"),
    "adapters_hang": ("R9", "the list of network adapters is never answered"),
    "body_html": ("garbled", "the list of network adapters is a web page"),
    "body_torn": ("garbled", "every second answer breaks off in the middle, once for each address"),
    "body_types": ("garbled", "lists, numbers and texts stand where others are expected"),
    "redirects": ("garbled", "the system is answered with a redirect to another machine"),
}


def ailment(machine: SimMachine, arg: str) -> str:
    """The name of an ailment, given by name or by case; ``collects_data`` by default."""
    arg = arg or "collects_data"
    name = next((own for own, (case, _) in AILMENTS.items() if case == arg), arg)
    if name not in AILMENTS:
        listed = ", ".join(f"{own} ({case})" for own, (case, _) in AILMENTS.items())
        raise SimError(f"no such misbehaviour; there are {listed}")
    return name
