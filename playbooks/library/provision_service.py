#!/usr/bin/python
"""Ansible module: see DOCUMENTATION."""

from __future__ import annotations

import os
import subprocess

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.provision_apt_run import Node, converge
from ansible.module_utils.provision_units import SHOWN, parse_show, plan
from ansible.module_utils.provision_write import settle

DOCUMENTATION = r"""
module: provision_service
short_description: Packages, files, kernel modules and units of one service, in one go
description:
  - Starting a module on a node costs more than what most modules do there, so one does for a dozen small tasks.
  - In this order - packages in one apt transaction (see provision_packages), files, commands that a changed file
    asks for, kernel modules, units. A unit whose files were changed is restarted at once, so that no later failure
    can lose the restart.
options:
  wants:
    description: Packages that are wanted, as the filter provision_wants says it.
    type: list
    elements: dict
    default: []
  rivals:
    description: Regular expressions of packages that leave in the same transaction if they are not wanted.
    type: list
    elements: str
    default: []
  replaces:
    description: Regular expressions of packages that apt may remove besides.
    type: list
    elements: str
    default: []
  rebuild_after:
    description: Packages whose later installation makes the first of wants (a DKMS package) be installed once more.
    type: list
    elements: str
    default: []
  hold:
    description: Hold what is wanted, and everything installed of its family.
    type: bool
    default: true
  lock_timeout_s:
    description: How long to wait for another process that holds apt's or dpkg's lock.
    type: int
    default: 600
  files:
    description: path, content and mode (0644) each. They belong to root.
    type: list
    elements: dict
    default: []
  json:
    description: Path of a JSON file to the keys that are set in it; the others stay as they are.
    type: dict
    default: {}
  links:
    description: Path to what it points at.
    type: dict
    default: {}
  absent:
    description: Paths of files that must not be there.
    type: list
    elements: str
    default: []
  then:
    description: Commands, each a list of words, that are run if a file was changed.
    type: list
    elements: list
    default: []
  modules:
    description: Kernel modules that are loaded, in this order.
    type: list
    elements: str
    default: []
  modules_help:
    description: Kernel module to what a person should know where it cannot be loaded.
    type: dict
    default: {}
  units:
    description:
      - name, enabled (true), state (C(started), C(stopped)), restart_on and restart_now each. A running unit is
        restarted if one of the paths in restart_on was changed by this task, or if restart_now is true.
    type: list
    elements: dict
    default: []
  ask:
    description: A command that is run last and changes nothing, also not in check mode, where it is left out.
    type: list
    elements: str
    default: []
  ask_statuses:
    description: Exit statuses of it that are no failure.
    type: list
    elements: int
    default: [0]
author: [the provision project]
"""
EXAMPLES = r"""
- name: Install Docker and start it
  provision_service:
    wants: "{{ {'docker': '5:27.3.1-1'} | provision_wants('docker') }}"
    json: {/etc/docker/daemon.json: {log-driver: json-file}}
    units: [{name: docker.service, enabled: true, state: started, restart_on: [/etc/docker/daemon.json]}]
"""
RETURN = r"""
packages: {description: name to exact version, type: dict, returned: always}
removed: {description: names that left, type: list, returned: always}
paths: {description: files that were changed, type: list, returned: always}
units: {description: what systemctl was asked for, type: list, returned: always}
status: {description: exit status of ask, type: int, returned: when asked}
stdout: {description: what ask printed, type: str, returned: when asked}
"""


class Service:
    """One run of the module."""

    def __init__(self, module):
        self.module, self.want, self.pretend = module, module.params, module.check_mode
        self.node = Node(module)
        self.result = {"changed": False, "packages": {}, "removed": [], "paths": [], "units": []}

    def run(self):
        """Packages, files, commands, kernel modules, units."""
        if self.want["wants"]:
            changed, packages, removed = converge(self.node, self.want)
            self.result.update(changed=changed, packages=packages, removed=removed)
        fresh = self.pretend and self.result["changed"]
        try:
            self.result["paths"] = settle(self.want, self.pretend)
        except ValueError as error:
            self.module.fail_json(msg=str(error), **self.result)
        self.result["changed"] |= bool(self.result["paths"])
        if self.result["paths"] and not self.pretend:
            for argv in self.want["then"]:
                self.must(argv)
        for name in self.want["modules"]:
            self.load(name)
        # In check mode nothing was installed, so there may be no unit yet to look at.
        if self.want["units"] and not fresh and not (self.pretend and self.result["paths"]):
            self.units()
        if self.want["ask"] and not self.pretend:
            self.result["status"], self.result["stdout"] = self.call(self.want["ask"], 900, self.want["ask_statuses"])
        self.module.exit_json(**self.result)

    def must(self, argv, patience_s=900):
        """What a command printed that has to succeed."""
        return self.call(argv, patience_s, [0])[1]

    def call(self, argv, patience_s, statuses):
        """Exit status, which has to be one of ``statuses``, and what it printed."""
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=patience_s, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            self.module.fail_json(msg=f"{' '.join(argv)}: {error}", **self.result)
        if done.returncode not in statuses:
            words = " ".join((done.stderr or done.stdout).split())[-400:]
            self.module.fail_json(msg=f"{' '.join(argv)} ended with {done.returncode}: {words}", **self.result)
        return done.returncode, done.stdout

    def load(self, name):
        """Load a kernel module, or say what its not being loaded means."""
        if os.path.isdir(f"/sys/module/{name.replace('-', '_')}"):
            return
        self.result["changed"] = True
        if self.pretend:
            return
        done = subprocess.run(["modprobe", name], capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            words = " ".join(done.stderr.split())[-400:]
            advice = self.want["modules_help"].get(name)
            self.module.fail_json(
                msg=f"{name} cannot be loaded: {words}" + (f"; {advice}" if advice else ""), **self.result
            )

    def units(self):
        """Look once at all units, then do what differs."""
        wanted, changed = self.want["units"], self.result["paths"]
        argv = ["systemctl", "show", f"--property={SHOWN}", "--", *(unit["name"] for unit in wanted)]
        calls, missing = plan(wanted, parse_show(self.must(argv, 60)), changed)
        if missing:
            self.module.fail_json(msg="; ".join(missing), **self.result)
        self.result["units"] = [" ".join(call) for call in calls]
        self.result["changed"] |= bool(calls)
        if not self.pretend:
            for call in calls:
                self.must(["systemctl", *call])


def main():
    """Run the module."""
    texts = {"type": "list", "elements": "str", "default": []}
    mappings = {"type": "list", "elements": "dict", "default": []}
    module = AnsibleModule(
        argument_spec={
            "wants": mappings,
            "rivals": texts,
            "replaces": texts,
            "rebuild_after": texts,
            "hold": {"type": "bool", "default": True},
            "lock_timeout_s": {"type": "int", "default": 600},
            "files": mappings,
            "json": {"type": "dict", "default": {}},
            "links": {"type": "dict", "default": {}},
            "absent": texts,
            "then": {"type": "list", "elements": "list", "default": []},
            "modules": texts,
            "modules_help": {"type": "dict", "default": {}},
            "units": mappings,
            "ask": texts,
            "ask_statuses": {"type": "list", "elements": "int", "default": [0]},
        },
        supports_check_mode=True,
    )
    Service(module).run()


if __name__ == "__main__":
    main()
