"""The verifier alone, beside a load that runs elsewhere: here the load is this test."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
import redis.asyncio

from soak.checker.contract import Contract
from soak.checker.outcome import Outcome
from soak.checker.text import MessageGenerator
from soak.errors import ExitCode
from soak.ledger.records import EndOfLoad, RunHeader
from soak.ledger.run import RunJournal, create_run
from soak.ledger.writer import LedgerWriter
from soak.settings import LedgerSettings
from soak.stores import registry
from soak.stores.protocol import StoreContext
from tests.support.checking import wait_until
from tests.support.command import plain_environment, soak
from tests.support.hosts.namespaces import ENTER, FAKETIME, no_namespaces
from tests.support.needs import missing
from tests.support.run_headers import header_of

SESSION = "talk"
MESSAGES = 20


def now_us() -> int:
    return time.monotonic_ns() // 1000


EVERYSEC = Contract(crash_loss_seconds=2, power_loss_seconds=2)


async def loaded_run(redis_url: str, ledger_url: str, contract: Contract = EVERYSEC) -> RunHeader:
    """Write a short conversation with its ledger, as a load on another machine would."""
    run = "r" + uuid.uuid4().hex[:8]
    header = header_of({"redis-list": contract}, run, seed=5, namespace=f"soak_{run}", started_wall_seconds=time.time())
    await create_run(ledger_url, header)
    store = await registry.open_store(
        "redis-list", StoreContext(servers={"redis": redis_url}, namespace=header.namespace)
    )
    writer = await LedgerWriter.connect(ledger_url, LedgerSettings())
    author = MessageGenerator(run, header.seed)
    number = await writer.open_session(SESSION, "redis-list", 1)
    for seq in range(1, MESSAGES + 1):
        sent = now_us()
        await store.append(SESSION, author.write(SESSION, 0, seq))
        writer.attempted(number, 0, seq, Outcome.OK, sent, now_us())
    writer.close_session(number)
    await writer.close()
    await store.close()
    return header


async def end_of(ledger_url: str, run: str) -> None:
    journal = await RunJournal.connect(ledger_url, run)
    await journal.end_of_load(EndOfLoad(at=now_us(), reason="the test is over"))
    await journal.close()


VERIFY = (sys.executable, "-m", "soak", "verify", "--data-dir", "sidecar", "--port", "0")


def environment(redis_url: str, ledger_url: str) -> dict[str, str]:
    return plain_environment(SOAK_SERVERS__REDIS=redis_url, SOAK_LEDGER__URL=ledger_url)


def verify(
    cwd: Path, redis_url: str, ledger_url: str, *words: str, enter: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    if not enter:
        return soak(*VERIFY[3:], *words, cwd=cwd, SOAK_SERVERS__REDIS=redis_url, SOAK_LEDGER__URL=ledger_url)
    return subprocess.run(
        [*enter, *VERIFY, *words],
        cwd=cwd,
        env=environment(redis_url, ledger_url),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def test_a_sidecar_passes_a_run_whose_memory_is_whole(redis_url: str, ledger_url: str, tmp_path: Path) -> None:
    header = await loaded_run(redis_url, ledger_url)
    await end_of(ledger_url, header.run)
    done = verify(tmp_path, redis_url, ledger_url, "--run", header.run, "--json")
    assert done.returncode == ExitCode.PASS, done.stderr
    told = json.loads(done.stdout)
    assert (told["run"], told["verdict"]) == (header.run, "pass")
    assert told["result"]["totals"]["verified"] == MESSAGES


async def remove_the_first(redis_url: str, header: RunHeader) -> None:
    client = redis.asyncio.Redis.from_url(redis_url)
    keys = [key async for key in client.scan_iter(match=f"*{header.namespace}*") if await client.type(key) == b"list"]
    await client.ltrim(keys[0], 1, -1)
    await client.aclose()


async def test_a_sidecar_finds_the_message_that_is_gone(redis_url: str, ledger_url: str, tmp_path: Path) -> None:
    header = await loaded_run(redis_url, ledger_url)
    await remove_the_first(redis_url, header)
    await end_of(ledger_url, header.run)
    done = verify(tmp_path, redis_url, ledger_url, "--run", header.run)
    assert done.returncode == ExitCode.VIOLATION, done.stdout + done.stderr
    assert f"violation  run {header.run}" in done.stdout
    assert "lost" in done.stdout
    assert "evidence: " in done.stdout
    evidence = "".join(file.read_text() for file in (tmp_path / "sidecar" / "verifier" / "evidence").glob("*.json"))
    assert f"{SESSION}/0/1" in evidence


async def test_another_run_than_the_expected_one_is_one_line(redis_url: str, ledger_url: str, tmp_path: Path) -> None:
    header = await loaded_run(redis_url, ledger_url)
    done = verify(tmp_path, redis_url, ledger_url, "--run", "rother")
    assert done.returncode == ExitCode.USAGE
    assert done.stderr == f"soak: the ledger holds run {header.run}, not rother; name that one or use another ledger\n"


async def test_it_begins_only_where_the_server_can_keep_what_the_run_promises(
    redis_url: str, ledger_url: str, tmp_path: Path
) -> None:
    header = await loaded_run(redis_url, ledger_url, Contract(power_loss_seconds=2))
    await end_of(ledger_url, header.run)
    refused = verify(tmp_path, redis_url, ledger_url)
    assert refused.returncode == ExitCode.USAGE, refused.stderr
    assert "soak: redis-list promises nothing lost after a crash, but redis as configured gives" in refused.stderr
    allowed = verify(tmp_path, redis_url, ledger_url, "--allow-weaker-server")
    assert allowed.returncode == ExitCode.PASS, allowed.stderr


def rebooted(seconds: int, **environment: str) -> tuple[str, ...]:
    """Return what runs a program in another boot, whose monotonic clock is so far ahead."""
    if (reason := no_namespaces()) is not None:
        missing(reason)
    return sys.executable, str(ENTER), "rebooted", str(seconds * 10**9), json.dumps(environment)


async def stopped_sidecar(redis_url: str, ledger_url: str, cwd: Path) -> RunHeader:
    """Verify a run whose load goes on, and stop: what was verified is in the checkpoint."""
    header = await loaded_run(redis_url, ledger_url)
    with (cwd / "first").open("wb") as output:
        first = subprocess.Popen(VERIFY, cwd=cwd, env=environment(redis_url, ledger_url), stdout=output, stderr=output)
        result = cwd / "sidecar" / "verifier" / "result.json"
        wait_until(lambda: result.exists() and json.loads(result.read_text())["totals"]["verified"] == MESSAGES)
        first.terminate()
        assert first.wait(60) == ExitCode.INCONCLUSIVE
    return header


@pytest.mark.long
@pytest.mark.parametrize("seconds", [-1_000, 100_000])
async def test_after_a_reboot_a_sidecar_goes_on_by_the_ledgers_clock_and_finds_what_is_gone(
    seconds: int, redis_url: str, ledger_url: str, tmp_path: Path
) -> None:
    enter = rebooted(seconds)
    header = await stopped_sidecar(redis_url, ledger_url, tmp_path)
    await remove_the_first(redis_url, header)
    await end_of(ledger_url, header.run)
    done = verify(tmp_path, redis_url, ledger_url, "--json", enter=enter)
    assert done.returncode == ExitCode.VIOLATION, done.stdout + done.stderr
    (found,) = json.loads(done.stdout)["result"]["violations"]
    assert (found["kind"], found["message"]) == ("rolled_back", f"{SESSION}/0/1")


@pytest.mark.long
async def test_a_checkpoint_of_another_boot_is_refused_where_the_clocks_disagree_and_taken_up_once_they_agree(
    redis_url: str, ledger_url: str, tmp_path: Path
) -> None:
    wrong = {"LD_PRELOAD": str(FAKETIME), "FAKETIME": "+1h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    enter, enter_wrong = rebooted(5), rebooted(5, **wrong)
    header = await stopped_sidecar(redis_url, ledger_url, tmp_path)
    await end_of(ledger_url, header.run)
    refused = verify(tmp_path, redis_url, ledger_url, enter=enter_wrong)
    assert refused.returncode == ExitCode.USAGE, refused.stdout + refused.stderr
    (line,) = [line for line in refused.stderr.splitlines() if line.startswith("soak: ")]
    assert "was saved in another boot or on another host" in line
    assert "disagree by 3600" in line
    done = verify(tmp_path, redis_url, ledger_url, enter=enter)
    assert done.returncode == ExitCode.PASS, done.stdout + done.stderr
