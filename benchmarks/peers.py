"""Who is measured, and how each is installed: its own environment, made once, with pip and its ordinary settings."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Peer:
    """``requirement`` is empty for ourselves, who run in the environment of this program."""

    name: str
    script: str
    requirement: str = ""

    @property
    def ours(self) -> bool:
        """True for our own client."""
        return not self.requirement

    def folder(self, cache: Path) -> Path:
        """Its environment."""
        return cache / self.requirement.replace("==", "-")

    def python(self, cache: Path) -> Path:
        """The interpreter that runs it."""
        return Path(sys.executable) if self.ours else self.folder(cache) / "bin" / "python"


PEERS = (
    Peer("ours", "ours.py"),
    Peer("badfish", "badfish_all.py", "badfish==1.8.2"),
    Peer("sushy", "sushy_threads.py", "sushy==5.14.0"),
    Peer("redfish", "redfish_threads.py", "redfish==3.4.2"),
)


def install(peer: Peer, cache: Path) -> None:
    """Make the environment unless it is there. Ends the program with pip's own words when it cannot be made."""
    done = peer.folder(cache) / ".installed"
    if peer.ours or done.exists():
        return
    sys.stderr.write(f"installing {peer.requirement}\n")
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(peer.folder(cache))], check=True)
    pip = [str(peer.python(cache)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*pip, peer.requirement], check=False).returncode:
        raise SystemExit(f"{peer.requirement} cannot be installed; run again, or leave it out with --clients")
    done.touch()
