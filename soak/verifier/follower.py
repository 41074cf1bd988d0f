"""Follows the ledger: takes in what comes, says how far it has come, and drops what is saved."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import structlog

from soak.clock import now_us
from soak.errors import ServerUnreachableError
from soak.ledger.reader import (
    BATCHES_PER_READ_MAX,
    Entry,
    Extent,
    LedgerReader,
    RunRecord,
    WorkerBatch,
    is_before,
    milliseconds_of,
)
from soak.ledger.records import FaultPhase
from soak.verifier.clocks import stamp_of
from soak.verifier.intake import Intake
from soak.verifier.progress import UnverifiedAge, note_downtime
from soak.verifier.state import State

_log = structlog.get_logger()

BLOCK_SECONDS = 0.5
RETRY_SECONDS = 0.5
GATHER_SECONDS = 0.25
"""Records cost less when many are taken in at once; whoever waits for them ends the pause."""
CATCH_UP_SECONDS_MAX = 5.0
CATCH_UP_POLL_SECONDS = 0.005
DOUBT_SECONDS = 10.0
"""After the ledger came back, or another server took over: until then all that write have written again."""
PLACES_MAX = 100_000
LATE_MS = 1_000
SILENCE_MS_MIN = 2_000
"""The ledger was not written to for so long: nobody was there."""


class Doubt(NamedTuple):
    """The ledger is in another life, which may be without the last records of the one before."""

    life: str
    since: int
    until: float
    places: deque[str]
    """Of the records taken in since."""


class Follower:
    """Keeps the state up with the ledger."""

    def __init__(
        self, reader: LedgerReader, state: State, intake: Intake, *, on_end: Callable[[], None] = lambda: None
    ) -> None:
        self._reader = reader
        self._state = state
        self._intake = intake
        self.is_reachable = True
        self.lag_seconds = 0.0
        self.turns = 0
        """How often the ledger was looked at; it rises as long as somebody follows, also while the ledger is away."""
        self._asking = asyncio.Lock()
        """Many sessions ask at once after a fault; the ledger is asked over a few connections."""
        self._on_end = on_end
        self._pause: asyncio.Future[None] | None = None
        self._doubt: Doubt | None = None
        self.unverified_age = UnverifiedAge(state, lambda: self.is_reachable, lambda: self._heard_ms is None)
        self._started_ms = self._ledger_ms()
        self._heard_ms: int | None = milliseconds_of(state.position)
        """When the last record was written, of those from before the start; None: all of these were taken in."""

    async def run(self) -> None:
        while True:
            self.turns += 1
            try:
                entries = await self._reader.read(self._state.position, block_seconds=BLOCK_SECONDS)
            except ServerUnreachableError as error:
                if self.is_reachable:
                    _log.warning("ledger_unreachable", what="waiting for it", error=str(error))
                self.is_reachable = False
                await asyncio.sleep(RETRY_SECONDS)
                continue
            now = now_us()
            if not self.is_reachable or not self._state.listening_since:
                self._state.listening_since = now
            self.is_reachable = True
            if self._heard_ms is not None:
                self._note_downtime(entries, self._heard_ms)
            await self._state.clocks.prepare(map(stamp_of, entries))
            for entry in entries:
                self._intake.take(entry, now)
                self._record(entry)
            if self._doubt is not None:
                self._doubt.places.extend(entry.at for entry in entries)
            if entries and self._ledger_ms() - milliseconds_of(entries[0].at) > LATE_MS:
                self.unverified_age.tick(now)  # before anybody can read it
            if self._state.end is not None:
                self._on_end()
            # With a backlog only let the others run.
            await (asyncio.sleep(0) if len(entries) >= BATCHES_PER_READ_MAX else self._gather())

    async def _gather(self) -> None:
        """Let some records come together, unless somebody waits for them."""
        loop = asyncio.get_running_loop()
        self._pause = loop.create_future()
        timer = loop.call_later(GATHER_SECONDS, self._end_pause)
        try:
            await self._pause
        finally:
            timer.cancel()

    def _end_pause(self) -> None:
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)

    def _ledger_ms(self) -> int:
        """Return what time it is by the clock that records are dated by."""
        return (now_us() + self._state.clocks.ledger_offset_us) // 1000

    def _note_downtime(self, entries: list[Entry], heard: int) -> None:
        """Note when neither a verifier nor anybody who writes was there, before this one was started."""
        ahead_us = self._state.clocks.ledger_offset_us
        if not heard:
            note_downtime(self._state, 0, self._started_ms * 1000 - ahead_us)  # it is started for the first time
            heard = self._started_ms
        for at in [*(milliseconds_of(entry.at) for entry in entries), *([] if entries else [self._started_ms])]:
            until = min(at, self._started_ms)
            if until - heard >= SILENCE_MS_MIN:
                note_downtime(self._state, heard * 1000 - ahead_us, until * 1000 - ahead_us)
            heard = max(heard, until)
        self._heard_ms = None if heard >= self._started_ms else heard

    def _record(self, entry: Entry) -> None:
        recorder, state = self._state.recorder, self._state
        if recorder is None:
            return
        if isinstance(entry, WorkerBatch) and entry.worker in state.workers:
            recorder.take(entry, state.workers[entry.worker].sessions)
        elif isinstance(entry, RunRecord) and isinstance(entry.record, FaultPhase) and entry.record.phase == "start":
            window = state.faults.get(entry.record.fault)
            if window is not None:
                recorder.note_fault(window, {store for store, needs in state.targets.items() if window.target in needs})

    async def caught_up(self) -> bool:
        """Wait until everything that is in the ledger now has been taken in; False if that takes too long.

        It is asked before anyone is accused, so this is also where it is noticed that records have vanished unread.
        """
        position = self._state.position
        try:
            extent = await self._extent()
            if is_before(self._state.position, extent.last):
                if not await self._has_come_to(extent.last):
                    return False
                if (await self._extent()).life != extent.life:
                    return False  # another server may have told us what came after
        except ServerUnreachableError:
            return False
        return self._is_whole(extent, position)

    async def _extent(self) -> Extent:
        """Ask how far the ledger reaches, and notice when it is in another life."""
        async with self._asking:
            extent = await self._reader.extent()
        state = self._state
        known = state.ledger_life if self._doubt is None else self._doubt.life
        if not known or (extent.is_kept and self._doubt is None):
            state.ledger_life = extent.life
        elif extent.life and extent.life != known:
            _log.warning(
                "ledger_in_doubt", what="it came back, or another server took over; nobody is accused for a while"
            )
            self._doubt = Doubt(extent.life, now_us(), time.monotonic() + DOUBT_SECONDS, deque(maxlen=PLACES_MAX))
        return extent

    async def _has_come_to(self, place: str) -> bool:
        """Wait until a record was taken in; False if that takes too long."""
        deadline = time.monotonic() + CATCH_UP_SECONDS_MAX
        while is_before(self._state.position, place):
            if time.monotonic() > deadline:
                return False
            self._end_pause()
            await asyncio.sleep(CATCH_UP_POLL_SECONDS)
        return True

    def _is_whole(self, extent: Extent, position: str) -> bool:
        """Whether nothing is missing of a ledger that is taken in so far; what is missing is accounted for."""
        is_set_back = is_before(extent.newest, position)
        doubt, lost = self._doubt, 0
        if doubt is not None and not is_set_back:
            if time.monotonic() < doubt.until:
                return False
            beyond = sum(is_before(extent.newest, place) for place in doubt.places)
            lost = self._intake.outlive_ledger(doubt.since, extent.added, beyond)
            self._state.ledger_life, self._doubt = doubt.life, None
        else:
            lost = self._intake.vanished(extent.added, is_set_back=is_set_back)
            if is_set_back and self._state.position == position:
                self._state.position = extent.newest  # or what is written next would pass for read
        if lost:
            _log.error("ledger_records_lost", what="nobody had read them", records=lost)
        return not lost

    async def measure_lag(self) -> None:
        """Note how far the newest record is ahead of the last one taken in."""
        position = self._state.position
        try:
            extent = await self._extent()
        except ServerUnreachableError:
            return
        last = extent.last
        if not is_before(self._state.position, last):
            if self._doubt is not None or is_before(extent.newest, position):
                self._is_whole(extent, position)
            if self._doubt is None:
                self._state.ledger_read_us = now_us()
        behind_ms = milliseconds_of(last) - milliseconds_of(position)
        self.lag_seconds = behind_ms / 1000 if is_before(position, last) and position != "0-0" else 0.0

    async def trim(self, before: str) -> None:
        """Drop what a saved checkpoint has passed."""
        if before == "0-0":
            return
        try:
            await self._reader.trim_before(before)
        except ServerUnreachableError:
            # The next checkpoint does it.
            return
