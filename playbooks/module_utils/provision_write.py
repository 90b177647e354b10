"""Small files of this node: write, link, merge, take away. Each answers how, or None where it is right already.

Standard library of Python 3.8 and later: it runs on the nodes. Everything belongs to root.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile


def write(path, content, mode="0644"):
    """Put the content there, whole or not at all."""
    data, wanted = content.encode(), int(mode, 8)
    try:
        with open(path, "rb") as stream:
            facts = os.fstat(stream.fileno())
            same = stream.read() == data and not os.path.islink(path)
        if same and stat.S_IMODE(facts.st_mode) == wanted and (facts.st_uid, facts.st_gid) == (0, 0):
            return None
    except FileNotFoundError:
        pass
    return lambda: _put(path, data, wanted)


def merge(path, keys):
    """Set ``keys`` of a JSON file at every depth and leave the others as they are.

    Raises:
        ValueError: what is there is not a JSON object; it is not overwritten.
    """
    old = {}
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
        old = json.loads(text) if text.strip() else {}
    except FileNotFoundError:
        pass
    except ValueError as error:
        raise ValueError(f"not readable JSON ({error}): correct or remove it; it is not overwritten") from error
    if not isinstance(old, dict):
        raise ValueError("not readable JSON (a mapping was expected): correct or remove it; it is not overwritten")
    new = merged(old, keys)
    if new == old:
        return None
    return lambda: _put(path, (json.dumps(new, indent=2, sort_keys=True) + "\n").encode(), 0o644)


def merged(old, new):
    """``old`` with the keys of ``new``; mappings are merged, everything else is replaced."""
    result = dict(old)
    for key, value in new.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


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


def settle(params, pretend):
    """Bring all files of ``params`` (files, json, links, absent) to what they should be. Returns the changed paths.

    Raises:
        ValueError: a file cannot be read or written; the text names it.
    """
    work = [(each["path"], write, (each["content"], each.get("mode") or "0644")) for each in params["files"]]
    work += [(path, merge, (keys,)) for path, keys in params["json"].items()]
    work += [(path, link, (target,)) for path, target in params["links"].items()]
    work += [(path, remove, ()) for path in params["absent"]]
    changed = []
    for path, look, wanted in work:
        try:
            act = look(path, *wanted)
            if act is None:
                continue
            changed.append(path)
            if not pretend:
                act()
        except (OSError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error
    return changed


def _put(path, data, mode):
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".provision-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            os.fchmod(stream.fileno(), mode)
            os.fchown(stream.fileno(), 0, 0)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise
