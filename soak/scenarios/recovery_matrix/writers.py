"""Writers that go on until the server is gone, with a record of what it had acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from soak.checker.intervals import Intervals
from soak.checker.message import Message
from soak.checker.outcome import Attempt, NotApplied, Outcome
from soak.checker.read import Read
from soak.checker.text import MessageGenerator
from soak.clock import now_us
from soak.errors import ServerUnreachableError, SoakError
from soak.stores.protocol import MemoryStore
from soak.tasks import end_tasks

WRITERS = 4
PIPELINE = 4
"""Sessions of one writer at the same time, each with one message in flight: the depth of its pipeline."""
SESSIONS = WRITERS * PIPELINE
SESSION_MESSAGES_MAX = 200_000
LAST_REPLY_SECONDS_MAX = 5.0
"""How long a writer waits for its last reply once the server is gone."""
PROBE_SESSION = "probe-short"
TRIES_MAX = 10_000
TRY_SECONDS_MAX = 2.0
PACE_SECONDS = 0.01


class Writers:
    """Writers at work. Their record holds only what they saw themselves."""

    def __init__(self, memory: MemoryStore, author: MessageGenerator) -> None:
        self.attempts: list[Attempt] = []
        self._memory = memory
        self._author = author
        self._is_over = False
        self._complaint = ""
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        self._tasks = [asyncio.create_task(self._write(session)) for session in range(SESSIONS)]

    def check(self) -> None:
        """Raise if one has stopped writing although nothing was done to the server yet."""
        for task in self._tasks:
            if task.done():
                task.result()
                raise SoakError(f"a writer stopped before the fault ({self._complaint or 'it had written enough'})")

    async def leave(self) -> None:
        """Send no more, and wait a bounded time for the last replies.

        When this has returned, all that a server which is down has ever acknowledged is in the record: a reply may
        have lain in a socket for a while after its sender was gone.
        """
        self._is_over = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_REPLY_SECONDS_MAX)
        await end_tasks(self._tasks)

    async def _write(self, number: int) -> None:
        session, writer = session_name(number), number % WRITERS
        for seq in range(1, SESSION_MESSAGES_MAX + 1):
            if self._is_over:
                return
            message = self._author.write(session, writer, seq)
            sent = now_us()
            outcome = Outcome.UNKNOWN
            try:
                outcome = await self._append(session, message)
            finally:
                # Also when nobody waits for the reply any longer: it was sent, and nobody knows.
                self.attempts.append(Attempt(number, writer, seq, outcome, sent, now_us()))
            if outcome is not Outcome.OK:
                # The server is gone. What came next would be answered by the next one.
                return

    async def _append(self, session: str, message: Message) -> Outcome:
        try:
            await self._memory.append(session, message)
        except NotApplied as error:
            self._complaint = self._complaint or f"{type(error).__name__}: {error}"
            return Outcome.FAILED
        except Exception as error:  # noqa: BLE001  by the protocol, anything else means that nobody knows
            self._complaint = self._complaint or f"{type(error).__name__}: {error}"
            return Outcome.UNKNOWN
        return Outcome.OK


def session_name(number: int) -> str:
    # The end of the name says what is talked about: short turns, for the times are what matters here.
    return f"matrix{number}-short"


async def read_back(memory: MemoryStore, attempts: Sequence[Attempt]) -> dict[str, Read]:
    """Read every session of the writers, whole."""
    reads: dict[str, Read] = {}
    for number in range(SESSIONS):
        acked: dict[int, Intervals] = {}
        for one in attempts:
            if one.session == number and one.outcome == Outcome.OK:
                acked.setdefault(one.writer, Intervals()).add(one.seq)
        invoked = now_us()
        items = await memory.history(session_name(number))
        reads[session_name(number)] = Read(invoked=invoked, returned=now_us(), acked=acked, items=items)
    return reads


async def first_success(memory: MemoryStore, author: MessageGenerator) -> int:
    """Return when a message was first written and read back, in microseconds of CLOCK_MONOTONIC.

    Begin when the server is down; the caller bounds the time by healing it, or giving up.
    """
    last = "nothing was tried"
    for seq in range(1, TRIES_MAX + 1):
        message = author.write(PROBE_SESSION, 0, seq)
        try:
            async with asyncio.timeout(TRY_SECONDS_MAX):
                await _write_and_read(memory, message)
        except Exception as error:  # noqa: BLE001  it is down, starting, or loading: all mean not yet
            last = f"{type(error).__name__}: {error}"
        else:
            return now_us()
        await asyncio.sleep(PACE_SECONDS)
    raise ServerUnreachableError(f"the server did not serve again within {TRIES_MAX} tries ({last}); see its log")


async def _write_and_read(memory: MemoryStore, message: Message) -> None:
    await memory.append(PROBE_SESSION, message)
    found = await memory.history(PROBE_SESSION, last=1)
    if list(found) != [message]:
        raise ValueError("what was written is not what is read")
