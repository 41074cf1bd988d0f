"""Recording the first sessions of each store in full: every append with its times, every whole read.

The verifier needs no history to judge, and keeps none; this is for people who want to ask an independent checker. It
is bounded by the number of sessions and by the operations and bytes of each. A recording survives a kill: records that
are read from the ledger twice are written twice, and read once. A recording that is not complete is removed: it would
show losses that never happened.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container
from pathlib import Path

import msgspec
import structlog

from soak.checker.contract import Contract, ReplicaReads
from soak.checker.faults import FaultWindow
from soak.checker.outcome import Attempt
from soak.checker.read import Read, SavedRead, save
from soak.checker.text import MessageGenerator
from soak.ledger.reader import WorkerBatch
from soak.ledger.records import Batch, Open, RunHeader
from soak.verifier.tracked_session import TrackedSession

_log = structlog.get_logger()

FOLDER_NAME = "history"
OPERATIONS_MAX = 20_000
"""Of one session; what comes later is not recorded."""
RECORDING_BYTES_MAX = 32 * 1024 * 1024
"""Likewise; reads of a store that alters what it keeps are large."""

BUFFERED_LINES_MAX = 1_000


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: whose history this is."""

    run: str
    store: str
    session: str
    contract: Contract
    clock_epsilon_us: int


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened."""

    attempt: Attempt | None = None
    lease: tuple[int, int] | None = None
    read: SavedRead | None = None
    is_shadowed: bool = False
    """A fault may have kept the read behind for any time, rightly so by the contract."""
    fault_since: int | None = None
    """A fault had begun then, which nobody knew yet: what was read since may have been in its shadow, too."""
    tolerated: tuple[int, int] | None = None
    """(writer, seq) of a message that is gone, rightly so by the contract."""
    forgotten: bool = False
    clock_epsilon_us: int = 0
    """It is this much from here on, and for all that came before."""


class Recording(msgspec.Struct, kw_only=True):
    """The history of one session as it was recorded."""

    run: str
    store: str
    session: str
    contract: Contract
    clock_epsilon_us: int
    attempts: dict[tuple[int, int], Attempt] = {}
    leased: dict[int, int] = {}
    reads: dict[int, SavedRead] = {}
    """By the time at which each was invoked."""
    shadowed: set[int] = set()
    """When those were invoked that a fault may have kept behind."""
    tolerated: set[tuple[int, int]] = set()
    is_forgotten: bool = False


class _Pen:
    """Writes one recording."""

    def __init__(self, path: Path, tracked: TrackedSession) -> None:
        self.path = path
        self.tracked = tracked
        self.lines: list[bytes] = []
        self.operations = 0
        self.size_bytes = 0

    def go_on(self) -> None:
        """Go on behind the last whole line that an earlier process has written."""
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole != len(content):
            os.truncate(self.path, whole)
        self.operations = content.count(b"\n")
        self.size_bytes = whole

    def note(self, line: Line) -> None:
        if self.operations < OPERATIONS_MAX and self.size_bytes < RECORDING_BYTES_MAX:
            self.operations += 1
            self.lines.append(msgspec.json.encode(line))
            self.size_bytes += len(self.lines[-1]) + 1

    def flush(self) -> None:
        if self.lines:
            with self.path.open("ab") as file:
                file.write(b"".join(line + b"\n" for line in self.lines))
            self.lines.clear()


class Recorder:
    """Records the sessions that were opened first."""

    def __init__(self, folder: Path, header: RunHeader, author: MessageGenerator, sessions_max: int) -> None:
        self._folder = folder / FOLDER_NAME
        self._header = header
        self._author = author
        self._sessions_max = sessions_max
        self._pens: dict[str, dict[int, _Pen]] = {}
        self._begun: Counter[str] = Counter()
        self._clock_epsilon_us = 0
        if sessions_max:
            for path in self._folder.glob("*.jsonl"):
                recording = read_recording(path)
                if recording is not None:
                    self._begun[recording.store] += 1

    def widen(self, epsilon_us: int) -> None:
        """Note that the times of different hosts can be compared less exactly than was said before."""
        self._clock_epsilon_us = epsilon_us
        for pens in self._pens.values():
            for pen in pens.values():
                pen.note(Line(clock_epsilon_us=epsilon_us))

    def take_up(self, tracked: list[TrackedSession]) -> None:
        """Go on with the recordings of sessions that a checkpoint knows."""
        for one in tracked:
            if self._path(one).exists():
                self._go_on(one)

    def take(self, entry: WorkerBatch, sessions: dict[int, TrackedSession]) -> None:
        """Take in a batch of a worker whose sessions these are."""
        for opened in entry.batch.opens:
            if opened.number in sessions:
                self._begin(opened, sessions[opened.number])
        pens = self._pens.get(entry.worker)
        if pens:
            self._write_batch(pens, entry.batch)

    def _begin(self, opened: Open, tracked: TrackedSession) -> None:
        path = self._path(tracked)
        if not path.exists():
            if self._begun[opened.store] >= self._sessions_max:
                return
            self._begun[opened.store] += 1
            head = Head(
                run=self._header.run,
                store=opened.store,
                session=opened.session,
                contract=self._header.contracts[opened.store],
                clock_epsilon_us=self._clock_epsilon_us,
            )
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                path.write_bytes(msgspec.json.encode(head) + b"\n")
            except OSError as error:
                self._give_up(path, error)
                return
        self._go_on(tracked)

    def _go_on(self, tracked: TrackedSession) -> None:
        pen = _Pen(self._path(tracked), tracked)
        try:
            pen.go_on()
        except OSError as error:
            self._give_up(pen.path, error)
            return
        self._pens.setdefault(tracked.worker, {})[tracked.number] = pen

    @staticmethod
    def _write_batch(pens: dict[int, _Pen], batch: Batch) -> None:
        for lease in batch.leases:
            if (pen := pens.get(lease.session)) is not None:
                pen.note(Line(lease=(lease.writer, lease.upto)))
        for attempt in batch.attempts:
            if (pen := pens.get(attempt.session)) is not None:
                pen.note(Line(attempt=attempt))
        for intent in batch.forget_intents:
            if (pen := pens.get(intent.session)) is not None:
                pen.note(Line(forgotten=True))

    def note_fault(self, window: FaultWindow, stores: Container[str]) -> None:
        """Take in that a fault has begun on a server of these stores."""
        for pens in self._pens.values():
            for pen in pens.values():
                if pen.tracked.book.store in stores:
                    pen.note(Line(fault_since=window.started))

    def note_read(self, tracked: TrackedSession, read: Read, *, is_shadowed: bool) -> None:
        """Take in a read of the whole session."""
        pen = self._pen(tracked)
        if pen is not None:
            pen.note(Line(read=save(read, tracked.book.session, self._author), is_shadowed=is_shadowed))
            if len(pen.lines) >= BUFFERED_LINES_MAX:
                self._flush(pen)

    def note_tolerated(self, tracked: TrackedSession, place: tuple[int, int]) -> None:
        pen = self._pen(tracked)
        if pen is not None:
            pen.note(Line(tolerated=place))

    def flush(self) -> None:
        """Write down what is buffered: before a checkpoint, behind which the ledger is dropped."""
        for pens in list(self._pens.values()):
            for pen in list(pens.values()):
                self._flush(pen)

    def _flush(self, pen: _Pen) -> None:
        try:
            if pen.tracked.tainted:
                # The ledger has a gap: what was appended is not known any more.
                self._drop(pen)
                pen.path.unlink(missing_ok=True)
                return
            pen.flush()
        except OSError as error:
            self._drop(pen)
            self._give_up(pen.path, error)
        if pen.tracked.retired:
            self._drop(pen)

    def _drop(self, pen: _Pen) -> None:
        self._pens.get(pen.tracked.worker, {}).pop(pen.tracked.number, None)
        if not self._pens.get(pen.tracked.worker, True):
            del self._pens[pen.tracked.worker]

    def _give_up(self, path: Path, error: OSError) -> None:
        _log.warning("history_not_recorded", error=str(error), file=str(path))
        try:
            path.unlink(missing_ok=True)
        except OSError:
            return  # a folder that takes nothing gives nothing either

    def _pen(self, tracked: TrackedSession) -> _Pen | None:
        pens = self._pens.get(tracked.worker)
        return None if pens is None else pens.get(tracked.number)

    def _path(self, tracked: TrackedSession) -> Path:
        return self._folder / f"{tracked.worker}-{tracked.number}.jsonl"


def read_recording(path: Path) -> Recording | None:
    """Read a recording back; None if it is none. A line cut by a kill ends it."""
    try:
        with path.open("rb") as file:
            head = msgspec.json.decode(file.readline(), type=Head)
            recording = Recording(**{name: getattr(head, name) for name in head.__struct_fields__})
            for text in file:
                if not text.endswith(b"\n"):
                    break
                _take_line(recording, msgspec.json.decode(text, type=Line))
    except (OSError, ValueError):
        return None
    return recording


def _take_line(recording: Recording, line: Line) -> None:
    if line.attempt is not None:
        recording.attempts.setdefault((line.attempt.writer, line.attempt.seq), line.attempt)
    if line.lease is not None:
        writer, upto = line.lease
        recording.leased[writer] = max(upto, recording.leased.get(writer, 0))
    if line.read is not None:
        recording.reads.setdefault(line.read.invoked, line.read)
        if line.is_shadowed:
            recording.shadowed.add(line.read.invoked)
    if line.fault_since is not None and recording.contract.replica_reads is not ReplicaReads.STRICT:
        since = line.fault_since - recording.clock_epsilon_us
        recording.shadowed |= {read.invoked for read in recording.reads.values() if read.returned >= since}
    if line.tolerated is not None:
        recording.tolerated.add(line.tolerated)
    recording.is_forgotten |= line.forgotten
    recording.clock_epsilon_us = max(recording.clock_epsilon_us, line.clock_epsilon_us)
