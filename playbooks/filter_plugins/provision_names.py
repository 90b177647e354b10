"""Filters over playbooks/module_utils/provision_names.py: names are computed on the controller, once a task."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

from ansible.errors import AnsibleFilterError

_PATH = Path(__file__).parents[1] / "module_utils" / "provision_names.py"
_spec = importlib.util.spec_from_file_location("provision_names", _PATH)
names = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(names)


def wants(packages, role=None):
    """What ``packages`` asks for, of all roles or of one."""
    try:
        # Tagged texts of ansible-core become plain ones.
        found = names.wants(json.loads(json.dumps(packages)))
    except names.NamesError as error:
        raise AnsibleFilterError(str(error)) from error
    return [want for want in found if role in (None, want["role"])]


def preferences(found):
    """The text of an apt preferences file."""
    return "\n".join(names.preferences(found))


def rivals(packages, role=None):
    """Regular expressions of packages that leave when others come: other branches, other spellings."""
    return names.rivals(json.loads(json.dumps(packages)), role)


def sources(repositories, folder):
    """The files that describe repositories to apt: a key and a deb822 source each, for provision_service.

    Not deb822_repository: it needs a package on the node, which could only come from the repository. ``key_file`` is
    relative to ``folder``, the inventory.
    """
    files = []
    for each in repositories:
        key = each.get("key")
        if key is None:
            try:
                key = (Path(folder) / each["key_file"]).read_text(encoding="utf-8")
            except (OSError, KeyError) as error:
                raise AnsibleFilterError(f"repository {each['name']}: its key cannot be read: {error}") from error
        ring, suite = f"/etc/apt/keyrings/provision-{each['name']}.asc", each.get("suite") or "./"
        lines = ["# Written by the role apt of provision.", "Types: deb", f"URIs: {each['url']}", f"Suites: {suite}"]
        if not suite.endswith("/"):
            lines.append("Components: " + " ".join(each.get("components") or ["main"]))
        lines.append(f"Signed-By: {ring}")
        files.append({"path": ring, "content": key})
        path = f"/etc/apt/sources.list.d/provision-{each['name']}.sources"
        files.append({"path": path, "content": "\n".join(lines) + "\n"})
    return files


class FilterModule:
    """The filters of these playbooks."""

    def filters(self):
        """Name → function."""
        return {
            "provision_sources": sources,
            "provision_wants": wants,
            "provision_preferences": preferences,
            "provision_rivals": rivals,
        }
