"""A server that restarts by itself: its window is in the ledger, once, and what a crash may take is tolerated."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from soak.checker.contract import Contract
from soak.checker.faults import Excuse
from soak.checker.telemetry import Identity, identity_of
from soak.errors import ServerUnreachableError
from soak.ledger.reader import START, LedgerReader, RunRecord
from soak.ledger.records import FaultPhase
from soak.servers.docker import ownership
from soak.servers.docker.servers import DockerServers
from soak.servers.inspect import inspect
from soak.verifier import checkpoint
from tests.support.verifying import found_kinds, now_us, scripting, verifying

if TYPE_CHECKING:
    from tests.support.docker.images import Images
    from tests.support.servers.testbed_thread import TestbedThread
    from tests.support.verifying import Script

    NewTestbed = Callable[..., TestbedThread]

TALK = "talk-restart"
MESSAGES = 6
PATIENT = {"settle": 3.0}
"""Long enough for a sample of the server between a read and the next one that confirms what it lacked."""
NEVER = 3_600.0


async def windows_of(script: Script) -> list[FaultPhase]:
    reader = await LedgerReader.connect(script.info.ledger_url, script.info.header.run)
    try:
        entries = await reader.read(START, block_seconds=0.01)
    finally:
        await reader.close()
    records = [entry.record for entry in entries if isinstance(entry, RunRecord)]
    return [record for record in records if isinstance(record, FaultPhase)]


async def kill(testbed: TestbedThread, kind: str) -> None:
    """Kill the first process of a server and wait until the testbed, which is nobody's here, has started it again."""
    before = testbed.nodes[kind].pid
    assert before is not None
    os.kill(before, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while testbed.nodes[kind].pid in (None, before) or not await answers(testbed, kind):
        assert time.monotonic() < deadline, "it did not come back"
        await asyncio.sleep(0.02)


async def answers(testbed: TestbedThread, kind: str) -> bool:
    try:
        await inspect(kind, testbed.nodes[kind].url, timeout_seconds=2.0)
    except ServerUnreachableError:
        return False
    return True


def saved_at_ns(folder: Path) -> int:
    path = folder / checkpoint.FILE_NAME
    return path.stat().st_mtime_ns if path.exists() else 0


def restarts(status: dict[str, Any]) -> list[str]:
    return [event["server"] for event in status["events"] if event["what"] == "restart"]


async def test_a_restart_is_recorded_once_though_the_verifier_is_killed_and_notices_it_again(
    new_testbed: NewTestbed, ledger_url: str, tmp_path: Path
) -> None:
    testbed = new_testbed()
    async with scripting(testbed.url("redis"), ledger_url) as script:
        await script.say(TALK, MESSAGES)
        async with verifying(script, tmp_path, **PATIENT) as verifier:
            await verifier.until_verified(MESSAGES)
            await verifier.until(lambda now: now["configurations"]["redis"]["identity_checked_us"])
            saved_ns = saved_at_ns(verifier.folder)
            await verifier.until(lambda _: saved_at_ns(verifier.folder) > saved_ns)
            await verifier.kill()
        await kill(testbed, "redis")
        for _ in range(2):
            async with verifying(script, tmp_path, checkpoint=NEVER, **PATIENT) as verifier:
                await verifier.until(restarts)
                written = await windows_of(script)
                await verifier.kill()
        async with verifying(script, tmp_path, **PATIENT) as verifier:
            status = await verifier.until(restarts)
            assert restarts(status) == ["redis"]
            await verifier.until_metric(1, "soak_unexpected_restarts_total", server="redis")
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})
        assert [(one.phase, one.kind, one.excuses, one.planned) for one in written] == [
            ("start", "crash", Excuse.CRASH, False),
            ("end", "crash", Excuse.CRASH, False),
        ]
        assert written[0].at < written[1].at
        (note,) = verdict.notes
        assert "redis restarted by itself" in note
        (fault,) = verdict.faults
        assert (fault.server, fault.kind, fault.planned) == ("redis", "crash", False)


async def test_what_a_redis_without_persistence_loses_by_itself_is_lost_under_a_promise(
    new_testbed: NewTestbed, ledger_url: str, tmp_path: Path
) -> None:
    testbed = new_testbed(redis_options={"appendonly": "no", "save": ""})
    promised = Contract(crash_loss_seconds=0.5, power_loss_seconds=0.5)
    async with scripting(testbed.url("redis"), ledger_url, contract=promised) as script:
        await script.say(TALK, MESSAGES)
        async with verifying(script, tmp_path, **PATIENT) as verifier:
            await verifier.until_verified(MESSAGES)
            await asyncio.sleep(3.5)  # more than the tail, and than the time between two samples
            await kill(testbed, "redis")
            await verifier.until_found(MESSAGES)
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"rolled_back": MESSAGES}


async def test_a_crash_that_is_on_record_is_not_recorded_again_and_is_no_surprise(
    new_testbed: NewTestbed, ledger_url: str, tmp_path: Path
) -> None:
    testbed = new_testbed()
    async with scripting(testbed.url("redis"), ledger_url) as script:
        await script.say(TALK, MESSAGES)
        async with verifying(script, tmp_path, checkpoint=NEVER, **PATIENT) as verifier:
            await verifier.until_verified(MESSAGES)
            await script.fault("ours", "start", "crash")
            await kill(testbed, "redis")
            await script.fault("ours", "end", "crash")
            asked = now_us()
            await script.say(TALK, MESSAGES)
            await verifier.until_verified(2 * MESSAGES)
            await verifier.until(lambda now: now["configurations"]["redis"]["identity_checked_us"] > asked)
            status = await verifier.status()
            written = await windows_of(script)
            verdict = await verifier.finish()
        assert restarts(status) == []
        assert {one.fault for one in written} == {"ours"}
        assert (verdict.verdict, verdict.notes) == ("pass", [])


@pytest.mark.long
async def test_a_postgres_and_its_replica_are_others_after_a_restart_and_after_the_death_of_one_process(
    new_testbed: NewTestbed,
) -> None:
    testbed = new_testbed()
    addresses = {kind: testbed.url(kind) for kind in ("postgres", "postgres-replica")}

    async def who(kind: str) -> Any:
        deadline = time.monotonic() + 30
        while True:
            try:
                sample = await inspect(kind, addresses[kind], timeout_seconds=5.0)
            except ServerUnreachableError:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
                continue
            identity = identity_of(sample.telemetry)
            assert identity is not None
            assert identity.workers
            return identity

    before = {kind: await who(kind) for kind in addresses}
    assert {kind: await who(kind) for kind in addresses} == before
    await kill(testbed, "postgres-replica")
    assert (await who("postgres-replica")).process != before["postgres-replica"].process
    connection = await asyncpg.connect(addresses["postgres"], timeout=10)
    os.kill(await connection.fetchval("select pg_backend_pid()"), signal.SIGKILL)
    connection.terminate()
    deadline = time.monotonic() + 30
    while not (now := await who("postgres")).is_another_than(before["postgres"]):
        assert time.monotonic() < deadline
    assert now.process == before["postgres"].process, "its first process lives on"


@pytest.mark.long
async def test_a_container_that_was_recreated_is_another_server_by_its_own_word(
    tmp_path: Path, engine: Any, images: Images
) -> None:
    kinds = ("redis", "postgres")
    seen: list[dict[str, tuple[Identity, str]]] = []
    for _ in range(2):
        servers = DockerServers(tmp_path, redis_image=images["valkey-9"], postgres_image=images["postgres-18"])
        try:
            urls = await servers.start(kinds)
            found = engine.containers.list(filters={"label": f"{ownership.FOLDER_LABEL}={tmp_path.resolve()}"})
            ids = {one.labels[ownership.SERVER_LABEL]: one.id for one in found}
            seen.append({kind: (await who_is(kind, urls[kind]), ids[kind]) for kind in kinds})
        finally:
            await servers.stop()
    await servers.discard()
    before, after = seen
    for kind in kinds:
        assert after[kind][1] != before[kind][1], "the same container"
        assert after[kind][0].is_another_than(before[kind][0])


async def who_is(kind: str, url: str) -> Identity:
    identity = identity_of((await inspect(kind, url, timeout_seconds=5.0)).telemetry)
    assert identity is not None
    return identity


async def test_a_verifier_that_is_started_again_while_a_server_is_away_waits_for_it(
    new_testbed: NewTestbed, tmp_path: Path
) -> None:
    testbed = new_testbed()
    async with (
        scripting(testbed.url("redis"), testbed.url("ledger"), data_dir=tmp_path) as script,
        verifying(script) as verifier,
    ):
        await script.say(TALK, MESSAGES)
        await verifier.until_verified(MESSAGES)
        await verifier.until_saved()
        await verifier.kill()
        pid = testbed.nodes["redis"].pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            verifier.start()
            await asyncio.sleep(2 * script.info.timeout_seconds)
        finally:
            os.kill(pid, signal.SIGCONT)
        await verifier.until_verified(MESSAGES)
        verdict = await verifier.finish()
    assert (verdict.verdict, verdict.reasons) == ("pass", [])
