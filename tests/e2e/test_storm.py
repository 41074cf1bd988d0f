"""Correct memories in the storm: not one is accused, and one that is wrong in one thing is found in the midst of it."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.support.campaigns.storm import BUILT_IN, LETTING_GO, Storm, run

IS_LONG = os.environ.get("SOAK_STORM") == "1"
SECONDS = 50.0 if IS_LONG else 12.0
SEED = int(os.environ.get("SOAK_STORM_SEED", "4"))
FLAWED = "tests.support.stores.storm:AlmostRight"


def blow(*stores: str) -> Storm:
    return asyncio.run(run(Storm(stores=stores, seed=SEED, seconds=SECONDS)))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_correct_memory_is_accused_and_the_one_that_drops_messages_is_found() -> None:
    storm = blow(*BUILT_IN, *LETTING_GO, FLAWED)
    assert {(one["store"], one["kind"]) for one in storm.verdict["violations_by"]} == {(FLAWED, "lost")}, storm.told()
    assert storm.verdict["totals"]["unverifiable"] == 0, storm.told()
    assert sum(storm.happened.values()) >= 5, storm.told()


if IS_LONG:

    @pytest.mark.extra
    @pytest.mark.timeout(900)
    def test_correct_memories_pass_whatever_happens_around_them() -> None:
        storm = blow(*BUILT_IN, *LETTING_GO)
        assert storm.is_silent, f"{storm.told()}\n{storm.evidence}"
