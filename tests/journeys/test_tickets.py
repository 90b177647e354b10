"""The repair desk through the command line: export, what technicians fill in, remote steps, the reasoning."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.journeys.conftest import Start

pytestmark = pytest.mark.xdist_group("tickets")


async def test_a_repair_done_wrongly_is_reopened_and_a_right_one_closes_it(site_of: Start, tmp_path: Path) -> None:
    """Export, fill in, import; the machine looks: still dark, attempt 2; then the cord goes in and it closes."""
    site = await site_of(nodes=1, faults=[("gpu-12-01", "psu_cord_out:2")])
    await site.bringup()
    exported = await site.provision("tickets", "export", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(exported.out.lstrip("\ufeff"))))
    assert [row["Locator label"] for row in rows] == ["PSU 2"]
    rows[0] |= {"Status": "done", "Finding": "fixed", "Technician note": "=HYPERLINK(1) cord pushed in"}
    filled = tmp_path / "filled.csv"
    with filled.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows([*rows, rows[0] | {"Ticket ID": "T-0999"}])
    taken = await site.provision("tickets", "import", str(filled))
    assert taken.status == 1
    assert "line 3: there is no ticket T-0999" in taken.err
    assert "done-by-technician" in taken.out
    again = await site.provision("tickets", "import", str(filled))
    assert "0 ticket(s) changed" in again.err

    await site.bringup()
    (ticket,) = await site.tickets()
    assert (ticket["status"], ticket["attempt"]) == ("reopened", 2)
    told = await site.provision("why", "gpu-12-01")
    assert "PSU 2" in told.out
    assert "a technician says: fixed" in told.out
    assert "what would change it: provision triage gpu-12-01" in told.out

    late = await site.provision("tickets", "import", str(filled))
    assert "is at attempt 2, the row is of attempt 1" in late.err

    assert (await site.provision("sim", "repair", "gpu-12-01", "--dir", str(site.fleet.directory))).status == 0
    await site.bringup()
    assert await site.tickets() == []
    (closed,) = await site.tickets(everything=True)
    assert (closed["status"], closed["attempt"]) == ("verified", 2)


async def test_a_remote_step_is_counted_and_then_somebody_goes(site_of: Start) -> None:
    """A GPU that is away asks for an AC cycle first; done and still away, the next step is a visit."""
    site = await site_of(nodes=1, faults=[("gpu-12-01", "gpu_missing:5")])
    await site.bringup()
    (ticket,) = await site.tickets()
    assert (ticket["action"], ticket["dispatch"]) == ("ac_power_cycle", "after_repeat")
    hands = await site.provision("tickets", "done-remotely", ticket["id"], "reseat_device")
    assert hands.status == 2
    assert "needs somebody at the machine" in hands.err
    assert (await site.provision("tickets", "done-remotely", ticket["id"], "ac-power-cycle")).status == 0
    twice = await site.provision("tickets", "done-remotely", ticket["id"], "ac_power_cycle")
    assert (twice.status, "counted already" in twice.err) == (2, True)
    await site.bringup()
    (after,) = await site.tickets()
    assert (after["id"], after["action"], after["dispatch"]) == (ticket["id"], "reseat_device", "now")


async def test_every_format_is_written_and_nothing_in_it_executes(site_of: Start, tmp_path: Path) -> None:
    """CSV, Jira, ServiceNow, JSON and HTML of the same tickets."""
    faults = [("gpu-12-01", "psu_failed:3"), ("gpu-12-02", "nvme_missing:4")]
    site = await site_of(nodes=2, faults=faults)
    await site.bringup()
    for kind in ("csv", "jira", "servicenow", "json", "html"):
        target = tmp_path / f"tickets.{kind}"
        answer = await site.provision("tickets", "export", "--format", kind, "-o", str(target))
        assert (answer.status, "2 ticket(s)" in answer.err) == (0, True)
    page = (tmp_path / "tickets.html").read_text()
    assert "▶ gpu-12-01" in page
    assert '<span class="hit">Bay 4</span>' in page
    assert "<script" not in page
    for kind in ("jira", "servicenow"):
        table = list(csv.reader(io.StringIO((tmp_path / f"tickets.{kind}").read_text().lstrip("\ufeff"))))
        assert len(table) == 3
        assert {len(row) for row in table} == {len(table[0])}
    review = await site.provision("tickets", "review", "--output", "json")
    assert review.json["lemons"] == []
