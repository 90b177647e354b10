"""Triage rules of a site: ours, and its own merged over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from provision.errors import MisconfiguredError
from provision.triage.examples import complaints
from provision.triage.rules import Rule, RuleError, merged, packaged_rules, parse_rules


def site_rules(folder: Path | None) -> tuple[Rule, ...]:
    """Our rules, replaced and added to by the YAML files of ``folder``, in the order of their names.

    Raises:
        MisconfiguredError: the folder or a file cannot be read, or a rule cannot be used; it names file and rule.
    """
    ours = packaged_rules()
    if folder is None:
        return ours
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix in {".yaml", ".yml"})
        texts = [(str(path), path.read_text(encoding="utf-8")) for path in files]
    except (OSError, UnicodeDecodeError) as error:
        raise MisconfiguredError(f"rules of the site in {folder} cannot be read: {error}") from None
    try:
        return merged(ours, parse_rules(texts))
    except RuleError as error:
        raise MisconfiguredError(str(error)) from None


def rule_row(rule: Rule) -> dict[str, Any]:
    """A rule as plain values."""
    return {
        "id": rule.id,
        "file": rule.where.rsplit(": ", 1)[0],
        "category": rule.category.value,
        "component": rule.component,
        "action": rule.action.value,
        "escalate": rule.escalate.value if rule.escalate else "",
        "dispatch": rule.dispatch.value,
        "weight": rule.weight,
        "role": rule.role.value,
        "ask": rule.ask,
        "because": rule.because,
        "source": list(rule.match.source),
        "text": rule.match.text.pattern if rule.match.text else "",
        "code": list(rule.match.code),
        "explains": list(rule.explains),
        "cleared_by": list(rule.cleared_by),
        "fires_on": list(rule.fires_on),
        "silent_on": list(rule.silent_on),
    }


def failing(rules: tuple[Rule, ...]) -> list[str]:
    """A sentence for every example of ``rules`` that does not hold."""
    return [line for rule in rules for line in complaints(rule)]
