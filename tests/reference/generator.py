"""Random histories by simulation of a store: one that keeps its contract, or one with a planted flaw in motion."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.reference.failover import with_failover_clause
from tests.reference.flaws import FAILOVER_FLAWS, FLAWS
from tests.reference.history import History
from tests.reference.simulation import CONTRACTS, Simulation, draw_contract, simulate

TRIES_MAX = 40
"""How many runs are drawn until one gives the flaw an occasion."""

_TTL = ("ttl_sliding", "ttl_absolute")


def correct(seed: int, contract: str | None = None, *, fails_over: bool = False) -> History:
    """Return a history of a store that keeps its contract; its primary may be replaced by another node."""
    random = Random(seed)
    base = contract or random.choice(tuple(CONTRACTS))
    drawn = draw_contract(random, base)
    if fails_over:
        drawn = with_failover_clause(random, drawn)
    return replace(simulate(random, drawn, fails_over=fails_over).history(), seed=seed)


def flawed(seed: int, flaw: str | None = None, contract: str | None = None, *, fails_over: bool = False) -> History:
    """Return a history with one planted flaw; `took_effect` says whether some read differs because of it."""
    random = Random(seed)
    name = flaw or random.choice((*FLAWS, *3 * tuple(FAILOVER_FLAWS)) if fails_over else tuple(FLAWS))
    plant, _, needs = (FLAWS | FAILOVER_FLAWS)[name]
    run: Simulation
    for _ in range(TRIES_MAX):
        base = contract or (random.choice(_TTL) if needs in _TTL else needs) or random.choice(tuple(CONTRACTS))
        must_break = name in ("hole_in_tail", "tail_too_long")
        drawn = draw_contract(random, base)
        if fails_over:
            drawn = with_failover_clause(random, drawn)
        sessions_min = 2 if name == "leak" else 1
        run = simulate(random, drawn, sessions_min=sessions_min, must_break=must_break, fails_over=fails_over)
        as_it_was = list(run.attempts)
        store = plant(run)
        if store is not None:
            history = run.history(store)
            as_it_should_be = run.correct_store()
            differs = any(
                read.items != run.items(as_it_should_be, slot)
                for read, slot in zip(history.reads, run.slots, strict=True)
            )
            return replace(history, planted=name, took_effect=differs or run.attempts != as_it_was, seed=seed)
    return replace(run.history(), seed=seed)
