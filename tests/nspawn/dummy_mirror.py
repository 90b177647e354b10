"""A site's mirror of dummy packages: built by dpkg-deb, signed by gpg, served over HTTP, with its traffic counted."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

File = tuple[str, int]


@dataclass
class Deb:
    """One package. ``files`` maps paths without a leading slash to (text, mode)."""

    name: str
    version: str
    depends: str = ""
    conflicts: str = ""
    files: Mapping[str, File] = field(default_factory=dict)
    postinst: str = ""
    postrm: str = ""


@dataclass
class Mirror:
    """Packages below ``folder``; ``publish`` signs the index; ``peak`` is the most hosts that download at once.

    Hosts and not requests: a host asks for the next package before this side has closed the connection of the last.
    """

    folder: Path
    slow_s: float = 0.0
    peak: int = 0
    served: int = 0
    _debs: dict[str, str] = field(default_factory=dict)
    _busy: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: ThreadingHTTPServer | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        # gpg's agent has a socket in its home, whose path may have 107 letters.
        self._gpg = Path(tempfile.mkdtemp(prefix="pvg-"))
        self._run_gpg("--quick-generate-key", "--passphrase", "", "Mirror <mirror@test.invalid>", "ed25519", "sign")
        self.key = self._run_gpg("--armor", "--export")

    def _run_gpg(self, *arguments: str, text: str = "") -> str:
        command = ["gpg", "--homedir", str(self._gpg), "--batch", "--yes", "--pinentry-mode", "loopback", *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def add(self, *debs: Deb) -> None:
        """Build packages."""
        for deb in debs:
            root = Path(tempfile.mkdtemp(dir=self.folder.parent))
            lines = {
                "Package": deb.name,
                "Version": deb.version,
                "Architecture": "all",
                "Maintainer": "Tests <tests@test.invalid>",
                "Depends": deb.depends,
                "Conflicts": deb.conflicts,
                "Replaces": deb.conflicts,
                "Description": "a dummy",
            }
            control = "".join(f"{key}: {value}\n" for key, value in lines.items() if value)
            scripts = {"DEBIAN/control": (control, 0o644)}
            for name in ("postinst", "postrm"):
                if getattr(deb, name):
                    scripts[f"DEBIAN/{name}"] = (f"#!/bin/sh\nset -e\n{getattr(deb, name)}\n", 0o755)
            for path, (text, mode) in {**deb.files, **scripts}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
                (root / path).chmod(mode)
            target = self.folder / f"{deb.name}_{deb.version.split(':')[-1]}_all.deb"
            root.chmod(0o755)
            command = ["dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", str(root), str(target)]
            subprocess.run(command, capture_output=True, check=True)
            shutil.rmtree(root)
            data = target.read_bytes()
            self._debs[target.name] = control + (
                f"Filename: ./{target.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n"
            )

    def publish(self, *, in_s: float = 0.0) -> None:
        """Write and sign the index; ``in_s`` seconds from this moment."""
        packages = "\n".join(self._debs.values()).encode()
        (self.folder / "Packages").write_bytes(packages)
        (self.folder / "Packages.gz").write_bytes(gzip.compress(packages))
        date = (datetime.now(UTC) + timedelta(seconds=in_s)).strftime("%a, %d %b %Y %H:%M:%S UTC")
        release = f"Origin: tests\nSuite: stable\nCodename: tests\nDate: {date}\nAcquire-By-Hash: no\nSHA256:\n"
        for name in ("Packages", "Packages.gz"):
            data = (self.folder / name).read_bytes()
            release += f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n"
        (self.folder / "InRelease").write_text(self._run_gpg("--clearsign", text=release))

    def serve(self, host: str) -> str:
        """Serve until ``close``; the address."""
        mirror = self

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, directory=str(mirror.folder), **kwargs)

            def log_message(self, *_: object) -> None:
                return

            def do_GET(self) -> None:
                if not self.path.endswith(".deb"):
                    super().do_GET()
                    return
                with mirror._lock:
                    mirror._busy.append(self.client_address[0])
                    mirror.served += 1
                    mirror.peak = max(mirror.peak, len(set(mirror._busy)))
                try:
                    time.sleep(mirror.slow_s)
                    super().do_GET()
                finally:
                    with mirror._lock:
                        mirror._busy.remove(self.client_address[0])

        ThreadingHTTPServer.request_queue_size = 128
        self._server = ThreadingHTTPServer((host, 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://{host}:{self._server.server_address[1]}/"

    def close(self) -> None:
        """Stop serving; end gpg's agent."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        env = {**os.environ, "GNUPGHOME": str(self._gpg)}
        subprocess.run(["gpgconf", "--kill", "all"], env=env, capture_output=True, check=False)
        shutil.rmtree(self._gpg, ignore_errors=True)
