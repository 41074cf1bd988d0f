"""Addresses of given servers that cannot be used: one clear line each, without a password, and exit code 3."""

from __future__ import annotations

import contextlib
import subprocess
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from soak.errors import ExitCode, ServerUnreachableError
from soak.hosts import with_login
from soak.servers import binaries
from soak.servers.inspect import inspect
from soak.servers.ports import free_port, is_free
from soak.stores.protocol import StoreContext
from soak.stores.registry import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOBODY = "nowhere.invalid"
"""No name server ever knows it."""
SECONDS_MAX = 20.0
STORES = {"redis": "redis-list", "postgres": "postgres"}


async def refusal(kind: str, url: str, *, is_verifier: bool = False) -> str:
    """Return the one line that says why a server cannot be used."""
    context = StoreContext(servers={kind: url}, namespace="t", is_verifier=is_verifier)
    with pytest.raises(ServerUnreachableError) as caught:
        await open_store(STORES[kind], context)
    assert caught.value.exit_code is ExitCode.UNREACHABLE
    line = str(caught.value)
    assert "\n" not in line
    assert "secret" not in line
    # A run asks how the server is configured first: that must not fail in a way of its own.
    with contextlib.suppress(ServerUnreachableError):
        await inspect(kind, url, timeout_seconds=5)
    return line


@pytest.fixture
def idle_sentinel(tmp_path: Path) -> Iterator[int]:
    """Run a sentinel that watches nothing."""
    port = free_port()
    (tmp_path / "sentinel.conf").write_text(f"port {port}\nbind 127.0.0.1\n")
    with (tmp_path / "log.txt").open("wb") as log:
        command = [str(binaries.valkey_server()), str(tmp_path / "sentinel.conf"), "--sentinel"]
        running = subprocess.Popen(command, cwd=tmp_path, stdout=log)
    deadline = time.monotonic() + SECONDS_MAX
    while is_free(port) and time.monotonic() < deadline:
        time.sleep(0.02)
    try:
        yield port
    finally:
        running.kill()
        running.wait()


async def test_sentinels_that_know_no_primary_say_what_they_watch(idle_sentinel: int) -> None:
    line = await refusal("redis", f"redis+sentinel://:secret@127.0.0.1:{idle_sentinel}/mymaster")
    assert "the sentinels watch nothing, and no mymaster" in line


@pytest.mark.parametrize("is_verifier", [False, True], ids=["load", "verifier"])
@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("redis", f"redis://:secret@{NOBODY}:6379/0"),
        ("redis", f"rediss://:secret@{NOBODY}:6379/0"),
        ("redis", f"redis+sentinel://:secret@{NOBODY}/mymaster"),
        ("redis", f"redis+cluster://:secret@{NOBODY}"),
        ("postgres", f"postgresql://soak:secret@{NOBODY}/memory"),
    ],
)
async def test_a_host_that_does_not_resolve_is_named(kind: str, url: str, *, is_verifier: bool) -> None:
    line = await refusal(kind, url, is_verifier=is_verifier)
    assert NOBODY in line
    assert "name" in line.lower()


async def test_a_cluster_without_a_node_that_answers_is_named() -> None:
    line = await refusal("redis", "redis+cluster://:secret@127.0.0.1:1,127.0.0.1:2")
    assert "the cluster 127.0.0.1:1, 127.0.0.1:2 cannot be used" in line
    assert "Please provide" not in line


@pytest.mark.parametrize("is_verifier", [False, True], ids=["load", "verifier"])
async def test_a_wrong_login_is_said_as_such(redis_url: str, postgres_url: str, *, is_verifier: bool) -> None:
    for kind, url in (("redis", redis_url), ("postgres", postgres_url)):
        wrong = with_login(url, f"{urlsplit(url).username or 'default'}:secret")
        assert "refuses the login" in await refusal(kind, wrong, is_verifier=is_verifier)
