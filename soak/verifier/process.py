"""The verifier as a process: puts its parts together, runs them until the load has ended, and gives the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import structlog

from soak.checker.faults import CATCH_UP_US
from soak.checker.read import Rules
from soak.checker.text import MessageGenerator
from soak.checker.verdict import Verdict
from soak.clock import now_us, timeline
from soak.errors import ExitCode, ServerUnreachableError, SoakError
from soak.join import JoinInfo
from soak.ledger.clock import EXCHANGES_FIRST, LedgerClock
from soak.ledger.reader import LedgerReader
from soak.ledger.run import RunJournal
from soak.ledger.shards import WHOLE, Shard
from soak.metrics import VerifierMetrics
from soak.proc.collector import spare_the_collector
from soak.proc.files import set_aside, write_sealed
from soak.servers.kinds import POSTGRES_REPLICA
from soak.settings import SoakSettings
from soak.stores import registry
from soak.stores.protocol import MemoryStore, StoreContext
from soak.tasks import end_tasks
from soak.verifier import checkpoint, endpoint, result
from soak.verifier.canary import Canary, CanaryNumbers
from soak.verifier.clocks import Clocks
from soak.verifier.drift import DriftWatch, RestartWatch
from soak.verifier.endpoint import Endpoint
from soak.verifier.evidence import EvidenceFolder
from soak.verifier.examiner import Examiner
from soak.verifier.follower import Follower
from soak.verifier.http import serving
from soak.verifier.intake import Intake
from soak.verifier.progress import Backpressure
from soak.verifier.recording import Recorder
from soak.verifier.recovery import Probe
from soak.verifier.reporter import Reporter
from soak.verifier.resuming import go_on_without, recount, restore_journal
from soak.verifier.sharing import LAST_WORD_SECONDS_MAX, LeftOver, Sharing
from soak.verifier.state import State
from soak.verifier.status import Status
from soak.verifier.sweeper import Sweeper
from soak.verifier.wall_clocks import WallClocks

_log = structlog.get_logger()

LOOP_DELAY_SECONDS = 0.5
BROKEN_DRAIN_SECONDS_MAX = 3.0
RESULT_SECONDS = 5.0
"""How often the result is written while it runs."""
RESULT_AFTER_VIOLATION_SECONDS = 0.5
"""The same where a violation was found since."""
DAMAGE_TOLD_MAX = 10
CHECKPOINT_COST_FACTOR = 20
"""A checkpoint may take at most a twentieth of the time between two of them."""
CHECKPOINT_CHEAP_FACTOR = 500
"""It takes no more than so small a part of it, unless it would come less often than this."""
CHECKPOINT_CHEAP_SECONDS_MAX = 5.0
DRAIN_POLL_SECONDS = 0.2
REOPEN_SECONDS_MAX = 60.0
REOPEN_POLL_SECONDS = 0.5


async def run(
    info: JoinInfo,
    settings: SoakSettings,
    data_dir: Path,
    listen_host: str,
    listen_port: int,
    shard: Shard = WHOLE,
    *,
    leaving: asyncio.Event | None = None,
) -> ExitCode:
    """Verify a run until its load has ended; on SIGTERM save the state and leave, to go on at the next start.

    `leaving` is set if that was asked for, also if it was when the last sweep had begun.
    """
    verifier = Verifier(info, settings, data_dir / shard.folder, shard)
    try:
        await verifier.prepare()
        spare_the_collector()
        return await verifier.run(listen_host, listen_port)
    finally:
        gc.unfreeze()  # the next run of this process has sessions of its own
        if leaving is not None and verifier.is_stopping:
            leaving.set()
        await verifier.close()


def share_of(settings: SoakSettings, shard: Shard) -> SoakSettings:
    """Return the settings of one of several verifiers: they share bounds, and the first does what is done once."""
    verifier = settings.verifier
    shared: dict[str, object] = {
        "messages_per_second": max(1, verifier.messages_per_second // shard.of),
        "closed_sessions_max": verifier.closed_sessions_max // shard.of,
    }
    if not shard.is_first:
        shared |= {"canary": 0.0, "history_sessions": 0}
    return settings.model_copy(update={"verifier": verifier.model_copy(update=shared)})


def seconds_between_checkpoints(wanted: float, cost_seconds: float) -> float:
    """Return how long to wait for the next one: a state that costs more is saved less often."""
    cheap = min(cost_seconds * CHECKPOINT_CHEAP_FACTOR, CHECKPOINT_CHEAP_SECONDS_MAX)
    return max(wanted, cheap, cost_seconds * CHECKPOINT_COST_FACTOR)


class Verifier:
    """Everything that runs in the verifier's process."""

    def __init__(self, info: JoinInfo, settings: SoakSettings, folder: Path, shard: Shard = WHOLE) -> None:
        self._info = info
        self._settings = settings if shard.of == 1 else share_of(settings, shard)
        self._unread_max_of_run = settings.verifier.unread_max
        self._shard = shard
        self._folder = folder
        header = info.header
        self._targets = {store: info.needs_of(store) for store in header.stores}
        recovery_max = settings.faults.recovery_max
        catch_up_us = CATCH_UP_US if recovery_max is None else int(recovery_max * 1e6)
        self._state = State(header, self._targets, int(settings.verifier.coverage * 1e6), catch_up_us)
        self._author = MessageGenerator(header.run, header.seed)
        self._damaged_checkpoint = ""
        self._saved_up_to = 0.0
        """Until when what was acknowledged has been read, by a checkpoint: a kill makes us read again what came later,
        so nobody may forget that before."""
        self._sweepers: list[Sweeper] = []
        self._canaries: list[Canary] = []
        self._reader: LedgerReader | None = None
        self._journal: RunJournal | None = None
        self._wake = asyncio.Event()
        """The load has ended, or this process is asked to stop."""
        self.is_stopping = False
        self._left: LeftOver | None = None
        """What was unclear after the last sweep; None: it has not come to its end."""
        self._saving = threading.Lock()
        self._encoding_seconds = 0.0
        self._telling = threading.Lock()
        self._is_told = False
        """The last word was written, and nothing may replace it."""

    async def prepare(self) -> None:
        """Take up the saved state, reach the ledger, and open the stores."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._evidence = EvidenceFolder(self._folder, self._settings.verifier.evidence_max)
        run = self._info.header.run
        self._reader = await LedgerReader.connect(self._info.ledger_url, run, shard=self._shard.number)
        if self._shard.of > 1:
            self._state.sharing = Sharing(self._info.ledger_url, run, self._shard, self._folder)
            await self._state.sharing.claim()
        counted = await self._take_up(self._reader)
        if self._state.sharing is not None and counted is None:
            await self._state.sharing.take_up_faults(self._state, await self._reader.faults_begun())
        if self._settings.verifier.history_sessions:
            sessions = self._settings.verifier.history_sessions
            self._state.recorder = Recorder(self._folder, self._info.header, self._author, sessions)
            self._state.recorder.take_up(self._state.tracked())
        await self._make_good(counted)
        rules, clocks = self._rules(), self._state.clocks
        intake = Intake(self._state, rules, clocks.boot, clocks)
        self._follower = Follower(self._reader, self._state, intake, on_end=self._wake.set)
        ttl_epsilon_us = int(self._settings.verifier.ttl_epsilon * 1e6)
        self._walls = WallClocks(self._state, ttl_epsilon_us, intake.doubt_expiring)
        self._journal = RunJournal(self._info.ledger_url, run)
        restarts = RestartWatch(self._state, self._journal, self._follower.caught_up)
        replicas = {store for store, targets in self._targets.items() if POSTGRES_REPLICA.name in targets}
        self._reporter = Reporter(self._state, self._evidence, self._author, replicas)
        context = self._info.verifier_context()
        self._drift = DriftWatch(self._state, context.servers, self._settings.verifier.settle, restarts, self._walls)
        for name in self._info.header.stores:
            store = written = await self._open_store(name, context)
            if self._info.verifier_logins:
                written = await self._open_store(name, self._info.verifier_context(writes=True))
            examiner = Examiner(
                name=name,
                store=store,
                targets=self._targets[name],
                rules=rules[name],
                author=self._author,
                state=self._state,
                reporter=self._reporter,
                settle_seconds=self._settings.verifier.settle,
                hot_seconds=self._settings.verifier.hot_interval,
                timeout_seconds=self._info.timeout_seconds * 2,
                caught_up=self._follower.caught_up,
            )
            sweeper = Sweeper(
                examiner, self._state, self._settings.verifier, stores=len(self._info.header.stores), written=written
            )
            self._sweepers.append(sweeper)
        clocks.on_wider = functools.partial(self._widen, intake)
        self._widen(intake, clocks.epsilon_us)
        if self._settings.verifier.canary:
            self._canaries = self._make_canaries()
        self._backpressure = Backpressure(
            self._reader,
            unread=self._state.count_unread,
            oldest_unread_seconds=lambda: time.monotonic() - self._saved_up_to,
            unread_max=self._unread_max,
        )
        self._status = Status(
            self._state,
            self._sweepers,
            self._follower,
            self._reporter,
            self._evidence,
            self._backpressure,
            self._settings,
        )

    async def _open_store(self, name: str, context: StoreContext) -> MemoryStore:
        """Open a store; a verifier that goes on from a checkpoint may do so in the middle of a fault, and waits."""
        deadline = time.monotonic() + (REOPEN_SECONDS_MAX if self._state.tally.restarts else 0.0)
        while True:
            try:
                return await registry.open_store(name, context)
            except ServerUnreachableError as error:
                if time.monotonic() >= deadline:
                    raise
                _log.warning("store_unreachable", what="waiting for it", store=name, error=str(error))
                await asyncio.sleep(REOPEN_POLL_SECONDS)

    def _unread_max(self) -> int:
        """Return this verifier's part of what the run allows."""
        sharing = self._state.sharing
        return max(1, self._unread_max_of_run // (1 if sharing is None else sharing.shard.of))

    def _widen(self, intake: Intake, epsilon_us: int) -> None:
        """Compare the times of different hosts as exactly as their clocks are known."""
        intake.widen(epsilon_us)
        for sweeper in self._sweepers:
            sweeper.examiner.judging.widen(epsilon_us)
        if self._state.recorder is not None and epsilon_us:
            self._state.recorder.widen(epsilon_us)

    def _read_up_to(self) -> float:
        """Until when what was acknowledged has been read: taken in from the ledger, and looked for."""
        return time.monotonic() - max(self._status.oldest_unverified_seconds(), self._follower.lag_seconds)

    def _make_canaries(self) -> list[Canary]:
        numbers = CanaryNumbers(self._folder)
        if numbers.damage:
            self._note_damage(numbers.damage)
        return [
            Canary(
                sweeper.examiner,
                self._state,
                self._author,
                self._settings.verifier,
                numbers,
                is_listening=lambda: self._follower.is_reachable,
                timeout_seconds=self._info.timeout_seconds * 2,
                store=sweeper.written,
            )
            for sweeper in self._sweepers
        ]

    def _rules(self) -> dict[str, Rules]:
        header = self._info.header
        return {
            store: Rules(
                contract=header.contracts[store],
                ttl_epsilon_us=int(self._settings.verifier.ttl_epsilon * 1e6),
            )
            for store in header.stores
        }

    async def _take_up(self, reader: LedgerReader) -> int | None:
        """Measure the clock, and take up what was saved by it; returns what `_load_checkpoint` does."""
        self._clock = LedgerClock(reader.time)
        await self._clock.try_to_measure(EXCHANGES_FIRST)
        error_max_us = int(self._settings.clock.error_max * 1e6)
        self._state.clocks = Clocks(timeline(), self._clock, error_max_us=error_max_us)
        counted = self._load_checkpoint()
        if self._state.clocks.own is None:
            await self._clock.try_to_measure(EXCHANGES_FIRST)  # it goes on in another timeline
        return counted

    def _load_checkpoint(self) -> int | None:
        """Take up what was saved; returns how much of the journal that had counted, None if there is nothing."""
        try:
            counted = checkpoint.load(self._folder, self._state)
        except checkpoint.DamagedCheckpointError as error:
            self._damaged_checkpoint = str(error)
            return None
        if counted is not None:
            self._state.tally.restarts += 1
            _log.info("resuming", run=self._info.header.run, position=self._state.position)
        return counted

    async def _make_good(self, counted: int | None) -> None:
        """Go on from what is left where a file is damaged or gone, say so, and count what the journal has besides."""
        if counted is None and self._reader is not None:
            # Before the file is set aside: a ledger that is away now must not make the next start forget why.
            dropped = await go_on_without(self._reader, self._state)
            path = self._folder / checkpoint.FILE_NAME
            if self._damaged_checkpoint:
                how = f"was damaged ({self._damaged_checkpoint}) and is set aside as {set_aside(path).name}"
                self._note_damage(f"{path.name} {how}: {dropped} records of the ledger can no longer be verified")
            elif dropped:
                self._note_damage(f"{path.name} is gone: {dropped} records of the ledger can no longer be verified")
        if self._evidence.is_journal_lost(counted):
            self._note_damage(restore_journal(self._evidence, self._state, counted or 0))
        self._evidence.repair()
        self._recount(counted or 0)

    def _note_damage(self, what: str) -> None:
        _log.error("file_damaged", what=what)
        self._state.tally.damage = [*self._state.tally.damage, what][-DAMAGE_TOLD_MAX:]

    def _recount(self, journal_size: int) -> None:
        lines = self._evidence.since(journal_size)
        if self._evidence.lines_damaged:
            self._state.tally.journal_lines_damaged += self._evidence.lines_damaged
            _log.error(
                "journal_lines_damaged", what="these violations cannot be read", lines=self._evidence.lines_damaged
            )
        recount(self._state, lines)

    # -- running --

    @property
    def state(self) -> State:
        """What is known so far, for whoever runs it in the same process."""
        return self._state

    async def run(self, host: str, port: int, *, heeds_signals: bool = True) -> ExitCode:
        header = self._info.header
        self._metrics = VerifierMetrics(
            self._status.tally,
            self._status.gauges,
            (header.run, header.seed, header.namespace, header.stores),
            self._status.latest_violations,
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT) if heeds_signals else ():
            loop.add_signal_handler(number, self._stop)
        async with serving(host, port, metrics=self._metrics.text, status=self._status.current) as actual:
            self._endpoint = Endpoint(host, actual, os.getpid())
            self._write_endpoint()
            await self._follower.measure_lag()  # before its progress is published
            parts = [asyncio.create_task(part) for part in self._parts()]
            ending = asyncio.create_task(self._until_end())
            try:
                await asyncio.wait([*parts, ending], return_when=asyncio.FIRST_COMPLETED)
                for part in parts:
                    if part.done():
                        part.result()
                return await ending
            finally:
                await end_tasks([*parts, ending])

    def _parts(self) -> list[Any]:
        return [
            self._follower.run(),
            self._clock.run(),
            self._walls.run(),
            self._backpressure.run(),
            self._follower.unverified_age.run(),
            *(part for sweeper in self._sweepers for part in sweeper.parts()),
            *(canary.run() for canary in self._canaries),
            self._drift.run(),
            self._state.recoveries.run(),
            *(Probe(sweeper.examiner, self._state).run() for sweeper in self._sweepers),
            *self._exchanging(),
            self._checkpoint_forever(),
            self._measure_forever(),
            self._tell_forever(),
        ]

    def _exchanging(self) -> list[Any]:
        sharing = self._state.sharing
        return [] if sharing is None else [sharing.run(self._state, lambda: self._status.report(self._left))]

    async def _until_end(self) -> ExitCode:
        if self._state.end is None:
            await self._wake.wait()
        if not self.is_stopping:
            return await self._finish()
        await self._save()
        _log.info("stopped", what="the run goes on at the next start", run=self._info.header.run)
        return ExitCode.INCONCLUSIVE

    def _stop(self) -> None:
        self.is_stopping = True
        self._wake.set()

    async def _finish(self) -> ExitCode:
        """Sweep everything once more, and give the verdict."""
        self._status.phase = "draining"
        deadline = time.monotonic() + self._drain_seconds()
        finishing = asyncio.gather(*(canary.finish(deadline) for canary in self._canaries))
        unread = await asyncio.gather(*(sweeper.sweep_all(deadline) for sweeper in self._sweepers))
        await finishing
        self._status.phase = "done"
        self._follower.unverified_age.finish(now_us())
        self._state.recoveries.settle(now_us(), is_final=True)
        left = self._left = self._status.left_over(sum(unread))
        if self._state.sharing is not None:
            await self._hear_all(self._state.sharing, deadline + LAST_WORD_SECONDS_MAX)
        outcome = self._status.result(self._settings.verifier, left, browser_users=self._settings.load.browser_users)
        await self._save()
        endpoint.write_last_metrics(self._folder, self._metrics.text)
        try:
            await asyncio.to_thread(self._write_result, outcome)
        except OSError as error:
            raise SoakError(
                f"the result cannot be written to {self._folder} ({error}); make room and start again"
            ) from error
        _log.info("verdict", verdict=outcome.verdict, reasons=outcome.reasons)
        return Verdict(outcome.verdict).exit_code

    async def _hear_all(self, sharing: Sharing, deadline: float) -> None:
        """Let the first verifier know how this share ended; the first waits for that of all others."""
        while time.monotonic() < deadline:
            is_said = await sharing.exchange(self._state, lambda: self._status.report(self._left))
            if is_said and (not sharing.shard.is_first or not sharing.not_ended(self._state)):
                break
            await asyncio.sleep(DRAIN_POLL_SECONDS)
        sharing.forget_view()

    def _drain_seconds(self) -> float:
        longest = self._settings.verifier.drain
        # A store that raises the same programming error on every call does not answer a last sweep either.
        return min(longest, BROKEN_DRAIN_SECONDS_MAX) if self._state.tally.broken_stores() else longest

    async def _tell_forever(self) -> None:
        """Write how it stands every few seconds and at each violation: a kill of everything leaves the truth."""
        written_at, violations = float("-inf"), -1
        while True:
            found = self._state.tally.violations
            if found != violations or time.monotonic() - written_at >= RESULT_SECONDS:
                written_at, violations = time.monotonic(), found
                so_far = self._status.result_so_far(self._settings.verifier)
                try:
                    await asyncio.to_thread(self._write_result, so_far)
                    # Again and again: whoever asks how it goes must find us, also if the file was damaged.
                    await asyncio.to_thread(self._write_endpoint)
                except OSError as error:
                    _log.warning("interim_result_not_written", error=str(error))
            await asyncio.sleep(RESULT_AFTER_VIOLATION_SECONDS)

    def _write_result(self, outcome: result.Result) -> None:
        with self._telling:
            if outcome.finished or not self._is_told:
                result.write(self._folder, outcome)
                self._is_told = self._is_told or outcome.finished

    async def _checkpoint_forever(self) -> None:
        interval = self._settings.verifier.checkpoint
        while True:
            await asyncio.sleep(interval)
            retired = [len(sweeper.to_erase) for sweeper in self._sweepers]
            position = await self._save()
            if position is None:
                continue
            await self._follower.trim(position)
            # Only what this checkpoint has let go of: a kill must not make the next start miss it.
            for sweeper, count in zip(self._sweepers, retired, strict=True):
                await sweeper.erase_retired(count)
            interval = seconds_between_checkpoints(self._settings.verifier.checkpoint, self._encoding_seconds)

    async def _save(self) -> str | None:
        """Save the state; returns the place in the ledger it stands for, or None if the disk would not take it."""
        position = self._state.position
        if self._state.recorder is not None:
            self._state.recorder.flush()
        read_up_to = self._read_up_to()
        started = time.thread_time()
        counted = self._evidence.journal_size()
        blob = checkpoint.encode(self._state, counted)
        # What the loop really spends on it; waiting for a disk, or for its turn, costs nobody anything.
        self._encoding_seconds = time.thread_time() - started
        try:
            # In a thread: a slow disk must not hold up the ledger and the sweeps.
            await asyncio.to_thread(self._write_checkpoint, blob)
            self._status.state_bytes = len(blob)
            self._saved_up_to = read_up_to
        except OSError as error:
            self._status.warn(f"the state cannot be saved ({error}); the ledger keeps growing until it can")
            return None
        self._status.warn("")
        # Here and not in the thread: violations are written by this loop, and none may be lost in between.
        self._evidence.thin_out(counted)
        return position

    def _write_checkpoint(self, blob: bytes) -> None:
        with self._saving:
            self._evidence.sync()
            checkpoint.write(self._folder, blob)

    async def _measure_forever(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(LOOP_DELAY_SECONDS)
            self._status.loop_delay_seconds = max(0.0, time.monotonic() - before - LOOP_DELAY_SECONDS)
            await self._follower.measure_lag()

    def _write_endpoint(self) -> None:
        write_sealed(self._folder / endpoint.FILE_NAME, self._endpoint, is_synced=False)

    async def close(self) -> None:
        for store in {store for sweeper in self._sweepers for store in (sweeper.examiner.store, sweeper.written)}:
            with contextlib.suppress(Exception):  # a store that cannot be closed must not hide the verdict
                await store.close()
        if self._state.sharing is not None:
            await self._state.sharing.close()
        if self._journal is not None:
            with contextlib.suppress(SoakError):
                await self._journal.close()
        if self._reader is not None:
            with contextlib.suppress(SoakError):
                await self._reader.close()
