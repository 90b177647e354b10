#!/usr/bin/python
"""Ansible module: see DOCUMENTATION."""

from __future__ import annotations

import contextlib
import subprocess
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.provision_clock import decide

DOCUMENTATION = r"""
module: provision_clock
short_description: Set the clock from the controller's if they are far apart
description:
  - Needs no package and no network, so that it can come before apt, which refuses indexes from the future.
options:
  controller_s: {description: The controller's time, in seconds since 1970., type: float, required: true}
  tolerance_s: {description: A difference that is left to the time daemon., type: float, default: 30}
author: [the provision project]
"""
EXAMPLES = r"""
- name: Set the clock
  provision_clock:
    controller_s: "{{ now(utc=true).timestamp() }}"
"""
RETURN = r"""
moved_s: {description: seconds by which the clock was moved, type: float, returned: always}
"""


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "controller_s": {"type": "float", "required": True},
            "tolerance_s": {"type": "float", "default": 30.0},
        },
        supports_check_mode=True,
    )
    move, why = decide(time.time(), module.params["controller_s"], module.params["tolerance_s"])
    if move and not module.check_mode:
        try:
            time.clock_settime(time.CLOCK_REALTIME, time.time() + move)
        except OSError as error:
            module.fail_json(
                msg=f"the clock is {why} and cannot be set ({error.strerror}): set it by hand, or in the BIOS"
            )
        # The next boot starts from the hardware clock; a machine without one loses nothing.
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(["hwclock", "--systohc"], capture_output=True, timeout=30, check=False)
    module.exit_json(changed=bool(move), moved_s=move, why=why)


if __name__ == "__main__":
    main()
