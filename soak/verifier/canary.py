"""The live canary: spoils a session of the verifier's own, and checks that the verifier reports it.

The life of a canary: a few messages are written to a session of its own through the store's own interface, and the
session is put into the lane like any other. The ordinary rounds must find it right (the control). Then it is spoiled
behind the ledger's back, and the ordinary rounds must report it, as what it is, within the deadline; the reporter
leaves that with the `Rings` in place of counting it. Then the session is removed.

How it ends: `detected`; `missed`, when the spoiled session stands there for all to read and nobody has said so;
`early`, when it was reported before anybody had spoiled it, which speaks against the store or against the verifier; or
it was disturbed, by a fault or a store that gave no answer, proves nothing, and is tried again.

The deadline runs only while the store and the ledger answer and no fault is under way. Nothing of it is saved or
counted with the run's own messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from soak.checker.contract import Order
from soak.checker.expected_session import ExpectedSession
from soak.checker.message import Message
from soak.checker.outcome import Attempt, Outcome
from soak.checker.retention import extend
from soak.checker.spoiling import Spoil, accused, length_for, spoiled, spoils_for
from soak.checker.text import MessageGenerator
from soak.clock import now_us
from soak.proc.files import DamagedFileError, read_sealed, set_aside, write_sealed
from soak.settings import VerifierSettings
from soak.stores.protocol import MemoryStore
from soak.tasks import raise_if_cancelled, until
from soak.verifier.examiner import Examiner
from soak.verifier.state import State
from soak.verifier.tally import StoreTally
from soak.verifier.tracked_session import CANARY_WORKER, TrackedSession

_log = structlog.get_logger()

INVENTED_SEQ = 1_000_000
"""Far beyond what was ever leased."""

TICK_SECONDS = 0.1
PROBE_SECONDS = 1.0
"""How often the store is asked whether it answers at all."""
TICK_COUNTED_SECONDS_MAX = 0.5
"""A longer pause of this process is not held against the verifier."""
RETRY_SECONDS_FIRST = 0.5
RETRY_SECONDS_MAX = 5.0
LIFE_DEADLINES = 3.0
"""What is written must last for so many deadlines, else only what no expiry excuses is done to it."""
LATE_SECONDS_MAX = 5.0
"""How long an append may take to be shown by a store that promises no time."""
TIDY_SECONDS_MAX = 2.0

Names = list[str]
_Answer = TypeVar("_Answer")


class CanaryOutcome(enum.Enum):
    """How a canary ended."""

    DETECTED = "detected"
    MISSED = "missed"
    EARLY = "early"
    DISTURBED = "disturbed"


class Canary:
    """Keeps one canary after the other on one store."""

    def __init__(
        self,
        examiner: Examiner,
        state: State,
        author: MessageGenerator,
        settings: VerifierSettings,
        numbers: CanaryNumbers,
        *,
        is_listening: Callable[[], bool],
        timeout_seconds: float,
        store: MemoryStore,
    ) -> None:
        """Write to this store; the examiner reads from its own, with an account that may only read."""
        self.name = examiner.name
        self._examiner = examiner
        self._store = store
        self._state = state
        self._lane = state.lanes[examiner.name]
        self._author = author
        self._interval = settings.canary
        self._numbers = numbers
        self._is_listening = is_listening
        self._timeout = timeout_seconds
        contract = examiner.rules.contract
        late = LATE_SECONDS_MAX if contract.staleness_us is None else contract.staleness_us / 1e6
        self._shown_late_seconds = late
        self._deadline = settings.canary_deadline + settings.settle + settings.hot_interval + late
        life = None if contract.ttl_seconds is None else contract.ttl_seconds - settings.ttl_epsilon
        has_primary = getattr(self._store, "primary_history", None) is not None
        self._ways = spoils_for(
            contract,
            lasting=life is None or life > LIFE_DEADLINES * self._deadline,
            absence_is_confirmed=has_primary or contract.staleness_us is not None,
        )
        self._probe_seconds = min(PROBE_SECONDS, (contract.ttl_seconds or PROBE_SECONDS) / 3)
        self._ending = asyncio.Event()
        self._over = asyncio.Event()

    # -- one after the other --

    async def run(self) -> None:
        """Keep canaries until asked to finish."""
        pause = RETRY_SECONDS_FIRST
        while not self._is_enough():
            ending = await self._keep_one()
            raise_if_cancelled()
            if ending is CanaryOutcome.DISTURBED:
                wait, pause = pause, min(pause * 2, RETRY_SECONDS_MAX)
            else:
                wait, pause = self._interval, RETRY_SECONDS_FIRST
            await self._wait(wait)
        self._over.set()

    async def finish(self, deadline: float) -> None:
        """Let the one that is under way end; if none has come to an end yet, wait for one, until the deadline."""
        self._ending.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(TimeoutError):  # a store that is away keeps them; cleaning up takes them
            async with asyncio.timeout(TIDY_SECONDS_MAX):
                await self._remove_left()

    def session_of(self, number: int) -> str:
        header = self._state.header
        return f"canary-{header.run}-{header.stores.index(self.name)}-{number}-chat"

    def _tally(self) -> StoreTally:
        return self._state.tally.stores[self.name]

    def _is_enough(self) -> bool:
        return self._ending.is_set() and any(self._tally().canaries.values())

    async def _wait(self, seconds: float) -> None:
        if self._ending.is_set():
            await asyncio.sleep(min(seconds, RETRY_SECONDS_FIRST))
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), seconds)

    async def _keep_one(self) -> CanaryOutcome:
        """Bring one canary from its first message to its end, and count how it ended."""
        if not self._is_calm(now_us()) or not await self._remove_left():
            return CanaryOutcome.DISTURBED
        number = self._numbers.take(self.name)
        try:
            ending, why = await self._live(self.session_of(number), number)
        except Exception as error:  # noqa: BLE001  a user's store may raise anything: it gave no answer
            ending, why = CanaryOutcome.DISTURBED, str(error)
        await self._remove_left()
        tally = self._tally()
        if ending is CanaryOutcome.DISTURBED:
            _log.debug("canary_disturbed", store=self.name, number=number, why=why)
            return ending
        tally.canaries[ending.value] += 1
        if ending is CanaryOutcome.DETECTED:
            tally.canary_detected_wall_seconds = time.time()
            _log.info("canary_detected", store=self.name, number=number, spoiled=why)
        else:
            _log.error(f"canary_{ending.value}", store=self.name, number=number, what=why)
        return ending

    async def _remove_left(self) -> bool:
        """Remove the sessions of canaries that are over; returns False if the store gave no answer."""
        for number in self._numbers.left(self.name):
            try:
                await self._call(self._store.forget(self.session_of(number)))
            except Exception as error:  # noqa: BLE001  a user's store may raise anything
                _log.debug("canary_not_removed", store=self.name, number=number, error=str(error))
                return False
            self._numbers.removed(self.name, number)
        return True

    # -- the life of one --

    async def _live(self, session: str, number: int) -> tuple[CanaryOutcome, str]:
        begun = now_us()
        written = [self._author.write(session, 0, seq + 1) for seq in range(length_for(self._examiner.rules.contract))]
        tracked = await self._write(session, number, written)
        self._state.canary.listen(tracked)
        self._state.watch(tracked, now_us())
        tracked.hot = True
        self._lane.hot[tracked] = None
        try:
            ending = await self._test(tracked, written, begun)
            await self._until_quiet(tracked)
            return ending
        finally:
            self._state.let_go(tracked)
            self._state.canary.stop_listening(tracked)

    async def _write(self, session: str, number: int, written: list[Message]) -> TrackedSession:
        """Write the messages and keep a book of them, as the ledger would have it."""
        book = ExpectedSession(session, self.name)
        book.lease(0, len(written))
        # A number is used once, unless the disk would not have it: then what is left of an earlier one goes first.
        await self._call(self._store.forget(session))
        attempts = []
        for message in written:
            sent = now_us()
            await self._call(self._store.append(session, message))
            attempts.append(Attempt(number, 0, message.seq, int(Outcome.OK), sent, max(now_us(), sent + 1)))
        for attempt in attempts:
            if self._examiner.rules.contract.ttl_seconds is not None:
                extend(book, attempt)
            book.acknowledge(attempt)
        return TrackedSession(book, CANARY_WORKER, number)

    async def _test(self, tracked: TrackedSession, written: list[Message], begun: int) -> tuple[CanaryOutcome, str]:
        heard = self._state.canary.heard
        judged = await self._patiently(tracked, begun, lambda: bool(heard(tracked)) or _is_clean(tracked, begun))
        if judged is None:
            return CanaryOutcome.DISTURBED, "a fault"
        if heard(tracked):
            ring = heard(tracked)[0]
            return CanaryOutcome.EARLY, f"{ring.kind.value} {ring.message} was reported before anything was spoiled"
        names = [str(message.name) for message in written]
        if not judged:
            is_there = await self._reads(tracked, names)
            return (
                CanaryOutcome.MISSED if is_there else CanaryOutcome.DISTURBED
            ), "the session was not read and judged"
        invented = self._author.write(tracked.book.session, 0, INVENTED_SEQ)
        way = await self._spoil(tracked, written, invented)
        if way is None:
            return CanaryOutcome.DISTURBED, "the store does not let itself be spoiled"
        return await self._listen(tracked, written, invented, way, begun)

    async def _listen(
        self, tracked: TrackedSession, written: list[Message], invented: Message, way: Spoil, begun: int
    ) -> tuple[CanaryOutcome, str]:
        named = accused(written, way, invented)

        def has_rung() -> bool:
            heard = self._state.canary.heard(tracked)
            return any(ring.kind in way.kinds and ring.message in named for ring in heard)

        rang = await self._patiently(tracked, begun, has_rung, keep=invented if way is Spoil.INVENTED else None)
        if rang is None:
            return CanaryOutcome.DISTURBED, "a fault"
        if rang:
            return CanaryOutcome.DETECTED, way.value
        # Only what stands there for all to read can have been overlooked.
        names = [str(message.name) for message in spoiled(written, way, invented)]
        stands = await self._reads(tracked, names, only_last=way is Spoil.INVENTED)
        return (
            CanaryOutcome.MISSED if stands else CanaryOutcome.DISTURBED
        ), f"a message was {way.value} and nobody reported it"

    # -- spoiling --

    async def _spoil(self, tracked: TrackedSession, written: list[Message], invented: Message) -> Spoil | None:
        """Spoil the session in the way whose turn it is, or else in the next that this store lets happen."""
        await self._until_quiet(tracked)
        tracked.busy = True  # nobody is to read it half done
        try:
            turn = sum(self._tally().canaries.values())
            ways = [self._ways[(turn + step) % len(self._ways)] for step in range(len(self._ways))]
            for way in ways:
                if await self._apply(tracked, written, invented, way):
                    return way
            return None
        finally:
            tracked.busy = False
            self._lane.schedule_read(tracked, now_us())

    async def _apply(self, tracked: TrackedSession, written: list[Message], invented: Message, way: Spoil) -> bool:
        """Spoil the session; returns whether a read shows it so: a store may know a message when it comes twice."""
        session = tracked.book.session
        messages = spoiled(written, way, invented)
        if way in {Spoil.REMOVED, Spoil.SWAPPED}:
            await self._call(self._store.forget(session))
            rest = messages
        else:
            rest = messages[len(written) :]
        for message in rest:
            await self._call(self._store.append(session, message))
        names = [str(message.name) for message in messages]

        async def is_shown() -> bool:
            return await self._reads(tracked, names, only_last=way is Spoil.INVENTED)

        return await until(is_shown, self._shown_late_seconds, TICK_SECONDS)

    async def _reads(self, tracked: TrackedSession, names: Names, *, only_last: bool = False) -> bool:
        """Whether the session reads like this now, or at least holds the last of these."""
        items = await self._call(self._store.history(tracked.book.session))
        if not isinstance(items, list | tuple):
            return False
        there = [str(item.name) for item in items if isinstance(item, Message)]
        if only_last:
            return names[-1] in there
        if self._examiner.rules.contract.order is Order.NONE:
            return sorted(there) == sorted(names)
        return there == names

    # -- waiting --

    async def _patiently(
        self, tracked: TrackedSession, begun: int, is_done: Callable[[], bool], *, keep: Message | None = None
    ) -> bool | None:
        """Wait until it is done; False if the deadline is over, None if a fault came in between.

        Only time counts in which the store and the ledger answer. What is to be kept is written again if it expires.
        """
        waited = 0.0
        answers, probed = True, time.monotonic()
        while not is_done():
            if not self._is_calm(begun):
                return None
            if waited >= self._deadline:
                return False
            before = time.monotonic()
            await asyncio.sleep(TICK_SECONDS)
            if time.monotonic() - probed >= self._probe_seconds:
                answers, probed = await self._answers(tracked, keep), time.monotonic()
            elif answers and self._is_listening():
                waited += min(time.monotonic() - before, TICK_COUNTED_SECONDS_MAX)
        return None if not self._is_calm(begun) else True

    async def _answers(self, tracked: TrackedSession, keep: Message | None) -> bool:
        """Whether the store gives an answer."""
        try:
            items: Sequence[object] = await self._call(self._store.history(tracked.book.session))
            if keep is not None and keep not in (items or ()):
                await self._call(self._store.append(tracked.book.session, keep))
                self._lane.schedule_read(tracked, now_us())
        except Exception:  # noqa: BLE001  a user's store may raise anything
            return False
        return True

    async def _until_quiet(self, tracked: TrackedSession) -> None:
        """Wait until nobody is reading the session; every read has its own time limit."""
        while tracked.busy:  # noqa: ASYNC110  it is rare, and short
            await asyncio.sleep(TICK_SECONDS)

    def _is_calm(self, begun: int) -> bool:
        """Whether no fault is under way, none has been since, and what earlier ones took has been looked for."""
        for window in self._state.faults.values():
            if window.target not in self._examiner.targets:
                continue
            if window.ended is None or window.ended >= begun or not self._state.faults.is_swept(window):
                return False
        return True

    async def _call(self, answer: Awaitable[_Answer]) -> _Answer:
        async with asyncio.timeout(self._timeout):
            return await answer


def _is_clean(tracked: TrackedSession, begun: int) -> bool:
    """Whether the session has been read whole and judged, and nothing is left to be said about it."""
    return tracked.last_whole >= begun and not tracked.suspicions and not tracked.book.pending and not tracked.busy


# Which canary sessions may be in a store: kept on disk, so that a kill leaves none behind for good.


FILE_NAME = "canary.json"
LEFT_MAX = 100
"""Sessions of a store still to be removed that are remembered, at most."""


class _Saved(msgspec.Struct):
    """The last number that was given out for a store, and those whose sessions may still be there."""

    last: int = 0
    left: list[int] = []


class _File(msgspec.Struct):
    stores: dict[str, _Saved] = {}


class CanaryNumbers:
    """Gives each canary a number of its own, for the whole run."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._saved: dict[str, _Saved] = {}
        self.damage = ""
        """What is wrong with what was saved, if something is: no reason to stop."""
        try:
            saved = read_sealed(self._path, _File)
            self._saved = saved.stores if saved is not None else {}
        except DamagedFileError as error:
            self.damage = (
                f"{self._path.name} was damaged ({error}) and is set aside as {set_aside(self._path).name}: sessions "
                "of canaries that were left in a store stay there until its namespace is cleaned up"
            )

    def take(self, store: str) -> int:
        """Give out the next number; it is on disk before the first message is written."""
        saved = self._saved.setdefault(store, _Saved())
        saved.last += 1
        saved.left = [*saved.left[-LEFT_MAX + 1 :], saved.last]
        self._save()
        return saved.last

    def left(self, store: str) -> list[int]:
        """Return the numbers whose sessions may be in the store."""
        saved = self._saved.get(store)
        return list(saved.left) if saved is not None else []

    def removed(self, store: str, number: int) -> None:
        saved = self._saved[store]
        saved.left = [one for one in saved.left if one != number]
        self._save()

    def _save(self) -> None:
        with contextlib.suppress(OSError):
            write_sealed(self._path, _File(self._saved), is_synced=False)
