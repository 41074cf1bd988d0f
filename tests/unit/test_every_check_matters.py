"""No check is decoration: take any one away, or any excuse, and the simulated stores show that it is missing."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator

import pytest

from soak.checker.kinds import Kind
from tests.support.checker.every_flaw import FLAWS, RIGHTS
from tests.support.checker.every_rule_flaw import RULES_BROKEN, RULES_KEPT
from tests.support.checker.every_search_flaw import SEARCHES
from tests.support.checker.mutants import MUTANTS, Mutant
from tests.support.checker.simulated import CONTRACTS, simulate

BY_NAME = {flaw.name: flaw for flaw in (*FLAWS, *RIGHTS, *RULES_BROKEN, *RULES_KEPT, *SEARCHES)}
SEEDS_MAX = 80
"""Correct stores tried per contract before a change is said to go unnoticed."""


def run(module: str, function: str) -> None:
    """Call a test function, with each of its parameters if it has any."""
    test = getattr(importlib.import_module(f"tests.unit.{module}"), function)
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    if not marks:
        test()
    for mark in marks:
        names = [mark.args[0]] if isinstance(mark.args[0], str) else mark.args[0]
        for values in mark.args[1]:
            test(**dict(zip(names, [values] if len(names) == 1 else values, strict=True)))


def notices(name: str) -> bool:
    """Whether one trial, a flaw, `contract/seed` or `module::test`, comes out other than it must."""
    try:
        if "::" in name:
            run(*name.split("::"))
            return False
        if name in BY_NAME:
            return not BY_NAME[name].is_told(BY_NAME[name].found(random.Random(f"{name}/0")))
        contract, _, text = name.rpartition("/")
        seed = int(text)
        steps = 60 if seed < 100 else 40 + seed % 5 * 30
        simulate(random.Random(name), CONTRACTS[contract], writers=1 + seed % 3, steps=steps).expect_silence()
    except Exception:  # noqa: BLE001  a change that breaks something is noticed, however it breaks it
        return True
    return False


def trials(mutant: Mutant) -> Iterator[str]:
    yield from mutant.by
    yield from (name for name in BY_NAME if name not in mutant.by)
    for seed in range(SEEDS_MAX):
        yield from (f"{contract}/{seed}" for contract in CONTRACTS)


def first_notice(mutant: Mutant) -> str | None:
    with mutant.applied():
        return next((name for name in trials(mutant) if notices(name)), None)


def test_with_every_check_in_place_nothing_is_noticed() -> None:
    known = {name for mutant in MUTANTS for name in mutant.by}
    assert [name for name in sorted(known) if notices(name)] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.what for mutant in MUTANTS])
def test_a_check_that_is_taken_away_is_missed(mutant: Mutant) -> None:
    assert first_notice(mutant) is not None, f"{mutant.what}: taking it away changes nothing"


def test_each_kind_has_a_check_that_is_shown_to_matter() -> None:
    assert {kind for mutant in MUTANTS for kind in mutant.kinds} == set(Kind)
