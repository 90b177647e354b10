#!/usr/bin/python
"""Ansible module: see DOCUMENTATION."""

from __future__ import annotations

import contextlib
import subprocess

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.provision_boot import read, reasons

DOCUMENTATION = r"""
module: provision_boot
short_description: Look what runs, and say why a reboot is needed, if it is
description:
  - Reads files of /proc, /sys and /run; changes nothing.
options:
  kernel: {description: Release of the kernel that should run., type: str, default: ""}
  arguments: {description: What the kernel should have been started with., type: list, elements: str, default: []}
  modules: {description: Kernel module to the version that is installed., type: dict, default: {}}
  installed:
    description: Kernel modules whose installed version modinfo is asked for. One that it does not know is left out.
    type: list
    elements: str
    default: []
  conflicting: {description: Kernel modules that must not be loaded., type: list, elements: str, default: []}
  heed_packages: {description: Count the wish that packages leave in /run/reboot-required., type: bool, default: false}
author: [the provision project]
"""
EXAMPLES = r"""
- name: Does the wanted kernel run?
  provision_boot:
    kernel: 5.15.0-130-generic
"""
RETURN = r"""
seen: {description: what runs, type: dict, returned: always}
reasons: {description: why a reboot is needed, type: list, returned: always}
"""


def versions(names):
    """Module → the version that modinfo says is installed."""
    found = {}
    for name in names:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            argv = ["modinfo", "-F", "version", name]
            told = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False).stdout.strip()
            found.update({name: told} if told else {})
    return found


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "kernel": {"type": "str", "default": ""},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "modules": {"type": "dict", "default": {}},
            "installed": {"type": "list", "elements": "str", "default": []},
            "conflicting": {"type": "list", "elements": "str", "default": []},
            "heed_packages": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    params["modules"].update(versions(params.pop("installed")))
    seen = read("/", [*params["modules"], *params["conflicting"]])
    module.exit_json(changed=False, seen=seen, reasons=reasons(seen, **params))


if __name__ == "__main__":
    main()
