"""A service that the testbed starts: watched, restarted on its port and its data, broken, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import psutil
import pytest

from soak.checker.message import Message, checksum
from soak.checker.telemetry import FOLDER_MARK
from soak.errors import UsageError
from soak.faults import ALL
from soak.servers.local import LocalServers
from soak.servers.process_backend import ProcessBackend
from soak.servers.server import LifecycleEvent, ServerState
from soak.stores.http import HttpStore
from soak.stores.protocol import StoreContext
from soak.subjects.description import read_script
from soak.subjects.process import program_of
from tests.support.needs import missing
from tests.support.paths import ROOT
from tests.support.servers.started_service import bed_of

SECONDS_MAX = 60.0
CONNECTIONS = 32


@asynccontextmanager
async def started(servers: LocalServers, *kinds: str) -> AsyncIterator[dict[str, str]]:
    try:
        yield await servers.start(["http", *kinds])
    finally:
        await servers.stop()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[HttpStore]:
    store = await HttpStore.open(StoreContext(servers={"http": url}, namespace="n", timeout_seconds=SECONDS_MAX))
    try:
        yield store
    finally:
        await store.close()


def message(seq: int) -> Message:
    bare = Message("run", "talk", 0, seq, "user", f"number {seq}", 0)
    return Message("run", "talk", 0, seq, "user", bare.content, checksum(bare))


async def seqs(url: str) -> list[int]:
    async with opened(url) as store:
        return [one.seq for one in await store.history("talk") if isinstance(one, Message)]


async def say(url: str, *numbers: int) -> None:
    async with opened(url) as store:
        for number in numbers:
            await store.append("talk", message(number))


async def test_it_comes_after_the_servers_it_rests_on_and_keeps_its_port_and_data_over_every_fault(
    tmp_path: Path,
) -> None:
    servers = bed_of("remembering", tmp_path)
    async with started(servers, "redis") as urls:
        await say(urls["http"], 1)
        for name in ("restart", "crash", "pause"):
            fault = ALL[name]
            assert fault.unavailable(servers, "http") is None
            await fault.inject(servers, "http")
            await fault.heal(servers, "http")
            assert await seqs(urls["http"]) == [1]
        assert servers.nodes["http"].url == urls["http"]
    again = bed_of("remembering", tmp_path)
    async with started(again, "redis") as later:
        assert later["http"] == urls["http"]
        assert await seqs(urls["http"]) == [1]


async def test_it_is_brought_back_when_it_dies_and_its_telemetry_tells_that_it_is_another_life(tmp_path: Path) -> None:
    events: list[LifecycleEvent] = []
    servers = bed_of("filing", tmp_path, on_event=events.append)
    async with started(servers) as urls:
        await say(urls["http"], 1)
        before = await servers.telemetry("http")
        pid = servers.nodes["http"].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(SECONDS_MAX):
            while not any(event.what == "restarted" for event in events):
                await asyncio.sleep(0.02)
        after = await servers.telemetry("http")
        assert [event.what for event in events] == ["died", "restarted"]
        assert before["started"] != after["started"]
        assert before[FOLDER_MARK] == after[FOLDER_MARK]
        assert await seqs(urls["http"]) == [1]


async def test_a_wiped_volume_takes_what_it_kept_and_its_telemetry_tells_that_the_folder_is_another(
    tmp_path: Path,
) -> None:
    servers = bed_of("filing", tmp_path)
    async with started(servers) as urls:
        await say(urls["http"], 1)
        before = await servers.telemetry("http")
        await ALL["wiped_volume"].inject(servers, "http")
        await ALL["wiped_volume"].heal(servers, "http")
        assert await seqs(urls["http"]) == []
        assert (await servers.telemetry("http"))[FOLDER_MARK] != before[FOLDER_MARK]


async def test_a_clean_stop_lets_it_write_what_it_has_acknowledged_and_a_crash_does_not(tmp_path: Path) -> None:
    servers = bed_of("writing_behind", tmp_path)
    async with started(servers, "redis") as urls:
        await say(urls["http"], *range(1, 20))
        await ALL["restart"].inject(servers, "http")
        await ALL["restart"].heal(servers, "http")
        assert await seqs(urls["http"]) == list(range(1, 20))
        await say(urls["http"], *range(20, 40))
        await ALL["crash"].inject(servers, "http")
        await ALL["crash"].heal(servers, "http")
        left = await seqs(urls["http"])
        assert left == list(range(1, len(left) + 1))
        assert len(left) < 39


async def test_several_processes_share_its_port_and_end_together(tmp_path: Path) -> None:
    servers = bed_of("filing", tmp_path)
    async with started(servers) as urls:
        pid = servers.nodes["http"].pid
        assert pid is not None
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        assert len(family) == 2
        async with contextlib.AsyncExitStack() as connections:
            # None of them is given back, so each asks for a connection of its own.
            for _ in range(CONNECTIONS):
                client = await connections.enter_async_context(aiohttp.ClientSession())
                async with client.get(urls["http"] + "/v1/health") as answer:
                    assert answer.status == 200
            taken = [
                sum(one.status == psutil.CONN_ESTABLISHED for one in member.net_connections("tcp")) for member in family
            ]
        assert sum(taken) == CONNECTIONS
        assert all(taken)
        os.kill(family[1].pid, signal.SIGKILL)
        async with asyncio.timeout(SECONDS_MAX):
            while family[0].is_running() and family[0].status() != psutil.STATUS_ZOMBIE:
                await asyncio.sleep(0.02)
    assert not [member for member in family if member.is_running() and member.status() != psutil.STATUS_ZOMBIE]


async def test_faults_of_the_network_happen_before_it_and_a_dropped_reply_is_of_a_write(tmp_path: Path) -> None:
    servers = bed_of("remembering", tmp_path, proxied=True)
    async with started(servers, "redis") as urls:
        proxy = servers.nodes["http"].proxy
        assert proxy is not None
        assert str(proxy.port) in urls["http"]
        async with opened(urls["http"]) as store:
            proxy.drop_replies(1)
            assert await store.history("talk") == []
            with pytest.raises(aiohttp.ClientError):
                await store.append("talk", message(1))
            proxy.drop_replies(0)
            found = await store.history("talk")
        assert [one.seq for one in found if isinstance(one, Message)] == [1]


async def test_what_it_is_told_is_in_no_argument_and_only_of_servers_it_needs(tmp_path: Path) -> None:
    servers = bed_of("remembering", tmp_path)
    async with started(servers, "redis", "ledger"):
        backend = servers.nodes["http"].backend
        assert isinstance(backend, ProcessBackend)
        assert backend.pid is not None
        process = psutil.Process(backend.pid)
        password = servers.nodes["redis"].pinned.password
        assert password not in " ".join(process.cmdline())
        told = json.loads(process.environ()["SOAK_SUBJECT"])
        assert list(told["servers"]) == ["redis"]
        assert password in told["servers"]["redis"]


async def test_a_script_that_does_not_come_up_says_why(tmp_path: Path) -> None:
    script = tmp_path / "broken_subject.py"
    script.write_text(
        "# /// script\n# dependencies = []\n# [tool.soak]\n# library = 'x'\n# title = 'x'\n# ///\nimport not_there\n"
    )
    (subject,) = read_script(script)
    servers = LocalServers(tmp_path, service=program_of(subject, lambda _text: None))
    with pytest.raises(Exception, match=r"broken-subject for http ended while starting.*not_there"):
        await servers.start(["http"])
    assert not servers.nodes


async def test_without_a_program_there_is_nothing_to_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--subject"):
        await LocalServers(tmp_path).start(["http"])


@pytest.mark.parametrize(("name", "is_kept"), [("filing", True), ("unsynced", False)])
async def test_a_power_cut_takes_of_its_files_what_it_had_not_synced(
    tmp_path: Path, name: str, *, is_kept: bool
) -> None:
    servers = bed_of(name, tmp_path, power_cuts=True)
    async with started(servers) as urls:
        if servers.no_power_cuts is not None:
            missing(servers.no_power_cuts)
        await say(urls["http"], 1, 2, 3)
        await ALL["power_cut"].inject(servers, "http")
        await ALL["power_cut"].heal(servers, "http")
        assert (await seqs(urls["http"]) == [1, 2, 3]) is is_kept


@contextmanager
def _owner(folder: Path) -> Iterator[subprocess.Popen[str]]:
    code = (
        "import asyncio, sys; from pathlib import Path\n"
        "from tests.support.servers.started_service import bed_of\n"
        "async def main():\n"
        "    servers = bed_of('filing', Path(sys.argv[1]))\n"
        "    await servers.start(['http'])\n"
        "    if sys.argv[2]: await servers.nodes['http'].pause()\n"
        "    print(servers.nodes['http'].pid, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    is_paused = "paused" if folder.name == "paused" else ""
    owner = subprocess.Popen(
        [sys.executable, "-c", code, str(folder), is_paused],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield owner
    finally:
        owner.kill()
        owner.communicate()


@pytest.mark.parametrize("how", ["running", "paused"])
async def test_nothing_of_it_is_left_when_its_owner_is_killed(tmp_path: Path, how: str) -> None:
    folder = tmp_path / how
    folder.mkdir()
    with _owner(folder) as owner:
        assert owner.stdout is not None
        pid = int(await asyncio.to_thread(owner.stdout.readline))
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        assert len(family) == 2
        owner.kill()
        owner.wait()
        async with asyncio.timeout(SECONDS_MAX):
            while any(member.is_running() and member.status() != psutil.STATUS_ZOMBIE for member in family):
                await asyncio.sleep(0.05)
    # The next owner takes up where the killed one was cut off.
    servers = bed_of("filing", folder)
    async with started(servers) as urls:
        assert servers.nodes["http"].state is ServerState.RUNNING
        await say(urls["http"], 1)
        assert await seqs(urls["http"]) == [1]
