"""A Locust process with the load of soak."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import redis

from soak import join
from soak.checker.contract import Contract
from soak.ledger.connection import keys_of
from soak.ledger.records import Batch, decode_batch
from soak.ledger.run import create_run
from tests.support.paths import ROOT
from tests.support.run_headers import header_of

LOCUSTFILE = ROOT / "locustfiles" / "sessions.py"
WAIT_SECONDS_MAX = 60.0


class Run:
    """A run that Locust can join, without a daemon: this test process stands in for it."""

    def __init__(self, folder: Path, redis_url: str, ledger_url: str, store: str = "redis-list") -> None:
        self.folder = folder
        self.name = uuid.uuid4().hex[:12]
        self._ledger_url = ledger_url
        self.farewells = 0
        self._started: list[subprocess.Popen[str]] = []
        header = header_of({store: Contract()}, self.name, seed=3, started_wall_seconds=time.time())
        asyncio.run(create_run(ledger_url, header))
        info = join.JoinInfo(
            header=header,
            ledger_url=ledger_url,
            servers={"redis": redis_url},
            timeout_seconds=5.0,
            connections_max=4,
            ttl_seconds=None,
            http_address="",
        )
        join.publish(folder, info.announced_by(os.getpid()))

    def locust(self, *options: str, **environment: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--data-dir", str(self.folder), *options]
        process = subprocess.Popen(
            [*command, "--think-time", "50ms", "--session-messages", "6", "--only-summary"],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{self.folder}"} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._started.append(process)
        return process

    def record(self) -> Batch:
        """Give all that was recorded so far in one batch, and count the goodbyes."""
        whole = Batch()
        self.farewells = 0
        self.talking: set[bytes] = set()
        with redis.Redis.from_url(self._ledger_url) as ledger:
            for _, fields in ledger.xrange(keys_of(self.name).batches):
                batch = decode_batch(fields[b"b"], int(fields[b"c"]))
                whole.opens.extend(batch.opens)
                self.talking |= {fields[b"w"]} if batch.opens else set()
                whole.attempts.extend(batch.attempts)
                whole.closes.extend(batch.closes)
                self.farewells += batch.farewell
        return whole

    def wait_for_attempts(self, count: int, *, workers: int = 1) -> None:
        def enough() -> bool:
            return len(self.record().attempts) >= count and len(self.talking) >= workers

        wait_until(enough)

    def assert_drained(self, *, workers: int) -> None:
        """Everything that was begun is closed, and every worker said goodbye."""
        record = self.record()
        assert len(record.attempts) > 10
        assert len(record.closes) == len(record.opens)
        assert self.farewells == workers

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])
