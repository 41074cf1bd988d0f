"""One session of a workload: what was appended and read, how the calls ended, and what the checker finds.

The verdicts are those of `soak.checker.session`, as in the verifier.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import TypeGuard

import msgspec
from xxhash import xxh3_64_hexdigest

from soak.checker.events import Confirmed, Gone, Observed, Verified
from soak.checker.expected_session import ExpectedSession
from soak.checker.faults import FaultHistory
from soak.checker.kinds import Kind
from soak.checker.message import Message, Stored, checksum
from soak.checker.outcome import Attempt, Closed, ForgetBegun, ForgetEnded, Leased, NotApplied, Outcome
from soak.checker.read import Read, Rules
from soak.checker.session import SessionChecker, StoreJudging
from soak.checker.text import ROLES, MessageGenerator
from soak.clock import now_us
from soak.stores.protocol import MemoryStore

SETTLE_SECONDS = 0.5
"""What is missing is read again after this time."""
RETRY_SECONDS = 0.01
"""Before the first retry; it doubles with each further one."""
ERRORS_MAX = 5
"""Different complaints that are remembered of one session."""
STORE = "subject"
"""The name of the memory under test in fault histories."""


class PlainTexts(MessageGenerator):
    """Writes easy words, since a check of order must not be one of hard text; or given texts in turn."""

    def __init__(self, run: str, seed: int, texts: Sequence[str] = ()) -> None:
        super().__init__(run, seed)
        self._texts = tuple(texts)

    def write(self, session: str, writer: int, seq: int) -> Message:
        bare = Message(self.run, session, writer, seq, ROLES[(seq + 1) & 1], self._text(session, writer, seq), 0)
        return msgspec.structs.replace(bare, checksum=checksum(bare))

    def is_mine(self, message: Message) -> bool:
        return message == self.write(message.session, message.writer, message.seq)

    def matches(self, items: Sequence[Stored], session: str) -> TypeGuard[Sequence[Message]]:
        return all(isinstance(item, Message) and item.session == session and self.is_mine(item) for item in items)

    def _text(self, session: str, writer: int, seq: int) -> str:
        if self._texts:
            return self._texts[(seq - 1) % len(self._texts)]
        mark = xxh3_64_hexdigest(f"{session}/{writer}/{seq}".encode("utf-8", "surrogatepass"), self._seed)
        return f"Please remember the number {mark}."


async def append_again(store: MemoryStore, message: Message, retries_max: int) -> None:
    """Append a message; one that the store honestly did not apply, as after a serialization failure, is sent again."""
    for attempt in range(retries_max + 1):
        try:
            return await store.append(message.session, message)
        except NotApplied:
            if attempt == retries_max:
                raise
            await asyncio.sleep(RETRY_SECONDS * 2**attempt)
    return None


class CheckedConversation:
    """A session under way. One read at a time; any number of writers, each with one message in flight."""

    def __init__(
        self, session: str, author: MessageGenerator, rules: Rules, faults: FaultHistory | None = None
    ) -> None:
        self.session = session
        self.outcomes: Counter[Outcome] = Counter()
        self.found: dict[tuple[Kind, str], str] = {}
        """What is wrong, each thing once: kind and message, with the detail."""
        self.tolerated = 0
        """Lost, and excused by what the server as configured promises."""
        self.verified = 0
        self.reads = 0
        self.reads_without_answer = 0
        self.errors: dict[str, int] = {}
        self.last_error: BaseException | None = None
        self.retries_max = 0
        """So often a message is sent again that the store says it has not applied; 0: that is an outcome, too."""
        self.is_busy = False
        """The last message had no answer at all, not even an error: the library may still be at it."""
        self._author = author
        faults = faults if faults is not None else FaultHistory({STORE: ()})
        judging = StoreJudging(
            rules=rules,
            author=author,
            faults=faults,
            targets=faults.targets_of(STORE),
            settle_us=int(SETTLE_SECONDS * 1e6 / 2),
        )
        self._checker = SessionChecker(judging, ExpectedSession(session=session, store=STORE))
        self._said: Counter[int] = Counter()

    # -- saying --

    async def say(self, store: MemoryStore, writer: int = 0) -> Outcome:
        """Append the writer's next message, once; whatever happens is recorded."""
        self._said[writer] += 1
        seq = self._said[writer]
        message = self._author.write(self.session, writer, seq)
        self._checker.apply(Leased(writer, seq))
        sent = now_us()
        outcome = Outcome.UNKNOWN
        is_answered = True
        try:
            await append_again(store, message, self.retries_max)
            outcome = Outcome.OK
        except NotApplied as error:
            self.retries_max = 0  # it refuses for good: the next message is not sent so often again
            self._complain(error)
            outcome = Outcome.FAILED
        except TimeoutError as error:
            is_answered = False
            self._complain(error)
        except Exception as error:  # noqa: BLE001  by the protocol, anything else means that nobody knows
            self._complain(error)
        except asyncio.CancelledError:
            is_answered = False
            raise
        finally:
            self.is_busy = not is_answered
            self._record(Attempt(0, writer, seq, outcome, sent, max(now_us(), sent + 1)))
        return outcome

    async def forget(self, store: MemoryStore) -> Outcome:
        sent = now_us()
        self._checker.apply(ForgetBegun(sent))
        outcome = Outcome.UNKNOWN
        try:
            await store.forget(self.session)
            outcome = Outcome.OK
        except NotApplied as error:
            self._complain(error)
            outcome = Outcome.FAILED
        except Exception as error:  # noqa: BLE001  as above
            self._complain(error)
        self._checker.apply(ForgetEnded(outcome, sent, max(now_us(), sent + 1)))
        return outcome

    def close(self) -> None:
        """Note that nothing more will be said: where sessions expire, it is known when this one has to be gone."""
        self._checker.apply(Closed(is_certain=True))

    def _record(self, attempt: Attempt) -> None:
        self.outcomes[Outcome(attempt.outcome)] += 1
        self._checker.apply(attempt)

    # -- reading --

    async def read(self, store: MemoryStore) -> bool:
        """Read the whole session and judge it; returns False if there was no answer, which is no violation."""
        read = await self._answer(store, None)
        if read is None:
            return False
        # Nothing is awaited from here on: the book is what it was when the answer came.
        self._note(self._checker.observe(read))
        return True

    async def read_last(self, store: MemoryStore, last: int) -> bool:
        """Read the last so many, and hold them against the last whole read."""
        read = await self._answer(store, last)
        if read is None:
            return False
        self._note(self._checker.observe_tail_by_full(read, last))
        return True

    async def settle(self, store: MemoryStore) -> bool:
        """Read until there is an answer that leaves no suspicion open; returns False if there is none."""
        if not await self.read(store):
            return False
        if self._checker.book.is_in_doubt:
            await asyncio.sleep(SETTLE_SECONDS)
            return await self.read(store)
        return True

    @property
    def is_settled(self) -> bool:
        """Whether everything that was acknowledged was seen, or is known to be missing."""
        return not self._checker.book.is_in_doubt and not self.unseen

    @property
    def unseen(self) -> int:
        """How many acknowledged messages no read has shown yet."""
        return len(self._checker.book.pending)

    async def _answer(self, store: MemoryStore, last: int | None) -> Read | None:
        acked, invoked = self._checker.book.acked_now(), now_us()
        try:
            items: Sequence[Stored] = await store.history(self.session, last)
        except Exception as error:  # noqa: BLE001  no answer is unavailability, whatever was raised
            self.reads_without_answer += 1
            self._complain(error)
            return None
        self.reads += 1
        return Read(invoked=invoked, returned=now_us(), acked=acked, items=items)

    def _note(self, observed: Observed) -> None:
        for event in observed.events:
            if isinstance(event, Verified):
                self.verified += event.messages
            elif isinstance(event, Gone):
                self.tolerated += sum(1 for lost in event.losses if lost.excused_by is not None)
            elif isinstance(event, Confirmed):
                for wrong in event.wrong:
                    self.found.setdefault((event.kind, wrong.message), wrong.detail)

    def _complain(self, error: BaseException) -> None:
        self.last_error = error
        text = " ".join(str(error).split()) or ("no answer in time" if isinstance(error, TimeoutError) else repr(error))
        if text in self.errors or len(self.errors) < ERRORS_MAX:
            self.errors[text] = self.errors.get(text, 0) + 1
