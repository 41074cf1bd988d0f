"""The pytest plugin, as a team that has installed soak meets it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import redis

from soak.errors import UsageError
from soak.pytest_plugin import options as versions
from soak.pytest_plugin import recording
from soak.pytest_plugin.options import is_installed
from tests.support.paths import ROOT
from tests.support.plugin_run import run_pytest

SUITE = """
from examples.my_memory import MyMemory
from soak.pytest_plugin import MemoryContract

class TestMyMemory(MemoryContract):
    store = MyMemory
"""
FEW = "identical or (hard_text and cjk)"


pytestmark = pytest.mark.long


def test_a_project_that_does_not_use_it_imports_next_to_nothing() -> None:
    heavy = "{'redis', 'asyncpg', 'docker', 'gevent', 'locust', 'msgspec', 'psutil', 'pydantic', 'aiohttp'}"
    program = f"import sys, soak.pytest_plugin.hooks; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("plugin", ["-pno:asyncio", "--asyncio-mode=auto"])
def test_three_lines_are_enough_whatever_runs_async_tests_there(tmp_path: Path, plugin: str) -> None:
    settings = "[pytest]\nfilterwarnings = error\n" if plugin == "-pno:asyncio" else None
    files = {"test_mine.py": SUITE, **({"pytest.ini": settings} if settings else {})}
    result = run_pytest(tmp_path, files, plugin, "-k", FEW, "--soak-versions=newest")
    assert result.outcomes == {
        "TestMyMemory::test_identical_turns_are_all_kept[valkey-9]": "passed",
        "TestMyMemory::test_hard_text_comes_back_unchanged[valkey-9-cjk]": "passed",
    }, result.output


def test_every_check_runs_on_every_version_unless_told_otherwise(tmp_path: Path) -> None:
    both = run_pytest(tmp_path, {"test_mine.py": SUITE}, "-k", "identical")
    expected = {version.name for version in versions.EMBEDDED if version.kind == "redis" and is_installed(version)}
    assert expected >= {"valkey-9", "redis-6.2"}
    assert both.named("passed") == {
        f"TestMyMemory::test_identical_turns_are_all_kept[{version}]" for version in expected
    }, both.output


def test_servers_can_be_broken_and_are_whole_again_for_the_next_test(tmp_path: Path) -> None:
    tests = """
import asyncio
import asyncpg
import pytest
import redis

async def test_a_restart_keeps_the_address_and_the_data(soak_redis, soak_namespace):
    before = soak_redis.url
    redis.Redis.from_url(soak_redis.url).set(soak_namespace, "kept")
    await soak_redis.restart()
    assert soak_redis.url == before
    assert redis.Redis.from_url(soak_redis.url).get(soak_namespace) == b"kept"

async def test_a_killed_server_is_away(soak_redis):
    await soak_redis.kill()
    with pytest.raises(redis.exceptions.ConnectionError):
        redis.Redis.from_url(soak_redis.url).ping()

async def test_it_is_back_though_nobody_started_it(soak_redis):
    assert redis.Redis.from_url(soak_redis.url).ping()
    await soak_redis.refuse_writes()

def test_plain_tests_use_it_too(soak_redis, soak_namespace):
    assert redis.Redis.from_url(soak_redis.url).set(soak_namespace, 1)
    asyncio.run(soak_redis.pause())

async def test_a_database_is_had_the_same_way(soak_postgres, soak_namespace):
    connection = await asyncpg.connect(soak_postgres.url)
    await connection.execute(f"CREATE SCHEMA {soak_namespace}; CREATE TABLE {soak_namespace}.t AS SELECT 7 AS n")
    await connection.close()
    await soak_postgres.kill()
    await soak_postgres.start()
    connection = await asyncpg.connect(soak_postgres.url)
    assert await connection.fetchval(f"SELECT n FROM {soak_namespace}.t") == 7
    await connection.close()

async def test_nothing_is_left_of_the_other_tests(soak_postgres, soak_redis):
    assert redis.Redis.from_url(soak_redis.url).keys() == []
    connection = await asyncpg.connect(soak_postgres.url)
    assert await connection.fetch("SELECT FROM pg_namespace WHERE nspname LIKE 'soak%'") == []
    await connection.close()
"""
    folder = tmp_path / "temporary"
    folder.mkdir()
    ini = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    result = run_pytest(tmp_path, {"test_mine.py": tests, "pytest.ini": ini}, "-v", TMPDIR=str(folder))
    assert set(result.outcomes.values()) == {"passed"}, result.output
    assert len(result.outcomes) == 6
    assert list(folder.iterdir()) == []


def test_workers_share_neither_servers_nor_namespaces(tmp_path: Path) -> None:
    tests = """
import os
import pathlib
import pytest

@pytest.mark.parametrize("number", range(6))
def test_one(number, soak_redis, soak_namespace):
    worker = os.environ["PYTEST_XDIST_WORKER"]
    pathlib.Path(f"{worker}-{number}.txt").write_text(f"{soak_redis.url} {soak_namespace}")
"""
    result = run_pytest(tmp_path, {"test_mine.py": tests}, "-n2")
    assert set(result.outcomes.values()) == {"passed"}, result.output
    told = {path.name: path.read_text().split() for path in tmp_path.glob("gw*.txt")}
    assert len({namespace for _, namespace in told.values()}) == 6
    servers = {name.partition("-")[0]: url for name, (url, _) in told.items()}
    assert len(set(servers.values())) == len(servers) == 2


def test_servers_of_others_are_used_and_never_broken(tmp_path: Path, redis_url: str, namespace: str) -> None:
    client: Any = redis.Redis.from_url(redis_url)
    client.set(namespace, "somebody else's")
    tests = """
import asyncio
import pytest
from soak.errors import UsageError

@pytest.mark.parametrize("verb", ["restart", "kill", "stop", "pause", "refuse_writes"])
def test_it_is_refused(soak_redis, verb):
    with pytest.raises(UsageError, match="its address was given, so others may be using it"):
        asyncio.run(getattr(soak_redis, verb)())
"""
    chosen = "identical or away or silent or refused or restart"
    files = {"test_mine.py": SUITE, "test_verbs.py": tests}
    result = run_pytest(tmp_path, files, "-k", chosen, "--soak-servers=external", SOAK_SERVERS__REDIS=redis_url)
    assert result.outcomes["TestMyMemory::test_identical_turns_are_all_kept[given-redis]"] == "passed", result.output
    assert result.named("failed") == set(), result.output
    assert len(result.named("skipped")) == 5
    assert all("must not be broken" in result.messages[name] for name in result.named("skipped"))
    assert client.get(namespace) == b"somebody else's"
    assert client.keys("soak_t_*") == []
    client.delete(namespace)
    client.close()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--soak-versions=redis-5"], "no such version of a server: redis-5; there are valkey-9,"),
        (["--soak-servers=external"], "needs a redis server and no address was given; use --soak-redis=URL"),
        (["-osoak_redis_options=appendonly"], "'appendonly' is not understood; write NAME VALUE"),
        (["--soak-redis=redis://:secret@127.0.0.1:1"], "the redis server at redis://:***@127.0.0.1:1 does not answer"),
    ],
)
def test_a_wrong_choice_is_said_in_one_line(tmp_path: Path, arguments: list[str], told: str) -> None:
    result = run_pytest(tmp_path, {"test_mine.py": SUITE}, "-k", "identical", *arguments)
    assert result.code != 0
    assert told in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert re.search(r"\.py:\d", result.output) is None  # nor one of pytest's own
    assert "secret" not in result.output


def test_a_suite_without_a_usable_store_is_said_in_one_line(tmp_path: Path) -> None:
    suites = {
        "store = 'redis-lst'": "there is no store 'redis-lst'; did you mean redis-list?",
        "store = dict": "lacks methods append, history, forget, close",
        "pass": "TestMine names no store: set `store`, or override `open_store` and set `needs`",
    }
    begin = "from soak.pytest_plugin import MemoryContract\n\nclass TestMine(MemoryContract):\n    "
    files = {f"test_{number}.py": begin + body for number, body in enumerate(suites)}
    result = run_pytest(tmp_path, files)
    assert result.code == 2
    for told in suites.values():
        assert told in result.output
    assert "Traceback" not in result.output


def test_the_store_may_be_opened_in_the_teams_own_way(tmp_path: Path) -> None:
    text = (
        SUITE
        + """
    store = None
    needs = ("redis",)

    async def open_store(self, context):
        return MyMemory(context)
"""
    )
    result = run_pytest(tmp_path, {"test_mine.py": text}, "-k", "identical", PYTEST_SOAK_VERSIONS="redis-6.2")
    assert result.outcomes == {"TestMyMemory::test_identical_turns_are_all_kept[redis-6.2]": "passed"}, result.output


def test_a_server_without_persistence_fails_the_checks_of_restart_and_crash(tmp_path: Path) -> None:
    ini = "[pytest]\nsoak_redis_options =\n  appendonly no\nasyncio_default_fixture_loop_scope = function\n"
    arguments = ("-k", "clean_restart or crash", "--soak-versions=newest")
    result = run_pytest(tmp_path, {"test_mine.py": SUITE, "pytest.ini": ini}, *arguments)
    assert result.named("failed") == {
        "TestMyMemory::test_a_clean_restart_loses_nothing[valkey-9]",
        "TestMyMemory::test_a_crash_loses_no_more_than_promised[valkey-9]",
    }, result.output


def test_data_of_an_earlier_version_fails_a_reader_that_has_forgotten_its_format(tmp_path: Path) -> None:
    arguments = ("--soak-versions=newest", "-k", "written_today or earlier_version")
    recorded = run_pytest(tmp_path, {"test_mine.py": SUITE}, "--soak-record=1.0", *arguments)
    assert recorded.code == 0, recorded.output
    assert (
        recorded.outcomes["TestMyMemory::test_data_of_an_earlier_version_is_readable[valkey-9-none-yet]"] == "skipped"
    )
    changed = """
from soak.stores import Message

class NewMemory(MyMemory):
    async def append(self, session, message):
        await self._redis.rpush(self._prefix + session, message.to_bytes())

    async def history(self, session, last=None):
        rows = await self._redis.lrange(self._prefix + session, -last if last else 0, -1)
        return [Message.from_bytes(row) for row in rows]

class TestNewMemory(MemoryContract):
    store = NewMemory
    recordings = "soak_recordings/TestMyMemory"
"""
    result = run_pytest(tmp_path, {"test_mine.py": SUITE + changed}, *arguments)
    assert result.outcomes == {
        "TestMyMemory::test_what_is_written_today_can_be_read_again[valkey-9]": "passed",
        "TestMyMemory::test_data_of_an_earlier_version_is_readable[valkey-9-1.0]": "passed",
        "TestNewMemory::test_what_is_written_today_can_be_read_again[valkey-9]": "passed",
        "TestNewMemory::test_data_of_an_earlier_version_is_readable[valkey-9-1.0]": "failed",
    }, result.output
    message = result.messages["TestNewMemory::test_data_of_an_earlier_version_is_readable[valkey-9-1.0]"]
    assert "A user comes back to the conversation and meets an error in its place" in message


def test_a_recording_is_never_changed_and_a_spoilt_one_is_named(tmp_path: Path) -> None:
    taken = recording.StoreRecording(label="1.0", store="m:C", servers=["valkey-9"], namespace="n", messages={})
    path = tmp_path / "folder" / "1.0.json"
    recording.save(path, taken)
    assert recording.load(path) == taken
    with pytest.raises(UsageError, match="never changed; choose another label"):
        recording.save(path, taken)
    path.write_text(path.read_text().replace('"format": 1', '"format": 9'))
    with pytest.raises(UsageError, match="is of format 9"):
        recording.load(path)
    path.write_text("{")
    with pytest.raises(UsageError, match=r"1\.0\.json cannot be read"):
        recording.load(path)
