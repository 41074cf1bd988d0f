"""A Redis server behind TLS: used when its certificate is trusted, refused when it is not."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from soak.checker.text import MessageGenerator
from soak.errors import ServerUnreachableError
from soak.faults import ALL
from soak.servers.external.servers import ExternalServers
from soak.stores.protocol import StoreContext
from soak.stores.redis_client import CommandTimedOutError
from soak.stores.registry import open_store
from tests.support.servers.certificates import make_certificate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return make_certificate(tmp_path)


@pytest.fixture
async def tls_port(redis_url: str, certificate: Path) -> AsyncIterator[int]:
    """Put TLS before the server."""
    upstream = urlsplit(redis_url)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    writers: list[asyncio.StreamWriter] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.transport.abort()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(upstream.hostname, upstream.port)
        writers.extend((writer, up_writer))
        await asyncio.gather(pump(reader, up_writer), pump(up_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    yield server.sockets[0].getsockname()[1]
    server.close()
    for writer in writers:
        writer.transport.abort()
    await asyncio.sleep(0.02)


@pytest.mark.parametrize("is_verifier", [False, True], ids=["load", "verifier"])
async def test_a_trusted_server_is_used_over_tls(
    redis_url: str, tls_port: int, certificate: Path, namespace: str, *, is_verifier: bool
) -> None:
    password = urlsplit(redis_url).password
    url = f"rediss://:{password}@127.0.0.1:{tls_port}/0?ssl_ca_certs={certificate}"
    context = StoreContext(servers={"redis": url}, namespace=namespace, is_verifier=is_verifier)
    store: Any = await open_store("redis-list", context)
    try:
        messages = [MessageGenerator("run-1", 7).write("s-hard", 0, seq) for seq in range(1, 51)]
        for message in messages:
            await store.append("s-hard", message)
        assert list(await store.history("s-hard")) == messages
        await store.clean_up()
    finally:
        await store.close()


@pytest.mark.parametrize("is_verifier", [False, True], ids=["load", "verifier"])
async def test_a_server_that_is_not_trusted_is_refused(
    redis_url: str, tls_port: int, namespace: str, *, is_verifier: bool
) -> None:
    password = urlsplit(redis_url).password
    url = f"rediss://:{password}@127.0.0.1:{tls_port}/0"
    with pytest.raises(ServerUnreachableError, match=r"(?i)certificate"):
        await open_store(
            "redis-list", StoreContext(servers={"redis": url}, namespace=namespace, is_verifier=is_verifier)
        )


async def test_a_proxy_before_a_given_server_leaves_tls_to_client_and_server(
    redis_url: str, tls_port: int, certificate: Path, namespace: str, tmp_path: Path
) -> None:
    login = f"rediss://:{urlsplit(redis_url).password}@127.0.0.1:{tls_port}/0?ssl_ca_certs={certificate}"
    servers = ExternalServers(
        tmp_path, {"redis": f"{login}&ssl_check_hostname=false"}, allow_faults=["partition", "dropped_reply"]
    )
    urls = await servers.start(["redis"])
    try:
        assert urlsplit(urls["redis"]).port != tls_port
        context = StoreContext(servers=urls, namespace=namespace, timeout_seconds=2.0)
        store: Any = await open_store("redis-list", context)
        message = MessageGenerator("run-1", 7).write("s-hard", 0, 1)
        await store.append("s-hard", message)
        assert "may encrypt" in str(ALL["dropped_reply"].unavailable(servers, "redis"))
        await ALL["partition"].inject(servers, "redis")
        with pytest.raises(CommandTimedOutError):
            await store.history("s-hard")
        await ALL["partition"].heal(servers, "redis")
        await store.close()
        store = await open_store("redis-list", context)
        assert list(await store.history("s-hard")) == [message]
        await store.clean_up()
        await store.close()
    finally:
        await servers.stop()
    # One whose name is compared would be refused by every client, so no proxy stands before it.
    strict = ExternalServers(tmp_path, {"redis": login}, allow_faults=["partition"])
    assert await strict.start(["redis"]) == {"redis": login}
    assert "ssl_check_hostname=false" in str(ALL["partition"].unavailable(strict, "redis"))
    await strict.stop()
