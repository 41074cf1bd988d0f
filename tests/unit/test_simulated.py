"""Whatever a correct store does within its contract, nobody is accused; whatever is made wrong is told by its name."""

from __future__ import annotations

import random

import pytest

from tests.support.checker.every_flaw import FLAWS, RIGHTS, Flaw
from tests.support.checker.every_rule_flaw import RULES_BROKEN, RULES_KEPT
from tests.support.checker.every_search_flaw import SEARCHES
from tests.support.checker.simulated import CONTRACTS, simulate

SEEDS = 6


@pytest.mark.parametrize("is_searched", [False, True])
@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_store_that_keeps_its_contract_is_never_accused(contract: str, is_searched: bool) -> None:
    for seed in range(SEEDS):
        source = random.Random(f"{contract}/{seed}")
        simulation = simulate(source, CONTRACTS[contract], writers=1 + seed % 3, is_searched=is_searched)
        try:
            simulation.expect_silence()
        except AssertionError as error:
            raise AssertionError(f"seed {contract}/{seed}") from error


@pytest.mark.parametrize("flaw", [*FLAWS, *RIGHTS, *RULES_BROKEN, *RULES_KEPT, *SEARCHES], ids=lambda flaw: flaw.name)
def test_one_wrong_thing_is_found_and_named_and_what_only_looks_wrong_is_not(flaw: Flaw) -> None:
    for seed in range(2):
        found = flaw.found(random.Random(f"{flaw.name}/{seed}"))
        assert flaw.is_told(found), f"seed {seed}: {found or 'nothing'}, not {flaw.kinds or 'nothing'}"
