"""A wrong BMC password: three bad logins lock our address out on an iDRAC, so a rack is not tried to the end."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.journeys.conftest import Answer, Site, Start

TRUE = "another-password"


def refusals(site: Site) -> dict[str, int]:
    """How many logins each BMC has refused."""
    return {name: machine.sessions["refused"] for name, machine in site.world.machines.items()}


def said(answer: Answer) -> list[str]:
    return [line["text"] for line in answer.lines if line["event"] == "said"]


async def test_a_wrong_password_stops_at_three_bmcs_of_the_rack(site_of: Start) -> None:
    site: Site = await site_of(nodes=8)
    wrong, site.world.bmc_password = site.world.bmc_password, TRUE
    answer = await site.bringup("rack-12")
    assert answer.status == 1
    refused = refusals(site)
    assert max(refused.values()) == 1, "a BMC was tried twice"
    assert sum(refused.values()) == 3
    tried = sorted(name for name, count in refused.items() if count)
    (sentence,) = said(answer)
    assert sentence.startswith("3 BMCs refused credential 'bmc'")
    assert all(name in sentence for name in tried)
    assert "correct user and password, then run the same command again" in sentence
    rows = {row["node"]: row for row in (await site.provision("status", "--offline", "--output", "json")).json}
    for name, row in rows.items():
        assert row["outcome"] == "needs-us"
        if name in tried:
            assert "refused" in row["why"]
        else:
            assert row["why"].startswith("not tried: credential 'bmc' was refused by ")
    assert await site.tickets() == [], "nobody walks for a password"
    assert site.writes() == 0
    assert wrong not in answer.out + answer.err

    # The same in words, on a terminal that is none.
    site.world.reset_writes()
    words = await site.provision("bringup", "rack-12")
    assert words.status == 1
    assert "no other BMC is tried with it" in words.err
    assert "0 of 8 ready" in words.err
    assert (max(refusals(site).values()), sum(refusals(site).values())) == (1, 3)


async def test_one_nodes_own_wrong_password_stops_that_node_alone(site_of: Start) -> None:
    site: Site = await site_of(nodes=2)
    bad = "gpu-12-01"
    secret = site.fleet.directory / "secrets" / "other-password"
    secret.write_text("not-this-one\n")
    secret.chmod(0o600)
    host = Path(site.fleet.inventory) / "host_vars" / f"{bad}.yml"
    host.parent.mkdir()
    host.write_text(yaml.safe_dump({"bmc_user": "provision", "bmc_password": f"file:{secret}"}))
    answer = await site.bringup()
    assert answer.status == 1
    assert await site.outcomes() == {bad: "needs-us", "gpu-12-02": "ready"}
    assert refusals(site) == {bad: 1, "gpu-12-02": 0}, "not in gather, not in a second stage"
    assert said(answer) == []
    stages = [(line["stage"], line["done"]) for line in answer.lines if line["event"] == "stage-ended"]
    assert stages.count(("discover", False)) == 1
    assert not any(line["event"] == "stage-started" and line["node"] == bad for line in answer.lines[5:])
    assert "not-this-one" not in answer.out + answer.err
    host.unlink()
    assert (await site.bringup(bad)).status == 0


async def test_verbs_that_only_look_try_each_bmc_once(site_of: Start) -> None:
    site: Site = await site_of(nodes=2, with_maas=False)
    site.world.bmc_password = TRUE
    for argv in (("macs", "all"), ("triage", "all", "--output", "json"), ("power", "status", "all")):
        site.world.reset_writes()
        answer = await site.provision(*argv)
        assert answer.status == 1, argv
        assert "refused" in answer.out + answer.err, argv
        assert refusals(site) == {"gpu-12-01": 1, "gpu-12-02": 1}, argv


@pytest.mark.parametrize(
    "argv",
    [
        "macs rack-12",
        *(
            pytest.param(argv, marks=pytest.mark.soak)
            for argv in ("triage rack-12", "power status rack-12", "bmc info rack-12", "bmc clock rack-12")
        ),
    ],
)
async def test_a_wrong_password_stops_every_verb_at_three_bmcs(argv: str, site_of: Start) -> None:
    """Three refusals, one try each, one sentence, and a word for each node that was not tried."""
    site: Site = await site_of(nodes=8, with_maas=False)
    wrong, site.world.bmc_password = site.world.bmc_password, TRUE
    answer = await site.provision(*argv.split())
    assert answer.status == 1
    refused = refusals(site)
    assert (max(refused.values()), sum(refused.values())) == (1, 3), argv
    tried = sorted(name for name, count in refused.items() if count)
    sentences = [line for line in answer.err.splitlines() if line.startswith("3 BMCs refused credential 'bmc' (")]
    assert len(sentences) == 1
    assert all(name in sentences[0] for name in tried)
    assert "correct user and password, then run the same command again" in sentences[0]
    told = answer.out + answer.err
    assert told.count("not tried: credential 'bmc' was refused by ") >= 5
    assert wrong not in told
    assert site.writes() == 0


@pytest.mark.soak
async def test_one_bmc_that_takes_the_password_lets_all_others_be_asked(site_of: Start) -> None:
    """A login of its own that is wrong stops nobody else."""
    site: Site = await site_of(nodes=8, with_maas=False)
    bad = ["gpu-12-01", "gpu-12-02", "gpu-12-03", "gpu-12-04"]
    for name in bad:
        site.world.by_name(name).inject("bmc_sick", "password_change")
    answer = await site.provision("macs", "rack-12", "--output", "json")
    assert answer.status == 1
    assert {row["node"] for row in answer.json} == {f"gpu-12-0{number}" for number in range(5, 9)}
    assert "refused credential" not in answer.err
    assert "not tried" not in answer.err
