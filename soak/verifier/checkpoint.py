"""Saving all that is known, in one step, and taking it up again after a kill."""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import msgspec

from soak.checker.expected_session import NO_ATTEMPTS, NOTHING
from soak.checker.faults import FaultWindow
from soak.checker.incidents import Counted
from soak.clock import clock_offset_us
from soak.errors import UsageError
from soak.ledger.records import EndOfLoad, Observation
from soak.proc.files import replacing
from soak.verifier.clocks import HostClock
from soak.verifier.state import State, Worker
from soak.verifier.tally import StoreTally, Tally
from soak.verifier.tracked_session import TrackedSession

VERSION = 8
FILE_NAME = "checkpoint.mpk"
_SEAL = struct.Struct(">8sHI")
_MARK = b"soak-chk"
"""Each checkpoint begins with this, its version and a checksum: a flipped bit in it would become a false accusation."""


class SavedWorker(msgspec.Struct, array_like=True):
    """A load process and its sessions."""

    name: str
    host: str
    last_number: int
    last_session: int
    last_heard: int
    farewell: bool
    sessions: list[TrackedSession]


class SavedObservations(msgspec.Struct, array_like=True):
    """What participants saw in one session, waiting to be judged."""

    worker: str
    session: int
    observations: list[Observation]


class Checkpoint(msgspec.Struct):
    """All that is known at one place of the ledger, and of the journal of violations."""

    version: int
    run: str
    position: str
    journal_size: int
    tally: Tally
    workers: list[SavedWorker]
    faults: list[FaultWindow]
    end: EndOfLoad | None
    observations: list[SavedObservations]
    journalled: list[tuple[str, str, Counted]]
    """By store and session, what the journal has on sessions that the ledger has still to open again."""
    timeline: str
    """Whose clock all times in it are of."""
    wall_offset_us: int
    """The wall clock less that one."""
    ledger_offset_us: int
    """The ledger's less that one."""
    ledger_error_us: int | None
    """None: that was not measured."""
    hosts: dict[str, HostClock]
    base_error_us: int
    ledger_life: str = ""
    ledger_read_us: int = 0
    failures: list[str] = []


class _Versioned(msgspec.Struct):
    version: int


class DamagedCheckpointError(ValueError):
    """A checkpoint is not what was written; the text says in which way."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Checkpoint)


def encode(state: State, journal_size: int) -> bytes:
    checkpoint = Checkpoint(
        version=VERSION,
        run=state.header.run,
        position=state.position,
        journal_size=journal_size,
        tally=state.tally,
        workers=[_save_worker(name, worker) for name, worker in state.workers.items()],
        faults=list(state.faults.values()),
        end=state.end,
        observations=[
            SavedObservations(tracked.worker, tracked.number, noted)
            for lane in state.lanes.values()
            for tracked, noted in lane.observations.items()
        ],
        journalled=[(store, session, counted) for (store, session), counted in state.journalled.items()],
        timeline=state.clocks.boot,
        wall_offset_us=clock_offset_us(),
        ledger_offset_us=state.clocks.ledger_offset_us,
        ledger_error_us=None if state.clocks.own is None else state.clocks.own.error_us,
        hosts=state.clocks.hosts,
        base_error_us=state.clocks.base_error_us,
        ledger_life=state.ledger_life,
        ledger_read_us=state.ledger_read_us,
        failures=list(state.failures),
    )
    return _encoder.encode(checkpoint)


def write(folder: Path, blob: bytes) -> None:
    """Put a checkpoint in place of the last one, so that a kill leaves the one or the other."""
    with replacing(folder / FILE_NAME, mode=0o644) as file:
        file.write(_SEAL.pack(_MARK, VERSION, zlib.crc32(blob)))
        file.write(blob)


def load(folder: Path, state: State) -> int | None:
    """Fill a new state with what was saved; returns how much of the journal that had counted, None if there is none."""
    header = state.header
    path = folder / FILE_NAME
    try:
        blob = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        checkpoint = _decoder.decode(_unsealed(path, blob))
    except ValueError as error:
        raise DamagedCheckpointError(str(error)) from error
    if checkpoint.run != header.run:
        raise UsageError(f"{path} belongs to run {checkpoint.run}, not {header.run}; use another data folder")
    if checkpoint.timeline != state.clocks.boot:
        _go_on_in(path, state, checkpoint)
    _restore(state, checkpoint)
    return checkpoint.journal_size


def _go_on_in(path: Path, state: State, checkpoint: Checkpoint) -> None:
    """Go on in the timeline of another boot, or of another host, by what the ledger's clock says of both.

    That clock may have been set in between. The wall clocks show it: they would not agree on how long that was.
    """
    now = state.clocks.own
    if now is None or checkpoint.ledger_error_us is None:
        raise UsageError(
            f"{path} was saved in another boot or on another host, and the ledger does not say what time it is, so its "
            "times cannot be compared with those of now; use another data folder"
        )
    ahead = now.offset_us - checkpoint.ledger_offset_us
    apart = abs(clock_offset_us() - checkpoint.wall_offset_us - ahead)
    error = checkpoint.ledger_error_us + now.error_us + apart
    if error > state.clocks.error_max_us:
        raise UsageError(
            f"{path} was saved in another boot or on another host, and the wall clock here and the ledger's disagree "
            f"by {apart / 1e6:.1f} s on how long ago that was; set the clocks right and start again, or use another "
            "data folder"
        )
    state.clocks.go_on_in(checkpoint.timeline, ahead, error)
    for lane in state.lanes.values():
        lane.begin_timers()


def _unsealed(path: Path, content: bytes) -> bytes:
    """Return what the seal vouches for."""
    head, blob = content[: _SEAL.size], content[_SEAL.size :]
    mark, version, crc = _SEAL.unpack(head) if len(head) == _SEAL.size else (b"", 0, 0)
    if zlib.crc32(blob) != crc or mark != _MARK:
        raise DamagedCheckpointError("its checksum does not fit" if content else "it is empty")
    if version != msgspec.msgpack.decode(blob, type=_Versioned).version:
        raise DamagedCheckpointError("its head and its body do not fit")
    if version != VERSION:
        raise UsageError(
            f"{path} is of format {version}, this soak reads format {VERSION}; "
            "finish that run with the soak that began it, or use another data folder"
        )
    return blob


def _restore(state: State, checkpoint: Checkpoint) -> None:
    stores = {name: checkpoint.tally.stores.get(name) or StoreTally() for name in state.header.stores}
    state.tally = msgspec.structs.replace(checkpoint.tally, stores=stores)
    state.position = checkpoint.position
    state.ledger_life, state.ledger_read_us = checkpoint.ledger_life, checkpoint.ledger_read_us
    state.failures = dict.fromkeys(checkpoint.failures)
    for window in checkpoint.faults:
        state.faults.begin(window)
    state.end = checkpoint.end
    state.clocks.restore(checkpoint.hosts, checkpoint.base_error_us)
    state.journalled = {(store, session): counted for store, session, counted in checkpoint.journalled}
    for saved in checkpoint.workers:
        worker = state.workers[saved.name] = Worker(saved.host)
        worker.last_number, worker.last_session = saved.last_number, saved.last_session
        worker.last_heard, worker.farewell = saved.last_heard, saved.farewell
        for tracked in saved.sessions:
            worker.sessions[tracked.number] = tracked
            _wake(tracked)
            state.watch(tracked, tracked.last_whole)
            _put_in_line(state, tracked)
    for noted in checkpoint.observations:
        tracked = state.workers[noted.worker].sessions[noted.session]
        state.lanes[tracked.book.store].observations[tracked] = noted.observations


def _wake(tracked: TrackedSession) -> None:
    """Forget what was true only in the process that saved it."""
    tracked.hot = tracked.busy = tracked.queued = False
    tracked.not_before = tracked.visit_slot = 0
    tracked.worker, tracked.book.store = sys.intern(tracked.worker), sys.intern(tracked.book.store)
    tracked.book.pending = tracked.book.pending or NO_ATTEMPTS
    tracked.book.recent = tracked.book.recent or NO_ATTEMPTS
    for writer in tracked.book.writers:
        # Sets that were never needed are one shared empty set again.
        writer.failed, writer.unknown = writer.failed or NOTHING, writer.unknown or NOTHING
        writer.excused, writer.gone = writer.excused or NOTHING, writer.gone or NOTHING


def _put_in_line(state: State, tracked: TrackedSession) -> None:
    lane = state.lanes[tracked.book.store]
    if tracked.book.pending and not tracked.tainted:
        tracked.hot = True
        lane.hot[tracked] = None
    if tracked.is_closed or tracked.is_in_doubt:
        lane.schedule_read(tracked, 1)


def _save_worker(name: str, worker: Worker) -> SavedWorker:
    sessions = list(worker.sessions.values())
    return SavedWorker(
        name, worker.host, worker.last_number, worker.last_session, worker.last_heard, worker.farewell, sessions
    )
