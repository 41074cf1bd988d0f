"""Right when it was read, and changed afterwards."""

from __future__ import annotations

import asyncio
import random

import msgspec

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.flaws.flaw import Flaw, Load, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.stores import Message, StoreContext

JOB_SECONDS = 4.0
"""The incident's job ran once a night; here it runs every few seconds, so that nobody has to wait."""
JOB_SHARE = 0.05


class EditedInPlace(RedisMemory):
    """A job behind it tidies up old rows."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._jobs: set[asyncio.Task[None]] = set()

    async def append(self, session: str, message: Message) -> None:
        length = await self.redis.rpush(self.key(session), message.to_bytes())
        if random.random() < JOB_SHARE:
            job = asyncio.create_task(self._tidy(session, length - 1, message))
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)

    async def _tidy(self, session: str, place: int, message: Message) -> None:
        await asyncio.sleep(JOB_SECONDS)
        tidied = msgspec.structs.replace(message, content=f"[archived] {message.content.strip()[:200]}")
        await self.redis.lset(self.key(session), place, tidied.to_bytes())

    async def close(self) -> None:
        for job in self._jobs:
            job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        await super().close()


FLAW = Flaw(
    name="edited_in_place",
    incident="a nightly clean-up job rewrites rows that were stored and read correctly for hours",
    code='LSET of "[archived] " + content[:200], in a job that was meant for another table.',
    mocks="The job's test asserts that it changes rows. Nobody reads the conversation afterwards.",
    user="The assistant knew the address in the evening, and half of it in the morning.",
    kinds=frozenset({Kind.CORRUPTED}),
    causes=frozenset({Cause.UNKNOWN}),
    setups=same_server(EditedInPlace, RedisMemory),
    # Sessions that go on for longer than the job waits.
    load=Load(users=12, session_messages=400),
    latent_seconds=JOB_SECONDS,
    patience_seconds=30.0,
    says=("changed in place",),
)
