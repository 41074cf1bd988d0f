"""Kills of everything, in the start, in the run and in the drain; whatever was dropped must be reported by name.

    python -m tests.support.campaigns.kills --rounds 20 --seed 7
    python -m tests.support.campaigns.kills --rounds 40 --verifiers 2

A memory drops one message in so many and keeps an account of them; in every second run it drops none. A follower of the
ledger keeps another, of what was acknowledged. The daemon, the load or one of its workers, the verifier, the ledger and
PostgreSQL are killed or stopped for a while; a daemon that was killed is started again. At the end every message that
was dropped and acknowledged has to be in the journal of violations, and no other. What happens in a round follows from
its seed. Most of its time is spent starting processes, so several rounds can share one run (`--together 3`): what they
do in its start and its drain is mixed, in between one comes after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
import psutil

from soak.errors import ExitCode, SoakError
from soak.join import JoinInfo
from soak.ledger.reader import START, LedgerReader, WorkerBatch
from soak.verifier.journal import Violation, decode_line
from tests.support.checking import RunningCheck, new_folder, processes_of, wait_until
from tests.support.stores.forgetful import ACCOUNT_VARIABLE, EVERY_VARIABLE

STORE = "tests.support.stores.forgetful:ForgetfulPostgres"
WORDS = (
    *(
        "--store",
        STORE,
        "--duration",
        "600s",
        "--users",
        "16",
        "--set",
        "load.think=60ms",
        "--set",
        "load.spawn_rate=100",
    ),
    *("--set", "load.forget_share=0", "--set", "load.drain=2s", "--set", "verifier.hot_interval=300ms"),
    *("--set", "verifier.settle=500ms", "--set", "verifier.checkpoint=1s", "--set", "verifier.canary=0s"),
    # Starting everything again takes longer than that where several runs share two cores, and is no matter here.
    *("--set", "verifier.unverified_age_max=10m"),
    *("--set", "supervision.backoff=200ms", "--set", "supervision.restarts_max=20"),
)
TARGETS = {
    "daemon": "soak check",
    "verifier": "soak verify",
    "load": "locust",
    "ledger": "/servers/ledger",
    "postgres": "/servers/postgres",
}
STOPPED_SECONDS_MAX = 4.0
LEAST_DROPPED = 3
OVERTAKEN_SHARE_MAX = 0.1
ACKNOWLEDGED_PER_DROPPED = 200
"""Where nothing is dropped, so many acknowledged messages are waited for in place of a dropped one."""
EVERY, EVERY_QUICK = 500, 60
"""One message of so many is dropped."""
UP_SECONDS_MAX = 180.0
FOUND_SECONDS_MAX = 30.0
END_SECONDS_MAX = 150.0


@dataclass(frozen=True)
class Deed:
    """One thing that is done to a process."""

    phase: str
    """`start`, `run` or `drain`."""
    after_seconds: float
    target: str
    stopped_seconds: float | None
    """None: it is killed."""

    def __str__(self) -> str:
        how = "killed" if self.stopped_seconds is None else f"stopped {self.stopped_seconds:.1f}s"
        return f"{self.phase}+{self.after_seconds:.1f}s {self.target} {how}"


@dataclass
class Run:
    """What happened in one run."""

    rounds: dict[int, list[Deed]]
    """By seed."""
    every: int = EVERY_QUICK
    """One message of so many is dropped; 0: none is."""
    idle: list[Deed] = field(default_factory=list)
    """What found nobody to be done to."""
    exit_code: int | None = None
    dropped: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)
    overtaken: int = 0
    """Acknowledged in sessions that nobody could name: the verifier had trimmed their beginning before it was read."""
    reported: set[str] = field(default_factory=set)
    output: str = ""
    seconds: float = 0.0

    @property
    def missed(self) -> set[str]:
        return (self.dropped & self.acknowledged) - self.reported

    @property
    def false_alarms(self) -> set[str]:
        return self.reported - self.dropped

    @property
    def is_right(self) -> bool:
        code = ExitCode.VIOLATION if self.dropped & self.acknowledged else ExitCode.PASS
        is_accounted = self.overtaken <= len(self.acknowledged) * OVERTAKEN_SHARE_MAX
        return is_accounted and not self.missed and not self.false_alarms and self.exit_code == code

    def told(self) -> str:
        deeds = "; ".join(f"seed {seed}: {', '.join(map(str, deeds))}" for seed, deeds in self.rounds.items())
        seeds, verdict = ",".join(map(str, self.rounds)), "right" if self.is_right else "WRONG"
        return (
            f"seeds {seeds}: {verdict} exit {self.exit_code} in {self.seconds:.0f} s, "
            f"acknowledged {len(self.acknowledged)}, one of {self.every} dropped: "
            f"dropped {len(self.dropped)}, of them acknowledged {len(self.dropped & self.acknowledged)}, "
            f"missed {len(self.missed)} {sorted(self.missed)}, false {len(self.false_alarms)} "
            f"{sorted(self.false_alarms)}, overtaken {self.overtaken}; {deeds}"
            f"{'; found nobody: ' if self.idle else ''}{', '.join(map(str, self.idle))}"
        )


def draw(seed: int) -> list[Deed]:
    """Choose what happens in a round."""
    source = random.Random(seed)
    deeds = []
    for _ in range(source.randint(1, 3)):
        phase = source.choice(["start", "run", "run", "drain", "drain"])
        target = "daemon" if source.random() < 0.4 else source.choice(list(TARGETS))
        is_killed = target == "daemon" or source.random() < 0.6
        stopped = None if is_killed else source.uniform(0.5, STOPPED_SECONDS_MAX)
        latest = {"start": 3.0, "run": 2.0, "drain": 1.2}[phase]
        deeds.append(Deed(phase, source.uniform(0.0, latest), target, stopped))
    return sorted(deeds, key=lambda deed: (("start", "run", "drain").index(deed.phase), deed.after_seconds))


class LedgerAccount(threading.Thread):
    """Follows one stream of a ledger beside its verifier, through all restarts, and notes what was acknowledged."""

    def __init__(self, data_dir: Path, acknowledged: set[str], shard: int = 1) -> None:
        super().__init__(daemon=True)
        self._shard = shard
        self._data_dir = data_dir
        self._acknowledged = acknowledged
        self.overtaken = 0
        self._sessions: dict[tuple[str, int], str] = {}
        self._position = START
        self._is_over = threading.Event()

    def run(self) -> None:
        asyncio.run(self._follow())

    def end(self) -> None:
        self._is_over.set()
        self.join()

    async def _follow(self) -> None:
        while not self._is_over.is_set():
            with contextlib.suppress(SoakError, OSError, ValueError):
                info = msgspec.json.decode((self._data_dir / "run.json").read_bytes(), type=JoinInfo)
                reader = await LedgerReader.connect(info.ledger_url, info.header.run, shard=self._shard)
                try:
                    await self._read(reader)
                finally:
                    with contextlib.suppress(SoakError):
                        await reader.close()
            await asyncio.sleep(0.05)

    async def _read(self, reader: LedgerReader) -> None:
        while not self._is_over.is_set():
            for entry in await reader.read(self._position, block_seconds=0.1):
                self._position = entry.at
                if isinstance(entry, WorkerBatch):
                    self._note(entry)

    def _note(self, entry: WorkerBatch) -> None:
        for opened in entry.batch.opens:
            self._sessions[entry.worker, opened.number] = opened.session
        for attempt in entry.batch.attempts:
            if attempt.outcome == 0:
                session = self._sessions.get((entry.worker, attempt.session))
                if session is None:
                    self.overtaken += 1
                else:
                    self._acknowledged.add(f"{session}/{attempt.writer}/{attempt.seq}")


class Campaign:
    """Carries out some rounds in one run."""

    def __init__(self, folder: Path, seeds: Sequence[int], verifiers: int = 1, every: int = EVERY_QUICK) -> None:
        self.run = Run({seed: draw(seed) for seed in seeds}, every)
        self._verifiers = verifiers
        self._folder = folder
        self._account = folder / "account.txt"
        self._account.touch()
        self._check = self._start()
        self._outputs: list[str] = []
        self._stopped: list[threading.Timer] = []
        self._is_resumed = False

    def _start(self) -> RunningCheck:
        several = ("--verifiers", str(self._verifiers), "--processes", str(self._verifiers))
        words = (*WORDS, *several) if self._verifiers > 1 else WORDS
        variables = {ACCOUNT_VARIABLE: str(self._account), EVERY_VARIABLE: str(self.run.every)}
        return RunningCheck(self._folder, *words, **variables)

    def carry_out(self) -> Run:
        began = time.monotonic()
        shards = range(1, self._verifiers + 1)
        ledgers = [LedgerAccount(self._check.data_dir, self.run.acknowledged, shard) for shard in shards]
        for ledger in ledgers:
            ledger.start()
        try:
            self._do(self._deeds("start"))
            self._until_more(LEAST_DROPPED)
            for deeds in self.run.rounds.values():
                self._do([deed for deed in deeds if deed.phase == "run"])
                self._until_more(1)
            self._end()
        finally:
            for timer in self._stopped:
                timer.join()
            self._let_go()
            for ledger in ledgers:
                ledger.end()
                self.run.overtaken += ledger.overtaken
        self.run.seconds = time.monotonic() - began
        self.run.exit_code = self._check.process.returncode
        self.run.dropped = self._dropped()
        self.run.reported = self._reported()
        self.run.output = "\n".join([*self._outputs, self._check.output])
        self._check.close()
        return self.run

    def _let_go(self) -> None:
        if self._check.process.poll() is None:
            self._check.process.kill()
            self._check.process.wait()

    # What is done -------------------------------------------------------------------------------------------

    def _deeds(self, phase: str) -> list[Deed]:
        deeds = [deed for deeds in self.run.rounds.values() for deed in deeds if deed.phase == phase]
        return sorted(deeds, key=lambda deed: deed.after_seconds)

    def _do(self, deeds: Sequence[Deed]) -> None:
        began = time.monotonic()
        for deed in deeds:
            time.sleep(max(0.0, began + deed.after_seconds - time.monotonic()))
            self._do_one(deed)

    def _do_one(self, deed: Deed) -> None:
        if deed.target == "daemon":
            self._check.process.kill()
            self._check.process.wait()
            self._resume_if_killed()
            return
        found = self._found(deed)
        if not found:
            self.run.idle.append(deed)
        for process in self._meant(deed, found):
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL if deed.stopped_seconds is None else signal.SIGSTOP)
                if deed.stopped_seconds is not None:
                    timer = threading.Timer(deed.stopped_seconds, _go_on, [process])
                    timer.start()
                    self._stopped.append(timer)

    def _meant(self, deed: Deed, found: list[psutil.Process]) -> list[psutil.Process]:
        """Single out one of several verifiers, and every second time one of several workers."""
        drawn = int(deed.after_seconds * 1000)
        if deed.target == "load" and drawn % 2:
            pids = {process.pid for process in found}
            with contextlib.suppress(psutil.Error):
                workers = [process for process in found if process.ppid() in pids]
                return [workers[drawn // 2 % len(workers)]] if workers else found
        return [found[drawn % len(found)]] if deed.target == "verifier" and found else found

    def _found(self, deed: Deed) -> list[psutil.Process]:
        """Return the processes that are meant; one that is still to be started is waited for, unless all ends."""
        if deed.phase == "drain" and (deed.target == "load" or not self._is_resumed):
            return self._processes(deed.target)
        deadline = time.monotonic() + FOUND_SECONDS_MAX
        while self._check.process.poll() is None and time.monotonic() < deadline:
            # A server that is killed while it starts is one that cannot be started, and that ends the run.
            if self._has_opened() and (found := self._processes(deed.target)):
                return found
            time.sleep(0.02)
        return []

    def _has_opened(self) -> bool:
        try:
            info = msgspec.json.decode((self._check.data_dir / "run.json").read_bytes(), type=JoinInfo)
        except (OSError, ValueError):
            return False
        return info.daemon_pid == self._check.process.pid

    def _processes(self, target: str) -> list[psutil.Process]:
        found = []
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(self._check.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if TARGETS[target] in f"{' '.join(process.cmdline())} {process.cwd()}":
                        found.append(process)
        return found

    def _resume_if_killed(self) -> None:
        """Start the daemon again, unless it had ended by itself."""
        if self._check.process.returncode != -signal.SIGKILL:
            return
        for timer in self._stopped:
            timer.join()
        # Workers that Locust has forked outlive a killed daemon; the next one ends them.
        left = partial(processes_of, self._check.data_dir)
        wait_until(lambda: not [one for one in left() if "locust" not in one], UP_SECONDS_MAX)
        self._outputs.append(self._check.output)
        self._check.close()
        self._check = self._start()
        self._is_resumed = True

    def _end(self) -> None:
        """Let it drain, with what is to happen meanwhile; a drain that was cut off is gone through again."""
        self._check.process.send_signal(signal.SIGTERM)
        before = self._check
        self._do(self._deeds("drain"))
        deadline = time.monotonic() + END_SECONDS_MAX
        while self._check.process.poll() is None:
            assert time.monotonic() < deadline, self._check.output
            if self._check is not before:
                # It may have been killed before anybody knew that it was to end: then it runs, and is asked again.
                with contextlib.suppress(OSError, AssertionError, ValueError, KeyError):
                    if self._check.status()["phase"] == "running":
                        self._check.process.send_signal(signal.SIGTERM)
                        before = self._check
            time.sleep(0.2)

    # What is known ------------------------------------------------------------------------------------------

    def _dropped(self) -> set[str]:
        return set(self._account.read_text().splitlines())

    def _until_more(self, count: int) -> None:
        """Wait until so many more were dropped, or where none are, until as much has happened."""

        def happened() -> int:
            if self.run.every:
                return len(self._dropped())
            return len(self.run.acknowledged) // ACKNOWLEDGED_PER_DROPPED

        before = happened()
        deadline = time.monotonic() + UP_SECONDS_MAX
        while happened() < before + count:
            assert self._check.process.poll() is None, self._check.output
            assert time.monotonic() < deadline, self._check.output
            time.sleep(0.05)

    def _reported(self) -> set[str]:
        journals = (self._check.data_dir / "verifier").glob("**/journal.jsonl")
        lines = [line for journal in journals for line in journal.read_bytes().splitlines()]
        return {line.message for text in lines if isinstance(line := decode_line(text), Violation)}


def _go_on(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.Error):
        process.send_signal(signal.SIGCONT)


def one_run(seeds: Sequence[int], every: int = EVERY_QUICK, *, kept: bool = False, verifiers: int = 1) -> Run:
    with new_folder() as folder:
        campaign = Campaign(folder, seeds, verifiers, every)
        try:
            done = campaign.carry_out()
        except BaseException:
            print(f"seeds {seeds}: {campaign.run.rounds}", flush=True)
            raise
        if kept and not done.is_right:
            kept_folder = Path(tempfile.gettempdir()) / f"campaign-{seeds[0]}"
            shutil.copytree(folder, kept_folder, ignore=shutil.ignore_patterns("*.s.*"))
        return done


def run_rounds(
    seeds: Sequence[int],
    *,
    together: int = 1,
    at_once: int = 2,
    kept: bool = False,
    verifiers: int = 1,
    rates: Sequence[int] = (EVERY_QUICK,),
) -> list[Run]:
    """Carry out rounds, so many in one run and so many runs side by side, and tell how each went.

    The runs take turns in how many messages are dropped.
    """
    groups = [seeds[first : first + together] for first in range(0, len(seeds), together)]
    with ThreadPoolExecutor(at_once) as pool:
        runs = []
        every = itertools.cycle(rates)
        for done in pool.map(partial(one_run, kept=kept, verifiers=verifiers), groups, every):
            print(done.told(), flush=True)
            runs.append(done)
    return runs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--together", type=int, default=1, help="rounds that share one run")
    parser.add_argument("--at-once", type=int, default=2, help="runs side by side")
    parser.add_argument("--verifiers", type=int, default=1, help="verifiers that share a run, one of them is killed")
    parser.add_argument("--every", type=int, default=EVERY, help="drop one message of so many in every second run")
    parser.add_argument("--keep", action="store_true", help="keep the folders of rounds that went wrong in /tmp")
    arguments = parser.parse_args()
    seeds = [arguments.seed + number for number in range(arguments.rounds)]
    runs = run_rounds(
        seeds,
        together=arguments.together,
        at_once=arguments.at_once,
        kept=arguments.keep,
        verifiers=arguments.verifiers,
        rates=(arguments.every, 0),
    )
    wrong = [one for one in runs if not one.is_right]
    print(f"{len(seeds)} rounds in {len(runs)} runs, {len(wrong)} of them wrong", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
