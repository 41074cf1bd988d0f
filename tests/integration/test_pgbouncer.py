"""A pgbouncer before PostgreSQL: stores work through it, outcomes stay true, and its end takes nothing."""

from __future__ import annotations

import asyncio
import os
import pwd
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncpg
import psutil
import pytest

from soak.checker.message import Message
from soak.checker.outcome import NotApplied
from soak.errors import UsageError
from soak.faults import ALL
from soak.hosts import with_login
from soak.servers import pgbouncer
from soak.servers.inspect import inspect
from soak.servers.kinds import PoolMode, PostgresTopology
from soak.servers.local import LocalServers
from soak.stores.postgres_pool import is_behind_pooler
from soak.stores.protocol import StoreContext
from soak.stores.registry import open_store
from soak.stores.speaking import Speaker
from tests.integration.test_servers import are_gone, start_parent
from tests.support.needs import missing
from tests.support.servers.breaking import running, sql, started, until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from soak.stores.protocol import MemoryStore

KINDS = ("postgres", "pgbouncer")
WRITERS = 8


@pytest.fixture(autouse=True)
def installed() -> None:
    try:
        pgbouncer.program()
    except UsageError as error:
        missing(error)


async def opened(addresses: Mapping[str, str], name: str = "postgres", timeout_seconds: float = 5.0) -> MemoryStore:
    servers = pgbouncer.through_pooler(addresses)
    return await open_store(name, StoreContext(servers=servers, namespace="t", timeout_seconds=timeout_seconds))


class Writing:
    """Several participants, each on a session of its own, that append and read until they are stopped."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._speaker = Speaker("run")
        self.acknowledged: set[tuple[int, int]] = set()
        self.refused: set[tuple[int, int]] = set()
        self.unknown: set[tuple[int, int]] = set()
        self._is_over = False
        self._tasks = [asyncio.create_task(self._write(number)) for number in range(WRITERS)]

    def _session(self, number: int) -> str:
        return self._speaker.session(f"session-{number}")

    async def _write(self, number: int) -> None:
        seq, session = 0, self._session(number)
        while not self._is_over:
            seq += 1
            try:
                await self._store.append(session, self._speaker.message(session, seq, f"number {seq}"))
                self.acknowledged.add((number, seq))
                await self._store.history(session, last=3)
            except NotApplied:
                self.refused.add((number, seq))
                await asyncio.sleep(0.05)
            except Exception:  # noqa: BLE001  whether it was applied is not known
                self.unknown.add((number, seq))
            await asyncio.sleep(0)

    async def more(self, count: int = 50) -> None:
        wanted = len(self.acknowledged) + count
        await until(lambda: len(self.acknowledged) >= wanted)

    async def end(self) -> None:
        """Stop, and see that everything is where its outcome says."""
        self._is_over = True
        await asyncio.gather(*self._tasks)
        found = {
            (number, one.seq)
            for number in range(WRITERS)
            for one in await self._store.history(self._session(number))
            if isinstance(one, Message)
        }
        assert self.acknowledged <= found, "acknowledged and lost"
        assert not found & (self.refused - self.acknowledged - self.unknown), "refused and applied"


@pytest.mark.parametrize("mode", [PoolMode.TRANSACTION, pytest.param(PoolMode.SESSION, marks=pytest.mark.long)])
async def test_stores_work_through_a_pooler_with_fewer_backends_than_clients(tmp_path: Path, mode: PoolMode) -> None:
    async with running(tmp_path, *KINDS, pool_mode=mode) as servers:
        addresses = {name: server.url for name, server in servers.nodes.items()}
        pooler = servers.nodes["pgbouncer"]
        if mode is PoolMode.TRANSACTION:
            pooler.options = {**pooler.options, "default_pool_size": "2"}
            await pooler.stop_cleanly()
            await pooler.start_again()
        connection = await asyncpg.connect(pooler.url, statement_cache_size=0)
        assert await is_behind_pooler(connection)
        connection.terminate()
        connection = await asyncpg.connect(addresses["postgres"], statement_cache_size=0)
        assert not await is_behind_pooler(connection)
        connection.terminate()
        for name in ("postgres", "pgvector"):
            store = await opened(addresses, name)
            writing = Writing(store)
            await writing.more(200)
            await store.forget("another session")
            await writing.end()
            assert (writing.refused, writing.unknown) == (set(), set())
            await store.close()
        # What is asked of the server is asked through it, too.
        sample = await inspect("postgres", pooler.url, timeout_seconds=5)
        assert sample.configuration["synchronous_commit"] == "on"
        assert psutil.Process(pooler.pid).username() == (
            "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        )


@pytest.mark.long
async def test_nothing_acknowledged_is_lost_and_nothing_refused_applied(tmp_path: Path) -> None:
    async with running(tmp_path, *KINDS) as servers:
        store = await opened({name: server.url for name, server in servers.nodes.items()}, timeout_seconds=10)
        writing = Writing(store)
        for fault, target in (("crash", "pgbouncer"), ("restart", "pgbouncer"), ("crash", "postgres")):
            await writing.more()
            assert ALL[fault].unavailable(servers, target) is None
            refused = len(writing.refused)
            await ALL[fault].inject(servers, target)
            # Also a pooler that has no server any more refuses before anything is executed: that is certain.
            await until(lambda refused=refused: len(writing.refused) > refused)  # type: ignore[misc]
            await ALL[fault].heal(servers, target)
        await writing.more()
        await writing.end()
        await store.close()


@pytest.mark.long
async def test_it_leads_to_the_new_primary_of_a_group(tmp_path: Path) -> None:
    async with running(tmp_path, *KINDS, postgres_topology=PostgresTopology.SYNC_STANDBY) as servers:
        store = await opened({name: server.url for name, server in servers.nodes.items()}, timeout_seconds=10)
        writing = Writing(store)
        await writing.more()
        crash = ALL["primary_crash"]
        assert crash.unavailable(servers, "postgres") is None
        await crash.inject(servers, "postgres")
        await writing.more()
        await crash.heal(servers, "postgres")
        await writing.more()
        await writing.end()
        await store.close()


@pytest.mark.long
async def test_it_stands_before_a_given_server_and_lets_others_in_by_their_logins(tmp_path: Path) -> None:
    async with running(tmp_path / "given", "postgres") as given:
        address = given.nodes["postgres"].url
        await sql(address, "create role reader login password 'rd'")
        beside = LocalServers(tmp_path, pool_logins=["reader:rd"], neighbours=lambda: {"postgres": address})
        try:
            await beside.start(["pgbouncer"])
            url = beside.nodes["pgbouncer"].url
            assert urlsplit(url).username == urlsplit(address).username
            assert await sql(url, "select current_user") == urlsplit(address).username
            assert await sql(with_login(url, "reader:rd"), "select current_user") == "reader"
        finally:
            await beside.stop()


def test_an_address_without_a_login_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match="write user and password into servers"):
        pgbouncer.Behind.at("postgresql://db.example:5432/app")


@pytest.mark.long
async def test_faults_of_data_do_not_happen_to_what_keeps_none(tmp_path: Path) -> None:
    async with running(tmp_path, *KINDS, proxied=True, power_cuts=True) as servers:
        possible = {name for name, fault in ALL.items() if fault.unavailable(servers, "pgbouncer") is None}
        assert {"crash", "restart", "pause", "partition", "dropped_reply"} <= possible
        assert not possible & {"power_cut", "wiped_volume", "clock_step", "disk_full", "file_corruption", "failover"}
        # It reaches the PostgreSQL through the proxy before that one: faults between the two are possible.
        proxy = servers.nodes["postgres"].proxy
        assert proxy is not None
        settings = (servers.nodes["pgbouncer"].working_folder / "pgbouncer.ini").read_text()
        assert f"port={proxy.port}" in settings


@pytest.mark.long
async def test_it_does_not_survive_the_kill_of_its_parent_and_starts_again(tmp_path: Path) -> None:
    parent, pids, _ = start_parent(tmp_path, *KINDS)
    parent.kill()
    parent.wait()
    await until(lambda: are_gone(pids))
    async with started(tmp_path, *KINDS) as servers:
        assert await (await opened({name: one.url for name, one in servers.nodes.items()})).history("none") == []


def test_where_it_is_not_installed_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(pgbouncer, "PLACES", ("/nowhere",))
    with pytest.raises(UsageError, match=r"pgbouncer is not installed.*apt install pgbouncer"):
        pgbouncer.program()
