"""What runs on this node at the moment, and whether only a reboot can make it what it should be. Pure but for reading.

Standard library of Python 3.8 and later: it runs on the nodes.
"""

from __future__ import annotations

from pathlib import Path

# The EFI variable: four bytes of attributes, then 1 if Secure Boot is on. UEFI specification 2.10, 3.3.
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def read(root, modules):
    """What is running: boot id, kernel, command line, loaded versions of ``modules``, Secure Boot, distribution's wish.

    A module that is not loaded is None, one without a version is "". ``secure_boot`` is None on a BIOS machine.
    """
    base = Path(root)
    loaded = {}
    for name in modules:
        folder = base / "sys/module" / name
        loaded[name] = _text(folder / "version") if folder.is_dir() else None
    try:
        secure = (base / SECURE_BOOT).read_bytes()[4:5] == b"\x01"
    except OSError:
        secure = None
    return {
        "boot_id": _text(base / "proc/sys/kernel/random/boot_id"),
        "kernel": _text(base / "proc/sys/kernel/osrelease"),
        "cmdline": _text(base / "proc/cmdline"),
        "modules": loaded,
        "secure_boot": secure,
        "asked_by": _text(base / "run/reboot-required.pkgs").split()
        if (base / "run/reboot-required").exists()
        else None,
    }


def reasons(seen, kernel="", arguments=(), modules=None, conflicting=(), heed_packages=False):
    """Why a reboot is needed, as sentences; empty if it is not.

    ``modules`` maps a module to the version that is installed: one that is loaded in another version is a reason, one
    that is not loaded at all is none, because loading it is enough. ``conflicting`` modules must not be loaded.
    """
    why = []
    if kernel and seen["kernel"] != kernel:
        why.append(f"kernel {seen['kernel']} runs, {kernel} is wanted")
    running = seen["cmdline"].split()
    missing = [argument for argument in arguments if argument not in running]
    if missing:
        why.append(f"the kernel was started without {' '.join(missing)}")
    for name, version in sorted((modules or {}).items()):
        loaded = seen["modules"].get(name)
        if loaded is not None and version and loaded != version:
            why.append(f"module {name} is loaded as {loaded or 'the one of the kernel'}, {version} is installed")
    why += [f"module {name} is loaded" for name in conflicting if seen["modules"].get(name) is not None]
    if heed_packages and seen["asked_by"] is not None:
        why.append("packages ask for it: " + (", ".join(sorted(set(seen["asked_by"]))) or "no name given"))
    return why


def _text(path):
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip().strip("\0")
    except OSError:
        return ""
