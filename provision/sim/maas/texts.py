"""What failing scripts and installers print: in the words of the real programs, with our own figures."""

from __future__ import annotations


def clock_failure(offset_s: float) -> str:
    """apt and TLS on a machine whose clock is ``offset_s`` ahead of true time (negative: behind)."""
    hours, rest = divmod(int(abs(offset_s)), 3600)
    minutes, seconds = divmod(rest, 60)
    span = f"{hours}h {minutes}min {seconds}s"
    if offset_s < 0:
        release, certificate = f"is not valid yet (invalid for another {span})", "certificate is not yet valid"
    else:
        release, certificate = f"is expired (invalid since {span})", "certificate has expired"
    return (
        f"E: Release file for http://archive.ubuntu.com/ubuntu/dists/noble-updates/InRelease {release}."
        " Updates for this repository will not be applied.\n"
        f"urllib.error.URLError: <urlopen error [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed:"
        f" {certificate} (_ssl.c:1000)>\n"
    )


def script_failure() -> str:
    """A commissioning script that gives up."""
    return (
        "Traceback (most recent call last):\n"
        '  File "50-maas-01-commissioning", line 61, in <module>\n'
        "subprocess.CalledProcessError: Command '['lxd-machine-resources']' returned non-zero exit status 1.\n"
    )


def smart_failure(serial: str) -> str:
    """smartctl-validate on a drive that announces its failure."""
    return (
        f"INFO: Verifying SMART support for the drive with serial {serial}\n"
        "FAILURE: SMART tests have FAILED for the drive\n"
        "SMART overall-health self-assessment test result: FAILED!\n"
        "- available spare has fallen below threshold\n"
    )


def install_log(why: str | None) -> str:
    """curtin's log; with the reason at its end when it failed."""
    head = (
        "curtin: Installation started. (23.1.1)\n"
        "start: cmd-install/stage-partitioning/builtin: curtin command block-meta\n"
        "finish: cmd-install/stage-partitioning/builtin: SUCCESS: curtin command block-meta\n"
        "start: cmd-install/stage-extract/builtin: curtin command extract\n"
    )
    if why is None:
        return f"{head}finish: cmd-install/stage-extract/builtin: SUCCESS: curtin command extract\n" + (
            "curtin: Installation finished.\n"
        )
    return f"{head}{why}curtin: Installation failed with exception: Unexpected error while running command.\n"
