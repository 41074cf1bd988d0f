"""Many quiet sessions in one Locust process: memory per session, share of a core, and how late turns begin.

Run it: `python -m tests.benchmarks.bench_sessions [sessions]`. The same file is the locustfile of the process that
it measures.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.benchmark_report import Neighbours, machine
from tests.support.paths import ROOT

SESSIONS = 20_000
THINK_SECONDS = 10.0
SPAWN_PER_SECOND = 1_500
SETTLE_SECONDS = 12.0
MEASURED_SECONDS = 20.0
ROUNDS_MAX = 3
BUSY_CORES_MAX = 0.3
"""Others on the machine that use more than this make turns late; then it is measured again."""

IS_LOCUSTFILE = "BENCH_SESSIONS_RESULT" in os.environ

if IS_LOCUSTFILE:
    import gevent
    import psutil
    from locust import events

    from soak.load import locust_user
    from soak.load.locust_events import register
    from soak.load.participant import Participant
    from soak.load.reading import Performed

    register(events)

    delays: list[float] = []

    class PunctualParticipant(Participant):
        """Notes how much later than planned its turn begins on the loop."""

        planned = 0.0

        async def turn(self) -> list[Performed]:
            if self.planned:
                delays.append(time.monotonic() - self.planned)
            return await super().turn()

    class ChatUser(locust_user.ChatUser):
        """A user that notes when its next turn is due."""

        def __init__(self, environment: Any) -> None:
            super().__init__(environment)
            assert self._load is not None
            self._participant = self._punctual = PunctualParticipant(self._load._pool)

        def wait_time(self) -> float:
            pause = super().wait_time()
            self._punctual.planned = time.monotonic() + pause
            return pause

    @events.test_start.add_listener  # type: ignore[untyped-decorator]
    def _on_start(environment: Any, **_details: object) -> None:
        process = psutil.Process()
        target = int(os.environ["BENCH_SESSIONS"])

        def run() -> None:
            empty = process.memory_info().rss
            while environment.runner.user_count < target:
                gevent.sleep(0.5)
            gevent.sleep(SETTLE_SECONDS)
            delays.clear()
            neighbours = Neighbours()
            cpu, clock, done = time.process_time(), time.perf_counter(), environment.stats.total.num_requests
            gevent.sleep(MEASURED_SECONDS)
            cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
            late = sorted(delays)
            result = {
                "sessions": environment.runner.user_count,
                "kilobytes": (process.memory_info().rss - empty) / 1024 / target,
                "core": cpu / clock,
                "neighbours": neighbours.cores(clock, cpu),
                "turns": len(late) / clock,
                "p50": late[len(late) // 2] * 1e3,
                "p99": late[len(late) * 99 // 100] * 1e3,
                "worst": late[-1] * 1e3,
                "operations": (environment.stats.total.num_requests - done) / clock,
                "failures": environment.stats.total.num_failures,
            }
            Path(os.environ["BENCH_SESSIONS_RESULT"]).write_text(json.dumps(result))
            os._exit(0)  # what is measured is measured: twenty thousand goodbyes are not part of it

        gevent.spawn(run)


async def main(sessions: int) -> None:
    for round_number in range(1, ROUNDS_MAX + 1):
        result = await measure(sessions)
        show(result)
        if result["neighbours"] <= BUSY_CORES_MAX:
            return
        print(f"round {round_number} of {ROUNDS_MAX}: the machine was busy, so the delays say little ({machine()})")


async def measure(sessions: int) -> dict[str, float]:
    from tests.benchmarks.bench_load import publish_run, running_servers  # noqa: PLC0415  not in the process that is measured

    with tempfile.TemporaryDirectory(prefix="soak-bench-") as name:
        folder = Path(name)
        async with running_servers("redis") as urls:
            await publish_run(folder, urls, "redis-list")
            process = await asyncio.create_subprocess_exec(
                *[
                    sys.executable,
                    "-m",
                    "locust",
                    "-f",
                    __file__,
                    "--headless",
                    "--only-summary",
                    "--loglevel",
                    "ERROR",
                ],
                *["-u", str(sessions), "-r", str(SPAWN_PER_SECOND), "--data-dir", name],
                *["--think-time", f"{THINK_SECONDS}s", "--shared-share", "0"],
                env=os.environ
                | {
                    "BENCH_SESSIONS": str(sessions),
                    "BENCH_SESSIONS_RESULT": str(folder / "result.json"),
                    "PYTHONPATH": str(ROOT),
                },
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            output, _ = await process.communicate()
        if not (folder / "result.json").exists():
            raise SystemExit(output.decode())
        result: dict[str, float] = json.loads((folder / "result.json").read_text())
    return result


def show(result: dict[str, float]) -> None:
    print(f"{'quiet sessions in one Locust process':<44} {'measured':>10}  target")
    print(f"{'sessions':<44} {result['sessions']:>10.0f}  20000")
    print(f"{'turns per second':<44} {result['turns']:>10.0f}")
    print(f"{'operations per second':<44} {result['operations']:>10.0f}")
    print(f"{'failures':<44} {result['failures']:>10.0f}")
    print(f"{'memory per session, KB':<44} {result['kilobytes']:>10.1f}  at most 12")
    print(f"{'share of a core':<44} {result['core']:>10.0%}  at most 35%")
    print(f"{'cores that others used, the Redis among them':<44} {result['neighbours']:>10.2f}")
    print(f"{'added delay, median, ms':<44} {result['p50']:>10.2f}")
    print(f"{'added delay, p99, ms':<44} {result['p99']:>10.2f}  under 10")
    print(f"{'added delay, worst, ms':<44} {result['worst']:>10.2f}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS))
