#!/usr/bin/python
"""Ansible module: see DOCUMENTATION."""

from __future__ import annotations

import json
import os
import tempfile

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: provision_json
short_description: Set keys of a JSON file and leave the others as they are
options:
  path: {description: The file. Made if it is not there., type: path, required: true}
  merge: {description: Keys to set; mappings are merged at every depth., type: dict, required: true}
author: [the provision project]
"""
EXAMPLES = r"""
- name: Tell Docker
  provision_json:
    path: /etc/docker/daemon.json
    merge: {default-runtime: nvidia}
"""
RETURN = r"""
"""


def merged(old, new):
    """``old`` with the keys of ``new``; mappings are merged, everything else is replaced."""
    result = dict(old)
    for key, value in new.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"path": {"type": "path", "required": True}, "merge": {"type": "dict", "required": True}},
        supports_check_mode=True,
    )
    path = module.params["path"]
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        old = json.loads(text) if text.strip() else {}
        if not isinstance(old, dict):
            raise ValueError("a mapping was expected")
    except FileNotFoundError:
        old = {}
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{path} is not readable JSON ({error}): correct or remove it; it is not overwritten")
    new = merged(old, module.params["merge"])
    changed = new != old
    if changed and not module.check_mode:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        handle, name = tempfile.mkstemp(dir=os.path.dirname(path))
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(json.dumps(new, indent=2, sort_keys=True) + "\n")
        os.chmod(name, 0o644)
        module.atomic_move(name, path)
    module.exit_json(changed=changed)


if __name__ == "__main__":
    main()
