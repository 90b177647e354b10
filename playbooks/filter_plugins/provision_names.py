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


def rivals(_packages):
    """Regular expressions of packages that leave when a driver comes: other branches, other spellings."""
    return names.rivals()


class FilterModule:
    """The filters of these playbooks."""

    def filters(self):
        """Name → function."""
        return {"provision_wants": wants, "provision_preferences": preferences, "provision_rivals": rivals}
