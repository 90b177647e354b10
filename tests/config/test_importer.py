"""A spreadsheet becomes an inventory, or a list of complaints with line numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from provision.config.complaints import InventoryError
from provision.config.importer import import_csv
from provision.config.inventory import load
from provision.errors import MisconfiguredError
from tests.config.sites import write_site


def sheet(folder: Path, raw: bytes | str) -> Path:
    path = folder / "racks.csv"
    path.write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    return path


def test_a_real_export_becomes_an_inventory_that_loads(tmp_path: Path) -> None:
    """BOM, CRLF, semicolons, an empty line, a comma in quotes, texts that YAML would read as numbers."""
    source = sheet(
        tmp_path,
        "\ufeffHost Name;Cabinet;U Position;iDRAC IP;Serial Number;Boot MAC;Owner;PDU outlets;Room\r\n"
        'gpu-12-02;rack-12;U7-12;10.1.12.2;0123456;B83FD2001A08;"Doe; J.";pdu-a-1|pdu-b-1;1e3\r\n'
        ";;;;;;;;\r\n"
        "gpu-12-01;rack-12;1;10.1.12.1:8443;7E10456;b8-3f-d2-00-1a-07;;n/a;1e3\r\n",
    )
    site = write_site(tmp_path / "site", {})
    (site / "hosts.yml").unlink()
    (site / "group_vars" / "rack-12.yml").write_text("profile: h100\n")

    done = import_csv(source, site / "hosts.yml")

    assert (done.hosts, done.ignored) == (2, ("Owner",))
    assert done.notes[0] == "columns ignored: Owner"
    nodes = load(site).nodes
    assert [(n.name, n.unit, n.service_tag, n.bmc_address, n.room) for n in nodes.values()] == [
        ("gpu-12-01", 1, "7E10456", "10.1.12.1:8443", "1e3"),
        ("gpu-12-02", 7, "0123456", "10.1.12.2", "1e3"),
    ]
    assert nodes["gpu-12-02"].power_feeds == ("pdu-a-1", "pdu-b-1")
    assert [str(mac) for mac in nodes["gpu-12-01"].macs] == ["b8:3f:d2:00:1a:07"]


@pytest.mark.parametrize(("separator", "encoding"), [(",", "utf-8"), ("\t", "utf-16"), (";", "utf-8-sig")])
def test_separators_and_encodings(tmp_path: Path, separator: str, encoding: str) -> None:
    lines = [["name", "rack", "bmc", "site"], ["a", "12", "10.0.0.1", "Köln"]]
    source = sheet(tmp_path, "\n".join(separator.join(line) for line in lines).encode(encoding))
    import_csv(source, tmp_path / "hosts.yml")
    tree = yaml.safe_load((tmp_path / "hosts.yml").read_text())
    assert tree["all"]["children"]["rack-12"] == {
        "vars": {"site": "Köln", "rack": "12"},
        "hosts": {"a": {"bmc_address": "10.0.0.1"}},
    }


def test_every_complaint_has_its_line_and_column(tmp_path: Path) -> None:
    source = sheet(
        tmp_path,
        "Hostname,Rack,U,BMC IP,Serial,Boot MAC\n"
        "gpu-1,r1,1,10.0.0.1,AAA,00:00:00:00:00:00\n"
        '"=HYPERLINK(""http://x"")",r1,99,10.0.0.300,BBB,\n'
        "gpu_3,,3,,1.23E+11,zz\n"
        'gpu-4,r1,4,10.0.0.4,"two\nlines",\n'
        "gpu-5,r1,5,10.0.0.5,DDD,,more,cells\n"
        "gpu-6,r1,6,10.0.0.6,{{ lookup('pipe';'id') }},\n"
        "gpu-7,r1,7,10.0.0.7,EEE,b8:3f:d2:00:1a:07\n"
        "GPU-7,r1,U7,10.0.0.7:443,eee,B83FD2001A07\n",
    )
    with pytest.raises(InventoryError) as caught:
        import_csv(source, tmp_path / "hosts.yml")
    assert [line.removeprefix(f"{source}:") for line in caught.value.complaints] == [
        "2: Boot MAC[0]: '00:00:00:00:00:00' is all zero: an empty slot, not a network card",
        "3: BMC IP: expected an address such as 10.1.12.3 or bmc-3.site:8443, found '10.0.0.300'",
        "3: Hostname: '=HYPERLINK(\"http://x\")' is a formula: export values, not formulas",
        "3: U: expected a value less than or equal to 60, found 99",
        "4: BMC IP is empty: every machine needs one",
        "4: Boot MAC[0]: 'zz' is not a MAC address: twelve hexadecimal digits were expected",
        "4: Hostname: 'gpu_3' is not a host name: expected letters, digits, dashes, dots",
        "4: Rack is empty: every machine needs one",
        "4: Serial: '1.23E+11' was rounded by the spreadsheet: format the column as text",
        "5: Serial: expected one line of printable text",
        "7: 8 cells, but 6 headers; a cell with a separator wants quotes",
        "8: Serial: \"{{ lookup('pipe';'id') }}\" is a template: expected a plain value",
        "10: BMC address 10.0.0.7 stands in line 9 already (gpu-7); correct one",
        "10: MAC address b8:3f:d2:00:1a:07 stands in line 9 already (gpu-7); correct one",
        "10: host name gpu-7 stands in line 9 already (gpu-7); correct one",
        "10: rack unit r1 U7 stands in line 9 already (gpu-7); correct one",
        "10: service tag EEE stands in line 9 already (gpu-7); correct one",
    ]
    assert not (tmp_path / "hosts.yml").exists()


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"", "is empty: expected a header line"),
        (b"name,rack,bmc\n", "has a header, but no machine"),
        (b"name;rack;address\na;b;c\n", ":1: no column for bmc_address: expected a header such as bmc address or bmc"),
        (b"name,host,rack,bmc\na,a,b,c\n", ":1: columns name and host both give name; take one out"),
        (b"PK\x03\x04\x00\x00\x08", "a binary file; save the sheet as"),
        (b"name,rack,bmc\nK\xf6ln,b,c\n", ":2: not UTF-8 text; save the sheet as"),
        (b'name,rack,bmc\na,"b"c,d\n', ":2: not CSV"),
        (b'name,rack,bmc\na,"' + b"x" * 200_000 + b'",d\n', ":2: not CSV"),
    ],
)
def test_a_sheet_that_is_none(tmp_path: Path, raw: bytes, sentence: str) -> None:
    with pytest.raises(InventoryError) as caught:
        import_csv(sheet(tmp_path, raw), tmp_path / "hosts.yml")
    assert sentence in str(caught.value)


def test_a_file_that_is_there_is_never_overwritten_silently(tmp_path: Path) -> None:
    source = sheet(tmp_path, "name,rack,bmc\na,r1,10.0.0.1\n")
    target = tmp_path / "hosts.yml"
    target.write_text("mine\n")
    with pytest.raises(MisconfiguredError, match="exists already and is left as it is"):
        import_csv(source, target)
    assert target.read_text() == "mine\n"
    import_csv(source, target, replace=True)
    assert "10.0.0.1" in target.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hosts.yml", "racks.csv"]
    with pytest.raises(MisconfiguredError, match=r"cannot be written: .*racks\.csv is a file"):
        import_csv(source, source / "hosts.yml")
    with pytest.raises(InventoryError, match="cannot be read: No such file"):
        import_csv(tmp_path / "nowhere.csv", target, replace=True)
