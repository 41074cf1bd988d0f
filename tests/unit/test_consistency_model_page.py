"""The page of the consistency model is complete, and each of its rules is held by tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from soak.checker.kinds import Kind
from tests.reference.judge import DECISIONS
from tests.support.checker.every_flaw import FLAWS, RIGHTS
from tests.support.checker.every_rule_flaw import RULES_BROKEN, RULES_KEPT
from tests.support.checker.every_search_flaw import SEARCHES
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "consistency-model.md").read_text(encoding="utf-8")
RULES = [f"R{number}" for number in range(1, 17)]
CASES = frozenset(flaw.name for flaw in (*FLAWS, *RIGHTS, *RULES_BROKEN, *RULES_KEPT, *SEARCHES))

_RULE = re.compile(r"^\*\*(R\d+)\b", re.MULTILINE)
_TESTS = re.compile(r"^Tests: (.+)$", re.MULTILINE)


def named_by_rule(page: str) -> dict[str, list[str]]:
    """Return the tests that each rule names, in the line `Tests:` before the next rule or heading."""
    found: dict[str, list[str]] = {}
    starts = [*_RULE.finditer(page)]
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        text = page[start.end() : len(page) if following is None else following.start()]
        lines = _TESTS.findall(text.split("\n#", 1)[0])
        found[start[1]] = [name for line in lines for name in re.findall(r"`([^`]+)`", line)]
    return found


@cache
def functions_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def exists(name: str) -> bool:
    """Whether this is a case of the simulation, or a test function of a file."""
    if name.startswith("["):
        return name.strip("[]") in CASES
    file, _, function = name.partition("::")
    return file.startswith("tests/") and (ROOT / file).is_file() and function in functions_in(file)


NAMED = named_by_rule(PAGE)


def test_every_rule_is_on_the_page_once_and_in_order() -> None:
    assert _RULE.findall(PAGE) == RULES


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_names_a_test(rule: str) -> None:
    assert NAMED[rule], f"{rule} names no test; add a line 'Tests: `tests/unit/test_x.py::test_y`' to it"


@pytest.mark.parametrize(("rule", "name"), [(rule, name) for rule, names in NAMED.items() for name in names])
def test_every_test_that_is_named_exists(rule: str, name: str) -> None:
    assert exists(name), f"{rule} names {name}, which does not exist; was it renamed?"


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_row(kind: Kind) -> None:
    assert f"\n| `{kind.value}` | " in PAGE


def test_every_decision_of_the_reference_judge_is_told() -> None:
    told = re.findall(r"^- \*\*D(\d+)\*\* \(`([a-z-]+)`\) \S", PAGE, re.MULTILINE)
    assert [int(number) for number, _ in told] == list(range(1, len(DECISIONS) + 1))
    assert {name for _, name in told} == set(DECISIONS)


def test_a_rule_without_tests_or_with_one_that_is_gone_is_noticed() -> None:
    tests = "`[no such flaw]`, `tests/unit/test_simulated.py::test_gone`"
    page = f"**R1. One.**\n\nTests: {tests}\n\n**R2. Two.**\n\n## Next\n"
    named = named_by_rule(page)
    assert named["R2"] == []
    assert not any(exists(name) for name in named["R1"])
    assert len(named["R1"]) == 2
