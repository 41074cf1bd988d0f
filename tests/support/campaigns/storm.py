"""The storm: correct memories under everything that may happen to them, and a verifier that must not accuse any.

    python -m tests.support.campaigns.storm --minutes 10 --store redis-list --seed 7

Servers crash, stop, stand still, lose their network or the replies to writes; a replica lags, and is promoted; the
ledger, the verifier and the load are killed; load processes are held up, so that acknowledgements come in another
order; clocks jump. What happens, and in which order, follows from the seed. It ends with exit code 0 if the verdict is
a pass and nothing is unverifiable.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from soak import join
from soak.errors import ExitCode, SoakError
from soak.faults.connection_refused import ConnectionRefused
from soak.faults.crash import Crash
from soak.faults.dropped_reply import DroppedReply
from soak.faults.failover import Failover
from soak.faults.fault import Fault
from soak.faults.pause import Pause
from soak.faults.replica_lag import ReplicaLag
from soak.faults.restart import Restart
from soak.faults.window import during
from soak.join import JoinInfo
from soak.ledger.records import FORMAT_VERSION, EndOfLoad, RunHeader
from soak.ledger.run import RunJournal, create_run
from soak.servers.local import LocalServers
from soak.stores import registry
from soak.stores.protocol import StoreContext
from tests.support.campaigns import storm_load
from tests.support.command import plain_environment

BUILT_IN = ("redis-list", "redis-stream", "redis-zset", "redis-hash", "postgres", "postgres-replica")
LETTING_GO = ("tests.support.stores.storm:LastFew", "tests.support.stores.storm:ShortLived")
TIMEOUT_SECONDS = 1.0
VERIFIER_SETTINGS = {
    "SETTLE": "1s", "HOT_INTERVAL": "300ms", "COVERAGE": "5s", "CHECKPOINT": "500ms", "DRAIN": "90s",
    "RECALL_AGES": '["2s", "15s"]', "UNVERIFIED_AGE_MAX": "60s",
}  # fmt: skip
VERDICT_SECONDS_MAX = 180.0
DRAIN_SECONDS_MAX = 60.0
HEAL_TRIES_MAX = 60

LOADS = (
    ("--users", "20", "--mix", "chat"),
    ("--users", "16", "--mix", "hard", "--writers", "16", "--shared", "1", "--other-host"),
    ("--users", "10", "--mix", "long", "--think", "0.4", "--shared", "0.2"),
)
"""Three load processes: an ordinary one; one on another host, with sixteen writers; one of long messages."""


@dataclass
class Storm:
    """What is asked for, and what has happened."""

    stores: tuple[str, ...]
    seed: int
    seconds: float
    calm: float = 2.0
    """Mean pause between two faults of one server."""
    happened: Counter[str] = field(default_factory=Counter)
    verdict: dict[str, Any] = field(default_factory=dict)
    evidence: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_silent(self) -> bool:
        totals = self.verdict["totals"]
        return self.verdict["verdict"] == "pass" and not totals["violations"] and not totals["unverifiable"]

    def told(self) -> str:
        totals = self.verdict.get("totals", {})
        counts = {
            key: totals.get(key) for key in ("acknowledged", "verified", "violations", "tolerated", "unverifiable")
        }
        return (
            f"seed {self.seed}, {self.seconds:.0f} s, {', '.join(self.stores)}: {self.verdict.get('verdict')} "
            f"{self.verdict.get('reasons')} {counts} unknown={totals.get('attempts', {}).get('unknown')} "
            f"{self.verdict.get('violations_by')} after {dict(sorted(self.happened.items()))}"
        )


class Child:
    """A process that is started again whenever the storm takes it."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self._command = command
        self._environment = environment
        self._log = log
        self.process = self._spawn()

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(self._command, env=self._environment, stdout=log, stderr=log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def start_again(self) -> None:
        self.process = self._spawn()

    def look_after(self) -> None:
        """Start it again if it could not reach a server when it began; nothing else may end it."""
        code = self.process.poll()
        if code == ExitCode.UNREACHABLE:
            self.start_again()
        elif code is not None:
            raise AssertionError(f"{self._command} ended by itself with {code}: {self._log.read_text()[-3000:]}")

    async def end(self, seconds: float) -> int:
        """Ask it to end, and wait for it."""
        self.process.send_signal(signal.SIGTERM)
        return await self.ended(seconds)

    async def ended(self, seconds: float) -> int:
        deadline = time.monotonic() + seconds
        while (code := self.process.poll()) is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"{self._command} does not end: {self._log.read_text()[-3000:]}")
            await asyncio.sleep(0.05)
        return code


def environment() -> dict[str, str]:
    told = {f"SOAK_VERIFIER__{name}": value for name, value in VERIFIER_SETTINGS.items()}
    return plain_environment(**told, SOAK_LOG__LEVEL="info")


async def blow(storm: Storm, folder: Path) -> None:
    """Run the storm in a folder, to its verdict."""
    needs = {kind for store in storm.stores for kind in registry.find(store).needs}
    servers = LocalServers(folder, proxied=True)
    children: list[Child] = []
    try:
        urls = await servers.start(["ledger", *needs])
        info = join_info(storm, urls)
        await create_run(info.ledger_url, info.header)
        join.publish(folder, info)
        journal = await RunJournal.connect(info.ledger_url, info.header.run)
        verifier_command = [sys.executable, "-m", "soak", "verify", "--data-dir", str(folder), "--supervised"]
        verifier = Child(verifier_command, environment(), folder / "verifier.log")
        load = [
            sys.executable,
            "-m",
            storm_load.__name__,
            "--data-dir",
            str(folder),
            "--seed",
            str(storm.seed),
        ]
        loads = [
            Child([*load, "--number", str(n), *words], environment(), folder / f"load-{n}.log")
            for n, words in enumerate(LOADS)
        ]
        children += [verifier, *loads]
        await asyncio.sleep(2.0)
        weather = Weather(storm, servers, journal, verifier, loads)
        await weather.rage(sorted(needs))
        for child in loads:
            code = await child.end(DRAIN_SECONDS_MAX)
            # One that was just started again may not listen yet; it has then written nothing.
            assert code in (0, -signal.SIGTERM), (folder / f"load-{loads.index(child)}.log").read_text()[-3000:]
        await journal.end_of_load(EndOfLoad(at=time.monotonic_ns() // 1000, reason="the storm is over"))
        await journal.close()
        while (code := await verifier.ended(VERDICT_SECONDS_MAX)) == ExitCode.UNREACHABLE:
            verifier.start_again()
        assert code in (ExitCode.PASS, ExitCode.VIOLATION, ExitCode.INCONCLUSIVE), (folder / "verifier.log").read_text()
        storm.verdict = json.loads((folder / "verifier" / "result.json").read_bytes())
        storm.evidence = [json.loads(path.read_bytes()) for path in (folder / "verifier" / "evidence").glob("*.json")]
    finally:
        for child in children:
            child.kill()
        await servers.stop()


def join_info(storm: Storm, urls: dict[str, str]) -> JoinInfo:
    servers = {kind: url for kind, url in urls.items() if kind != "ledger"}
    run = "r" + secrets.token_hex(4)
    context = StoreContext(servers=servers, namespace=f"storm_{run}", timeout_seconds=TIMEOUT_SECONDS)
    header = RunHeader(
        version=FORMAT_VERSION,
        run=run,
        seed=storm.seed,
        namespace=context.namespace,
        stores=list(storm.stores),
        contracts={store: registry.find(store).contract_for(context) for store in storm.stores},
        started_wall_seconds=time.time(),
        recall_seconds=10.0,
    )
    info = JoinInfo(
        header=header,
        ledger_url=urls["ledger"],
        servers=servers,
        timeout_seconds=TIMEOUT_SECONDS,
        connections_max=16,
        ttl_seconds=None,
        http_address="",
    )
    return info.announced_by(os.getpid())


class Weather:
    """Lets things happen: one line of faults per server, one of kills."""

    def __init__(
        self, storm: Storm, servers: LocalServers, journal: RunJournal, verifier: Child, loads: list[Child]
    ) -> None:
        self._storm = storm
        self._bed = servers
        self._journal = journal
        self._verifier = verifier
        self._loads = loads
        self._deadline = time.monotonic() + storm.seconds
        self._postgres = asyncio.Lock()

    @property
    def _is_over(self) -> bool:
        return time.monotonic() >= self._deadline

    async def rage(self, targets: list[str]) -> None:
        async with asyncio.TaskGroup() as lines:
            for target in targets:
                lines.create_task(self._break(target))
            lines.create_task(self._kill_and_hold())

    def _source(self, line: str) -> random.Random:
        return random.Random(f"{self._storm.seed}/{line}")

    async def _pause(self, source: random.Random, factor: float = 1.0) -> None:
        wanted = min(source.expovariate(1.0 / (self._storm.calm * factor)), self._storm.calm * factor * 4)
        await asyncio.sleep(max(0.0, min(wanted, self._deadline - time.monotonic())))

    async def _break(self, target: str) -> None:
        source = self._source(target)
        # What a long pause does, and a short one does not: requests time out and are applied all the same.
        choices: list[tuple[Fault, float, float]] = [
            (Crash(), 0.0, 0.5), (Crash(), 0.0, 0.1), (Pause(), 0.1, 0.8), (Pause(), 1.2, 2.5),
            (ConnectionRefused(), 0.2, 1.5),
            (DroppedReply(share=1 / 5), 0.5, 2.0), (DroppedReply(share=1 / 40), 1.0, 3.0), (Restart(), 0.0, 0.3),
        ]  # fmt: skip
        if target == "postgres-replica":
            choices = [
                choices[2],
                choices[3],
                choices[4],
                choices[7],
                (ReplicaLag(), 0.2, 2.0),
                (ReplicaLag(), 0.1, 0.5),
            ]
        if target == "postgres" and "postgres-replica" in self._bed.nodes:
            choices.append((Failover(), 0.0, 0.3))
        while not self._is_over:
            fault, low, high = source.choice(choices)
            hold = source.uniform(low, high)
            # A replica that lags catches up from its primary, and one that is promoted takes its primary's place.
            async with self._postgres if target.startswith("postgres") else contextlib.nullcontext():
                await self._let_happen(fault, target, hold)
            self._storm.happened[f"{fault.name} {target}"] += 1
            await self._pause(source)

    async def _let_happen(self, fault: Fault, target: str, hold: float) -> None:
        try:
            await during(fault, self._bed, target, self._journal, hold)
        except SoakError:
            # On a machine that is busy with other things a server may take longer to answer than it is given.
            self._storm.happened[f"late {fault.name} {target}"] += 1
            for _ in range(HEAL_TRIES_MAX):
                with contextlib.suppress(SoakError):
                    await fault.heal(self._bed, target)
                    break
                await asyncio.sleep(1.0)
            # Its window was left open; the end of a later one on the same server closes it.
            await during(Pause(), self._bed, target, self._journal, 0.0)

    async def _kill_and_hold(self) -> None:
        source = self._source("processes")
        deeds = [self._kill_verifier, self._kill_load, self._hold_load, self._hold_load, self._kill_ledger]
        while not self._is_over:
            await self._pause(source, 2.0)
            for child in (self._verifier, *self._loads):
                child.look_after()
            deed = source.choice(deeds)
            await deed(source)
            self._storm.happened[deed.__name__.strip("_")] += 1

    async def _kill_verifier(self, source: random.Random) -> None:
        self._verifier.kill()
        await asyncio.sleep(source.uniform(0.0, 0.5))
        self._verifier.start_again()
        await asyncio.sleep(3.0)

    async def _kill_load(self, source: random.Random) -> None:
        load = source.choice(self._loads)
        load.kill()
        await asyncio.sleep(source.uniform(0.0, 0.5))
        load.start_again()
        await asyncio.sleep(1.0)

    async def _hold_load(self, source: random.Random) -> None:
        """Stop one load process for a while: its acknowledgements reach the ledger after the others'."""
        load = source.choice(self._loads)
        load.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(source.uniform(0.2, 3.0))
        finally:
            load.process.send_signal(signal.SIGCONT)

    async def _kill_ledger(self, source: random.Random) -> None:
        server = self._bed.nodes["ledger"]
        await server.kill()
        await asyncio.sleep(source.uniform(0.0, 1.0))
        await server.start_again()


@contextlib.asynccontextmanager
async def storm_folder(*, kept: bool = False) -> AsyncIterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="soak-storm-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


async def run(storm: Storm, *, kept: bool = False) -> Storm:
    async with storm_folder(kept=kept) as folder:
        if kept:
            print(f"data: {folder}", flush=True)
        await blow(storm, folder)
    return storm


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument(
        "--store", action="append", help="by name, or package.module:Class; several in one run are possible"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--keep", action="store_true", help="keep the data folder")
    arguments = parser.parse_args()
    stores = tuple(arguments.store or (*BUILT_IN, *LETTING_GO))
    storm = Storm(stores=stores, seed=arguments.seed, seconds=arguments.minutes * 60)
    print(f"seed {storm.seed}", flush=True)
    try:
        asyncio.run(run(storm, kept=arguments.keep))
    except (SoakError, AssertionError, ExceptionGroup) as error:
        print(storm.told(), *getattr(error, "exceptions", [error]), sep="\n")
        return 3
    print(storm.told())
    for story in storm.evidence[:20]:
        print(story["kind"], story["store"], story["message"], story["detail"], json.dumps(story.get("life")))
    return 0 if storm.is_silent else 1


if __name__ == "__main__":
    sys.exit(main())
