"""A ledger on a Redis Cluster: all its keys are in one slot, and it is followed wherever that slot goes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from redis.crc import key_slot

from soak.errors import ServerUnreachableError, UsageError
from soak.hosts import each_host, parse_cluster
from soak.ledger.connection import PREFIX, check_ledger_is_apart
from soak.ledger.reader import START, Entry, LedgerReader, RunRecord, WorkerBatch
from soak.ledger.records import EndOfLoad
from soak.ledger.run import RunJournal, create_run
from soak.ledger.shards import deal, share
from soak.ledger.writer import LedgerWriter
from soak.redis_slot import primary_of
from soak.servers.kinds import RedisTopology
from soak.servers.redis_cluster import ClusterGroup
from soak.settings import LedgerSettings
from tests.integration.test_ledger_writer import header
from tests.support.servers.breaking import running, started

if TYPE_CHECKING:
    from pathlib import Path

RUN = "r1"
SLOT = key_slot(PREFIX.encode())


async def until_there(reader: LedgerReader, wanted: int) -> list[Entry]:
    """Read from the beginning until so many records are there, over failovers."""
    entries: list[Entry] = []
    async with asyncio.timeout(60):
        while len(entries) < wanted:
            try:
                entries = await reader.read(START, block_seconds=0.05)
            except ServerUnreachableError:
                await asyncio.sleep(0.1)
    return entries


@pytest.mark.long
async def test_shards_share_a_run_and_its_records_outlive_a_failover(tmp_path: Path) -> None:
    async with started(tmp_path, "redis", redis_topology=RedisTopology.CLUSTER) as servers:
        group = servers.nodes["redis"]
        assert isinstance(group, ClusterGroup)
        url = group.url
        await create_run(url, header(RUN))
        await share(url, RUN, 2)
        assert {str(await deal(url, RUN, worker)) for worker in ("w1", "w2")} == {"1/2", "2/2"}
        writers = [await LedgerWriter.connect(url, LedgerSettings()) for _ in range(2)]
        readers = [await LedgerReader.connect(url, RUN, shard=shard) for shard in (1, 2)]
        journal = await RunJournal.connect(url)
        for number, writer in enumerate(writers):
            assert await writer.open_session(f"s{number}", "redis-list", 1) == 1
        for reader in readers:
            assert {type(entry) for entry in await until_there(reader, 1)} == {WorkerBatch}
        lives = [(await reader.extent()).life for reader in readers]
        has_slot = await primary_of(parse_cluster(url), SLOT, timeout_seconds=5)
        await group.hand_over(group.node_at(has_slot.port or 0))
        for writer in writers:
            assert await writer.open_session("after", "redis-list", 1) == 2
        await _until_written(journal)
        for number, reader in enumerate(readers):
            entries = await until_there(reader, 3)
            assert [type(entry) for entry in entries if not isinstance(entry, WorkerBatch)] == [RunRecord]
            opened = [one for entry in entries if isinstance(entry, WorkerBatch) for one in entry.batch.opens]
            assert [one.session for one in opened] == [f"s{number}", "after"]
            extent = await reader.extent()
            assert extent.life not in ("", lives[number]), "another server has the slot"
            assert not extent.is_kept
        for close in (journal.close, *(one.close for one in writers), *(one.close for one in readers)):
            await close()


async def _until_written(journal: RunJournal) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await journal.end_of_load(EndOfLoad(at=1, reason="the test is over"))
            except ServerUnreachableError:
                await asyncio.sleep(0.1)
            else:
                return


@pytest.mark.long
async def test_a_cluster_under_test_holds_no_ledger_whichever_nodes_are_named(tmp_path: Path) -> None:
    async with running(tmp_path, "redis", redis_topology=RedisTopology.CLUSTER) as servers:
        whole = servers.nodes["redis"].url
        plain = [
            address.replace("redis://", "redis+cluster://", 1) for address in each_host(whole.replace("+cluster", ""))
        ]
        with pytest.raises(UsageError, match="lead to one cluster"):
            await check_ledger_is_apart(plain[0], {"redis": plain[-1]})
