#!/usr/bin/python
"""Ansible module: see DOCUMENTATION."""

from __future__ import annotations

import os
import stat
import tempfile

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: provision_files
short_description: Write, link and take away many small files in one go
description:
  - One task and one connection for what would be a dozen. Everything belongs to root.
options:
  files: {description: "path, content and mode (0644) each.", type: list, elements: dict, default: []}
  links: {description: Path to what it points at., type: dict, default: {}}
  absent: {description: Paths of files that must not be there., type: list, elements: str, default: []}
author: [the provision project]
"""
EXAMPLES = r"""
- name: Write two files
  provision_files:
    files:
      - {path: /etc/example/one, content: "1"}
      - {path: /etc/example/two, content: "2", mode: "0600"}
"""
RETURN = r"""
paths: {description: what was changed, type: list, returned: always}
"""


def write(path, content, mode):
    """Put the content there if it is another. True if it was."""
    data, wanted = content.encode(), int(mode, 8)
    try:
        with open(path, "rb") as stream:
            facts = os.fstat(stream.fileno())
            same = stream.read() == data and not os.path.islink(path)
        if same and stat.S_IMODE(facts.st_mode) == wanted and (facts.st_uid, facts.st_gid) == (0, 0):
            return None
    except FileNotFoundError:
        pass

    def act():
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".provision-")
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            os.fchmod(stream.fileno(), wanted)
            os.fchown(stream.fileno(), 0, 0)
        os.replace(name, path)

    return act


def link(path, target):
    """Let the path point at the target."""
    if os.path.islink(path) and os.readlink(path) == target:
        return None

    def act():
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink(target, path)

    return act


def remove(path):
    """Take the path away."""
    return (lambda: os.unlink(path)) if os.path.lexists(path) else None


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "dict", "default": []},
            "links": {"type": "dict", "default": {}},
            "absent": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    params, changed, path = module.params, [], ""
    work = [
        (each["path"], lambda e=each: write(e["path"], e["content"], e.get("mode", "0644"))) for each in params["files"]
    ]
    work += [(path, lambda p=path, t=target: link(p, t)) for path, target in params["links"].items()]
    work += [(path, lambda p=path: remove(p)) for path in params["absent"]]
    try:
        for path, look in work:
            act = look()
            if act is not None:
                changed.append(path)
                if not module.check_mode:
                    act()
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{path}: {error}")
    module.exit_json(changed=bool(changed), paths=changed)


if __name__ == "__main__":
    main()
