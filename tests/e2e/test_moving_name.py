"""A name that leads to another server from one moment to the next, as managed Redis fails over."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from soak.hosts import with_login
from soak.servers.exchange import RedisExchange
from soak.servers.ports import free_port
from soak.servers.proxy import Proxy
from tests.support.checking import BUSY, RunningCheck, checking, kinds_by_store, total
from tests.support.needs import missing
from tests.support.servers.breaking import client_of, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NAME = "memory.soak.test"
OLD, NEW = "127.0.0.2", "127.0.0.3"
BEHIND_SECONDS = 8.0
"""Longer than the tail that the contract lets a failover take, and the time between two samples."""
SYNCED_SECONDS_MAX = 30.0
START_SECONDS_MAX = 120.0
OWN_HOSTS = 'mount --bind "$0" /etc/hosts && exec "$@"'
"""A file of hosts of its own, for one process and its children: the resolver reads it anew each time."""


class MovingName:
    """Two servers behind one name; the second one is a replica of the first."""

    def __init__(self, hosts: Path, old: str, new: str, port: int) -> None:
        self.hosts = hosts
        self.port = port
        self.password = urlsplit(old).password
        self._old, self._new = old, new
        self.fronts = [
            Proxy(port, urlsplit(url).port or 0, RedisExchange, host=host) for host, url in ((OLD, old), (NEW, new))
        ]
        self.lead_to(OLD)

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@{NAME}:{self.port}/0"

    def lead_to(self, address: str) -> None:
        # In place: another file of this name would not be the one that is mounted.
        self.hosts.write_text(f"127.0.0.1 localhost\n{address} {NAME}\n")

    async def replicate(self) -> None:
        old = urlsplit(self._old)
        async with client_of(self._new) as client:
            await client.config_set("masterauth", old.password)
            await client.replicaof("127.0.0.1", old.port)
            async with asyncio.timeout(SYNCED_SECONDS_MAX):
                while (await client.info("replication"))["master_link_status"] != "up":
                    await asyncio.sleep(0.05)
            await client.config_set("requirepass", old.password)
        self._new = with_login(self._new, f"default:{old.password}")

    async def promote(self) -> None:
        async with client_of(self._new) as client:
            await client.execute_command("REPLICAOF", "NO", "ONE")

    async def move(self) -> None:
        """Let the name lead to the other server; the one before is gone for good."""
        self.lead_to(NEW)
        await self.fronts[0].close()


@contextlib.asynccontextmanager
async def moving_name(folder: Path) -> AsyncIterator[MovingName]:
    async with running(folder / "old", "redis") as old, running(folder / "new", "redis") as new:
        name = MovingName(folder / "hosts", old.nodes["redis"].url, new.nodes["redis"].url, free_port())
        await name.replicate()
        for front in name.fronts:
            await front.start()
        try:
            yield name
        finally:
            for front in name.fronts:
                await front.close()


@pytest.fixture
def through(tmp_path: Path) -> list[str]:
    """Return the command that gives a process a file of hosts of its own."""
    program = shutil.which("unshare")
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    command = [
        str(program),
        *(["--map-root-user"] if os.geteuid() else []),
        "--mount",
        "sh",
        "-c",
        OWN_HOSTS,
        str(hosts),
    ]
    if program is None or subprocess.run([*command, "true"], check=False, capture_output=True).returncode:
        missing("no mount namespace can be made here (unshare --mount)")
    return command


async def until_moved(check: RunningCheck) -> None:
    """Wait until soak has noticed that another server answers, and has gone on for a while."""

    def noticed(status: dict[str, Any]) -> bool:
        return "restart" in {event["what"] for event in (status["verifier"] or {}).get("events", [])}

    status = await asyncio.to_thread(check.until, noticed)
    await asyncio.to_thread(check.until_verified, total(status, "verified") + 100)


@pytest.mark.long
@pytest.mark.parametrize("is_behind", [False, True], ids=["in step", "behind"])
async def test_a_name_that_moves_is_a_failover_that_may_take_its_tail_and_no_more(
    tmp_path: Path, through: list[str], *, is_behind: bool
) -> None:
    async with moving_name(tmp_path) as name:
        words = ("--redis", name.url, "--store", "redis-list", "--duration", "5m", *BUSY)
        with checking(*words, through=through) as check:
            await asyncio.to_thread(check.until, lambda status: total(status, "verified") >= 150, START_SECONDS_MAX)
            await name.promote()
            if is_behind:
                await asyncio.sleep(BEHIND_SECONDS)
            await name.move()
            await until_moved(check)
            told = await asyncio.to_thread(check.end)
    (window,) = told["result"]["faults"]
    assert (window["server"], window["kind"], window["planned"]) == ("redis", "failover", False)
    if is_behind:
        assert told["verdict"] == "violation", told["reasons"]
        # What was forgotten meanwhile is there again on the old copy.
        found = {*kinds_by_store(told["result"])["redis-list"]}
        assert found <= {"lost", "rolled_back", "resurrected", "stale", "non_monotonic"}
        assert found & {"lost", "rolled_back"}
    else:
        assert told["verdict"] == "pass", told["reasons"]
