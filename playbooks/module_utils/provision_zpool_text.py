"""What the ZFS commands print, as plain data. Pure; standard library of Python 3.8 and later.

A pool is ``{"name", "id", "state", "status", "action", "leaves"}``; a leaf is ``{"name", "state", "section", "was",
"slot"}``: its path, link name or GUID as printed, its state, ``""`` for data and else ``logs``, ``cache``,
``spares``, ``special`` or ``dedup``, where it was when it was last seen, and the place in the pool that it fills
(two leaves under one ``replacing`` or ``spare`` vdev fill one place).
"""

import re

_HEADER = re.compile(r"^ *(pool|id|state|status|action|comment|see|scan|scrub|remove|checkpoint|config|errors):(.*)$")
_SECTIONS = ("logs", "cache", "spares", "special", "dedup")
_WAS = re.compile(r"\bwas (/\S+)")
_LABEL = re.compile(r"^ {4}(name|state|pool_guid|hostid|hostname|guid): '?([^'\n]*)'?$", re.MULTILINE)


def parse_pools(text):
    """Pools in the output of ``zpool status`` or of ``zpool import`` without a name.

    zfs-fuse prints ``scrub:`` where OpenZFS prints ``scan:``; ``zpool import`` indents its headers by one more and
    prints no columns of errors.
    """
    pools, pool, key = [], None, None
    for line in text.splitlines():
        header = None if line.startswith("\t") else _HEADER.match(line)
        if header:
            key = header.group(1)
            if key == "pool":
                pool = {"name": "", "id": "", "state": "", "status": "", "action": "", "_tree": []}
                pools.append(pool)
                key = "name"
            if pool is not None and key in pool:
                pool[key] = header.group(2).strip()
        elif pool is not None and line.strip():
            if key == "config":
                pool["_tree"].append(line)
            elif key in ("status", "action"):
                pool[key] = (pool[key] + " " + line.strip()).strip()
    for pool in pools:
        pool["leaves"] = _leaves(pool.pop("_tree"))
    return pools


def _leaves(lines):
    """The leaves of a ``config:`` block, told from groups by the indentation of the line that follows."""
    rows = []
    for line in lines:
        body = line.expandtabs(8)
        words = body.split()
        if words[0] == "NAME" and "STATE" in words:
            continue
        rows.append((len(body) - len(body.lstrip()), words))
    if not rows:
        return []
    top = rows[0][0]
    leaves, section, parents = [], "", []
    for number, (indent, words) in enumerate(rows):
        if indent <= top:
            section = words[0] if words[0] in _SECTIONS else ""
            parents = []
            continue
        parents = [parent for parent in parents if parent[0] < indent]
        follows = rows[number + 1][0] if number + 1 < len(rows) else top
        if follows > indent:
            parents.append((indent, words[0], number))
            continue
        shared = [parent for parent in parents if parent[1].startswith(("replacing", "spare-"))]
        was = _WAS.search(" ".join(words))
        leaves.append(
            {
                "name": words[0],
                "state": words[1] if len(words) > 1 else "",
                "section": section,
                "was": was.group(1) if was else "",
                "slot": shared[0][2] if shared else number,
            }
        )
    return leaves


def parse_list(text):
    """``zpool list -H -o name,guid,health`` as ``{name: {"guid", "health"}}``."""
    pools = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 3:
            pools[words[0]] = {"guid": words[1], "health": words[2]}
    return pools


def parse_label(text):
    """The first label that ``zdb -l`` prints: ``{"name", "pool_guid", "hostid", "hostname"}``, or None.

    ``hostid`` is eight hex digits; zdb prints it as a decimal number. A label of a pool that never had a host id
    has none.
    """
    found = {}
    for key, value in _LABEL.findall(text):
        found.setdefault(key, value.strip())
    if not found.get("pool_guid"):
        return None
    hostid = found.get("hostid", "")
    return {
        "name": found.get("name", ""),
        "pool_guid": found["pool_guid"],
        "hostid": f"{int(hostid) & 0xFFFFFFFF:08x}" if hostid.isdigit() else "",
        "hostname": found.get("hostname", ""),
    }


def parse_mdstat(text):
    """``/proc/mdstat`` as ``{array: [member, …]}`` by kernel name, failed and spare members included."""
    arrays = {}
    for line in text.splitlines():
        match = re.match(r"^(md\S*) : (.*)$", line)
        if match:
            arrays[match.group(1)] = re.findall(r"(\S+?)\[\d+\]", match.group(2))
    return arrays


def parse_swaps(text):
    """``/proc/swaps`` as a list of paths; swap files are left out, their file system is mounted anyway."""
    rows = [line.split() for line in text.splitlines()[1:] if line.strip()]
    return [row[0] for row in rows if len(row) > 1 and row[1] == "partition"]
