"""After a fault every session has to ask at once how far the ledger has come; each must be answered."""

from __future__ import annotations

import asyncio

from soak.checker.read import Rules
from soak.ledger.reader import LedgerReader
from soak.verifier.follower import Follower
from soak.verifier.intake import Intake
from soak.verifier.state import State
from tests.support.verifying import Soaking

SESSIONS = 64


async def test_many_sessions_may_ask_at_once(soaking: Soaking, ledger_url: str) -> None:
    async with soaking() as script:
        header = script.info.header
        await script.say("s", 3)
        await script.writer.close()
        reader = await LedgerReader.connect(ledger_url, header.run)
        state = State(header, {script.store: ("redis",)}, 1_000_000)
        rules = {script.store: Rules(contract=header.contracts[script.store])}
        follower = Follower(reader, state, Intake(state, rules, "here"))
        following = asyncio.create_task(follower.run())
        try:
            answers = await asyncio.gather(*(follower.caught_up() for _ in range(SESSIONS)))
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await reader.close()
        assert answers == [True] * SESSIONS
