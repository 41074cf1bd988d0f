"""Testbeds to break, clients that do not retry, and the ledger's word on what was done."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from soak.ledger.connection import keys_of
from soak.ledger.reader import START, LedgerReader, RunRecord
from soak.ledger.records import FaultPhase
from soak.ledger.run import RunJournal, create_run
from soak.servers.local import LocalServers
from soak.servers.server import Server
from soak.servers.servers import Servers
from tests.support.run_headers import header_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

PATIENCE_SECONDS = 60.0
AnyServers = TypeVar("AnyServers", bound=Servers)


@contextlib.asynccontextmanager
async def serving(servers: AnyServers, *kinds: str) -> AsyncIterator[AnyServers]:
    """Run these servers for as long as the block lasts."""
    try:
        await servers.start(kinds)
        yield servers
    finally:
        await servers.stop()


def started(folder: Path, *kinds: str, **options: object) -> AbstractAsyncContextManager[LocalServers]:
    """Run local servers for as long as the block lasts."""
    return serving(LocalServers(folder, **options), *kinds)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def running(folder: Path, *kinds: str, **options: object) -> AsyncIterator[LocalServers]:
    """Run servers; nobody may find that one died by itself, for all deaths here are planned."""
    events: list[object] = []
    async with started(folder, *kinds, on_event=events.append, **options) as testbed:
        yield testbed
        assert events == []


class Journalled:
    """A run in the ledger: its journal, and what was written there."""

    def __init__(self, ledger_url: str, journal: RunJournal, run: str) -> None:
        self.journal = journal
        self._ledger_url = ledger_url
        self._run = run

    async def phases(self, *wanted: str) -> list[FaultPhase]:
        """Return what was said of faults: their beginnings and ends, or these phases."""
        reader = await LedgerReader.connect(self._ledger_url, self._run)
        try:
            entries = await reader.read(START, block_seconds=0.01)
        finally:
            await reader.close()
        records = [entry.record for entry in entries if isinstance(entry, RunRecord)]
        phases = [record for record in records if isinstance(record, FaultPhase)]
        return [record for record in phases if record.phase in (wanted or ("start", "end"))]


@contextlib.asynccontextmanager
async def journalled(ledger_url: str) -> AsyncIterator[Journalled]:
    """Begin a run in the ledger, and remove it afterwards."""
    run = uuid.uuid4().hex[:8]
    header = header_of({}, run, seed=5, started_wall_seconds=time.time())
    await create_run(ledger_url, header)
    journal = await RunJournal.connect(ledger_url, run)
    try:
        yield Journalled(ledger_url, journal, run)
    finally:
        await journal.close()
        async with client_of(ledger_url) as client:
            await client.delete(*keys_of(run))


def client_of(url: str, timeout_seconds: float = PATIENCE_SECONDS) -> Any:
    """Give a client of Redis. Its annotations are those of both clients, plain and async, and so help nobody."""
    return redis.asyncio.Redis.from_url(
        url, socket_timeout=timeout_seconds, decode_responses=True, retry=Retry(NoBackoff(), 0)
    )


async def sql(url: str, query: str) -> object:
    connection = await asyncpg.connect(url, timeout=PATIENCE_SECONDS)
    try:
        return await connection.fetchval(query, timeout=PATIENCE_SECONDS)
    finally:
        connection.terminate()


async def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.02)


async def put(server: Server) -> None:
    """Write something that `has` finds again."""
    if server.name == "redis":
        async with client_of(server.url) as client:
            await client.set("kept", "yes")
    else:
        await sql(server.url, "create table kept as select 'yes' as value")


async def has(server: Server) -> bool:
    if server.name == "redis":
        async with client_of(server.url) as client:
            return bool(await client.exists("kept"))
    return bool(await sql(server.url, "select to_regclass('kept') is not null"))
