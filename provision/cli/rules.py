"""The rule verbs: list, show, test."""

from __future__ import annotations

from pathlib import Path

import click

from provision.cli.common import output_option, print_json, print_rows
from provision.errors import MisconfiguredError

_site = click.option(
    "--site",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="A folder of YAML rules of the site, merged over ours.",
)


@click.group()
def rules() -> None:
    """Triage rules: list, show, test.

    \b
    Example:
      provision rules test --site triage-rules
    """


@rules.command("list")
@click.argument("words", required=False, default="")
@_site
@output_option("table", "json", "csv")
def list_rules(words: str, folder: Path | None, output: str) -> int:
    """Every rule, or those that hold WORDS in their id, category or sentence.

    \b
    Example:
      provision rules list nvme
    """
    from provision.app.rules import rule_row, site_rules

    rows = [rule_row(rule) for rule in site_rules(folder)]
    found = [row for row in rows if words.lower() in f"{row['id']} {row['category']} {row['ask']}".lower()]
    columns = ["id", "category", "action", "dispatch", "weight", "role", "file", "ask"]
    print_rows(output, columns, found, empty="no such rule")
    return 0


@rules.command("show")
@click.argument("rule_id")
@_site
@output_option("text", "json")
def show(rule_id: str, folder: Path | None, output: str) -> int:
    """One rule: what it looks for, what it asks, why, and its examples.

    \b
    Example:
      provision rules show PSU-NO-INPUT
    """
    from provision.app.rules import rule_row, site_rules
    from provision.report.text import clean

    found = [rule_row(rule) for rule in site_rules(folder) if rule.id.lower() == rule_id.lower()]
    if not found:
        raise MisconfiguredError(f"there is no rule {rule_id!r}; `provision rules list` lists them")
    if output == "json":
        print_json(found[0])
        return 0
    for key, value in found[0].items():
        for item in value if isinstance(value, list) else [value]:
            if item not in ("", None):
                click.echo(f"{key + ':':12}{clean(item)}")
    return 0


@rules.command("test")
@_site
def test(folder: Path | None) -> int:
    """Run every rule on its own examples. Exit status 1 if one does not hold.

    \b
    Example:
      provision rules test --site triage-rules
    """
    from provision.app.rules import failing, site_rules
    from provision.report.text import clean

    every = site_rules(folder)
    wrong = failing(every)
    for line in wrong:
        click.echo(clean(line))
    click.echo(f"{len(every)} rules, {len(wrong)} complaint(s)", err=True)
    return 1 if wrong else 0
