"""The checker and an independent reading of the consistency model, asked about the same random histories.

The seed is drawn from the clock and printed; SOAK_SEED repeats a run, SOAK_HISTORIES asks about more (100,000 by hand).
A store that keeps its contract must never be accused. Of stores with a planted flaw, nearly all answers agree: what is
left are outcomes that reach the verifier seconds late, in other orders than they happened.
"""

from __future__ import annotations

import os
import time

import pytest
from checker_under_reference import CheckerJudge, as_read
from reference.adapter import Disagreement, compare, explain
from reference.generator import correct, flawed

HISTORIES = int(os.environ.get("SOAK_HISTORIES", "150"))
PARTS = 4
FLAWED_SHARE_MAX = 0.02
"""Flawed histories about which the two may disagree."""


@pytest.fixture
def seed() -> int:
    drawn = int(os.environ.get("SOAK_SEED") or time.time_ns() % 10**12)
    print(f"SOAK_SEED={drawn}")
    return drawn


def expect_no_false_alarm(first: int, count: int) -> None:
    wrong: list[Disagreement] = []
    for number in range(first, first + count):
        wrong += compare(as_read(correct(number)), CheckerJudge())
        if wrong:
            raise AssertionError(f"history {number}:\n{explain(wrong[0])}")


def expect_agreement(first: int, count: int) -> None:
    differing: list[Disagreement] = []
    for number in range(first, first + count):
        differing += compare(as_read(flawed(number)), CheckerJudge())[:1]
    print(f"{len(differing)} of {count} flawed histories are judged differently")
    assert len(differing) <= max(3, FLAWED_SHARE_MAX * count), explain(differing[0])


def test_a_store_that_keeps_its_contract_is_never_accused(seed: int) -> None:
    expect_no_false_alarm(seed, HISTORIES)


def test_flawed_stores_are_judged_as_the_reference_judges_them(seed: int) -> None:
    expect_agreement(seed, HISTORIES)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_more_are_judged_alike(seed: int, part: int) -> None:
    each = max(HISTORIES, 2_800) // PARTS
    expect_no_false_alarm(seed + part * each, each)
    expect_agreement(seed + part * each, each)
