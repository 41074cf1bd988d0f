"""A SQLite file with several writers: what failed is certain, what is others' is left alone."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import pytest

from soak.checker.outcome import NotApplied
from soak.checker.text import MessageGenerator
from soak.errors import ServerUnreachableError
from soak.servers.inspect import inspect
from soak.sqlite_address import SqliteAddress
from soak.stores.protocol import StoreContext
from soak.stores.registry import open_store
from soak.stores.sqlite_file import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

AUTHOR = MessageGenerator("run-1", 7)
TIMEOUT_SECONDS = 1.0


@pytest.fixture
def address(tmp_path: Path) -> SqliteAddress:
    return SqliteAddress(tmp_path / "memory.db")


@pytest.fixture
async def store(address: SqliteAddress) -> AsyncIterator[Any]:
    opened = await open_store("sqlite", _context(address))
    yield opened
    await opened.close()


def _context(address: SqliteAddress, *, is_verifier: bool = False) -> StoreContext:
    servers = {"sqlite": address.url}
    return StoreContext(servers=servers, namespace="t", timeout_seconds=TIMEOUT_SECONDS, is_verifier=is_verifier)


def _other(address: SqliteAddress) -> sqlite3.Connection:
    """Return the connection of somebody else, who knows nothing of us."""
    return sqlite3.connect(address.path, isolation_level=None)


async def test_a_write_that_finds_the_file_locked_has_failed_for_certain_and_never_appears(
    store: Any, address: SqliteAddress
) -> None:
    first = AUTHOR.write("s", 0, 1)
    await store.append("s", first)
    lock = _other(address)
    lock.execute("begin immediate")
    # The first of them waits for the lock, the others in our own queue: none of them was begun when their time was up.
    writes = [store.append("s", AUTHOR.write("s", writer, 1)) for writer in range(1, 5)]
    ended = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(one) for one in ended] == [NotApplied] * 4
    assert "database is locked" in str(ended[0])
    assert list(await store.history("s")) == [first]
    lock.close()
    await store.append("s", AUTHOR.write("s", 0, 2))
    assert [one.seq for one in await store.history("s")] == [1, 2]


async def test_a_write_waits_for_a_lock_that_is_released_in_time(store: Any, address: SqliteAddress) -> None:
    lock = _other(address)
    lock.execute("begin immediate")
    writing = asyncio.create_task(store.append("s", AUTHOR.write("s", 0, 1)))
    await asyncio.sleep(0.1)
    assert not writing.done()
    lock.close()
    await writing
    assert len(await store.history("s")) == 1


async def test_a_write_that_was_cancelled_before_it_was_begun_never_happens(store: Any, address: SqliteAddress) -> None:
    lock = _other(address)
    lock.execute("begin immediate")
    first, second = (asyncio.create_task(store.append("s", AUTHOR.write("s", 0, seq))) for seq in (1, 2))
    await asyncio.sleep(0.05)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    lock.close()
    await first
    assert [one.seq for one in await store.history("s")] == [1]


async def test_other_tables_and_the_file_itself_are_left_alone(address: SqliteAddress) -> None:
    other = _other(address)
    other.execute("create table theirs (text)")
    other.execute("insert into theirs values ('kept')")
    store: Any = await open_store("sqlite", _context(address))
    await store.append("s", AUTHOR.write("s", 0, 1))
    await store.clean_up()
    await store.close()
    assert other.execute("select text from theirs").fetchall() == [("kept",)]
    assert other.execute("select name from sqlite_master where name like 't.%'").fetchall() == []
    # One that was there keeps the journal it had, and is asked for it.
    assert other.execute("pragma journal_mode").fetchone() == ("delete",)
    other.close()
    sample = await inspect("sqlite", address.url, timeout_seconds=5.0)
    assert sample.configuration == {"journal_mode": "delete", "synchronous": "full"}


async def test_a_new_file_keeps_a_write_ahead_log_and_is_synced_as_its_address_says(tmp_path: Path) -> None:
    address = SqliteAddress(tmp_path / "new.db", "normal")
    store = await open_store("sqlite", _context(address))
    sample = await inspect("sqlite", address.url, timeout_seconds=5.0)
    assert sample.configuration == {"journal_mode": "wal", "synchronous": "normal"}
    await store.close()


async def test_the_verifier_keeps_the_file_open_for_reading_only(store: Any, address: SqliteAddress) -> None:
    said = AUTHOR.write("s", 0, 1)
    await store.append("s", said)
    verifier: Any = await open_store("sqlite", _context(address, is_verifier=True))
    assert list(await verifier.history("s")) == [said]
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connect(address, timeout_seconds=1.0, reads_only=True).execute("create table x (y)")
    await verifier.append("canary", AUTHOR.write("canary", 0, 1))  # its canary writes, and closes the file again
    assert len(await store.history("canary")) == 1
    await verifier.close()


@pytest.mark.parametrize("what", ["a folder that is not there", "a text"])
async def test_what_is_no_file_of_this_kind_is_refused_in_one_line(tmp_path: Path, what: str) -> None:
    path = tmp_path / "nowhere" / "memory.db" if what.startswith("a folder") else tmp_path / "text.db"
    if what == "a text":
        path.write_text("this is no database, and it is longer than the head of one\n" * 20)
    with pytest.raises(ServerUnreachableError, match="cannot be used as a SQLite file") as raised:
        await open_store("sqlite", _context(SqliteAddress(path)))
    assert "\n" not in str(raised.value)
    assert str(path) in str(raised.value)


async def test_a_store_can_be_closed_while_the_file_is_locked(address: SqliteAddress) -> None:
    store: Any = await open_store("sqlite", _context(address))
    lock = _other(address)
    lock.execute("begin immediate")
    writing = asyncio.create_task(store.append("s", AUTHOR.write("s", 0, 1)))
    await asyncio.sleep(0.05)
    began = time.monotonic()
    await store.close()
    assert time.monotonic() - began < 30 * TIMEOUT_SECONDS
    with pytest.raises(NotApplied):
        await writing
    lock.close()
