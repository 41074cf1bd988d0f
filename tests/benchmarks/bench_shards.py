"""Verifiers in shards, each alone and one after the other, fed from a recorded ledger: CPU per message, and memory.

Run with `python -m tests.benchmarks.bench_shards`. The same load is recorded for one, two and four shards. Each
verifier is a process that takes in its stream, reads everything back, judges it and gives its verdict. What a verifier
of an empty run costs, most of it imports, is measured first and subtracted. Only CPU time counts: with a core for each,
the slowest shard is how long the whole takes.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import NamedTuple

import uvloop
from redis.asyncio import Redis

from soak.checker.contract import Contract
from soak.checker.outcome import Outcome
from soak.checker.text import MessageGenerator
from soak.clock import now_us
from soak.errors import ExitCode
from soak.ledger.connection import keys_of
from soak.ledger.records import FORMAT_VERSION, EndOfLoad, RunHeader
from soak.ledger.run import RunJournal, create_run
from soak.ledger.shards import share
from soak.ledger.writer import LedgerWriter
from soak.servers.local import LocalServers
from soak.settings import LedgerSettings
from soak.stores import registry
from soak.stores.protocol import StoreContext
from tests.support.benchmark_report import machine

STORE = "redis-list"
WORKERS, SESSIONS, PER_SESSION = 8, 60, 250
SHARDS = (1, 2, 4)


class Used(NamedTuple):
    """What one verifier used."""

    cpu_seconds: float
    resident_mb: float


async def record(redis_url: str, ledger_url: str, shards: int, sessions: int) -> tuple[RunHeader, int]:
    """Write a run and its ledger; returns it, and how many bytes its streams have."""
    run = "r" + uuid.uuid4().hex[:8]
    header = RunHeader(
        version=FORMAT_VERSION,
        run=run,
        seed=5,
        namespace=f"soak_{run}",
        stores=[STORE],
        contracts={STORE: Contract(crash_loss_seconds=2.0, power_loss_seconds=2.0)},
        started_wall_seconds=time.time(),
    )
    await create_run(ledger_url, header)
    await share(ledger_url, run, shards)
    store = await registry.open_store(STORE, StoreContext(servers={"redis": redis_url}, namespace=header.namespace))
    author, redis, ledger = MessageGenerator(run, header.seed), Redis.from_url(redis_url), Redis.from_url(ledger_url)
    # All at once, as workers are: each is dealt to the verifier that has the fewest.
    writers = [await LedgerWriter.connect(ledger_url, LedgerSettings()) for _ in range(WORKERS)]
    for worker, writer in enumerate(writers):
        for session in (f"s{worker}-{number}" for number in range(sessions)):
            number = await writer.open_session(session, STORE, 1)
            await writer.lease(number, 0, PER_SESSION)
            messages = [author.write(session, 0, seq).to_bytes() for seq in range(1, PER_SESSION + 1)]
            sent = now_us()
            await redis.rpush(store.key(session), *messages)  # type: ignore[attr-defined]
            for seq in range(1, PER_SESSION + 1):
                writer.attempted(number, 0, seq, Outcome.OK, sent + 2 * seq, sent + 2 * seq + 1)
            writer.close_session(number)
    for writer in writers:
        await writer.close()
    journal = await RunJournal.connect(ledger_url, run)
    await journal.end_of_load(EndOfLoad(at=now_us(), reason="recorded"))
    await journal.close()
    bytes_used = [await ledger.memory_usage(keys_of(run, shard + 1).batches, samples=0) for shard in range(shards)]
    await redis.aclose()
    await ledger.aclose()
    await store.close()
    return header, sum(filter(None, bytes_used))


def verify(redis_url: str, ledger_url: str, header: RunHeader, shard: int, of: int) -> Used:
    """Run one verifier to its end."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SOAK_")}
    servers = {"SOAK_SERVERS__REDIS": redis_url, "SOAK_LEDGER__URL": ledger_url, "SOAK_VERIFIER__CANARY": "0s"}
    # All of it is read at once, and nothing waits for a verifier that comes later.
    pace = {"SOAK_VERIFIER__MESSAGES_PER_SECOND": "100000000", "SOAK_VERIFIER__UNVERIFIED_AGE_MAX": "1h"}
    with tempfile.TemporaryDirectory() as folder:
        words = ["--data-dir", folder, "--run", header.run, "--port", "0", "--shard", f"{shard}/{of}"]
        process = subprocess.Popen(
            [sys.executable, "-m", "soak", "verify", *words], env={**plain, **servers, **pace}, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        said = process.stdout.read().decode()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
    assert process.returncode in (ExitCode.PASS, ExitCode.INCONCLUSIVE), said  # an empty run proves nothing
    return Used(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        testbed = LocalServers(Path(folder))
        urls = await testbed.start(["redis", "ledger"])
        try:
            redis_url, ledger_url = urls["redis"], urls["ledger"]
            empty, _ = await record(redis_url, ledger_url, 1, 0)
            starts = [await asyncio.to_thread(verify, redis_url, ledger_url, empty, 1, 1) for _ in range(2)]
            start = min(one.cpu_seconds for one in starts)
            messages = WORKERS * SESSIONS * PER_SESSION
            print(f"\nverifiers in shards: {messages:,} messages of {WORKERS} workers ({machine()})")
            print(f"an empty run costs {start:.2f} s of CPU, which is subtracted; as docs/deploy.md shows it:\n")
            print("| shards | CPU per message | messages/s with a core each | memory of one, at most |")
            print("|---|---|---|---|")
            alone = 0.0
            for of in SHARDS:
                header, ledger_bytes = await record(redis_url, ledger_url, of, SESSIONS)
                # The first waits for the others, so it comes last.
                order = [*range(2, of + 1), 1]
                used = [await asyncio.to_thread(verify, redis_url, ledger_url, header, one, of) for one in order]
                cpu = [one.cpu_seconds - start for one in used]
                alone = alone or sum(cpu)
                times = f" ({alone / max(cpu):.2f} ×)" if of > 1 else ""  # noqa: RUF001  as the page has it
                print(
                    f"| {of} | {1e6 * sum(cpu) / messages:.1f} µs | {messages / max(cpu):,.0f}{times} "
                    f"| {max(one.resident_mb for one in used):.0f} MB |",
                    flush=True,
                )
            print(f"\nThe ledger took {ledger_bytes / messages:.1f} bytes per message.")
        finally:
            await testbed.stop()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
