"""apt and dpkg of this node: find, fetch, install in one transaction, prove, hold.

Standard library of Python 3.8 and later: it runs on the nodes. What is decided is in provision_apt and provision_names.
"""

from __future__ import annotations

import glob
import os
import subprocess
import time

from ansible.module_utils.provision_apt import (
    apt_words,
    audit_words,
    differences,
    parse_madison,
    parse_simulation,
    parse_status,
    rivals_installed,
    unasked_moves,
    unasked_removals,
)
from ansible.module_utils.provision_names import in_family, resolve

ENV = {"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "l"}
LISTS = "/var/lib/apt/lists"
STATUS = r"${Package}\t${Version}\t${db:Status-Want}\t${db:Status-Status}\n"


class Node:
    """apt and dpkg of this node. Every failure leaves through ``module.fail_json`` with a sentence."""

    def __init__(self, module):
        self.module = module
        self.lock_s = module.params["lock_timeout_s"]
        self.began = time.time()
        self.seen = None

    def run(self, *argv, patience_s=3600):
        env = {**os.environ, **ENV}
        try:
            done = subprocess.run(argv, capture_output=True, env=env, timeout=patience_s, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            self.module.fail_json(msg=f"{' '.join(argv[:2])}: {error}")
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def apt(self, *argv):
        options = ("-y", "-o", f"DPkg::Lock::Timeout={self.lock_s}", "-o", "Dpkg::Use-Pty=0")
        keep = ("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold")
        return self.run("apt-get", *options, *keep, *argv)

    def patient(self, work):
        """Repeat ``work`` while somebody else holds a lock that apt itself does not wait for."""
        until = time.monotonic() + self.lock_s
        while True:
            status, out, err = work()
            locked = status != 0 and ("Could not get lock" in err or "locked by another process" in err)
            if not locked or time.monotonic() > until:
                return status, out, err
            time.sleep(1)

    def status(self):
        """Every package that dpkg knows. Asked once until something is changed."""
        if self.seen is None:
            self.seen = self.ask_status()
        return self.seen

    def ask_status(self):
        code, out, err = self.run("dpkg-query", "-W", "-f", STATUS)
        if code != 0:
            self.module.fail_json(msg=f"dpkg-query: {err.strip()}")
        return parse_status(out)

    def offers(self, names):
        return parse_madison(self.run("apt-cache", "madison", *names)[1]) if names else {}

    def refresh(self, older_than_s):
        if older_than_s < 0:
            return
        try:
            age = time.time() - os.stat(f"{LISTS}/provision-stamp").st_mtime
        except OSError:
            age = float("inf")
        if 0 <= age < older_than_s:
            return
        status, out, err = self.patient(lambda: self.apt("update", "-q", "-o", "APT::Update::Error-Mode=any"))
        if status != 0:
            self.module.fail_json(msg=f"the package index cannot be read: {apt_words(err + out) or err.strip()[-400:]}")
        with open(f"{LISTS}/provision-stamp", "w", encoding="ascii"):
            pass

    def audit(self):
        return audit_words(self.run("dpkg", "--audit")[1])

    def finish(self):
        """Go on where an interrupted or failed installation stopped. True if there was something to finish."""
        if not self.audit():
            return False
        if self.module.check_mode:
            return True
        self.seen = None
        status, out, err = self.patient(lambda: self.run("dpkg", "--configure", "-a", "--force-confdef,confold"))
        if status != 0 or self.audit():
            self.fail("dpkg --configure -a cannot finish what an earlier run began", out + err)
        return True

    def fail(self, what, text):
        words = apt_words(text) or " ".join(text.split())[-400:]
        parts = [part for part in (f"{what}: {words}", self.half(), make_log(self.began)) if part]
        self.module.fail_json(msg="; ".join(parts))

    def half(self):
        names = self.audit()
        return f"not whole after it: {', '.join(names)}" if names else ""


def make_log(began):
    """The end of the newest DKMS build log, if it was written since ``began``: the compiler's own words."""
    logs = [path for path in glob.glob("/var/lib/dkms/*/*/build/make.log") if os.stat(path).st_mtime >= began - 1]
    if not logs:
        return ""
    newest = max(logs, key=lambda path: os.stat(path).st_mtime)
    with open(newest, encoding="utf-8", errors="replace") as stream:
        lines = [line.strip() for line in stream if line.strip()][-3:]
    return f"{newest}: {' | '.join(lines)}"


def unpacked_at(name):
    """When dpkg last unpacked the package, or 0."""
    stamps = [os.stat(path).st_mtime for path in glob.glob(f"/var/lib/dpkg/info/{name}.list")]
    stamps += [os.stat(path).st_mtime for path in glob.glob(f"/var/lib/dpkg/info/{name}:*.list")]
    return max(stamps, default=0.0)


def resolved(node, params):
    """Name → exact version of every want, or a refusal that names all that are missing."""
    names = [name for want in params["wants"] for name in want["names"]]
    packages, missing = resolve(params["wants"], node.offers(names))
    if missing:
        node.module.fail_json(
            msg=f"the mirror lacks {len(missing)} of {len(params['wants'])} packages: " + "; ".join(missing)
        )
    return packages


def stale(params, packages):
    """The DKMS package that was built before a package it has to be built after, or None."""
    first = next(iter(packages), None)
    built = unpacked_at(first) if first else 0.0
    return first if built and any(unpacked_at(name) > built for name in params["rebuild_after"]) else None


def arguments(params, packages, status):
    """Arguments of apt-get for what has to change; nothing if nothing has."""
    todo = differences(packages, status)
    leaving = rivals_installed(status, params["rivals"], packages)
    again = stale(params, packages)
    if not (todo or leaving or again):
        return [], leaving
    # The whole family is named, also what is right already: apt then knows that it may not move.
    wanted = [f"{name}={version}" for name, version in packages.items()]
    # A hold keeps a package from people and from upgrades, not from this: what may move is judged on the simulation.
    options = ["--allow-downgrades", "--allow-change-held-packages", "--ignore-hold", "--no-install-recommends"]
    options += ["--reinstall"] if again and again not in todo else []
    return ["install", *options, *wanted, *(f"{name}-" for name in leaving)], leaving


def fetch(node, params, packages):
    """Download what an installation would need. True if there was something to download."""
    argv, _ = arguments(params, packages, node.status())
    if not argv:
        return False
    if not node.module.check_mode:
        status, out, err = node.apt(argv[0], "--download-only", *argv[1:])
        if status != 0:
            node.fail("the packages cannot be downloaded", out + err)
    return True


def converge(node, params):
    """Bring the packages to their versions and hold them. Returns (changed, name → version, names that left)."""
    packages = resolved(node, params)
    changed, removed = install(node, params, packages)
    if changed and not node.module.check_mode:
        prove(node, packages)
    if params["hold"]:
        changed |= hold(node, params, packages)
    return changed, packages, removed


def install(node, params, packages):
    """Bring the packages to their versions. Returns (changed, removed)."""
    changed, status = node.finish(), node.status()
    argv, leaving = arguments(params, packages, status)
    removed = {}
    if argv:
        code, out, err = node.apt("-s", *argv)
        if code != 0:
            node.fail("these packages do not go together", out + err)
        moved, removed = parse_simulation(out)
        unasked = unasked_removals(removed, leaving, params["replaces"] + params["rivals"])
        if unasked:
            msg = (
                f"apt would remove {', '.join(unasked)} for it; nothing is removed that is not named: remove it by hand"
            )
            node.module.fail_json(msg=msg)
        globs = [glob for want in params["wants"] for glob in want["family"]]
        strangers = unasked_moves(moved, status, packages, lambda name: in_family(name, globs))
        if strangers:
            msg = f"apt would move {', '.join(strangers)}, which is held and belongs to another family"
            node.module.fail_json(msg=msg)
        changed = True
        if not node.module.check_mode:
            node.seen = None
            code, out, err = node.apt(*argv)
            if code != 0:
                node.fail("the installation failed", out + err)
    return changed, sorted(removed)


def prove(node, packages):
    """After an installation: everything whole, and in the version that was asked for."""
    left = differences(packages, node.status())
    if left or node.audit():
        names = ", ".join([*left, *node.audit()])
        node.module.fail_json(msg=f"apt said that all is well, but dpkg says it is not with {names}")


def hold(node, params, packages):
    """Hold the family. True if something was not held."""
    globs = [glob for want in params["wants"] for glob in want["family"]]
    status = node.status()
    names = [
        name
        for name, facts in sorted(status.items())
        if (name in packages or in_family(name, globs)) and facts["state"] == "installed" and not facts["held"]
    ]
    if names and not node.module.check_mode:
        code, out, err = node.patient(lambda: node.run("apt-mark", "hold", *names))
        if code != 0:
            node.fail("the packages cannot be held", out + err)
    return bool(names)
