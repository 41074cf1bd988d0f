"""One simulated chat participant. Runs wholly on the loop, so that a turn crosses the bridge once.

The life of an append: its seq is covered by a lease that the ledger has acknowledged; it is sent once; the moment
the store answers, or does not, the outcome goes into the ledger's next batch. Whatever happens to the greenlet
that waits for the turn, the outcome is written: a cancelled append is `unknown`, and the writer goes on with the
next seq.

A session that is to be forgotten is left alone until the verifier has had the chance to read it: what is forgotten
unread is never verified. Only then is it forgotten, in some sessions right behind a last message, or together with it.
"""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import cast

from soak.checker.message import Stored
from soak.checker.outcome import NotApplied, Outcome
from soak.load.conversation import Conversation
from soak.load.reading import (
    SUSPICIONS,
    Expectation,
    OperationFailedError,
    ParticipantRead,
    Performed,
    ReadProblem,
    failure_of,
    observation,
    suspicion,
    suspicion_after_forget,
    suspicion_of_search,
)
from soak.load.session_pool import SessionPool

AT_ONCE_SHARE = 0.5
"""Of the forgets that race with a last message: how often both are sent at the same moment."""
MESSAGES_PER_TURN = 2
"""What is asked and what is answered: an application reads the context once for both."""


class Participant:
    """Takes turns in one session after another."""

    __slots__ = ("_conversation", "_has_left", "_pool", "_writer")

    def __init__(self, pool: SessionPool) -> None:
        self._pool = pool
        self._conversation: Conversation | None = None
        self._writer = 0
        self._has_left = False

    async def turn(self) -> list[Performed]:
        """Read the context, say something and get an answer, and sometimes more; return what there is to report."""
        pool = self._pool
        conversation = self._conversation
        if conversation is None or conversation.has_ended:
            conversation = await self._move_on()
        performed: list[Performed] = []
        conversation.turns_under_way += 1
        try:
            plan, draw = pool.plan, pool.random.random
            if draw() < plan.recall_share and (ended := pool.ended_session()) is not None:
                performed.append(await self._read(ended, "recall", None))
            performed.append(await self._read(conversation, "history", plan.context_messages))
            if self._can_search(conversation) and draw() < plan.search_share:
                performed += await self._search(conversation)
            for _ in range(MESSAGES_PER_TURN):
                if conversation.has_ended:
                    break
                performed.append(await self._append(conversation, self._writer))
            if draw() < plan.reread_share and not conversation.has_ended:
                performed.append(await self._read(conversation, "history", plan.context_messages))
            if conversation.is_complete and not conversation.has_ended:
                conversation.has_ended = True
                if conversation.ends_forgotten:
                    conversation.turns_under_way += 1
                    pool.do_later(self._forget_once_read(conversation, self._writer))
        finally:
            conversation.turns_under_way -= 1
            if conversation.has_ended:
                pool.retire_if_over(conversation)
        return performed + pool.take_performed_later()

    @property
    def phase(self) -> float | None:
        """Where in the common beat the writers of its session meet, from 0 to 1; None if it is alone in it."""
        conversation = self._conversation
        if conversation is None or conversation.writers == 1:
            return None
        # The golden ratio spreads the sessions evenly over the beat.
        return conversation.number * 0.618034 % 1.0

    def leave(self) -> None:
        """Go, and leave the session to those who stay."""
        self._has_left = True
        if self._conversation is not None:
            self._pool.leave(self._conversation)
            self._conversation = None

    async def _move_on(self) -> Conversation:
        if self._conversation is not None:
            self._pool.leave(self._conversation)
            self._conversation = None
        conversation, self._writer = await self._pool.join()
        if self._has_left:
            self._pool.leave(conversation)
            raise asyncio.CancelledError
        self._conversation = conversation
        return conversation

    async def _append(self, conversation: Conversation, writer: int) -> Performed:
        pool = self._pool
        if pool.needs_lease(conversation, writer):
            await pool.lease_next(conversation, writer)
        ledger = pool.ledger
        if ledger.stalled:
            await ledger.ready()
        store = conversation.store
        message = pool.author.write(conversation.session, writer, conversation.sent[writer] + 1)
        outcome, failure = Outcome.UNKNOWN, None
        seq = conversation.begin(writer)
        sent = monotonic_ns() // 1000
        try:
            await pool.deadlines.bounded(pool.stores[store].memory.append(conversation.session, message))
            outcome = Outcome.OK
            pool.acknowledged += 1
        except NotApplied as error:
            outcome, failure = Outcome.FAILED, self._failure(store, "append", error)
        except Exception as error:  # noqa: BLE001  whatever a store raises: the write may have happened
            failure = self._failure(store, "append", error)
        finally:
            ended = monotonic_ns() // 1000
            ledger.attempted(conversation.number, writer, seq, outcome, sent, ended)
            conversation.end(writer, seq, outcome, sent, ended, hash(message))
        return self._report("append", store, ended - sent, failure)

    async def _read(self, conversation: Conversation, operation: str, last: int | None) -> Performed:
        pool, store = self._pool, conversation.store
        memory, expectation, _ = pool.stores[store]
        acked_total = conversation.acked_total
        invoked = monotonic_ns() // 1000
        try:
            items = await pool.deadlines.bounded(memory.history(conversation.session, last))
        except Exception as error:  # noqa: BLE001  a store that cannot be read is unavailable, which is measured
            took = monotonic_ns() // 1000 - invoked
            return self._report(operation, store, took, self._failure(store, "history", error))
        returned = monotonic_ns() // 1000
        suspected: ReadProblem | None = None
        if not isinstance(items, list | tuple):
            items = [cast("Stored", items)]  # a plug-in may return anything
        if conversation.forget_sent is None:
            read = ParticipantRead(items, last, invoked, returned, acked_total)
            suspected = suspicion(conversation, read, pool.author, expectation)
        elif _must_be_forgotten(conversation, invoked, expectation):
            read = ParticipantRead(items, last, invoked, returned, acked_total)
            suspected = suspicion_after_forget(conversation, read, pool.author)
        else:
            return self._report(operation, store, returned - invoked, None)
        if suspected is None:
            return self._report(operation, store, returned - invoked, None)
        pool.ledger.observe(observation(conversation, read, suspected, pool.author))
        pool.ledger.latency(store, operation, (returned - invoked) / 1e6, False)  # noqa: FBT003
        return Performed(operation, store, (returned - invoked) / 1e3, SUSPICIONS[suspected])

    def _can_search(self, conversation: Conversation) -> bool:
        return self._pool.stores[conversation.store].search is not None

    async def _search(self, conversation: Conversation) -> list[Performed]:
        """Ask for one of the last messages by its own words; nothing where nothing has been acknowledged yet."""
        pool, store = self._pool, conversation.store
        _, expectation, search = pool.stores[store]
        known = conversation.acked()
        if search is None or not known:
            return []
        chosen = pool.random.choice(known)
        asked = pool.author.write(conversation.session, chosen.writer, chosen.seq)
        acked_total, limit = conversation.acked_total, pool.plan.context_messages
        invoked = monotonic_ns() // 1000
        try:
            items = await pool.deadlines.bounded(search(conversation.session, asked.content, limit))
        except Exception as error:  # noqa: BLE001  a store that cannot be searched is unavailable, which is measured
            took = monotonic_ns() // 1000 - invoked
            return [self._report("search", store, took, self._failure(store, "search", error))]
        returned = monotonic_ns() // 1000
        if not isinstance(items, list | tuple):
            items = [cast("Stored", items)]  # a plug-in may return anything
        read = ParticipantRead(items, limit, invoked, returned, acked_total)
        if conversation.forget_sent is not None and not _must_be_forgotten(conversation, invoked, expectation):
            return [self._report("search", store, returned - invoked, None)]
        suspected = suspicion_of_search(conversation, read, asked, pool.author, expectation)
        if suspected is None:
            return [self._report("search", store, returned - invoked, None)]
        sought = (chosen.writer, chosen.seq)
        pool.ledger.observe(observation(conversation, read, suspected, pool.author, sought))
        pool.ledger.latency(store, "search", (returned - invoked) / 1e6, False)  # noqa: FBT003
        return [Performed("search", store, (returned - invoked) / 1e3, SUSPICIONS[suspected])]

    async def _forget_once_read(self, conversation: Conversation, writer: int) -> list[Performed]:
        """Forget a session that has ended, once it was read; sometimes while something more is said in it."""
        pool = self._pool
        performed: list[Performed] = []
        try:
            if await pool.until_read():
                await self._forget(conversation, writer, performed)
        finally:
            conversation.turns_under_way -= 1
            pool.retire_if_over(conversation)
        return performed

    async def _forget(self, conversation: Conversation, writer: int, performed: list[Performed]) -> None:
        pool = self._pool
        races = pool.draw_race()
        is_at_once = races and pool.random.random() < AT_ONCE_SHARE
        if races and not is_at_once:
            performed.append(await self._append(conversation, writer))
        conversation.forget_sent = monotonic_ns() // 1000
        await pool.ledger.intend_forget(conversation.number, conversation.forget_sent)
        if is_at_once:
            said, outcome = await asyncio.gather(
                self._append(conversation, writer), self._send_forget(conversation, performed)
            )
            performed.append(said)
        else:
            outcome = await self._send_forget(conversation, performed)
        if outcome is Outcome.OK and pool.random.random() < pool.plan.reread_share:
            performed.append(await self._read(conversation, "recall", None))
            performed += await self._search(conversation)

    async def _send_forget(self, conversation: Conversation, performed: list[Performed]) -> Outcome:
        pool, ledger, store = self._pool, self._pool.ledger, conversation.store
        outcome, failure = Outcome.UNKNOWN, None
        sent = conversation.forget_sent = monotonic_ns() // 1000
        try:
            await pool.deadlines.bounded(pool.stores[store].memory.forget(conversation.session))
            outcome = Outcome.OK
        except NotApplied as error:
            outcome, failure = Outcome.FAILED, self._failure(store, "forget", error)
        except Exception as error:  # noqa: BLE001  whatever a store raises: it may be gone or not
            failure = self._failure(store, "forget", error)
        finally:
            ended = monotonic_ns() // 1000
            ledger.forgot(conversation.number, outcome, sent, ended)
        performed.append(self._report("forget", store, ended - sent, failure))
        if outcome is Outcome.OK:
            conversation.forget_ended = ended
        return outcome

    def _failure(self, store: str, method: str, error: Exception) -> OperationFailedError:
        self._pool.ledger.raised(store, method, error)
        return failure_of(error)

    def _report(self, operation: str, store: str, took_us: int, failure: OperationFailedError | None) -> Performed:
        self._pool.ledger.latency(store, operation, took_us / 1e6, failure is not None)
        return Performed(operation, store, took_us / 1e3, failure)


def _must_be_forgotten(conversation: Conversation, invoked: int, expectation: Expectation) -> bool:
    """Whether a read may no longer show the session; one that may be stale may, for as long as that is allowed."""
    ended, staleness = conversation.forget_ended, expectation.staleness_us
    return ended is not None and staleness is not None and ended + staleness <= invoked
