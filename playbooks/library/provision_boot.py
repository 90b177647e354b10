#!/usr/bin/python
"""Ansible module: see DOCUMENTATION."""

from __future__ import annotations

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


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "kernel": {"type": "str", "default": ""},
            "arguments": {"type": "list", "elements": "str", "default": []},
            "modules": {"type": "dict", "default": {}},
            "conflicting": {"type": "list", "elements": "str", "default": []},
            "heed_packages": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    seen = read("/", [*params["modules"], *params["conflicting"]])
    module.exit_json(changed=False, seen=seen, reasons=reasons(seen, **params))


if __name__ == "__main__":
    main()
