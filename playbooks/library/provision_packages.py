#!/usr/bin/python
"""Ansible module: see DOCUMENTATION."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.provision_apt_run import Node, fetch, resolved

DOCUMENTATION = r"""
module: provision_packages
short_description: Find packages in the mirror and download them
description:
  - Finds the exact version of every package that is wanted in apt's index, and refuses with all names if some are
    not there. Nothing is installed; M(provision_service) does that.
options:
  wants:
    description: What is wanted, as the filter provision_wants says it.
    type: list
    elements: dict
    required: true
  step:
    description: C(check) only looks, C(fetch) downloads what is missing.
    type: str
    choices: [check, fetch]
    default: fetch
  refresh_s:
    description: Read the index again if it is older than so many seconds. Negative never, 0 always.
    type: int
    default: -1
  rivals:
    description: Regular expressions of packages that leave in the same transaction if they are not wanted.
    type: list
    elements: str
    default: []
  rebuild_after:
    description: Packages whose later installation makes the first of wants (a DKMS package) be installed once more.
    type: list
    elements: str
    default: []
  lock_timeout_s:
    description: How long to wait for another process that holds apt's or dpkg's lock.
    type: int
    default: 600
author: [the provision project]
"""
EXAMPLES = r"""
- name: Fetch the driver's family
  provision_packages:
    wants: "{{ {'nvidia-driver': '570.124.06'} | provision_wants('gpu') }}"
"""
RETURN = r"""
packages: {description: name to exact version, type: dict, returned: always}
downloaded: {description: whether there was something to download, type: bool, returned: when step is fetch}
"""


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "wants": {"type": "list", "elements": "dict", "required": True},
            "step": {"type": "str", "choices": ["check", "fetch"], "default": "fetch"},
            "refresh_s": {"type": "int", "default": -1},
            "rivals": {"type": "list", "elements": "str", "default": []},
            "rebuild_after": {"type": "list", "elements": "str", "default": []},
            "lock_timeout_s": {"type": "int", "default": 600},
        },
        supports_check_mode=True,
    )
    params, node = module.params, Node(module)
    node.refresh(params["refresh_s"])
    packages = resolved(node, params)
    result = {"changed": False, "packages": packages}
    if params["step"] == "fetch":
        # A download alone changes nothing that the node does: it is not counted.
        result["downloaded"] = fetch(node, params, packages)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
