"""Folders of trees as people keep them: what is a tree in them, what is handed to the server, what is counted."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from redfish_payloads import small
from redfish_trees import in_names, is_tree, reached, read_by_eye, ready, systems, trees_in, written

A, B = "0c:42:a1:00:00:01", "0c:42:a1:00:00:02"


def _root(tree: dict[str, Any]) -> dict[str, Any]:
    """The tree with a root that says what it is, as every capture does."""
    tree["/redfish/v1"]["@odata.type"] = "#ServiceRoot.v1_15_0.ServiceRoot"
    return tree


def test_trees_are_found_at_any_depth_in_every_layout(tmp_path: Path) -> None:
    tree = _root(small(A, B))
    places = [tmp_path / "site-a" / "bmc-1", tmp_path / "site-b" / "deep" / "er" / "bmc-1"]
    for place in places:
        written(tree, place)
    bare = written(tree, tmp_path / "mockup", prefix="")
    (tmp_path / "empty" / "folder").mkdir(parents=True)
    (tmp_path / "README").write_text("not a tree")
    (tmp_path / "broken.tar").write_text("not a tar file either")
    packed = tmp_path / "packed.tar.xz"
    with tarfile.open(packed, "w:xz") as tar:
        tar.add(places[0], arcname="top")
    assert trees_in(tmp_path) == [bare, packed, *places]
    assert [trees_in(one) for one in (bare, packed, places[1])] == [[bare], [packed], [places[1]]]
    assert trees_in(tmp_path / "empty") == trees_in(tmp_path / "nowhere") == []
    for source in (bare, packed, *places):
        assert read_by_eye(source) == {A, B}
        assert len(systems(source)) == 1


def test_two_trees_of_one_name_are_served_apart_and_without_what_cannot_be_loaded(tmp_path: Path) -> None:
    tree = _root(small(A))
    first, second = (written(tree, tmp_path / site / "bmc") for site in ("a", "b"))
    torn = first / "redfish/v1/Chassis/torn/index.json"
    schema = first / "redfish/v1/JsonSchemas/ServiceRoot/index.json"
    for file, body in ((torn, '{"half": '), (schema, json.dumps({"@odata.type": "#ServiceRoot.v1_5_0.ServiceRoot"}))):
        file.parent.mkdir(parents=True)
        file.write_text(body)
    names = tmp_path / "names"
    names.mkdir()
    copies = [ready(source, names) for source in (first, second)]
    assert len({copy.name for copy in copies}) == 2
    assert all(is_tree(copy) for copy in copies)
    left = {file.relative_to(first) for file in first.rglob("index.json")}
    kept = {file.relative_to(copies[0]) for file in copies[0].rglob("index.json")}
    assert left - kept == {torn.relative_to(first), schema.relative_to(first)}
    assert copies[1].resolve() == second


def test_the_eye_counts_what_a_person_would(tmp_path: Path) -> None:
    tree = _root(small(A.upper().replace(":", "-"), "00:00:00:00:00:00", "", "01:00:5e:00:00:01", "be:3a:f2:00:00:01"))
    system = next(path for path in tree if path.count("/") == 4 and "/Systems/" in path)
    interfaces = f"{system}/EthernetInterfaces"
    more = {
        "ToManager": {"MACAddress": "0c:42:a1:00:00:09", "Name": "Manager Ethernet Interface"},
        "usb0": {"MACAddress": "0c:42:a1:00:00:0a"},
        "orphan": {"MACAddress": B},
    }
    for name, body in more.items():
        tree[f"{interfaces}/{name}"] = {"@odata.id": f"{interfaces}/{name}", "Id": name, **body}
    tree[f"{interfaces}/orphan/Settings"] = {"Id": "Settings", "MACAddress": "0c:42:a1:00:00:0b"}
    tree[f"{system}/BootOptions/1"] = {"UefiDevicePath": "PciRoot(0x0)/MAC(0C42A100000C,0x1)/IPv4(0.0.0.0)"}
    source = written(tree, tmp_path / "bmc")
    assert read_by_eye(source) == {A, B}
    assert read_by_eye(source, among=reached(source)) == {A}, "nothing leads to the orphan"
    assert read_by_eye(source, hosts_left_out=(system.rpartition("/")[2],)) == set()
    assert in_names(source) == {"0c:42:a1:00:00:0c"}
