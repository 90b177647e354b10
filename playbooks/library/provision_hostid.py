#!/usr/bin/python
"""Ansible module: the host id by which ZFS knows its own pools again."""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
---
module: provision_hostid
short_description: The host id by which ZFS knows its own pools again
description:
  - Writes C(/etc/hostid). A pool remembers the host id of the system that used it last; a machine that gets the same
    one after a new installation imports its pool without force.
  - The packages of ZFS draw a random one where the file is missing, so this comes before they are installed.
  - Another host id stays as long as a pool is imported; the pool would not come back after a reboot otherwise.
author:
  - the provision project (@provision)
options:
  hostid:
    description: Eight hex digits, not all zero.
    type: str
    required: true
  root:
    description: Where /etc and /proc are. For tests.
    type: path
    default: /
attributes:
  check_mode:
    support: full
    description: Says what would be done.
"""

EXAMPLES = r"""
- name: Keep the host id over a new installation
  provision_hostid:
    hostid: 5e1fc0de
"""

RETURN = r"""
hostid:
  description: The host id that is in force.
  returned: always
  type: str
"""


def pools_imported(root):
    """Names of the imported pools, as the kernel module lists them; it needs no program."""
    folder = os.path.join(root, "proc/spl/kstat/zfs")
    try:
        return sorted(name for name in os.listdir(folder) if os.path.isdir(os.path.join(folder, name)))
    except OSError:
        return []


def read(path):
    """The host id in a file, or None: missing, or not four bytes."""
    try:
        with open(path, "rb") as file:
            raw = file.read(5)
    except OSError:
        return None
    return int.from_bytes(raw, "little") if len(raw) == 4 else None


def write(path, hostid):
    """Write four bytes at once."""
    with open(path + ".new", "wb") as file:
        file.write(hostid.to_bytes(4, "little"))
        file.flush()
        os.fsync(file.fileno())
    os.chmod(path + ".new", 0o644)
    os.replace(path + ".new", path)


def main():
    """Entry point of the module."""
    spec = {"hostid": {"type": "str", "required": True}, "root": {"type": "path", "default": "/"}}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    text, root = module.params["hostid"], module.params["root"]
    try:
        wanted = int(text, 16)
    except ValueError:
        wanted = 0
    if len(text) != 8 or not 0 < wanted <= 0xFFFFFFFF:
        module.fail_json(msg=f"hostid is {text!r}; eight hex digits, not all zero, were expected")
    path = os.path.join(root, "etc/hostid")
    seen = read(path)
    pools = pools_imported(root)
    if seen == wanted:
        module.exit_json(changed=False, hostid=f"{seen:08x}")
    if seen is not None and pools:
        module.warn(f"the host id {seen:08x} stays, {text} was expected: pool {', '.join(pools)} is imported")
        module.exit_json(changed=False, hostid=f"{seen:08x}")
    try:
        if not module.check_mode:
            write(path, wanted)
    except OSError as error:
        module.fail_json(msg=f"{path} cannot be written: {error.strerror}")
    module.exit_json(changed=True, hostid=f"{wanted:08x}")


if __name__ == "__main__":
    main()
