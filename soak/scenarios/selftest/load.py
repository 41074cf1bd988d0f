"""Participants without Locust: a few tasks on the loop they share with everything else of a rig."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Sequence

import msgspec

from soak.checker.message import Message, Stored
from soak.clock import now_us
from soak.errors import SoakError
from soak.flaws.flaw import Load
from soak.join import JoinInfo
from soak.ledger.writer import LedgerWriter
from soak.load.participant import Participant
from soak.load.plan import Plan
from soak.load.reading import Expectation
from soak.load.session_pool import LIMIT_FACTOR, LIMIT_SLACK_SECONDS, OpenedStore, SessionPool
from soak.settings import LedgerSettings
from soak.stores.protocol import MemoryStore, search_of
from soak.stores.registry import open_store
from soak.tasks import end_tasks

TOGETHER_SHARE = 0.5
"""How often the writers of a shared session speak at the same moment."""
TURN_SECONDS_MAX = 10.0
"""How long the last turns may take when the load is asked to leave."""

AckTimes = dict[str, int]
"""When each message was acknowledged, in microseconds of CLOCK_MONOTONIC, by its name."""


class NotedMemory:
    """A store that notes when it acknowledged what; everything else it leaves to the one it wraps."""

    def __init__(self, memory: MemoryStore, acknowledged: AckTimes) -> None:
        self._memory = memory
        self._acknowledged = acknowledged

    async def append(self, session: str, message: Message) -> None:
        await self._memory.append(session, message)
        self._acknowledged[str(message.name)] = now_us()

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        return await self._memory.history(session, last)

    async def forget(self, session: str) -> None:
        await self._memory.forget(session)

    async def close(self) -> None:
        await self._memory.close()


class InProcessLoad:
    """The participants of one tenant."""

    def __init__(self, pool: SessionPool, users: int) -> None:
        self._pool = pool
        self._users = users
        self._tasks: list[asyncio.Task[None]] = []
        self._is_leaving = asyncio.Event()

    @classmethod
    async def gather(cls, info: JoinInfo, load: Load, acknowledged: AckTimes) -> InProcessLoad:
        """Connect to the ledger and the stores of the run."""
        stores = tuple(info.header.stores)
        ledger = await LedgerWriter.connect(info.ledger_url, LedgerSettings())
        context = info.store_context()
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(ledger.close)
            opened: dict[str, OpenedStore] = {}
            for name in stores:
                memory = await open_store(name, context)
                undo.push_async_callback(memory.close)
                expectation = Expectation.of(info.header.contracts[name])
                opened[name] = OpenedStore(NotedMemory(memory, acknowledged), expectation, search_of(memory))
            undo.pop_all()
        limit_seconds = info.timeout_seconds * LIMIT_FACTOR + LIMIT_SLACK_SECONDS
        return cls(SessionPool(ledger, opened, _plan(load, stores), limit_seconds), load.users)

    def begin(self) -> None:
        self._tasks = [asyncio.create_task(self._take_part(Participant(self._pool))) for _ in range(self._users)]

    def check(self) -> None:
        """Raise what a participant has failed with, for a reason of its own."""
        for task in self._tasks:
            if task.done() and not task.cancelled() and not self._is_leaving.is_set():
                task.result()
                raise SoakError("a participant has left before the end; the trial proves nothing")

    async def leave(self) -> None:
        """Let everybody finish their turn, write what is left and say goodbye."""
        self._is_leaving.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=TURN_SECONDS_MAX)
        await end_tasks(self._tasks)
        await self._pool.close()

    async def _take_part(self, participant: Participant) -> None:
        try:
            while not self._is_leaving.is_set():
                await participant.turn()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._is_leaving.wait(), self._pause_seconds(participant))
        finally:
            participant.leave()

    def _pause_seconds(self, participant: Participant) -> float:
        plan, source = self._pool.plan, self._pool.random
        pause = plan.draw_think_seconds(source)
        phase = participant.phase
        if phase is None or source.random() >= TOGETHER_SHARE:
            return pause
        # On the common beat of the session, where its other writers are met.
        beat = max(0.02, plan.think_seconds)
        now = time.monotonic() - phase * beat
        return math.ceil((now + pause) / beat) * beat - now


def _plan(load: Load, stores: tuple[str, ...]) -> Plan:
    chosen = {name: value for name, value in msgspec.structs.asdict(load).items() if name in Plan._fields}
    return Plan(stores=stores, **chosen)
