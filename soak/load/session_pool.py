"""Where the participants of one process find a session, and where ended ones are remembered for a while."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, NamedTuple, Self, TypeVar

from soak.checker.contract import Contract
from soak.checker.text import MessageGenerator
from soak.join import JoinInfo
from soak.ledger.writer import LedgerWriter
from soak.load.conversation import Conversation
from soak.load.plan import Plan, SessionNames
from soak.load.reading import Expectation, Performed
from soak.settings import LedgerSettings
from soak.stores.protocol import MemoryStore, Search, search_of
from soak.stores.registry import open_store

REMEMBERED_SESSIONS_MAX = 300
LEASE_AHEAD_SHARE = 0.25
"""The next block is leased when this share of the last one is left."""
LIMIT_FACTOR = 1.5
LIMIT_SLACK_SECONDS = 1.0
"""Added so that the store's own timeout ends a call first: the store knows whether the call was sent."""
QUIET_SECONDS_MAX = 5.0
QUIET_POLL_SECONDS = 0.01
READ_POLL_SECONDS = 0.1
READ_SLACK_SECONDS = 1.0
"""The verifier's report of how far it has read is a little old when it arrives."""
LATER_MAX = 1_000
"""Tasks that wait to be done later, at most; further ones are dropped."""
PERFORMED_LATER_MAX = 10_000
RACED_MIN = 3
"""So many messages may always race with a forget, however few messages there are."""


class OpenedStore(NamedTuple):
    """A store under test, ready for use, and what its contract lets a read show."""

    memory: MemoryStore
    expectation: Expectation
    search: Search | None = None
    """How it is searched, if it can be."""


class SessionPool:
    """Opens sessions, shares them among participants, leases their numbers and closes them. Lives on one loop."""

    def __init__(
        self, ledger: LedgerWriter, stores: Mapping[str, OpenedStore], plan: Plan, limit_seconds: float
    ) -> None:
        self.ledger = ledger
        self.stores = stores
        self.plan = plan
        self.author = MessageGenerator(ledger.header.run, ledger.header.seed)
        self.random = random.Random(f"{ledger.header.seed}/{ledger.worker}")
        self.deadlines = Deadlines(limit_seconds)
        self._lease_messages = ledger.lease_messages
        self._margin = max(1, int(self._lease_messages * LEASE_AHEAD_SHARE))
        self._is_closed = False
        self._names = SessionNames(ledger.worker, plan.mix, plan.similar_share)
        self._sessions = 0
        self._later: set[asyncio.Task[list[Performed]]] = set()
        self._performed_later: deque[Performed] = deque(maxlen=PERFORMED_LATER_MAX)
        self._closing = asyncio.Event()
        self._raced = 0
        self.acknowledged = 0
        self._with_seats: list[Conversation] = []
        self._live: dict[int, Conversation] = {}
        self._remembered: deque[tuple[float, Conversation]] = deque(maxlen=REMEMBERED_SESSIONS_MAX)
        self._leasing: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._opening: set[asyncio.Task[int]] = set()

    @classmethod
    async def open(cls, info: JoinInfo, ledger_settings: LedgerSettings, plan: Plan) -> Self:
        """Connect to the ledger and to every store of the plan."""
        ledger = await LedgerWriter.connect(info.ledger_url, ledger_settings)
        context = info.store_context()
        contracts = ledger.header.contracts
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(ledger.close)
            stores: dict[str, OpenedStore] = {}
            for name in plan.stores:
                memory = await open_store(name, context)
                undo.push_async_callback(memory.close)
                stores[name] = OpenedStore(memory, Expectation.of(contracts.get(name, Contract())), search_of(memory))
            undo.pop_all()
        return cls(ledger, stores, plan, info.timeout_seconds * LIMIT_FACTOR + LIMIT_SLACK_SECONDS)

    async def join(self) -> tuple[Conversation, int]:
        """Join a shared session with a free seat if there is one, else open a new session."""
        conversation = self._session_with_free_seat() or await self._open_session()
        writer = conversation.seats_taken
        conversation.seats_taken += 1
        conversation.present += 1
        return conversation, writer

    def leave(self, conversation: Conversation) -> None:
        """Leave for good; the last to leave ends the session."""
        conversation.present -= 1
        if conversation.present == 0:
            conversation.has_ended = True
        self.retire_if_over(conversation)

    def retire_if_over(self, conversation: Conversation) -> None:
        """Close a session that has ended and in which nothing is under way any more."""
        if not conversation.has_ended or conversation.turns_under_way or conversation.is_retired:
            return
        conversation.is_retired = True
        del self._live[conversation.number]
        self.ledger.close_session(conversation.number)
        if conversation.forget_sent is None and conversation.acked_total:
            self._remembered.append((time.monotonic(), conversation))

    def ended_session(self) -> Conversation | None:
        """Pick an ended session that was not forgotten and is not retired yet, to see whether it is still known."""
        remembered = self._remembered
        oldest = time.monotonic() - self.ledger.header.recall_seconds
        while remembered and remembered[0][0] < oldest:
            remembered.popleft()
        return self.random.choice(remembered)[1] if remembered else None

    def do_later(self, what: Coroutine[Any, Any, list[Performed]]) -> None:
        """Let something go on while its participant takes part in another session."""
        task = asyncio.create_task(what)
        self._later.add(task)
        task.add_done_callback(self._was_done_later)

    def take_performed_later(self) -> list[Performed]:
        """Return what was performed meanwhile, to be reported by the next participant."""
        performed = list(self._performed_later)
        self._performed_later.clear()
        return performed

    def draw_race(self) -> bool:
        """Draw whether a forget is to race with a last message."""
        plan = self.plan
        if self._raced >= max(RACED_MIN, plan.raced_share_max * self.acknowledged):
            return False
        races = self.random.random() < plan.forget_race_share
        self._raced += races
        return races

    async def until_read(self) -> bool:
        """Wait until the verifier has read what is acknowledged by now; False if that never comes: then forget nothing.

        What is forgotten before it was read is never verified, so this waits for a verifier that restarts or is
        behind. It does not wait for a verifier that was never heard of: perhaps nobody verifies this load.
        """
        begun = time.monotonic()
        if len(self._later) > LATER_MAX:
            return False
        while not self._closing.is_set():
            read_up_to = self.ledger.read_up_to
            if read_up_to is None:
                if time.monotonic() - begun >= self.plan.forget_wait_seconds_max:
                    return True
            elif read_up_to >= begun + READ_SLACK_SECONDS:
                return True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), READ_POLL_SECONDS)
        return False

    def needs_lease(self, conversation: Conversation, writer: int) -> bool:
        return conversation.sent[writer] + self._margin >= conversation.leased[writer]

    async def lease_next(self, conversation: Conversation, writer: int) -> None:
        """Lease the next block ahead of need; wait only when the very next number is not covered yet."""
        key = (conversation.number, writer)
        task = self._leasing.get(key)
        if task is None:
            task = self._leasing[key] = asyncio.create_task(self._lease(conversation, writer))
        if conversation.sent[writer] >= conversation.leased[writer]:
            self.ledger.hurry()
            await asyncio.shield(task)

    async def close(self) -> None:
        """Let turns under way end, close every session, write all that is left and say goodbye."""
        if self._is_closed:
            return
        self._is_closed = True
        self._closing.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(QUIET_SECONDS_MAX):
                while self._opening or self._later or any(one.turns_under_way for one in self._live.values()):  # noqa: ASYNC110  once
                    await asyncio.sleep(QUIET_POLL_SECONDS)
        for conversation in list(self._live.values()):
            conversation.has_ended = True
            self.retire_if_over(conversation)
        await self.ledger.close()
        self.deadlines.close()
        left = [*self._leasing.values(), *self._opening, *self._later]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.gather(*(store.memory.close() for store in self.stores.values()), return_exceptions=True)

    def _session_with_free_seat(self) -> Conversation | None:
        waiting = self._with_seats
        while waiting:
            conversation = waiting[-1]
            if conversation.has_ended or conversation.seats_taken >= conversation.writers:
                waiting.pop()
            else:
                return conversation
        return None

    async def _open_session(self) -> Conversation:
        plan, source = self.plan, self.random
        self._sessions += 1
        store = plan.stores[self._sessions % len(plan.stores)]
        session = self._names.next(store)
        is_shared = plan.writers_per_session > 1 and source.random() < plan.shared_share
        writers = plan.writers_per_session if is_shared else 1
        conversation = Conversation(
            number=await self._opened(session, store, writers),
            session=session,
            store=store,
            writers=writers,
            length=plan.draw_length(source),
            leased=self._lease_messages,
            ends_forgotten=source.random() < plan.forget_share,
            window=plan.context_messages,
        )
        self._live[conversation.number] = conversation
        if is_shared:
            self._with_seats.append(conversation)
        return conversation

    async def _opened(self, session: str, store: str, writers: int) -> int:
        task = asyncio.create_task(self.ledger.open_session(session, store, writers))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            # Whoever wanted it is gone, but the ledger has it or will have it: it must not stay open for ever.
            task.add_done_callback(self._close_unused)
            raise

    def _was_done_later(self, task: asyncio.Task[list[Performed]]) -> None:
        self._later.discard(task)
        if not task.cancelled():
            self._performed_later.extend(task.result())

    def _close_unused(self, opened: asyncio.Task[int]) -> None:
        if not opened.cancelled() and opened.exception() is None:
            self.ledger.close_session(opened.result())

    async def _lease(self, conversation: Conversation, writer: int) -> None:
        upto = conversation.leased[writer] + self._lease_messages
        try:
            await self.ledger.lease(conversation.number, writer, upto)
            conversation.leased[writer] = upto
        finally:
            del self._leasing[conversation.number, writer]


# A limit for every call of a store, without a timer for each.
#
# All calls have the same limit, so the one begun first is due first: a look at the front of a queue a few times a
# second finds what is overdue. A timer per call would cost more than all the rest of the bookkeeping.


T = TypeVar("T")

LOOKS_PER_LIMIT = 10


class Deadlines:
    """Cancels calls that take longer than the limit, and makes their callers see a `TimeoutError`."""

    def __init__(self, limit_seconds: float) -> None:
        self._limit_seconds = limit_seconds
        self._due: dict[asyncio.Task[Any], float] = {}
        self._overdue: dict[asyncio.Task[Any], int] = {}
        """How often each was cancelled: a store may swallow a cancellation and go on waiting."""
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(limit_seconds / LOOKS_PER_LIMIT, self._look)

    async def bounded(self, call: Awaitable[T]) -> T:
        """Await one call of a store within the limit. A task has one such call at a time."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  a coroutine runs in a task
        self._due[task] = self._loop.time() + self._limit_seconds
        try:
            return await call
        except asyncio.CancelledError:
            if task not in self._overdue:
                raise
            raise TimeoutError("the store did not answer in time") from None
        finally:
            del self._due[task]
            for _ in range(self._overdue.pop(task, 0)):
                task.uncancel()

    def close(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        for task, due in self._due.items():
            if due > now:
                break
            self._overdue[task] = self._overdue.get(task, 0) + 1
            task.cancel()
        self._timer = self._loop.call_later(self._limit_seconds / LOOKS_PER_LIMIT, self._look)
