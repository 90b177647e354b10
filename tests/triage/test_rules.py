"""Every rule proves itself on its own examples, and the loader names what is wrong in a bad file."""

from __future__ import annotations

import pytest

from provision.triage.examples import complaints
from provision.triage.rules import Rule, RuleError, packaged_rules, parse_rules
from tests.triage import rules_doc

RULES = packaged_rules()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_holds_its_own_examples(rule: Rule) -> None:
    """Two lines at least that make it fire, two that leave it silent."""
    assert list(complaints(rule)) == []


GOOD = """
- id: X-1
  source: psus
  match: {reading: failed}
  category: psu
  component: psu
  action: replace_psu
  dispatch: now
  ask: "Replace {locator}."
  because: "a test"
  fires_on: [{reading: failed}]
  silent_on: [{reading: ok}]
"""


@pytest.mark.parametrize(
    ("old", "bad", "says"),
    [
        ("category: psu", "category: pus", "site.yaml: X-1: category is 'pus'; expected one of"),
        ("action: replace_psu", "action: kick", "site.yaml: X-1: action is 'kick'"),
        ("dispatch: now", "dispatch: soon", "site.yaml: X-1: dispatch is 'soon'"),
        ("{reading: failed}\n  cat", "{reding: failed}\n  cat", "site.yaml: X-1: match has unknown fields reding"),
        ("match: {reading: failed}", "match: {text: '(a+)+b'}", "site.yaml: X-1: match.text: '(a+)+b' repeats"),
        ("match: {reading: failed}", "match: {text: '(a'}", "site.yaml: X-1: match.text: '(a' is not a regular"),
        ('because: "a test"', "weight: 3", "site.yaml: X-1: because must be given"),
        ('because: "a test"', 'because: "x"\n  weight: 3', "site.yaml: X-1: weight is 3; expected a number from 0"),
        ('because: "a test"', 'because: "x"\n  colour: red', "site.yaml: X-1: unknown fields colour"),
        ("fires_on: [{reading: failed}]", "fires_on: []", "site.yaml: X-1: fires_on must be a list"),
        ("- id: X-1", "- [1, 2]\n- id: X-1", "site.yaml: entry 1 must be a mapping"),
        ("- id: X-1", "- id: [", "site.yaml: not YAML"),
    ],
)
def test_a_bad_rule_is_named(old: str, bad: str, says: str) -> None:
    """File, rule and field stand in the complaint."""
    assert old in GOOD
    with pytest.raises(RuleError) as caught:
        parse_rules([("site.yaml", GOOD.replace(old, bad, 1))])
    assert says in str(caught.value)


def test_a_site_rule_replaces_ours_by_id() -> None:
    """A later file wins; one id twice in one file is a slip."""
    merged = parse_rules([("ours.yaml", GOOD), ("site.yaml", GOOD.replace("weight", "w").replace("now", "never"))])
    assert [(rule.id, rule.dispatch.value) for rule in merged] == [("X-1", "never")]
    with pytest.raises(RuleError, match="used twice"):
        parse_rules([("site.yaml", GOOD + GOOD)])


def test_the_list_of_rules_in_the_docs_is_current() -> None:
    """``python -m tests.triage.rules_doc`` writes it."""
    assert rules_doc.TARGET.read_text(encoding="utf-8") == rules_doc.text()
