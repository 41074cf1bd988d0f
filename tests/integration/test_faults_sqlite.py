"""Faults of a SQLite file: another process holds its lock, and a process that writes to it is killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from soak.checker.outcome import NotApplied
from soak.checker.text import MessageGenerator
from soak.errors import ServerUnreachableError, UsageError
from soak.faults import ALL
from soak.stores.protocol import StoreContext
from soak.stores.registry import open_store
from tests.support.paths import ROOT
from tests.support.servers.breaking import running, until

if TYPE_CHECKING:
    from pathlib import Path

AUTHOR = MessageGenerator("run-1", 7)
WRITER = """
import asyncio, sys
from soak.checker.text import MessageGenerator
from soak.stores.protocol import StoreContext
from soak.stores.registry import open_store

async def write(url, session):
    store = await open_store("sqlite", StoreContext(servers={"sqlite": url}, namespace="t"))
    author = MessageGenerator("run-1", 7)
    for seq in range(1, 1_000_000):
        await store.append(session, author.write(session, 0, seq))
        print(seq, flush=True)

asyncio.run(write(*sys.argv[1:3]))
"""


def _writer(url: str, session: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, url, session, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


async def test_while_the_lock_is_held_elsewhere_writes_fail_for_certain_and_reads_go_on(tmp_path: Path) -> None:
    async with running(tmp_path, "sqlite") as testbed:
        url = testbed.nodes["sqlite"].url
        context = StoreContext(servers={"sqlite": url}, namespace="t", timeout_seconds=1.0)
        store: Any = await open_store("sqlite", context)
        await store.append("s", AUTHOR.write("s", 0, 1))
        fault = ALL["sqlite_lock"]
        assert fault.unavailable(testbed, "sqlite") is None
        await fault.inject(testbed, "sqlite")
        await fault.inject(testbed, "sqlite")  # a second time it changes nothing
        with pytest.raises(NotApplied, match="database is locked"):
            await store.append("s", AUTHOR.write("s", 0, 2))
        assert len(await store.history("s")) == 1
        await fault.heal(testbed, "sqlite")
        await fault.heal(testbed, "sqlite")
        await store.append("s", AUTHOR.write("s", 0, 3))
        assert [one.seq for one in await store.history("s")] == [1, 3]
        await store.close()


async def test_one_writer_is_killed_and_the_others_go_on_with_all_it_had_acknowledged(tmp_path: Path) -> None:
    async with running(tmp_path, "sqlite") as testbed:
        url = testbed.nodes["sqlite"].url
        fault = ALL["writer_crash"]
        with pytest.raises(ServerUnreachableError, match="no process of the load"):
            await fault.inject(testbed, "sqlite")
        writers = [_writer(url, session) for session in ("a", "b")]
        verifier = _writer(url, "canary", "verify")
        try:
            for writer in (*writers, verifier):
                assert writer.stdout is not None
                assert await asyncio.to_thread(writer.stdout.readline)  # it has written once
            await fault.inject(testbed, "sqlite")
            await until(lambda: any(writer.poll() is not None for writer in writers))
            (victim,) = (writer for writer in writers if writer.poll() is not None)
            (other,) = (writer for writer in writers if writer is not victim)
            assert victim.returncode == -9
            assert verifier.poll() is None, "it is no part of the load"
            assert victim.stdout is not None
            acknowledged = 1 + len(victim.stdout.read().splitlines())
            assert other.stdout is not None
            for _ in range(5):
                assert await asyncio.to_thread(other.stdout.readline)  # and goes on
        finally:
            for writer in (*writers, verifier):
                writer.kill()
                writer.wait()
                if writer.stdout is not None:
                    writer.stdout.close()
        store: Any = await open_store("sqlite", StoreContext(servers={"sqlite": url}, namespace="t"))
        kept = await store.history("ab"[writers.index(victim)])
        # What was committed and not yet reported is one at most: each is reported before the next is sent.
        assert acknowledged <= len(kept) <= acknowledged + 1
        await fault.heal(testbed, "sqlite")
        await store.close()


async def test_a_file_is_no_process_that_could_be_killed(tmp_path: Path) -> None:
    async with running(tmp_path, "sqlite", proxied=True, power_cuts=True) as testbed:
        server = testbed.nodes["sqlite"]
        assert server.proxy is None
        assert server.configuration == {"journal_mode": "wal", "synchronous": "full"}
        for name in ("crash", "pause", "power_cut", "partition", "wiped_volume"):
            assert "not to sqlite" in (ALL[name].unavailable(testbed, "sqlite") or "")
        with pytest.raises(UsageError, match="no process serves it"):
            await server.kill()
