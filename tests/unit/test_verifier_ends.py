"""Ends of sessions that are read together: what is odd about one of them waits for itself."""

from __future__ import annotations

import asyncio
import random

from soak.checker.contract import Contract
from tests.support.checker.every_flaw import drop, talk
from tests.support.checker.simulated import Simulation, simulate


def test_an_odd_end_holds_up_no_other_while_the_ledger_is_waited_for_and_is_explained_after_that() -> None:
    async def script(simulation: Simulation) -> None:
        await talk(simulation)
        await simulation.look(1)
        said = await talk(simulation)
        drop(simulation, said[0])
        examiner, is_followed = simulation.examiner, asyncio.Event()

        async def caught_up() -> bool:
            return await is_followed.wait()

        examiner.caught_up = caught_up
        examined = await examiner.examine_ends([simulation.watched])  # and does not wait for the ledger
        assert [odd.tracked for odd in examined.odd] == [simulation.watched]
        assert simulation.watched.busy, "nobody else reads it meanwhile"
        is_followed.set()
        assert await examiner.explain_end(examined.odd[0])
        assert not simulation.watched.busy
        assert simulation.watched.suspicions
        await simulation.look(2)

    simulation = simulate(random.Random(1), Contract(), script, steps=0, writers=1)
    assert simulation.found() == {"lost": 1}


def test_a_session_that_wants_all_of_it_read_is_left_to_a_read_of_all() -> None:
    async def script(simulation: Simulation) -> None:
        await talk(simulation)
        examined = await simulation.examiner.examine_ends([simulation.watched])
        assert examined.others == [simulation.watched], "nothing of it is verified yet"
        assert not simulation.watched.busy

    simulate(random.Random(1), Contract(), script, steps=0, writers=1)
