"""Opening a PostgreSQL store: what can be wrong is said in one line, and nobody else's schema is touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from soak.errors import ServerUnreachableError, UsageError
from soak.servers.ports import free_port
from soak.stores.protocol import StoreContext
from soak.stores.registry import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def connection(postgres_url: str) -> AsyncIterator[Any]:
    opened = await asyncpg.connect(postgres_url)
    yield opened
    await opened.close()


async def refusal(url: str, namespace: str) -> str:
    with pytest.raises((ServerUnreachableError, UsageError)) as caught:
        await open_store("postgres", StoreContext(servers={"postgres": url}, namespace=namespace))
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_a_wrong_password_is_said_as_such_and_not_shown(postgres_url: str, namespace: str) -> None:
    parts = urlsplit(postgres_url)
    text = await refusal(f"postgresql://{parts.username}:secret@{parts.hostname}:{parts.port}/postgres", namespace)
    assert "password" in text
    assert f"{parts.hostname}:{parts.port}" in text
    assert "secret" not in text


async def test_a_server_that_is_not_there_is_named_without_its_password(namespace: str) -> None:
    port = free_port()
    text = await refusal(f"postgresql://soak:secret@127.0.0.1:{port}/postgres", namespace)
    assert f"127.0.0.1:{port}" in text
    assert "secret" not in text


async def test_a_database_that_is_not_there_is_said_as_such(postgres_url: str, namespace: str) -> None:
    assert "database" in await refusal(postgres_url.replace("/postgres?", "/nowhere?"), namespace)


@pytest.mark.parametrize("url", ["mysql://soak:secret@127.0.0.1/x", "postgresql://soak:secret@127.0.0.1:port/x", "x"])
async def test_an_address_that_is_none_is_a_usage_error(url: str, namespace: str) -> None:
    text = await refusal(url, namespace)
    assert "postgresql://user" in text
    assert "secret" not in text


async def test_a_schema_of_somebody_else_is_neither_used_nor_dropped(
    postgres_url: str, namespace: str, connection: Any
) -> None:
    await connection.execute(f"CREATE SCHEMA {namespace}; CREATE TABLE {namespace}.theirs (x int)")
    text = await refusal(postgres_url, namespace)
    assert "theirs" in text
    assert await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{namespace}.theirs")
    await connection.execute(f"DROP SCHEMA {namespace} CASCADE")


async def test_a_schema_of_a_newer_version_is_left_alone(postgres_url: str, namespace: str, connection: Any) -> None:
    store: Any = await open_store("postgres", StoreContext(servers={"postgres": postgres_url}, namespace=namespace))
    await connection.execute(f"INSERT INTO {namespace}.soak_migration VALUES (999)")  # noqa: S608  a name of our own
    assert "newer" in await refusal(postgres_url, namespace)
    await store.clean_up()
    await store.close()


async def test_cleaning_up_drops_only_its_own_schema(postgres_url: str, namespace: str, connection: Any) -> None:
    await connection.execute(f"CREATE SCHEMA {namespace}_theirs; CREATE TABLE {namespace}_theirs.message (x int)")
    store: Any = await open_store("postgres", StoreContext(servers={"postgres": postgres_url}, namespace=namespace))
    await store.clean_up()
    await store.close()
    assert await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{namespace}_theirs.message")
    assert await connection.fetchval("SELECT to_regnamespace($1) IS NULL", namespace)
    await connection.execute(f"DROP SCHEMA {namespace}_theirs CASCADE")


async def test_a_replica_that_does_not_follow_this_primary_is_refused(
    postgres_url: str, postgres16_url: str, namespace: str
) -> None:
    servers = {"postgres": postgres_url, "postgres-replica": postgres16_url}
    context = StoreContext(servers=servers, namespace=namespace, timeout_seconds=0.5)
    with pytest.raises(ServerUnreachableError, match="replicates"):
        await open_store("postgres-replica", context)
