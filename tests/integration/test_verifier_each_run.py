"""`soak verify --each-run`: one run after the other, each in a folder of its own, and healthy in between."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from soak.errors import ExitCode
from soak.servers.ports import free_port
from soak.verifier import result
from tests.support.verifying import SECONDS_MAX, Soaking, sidecar_environment

pytestmark = pytest.mark.long

MESSAGES = 5
EACH_RUN = (sys.executable, "-m", "soak", "verify", "--each-run", "--json")


async def until(condition: Callable[[], object], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        await asyncio.sleep(0.05)


async def get(port: int, path: str) -> str:
    """Ask for a page, again while nobody listens: between one run and the wait for the next, that is for a moment."""
    deadline = time.monotonic() + SECONDS_MAX
    async with aiohttp.ClientSession() as http:
        while True:
            try:
                async with http.get(f"http://127.0.0.1:{port}{path}") as answer:
                    assert answer.status == 200
                    return await answer.text()
            except aiohttp.ClientConnectionError:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)


async def test_when_a_run_is_over_it_is_put_aside_and_the_next_one_is_verified(
    soaking: Soaking, tmp_path: Path
) -> None:
    port, data, log = free_port(), tmp_path / "own", tmp_path / "log.txt"
    command = (*EACH_RUN, "--data-dir", str(data), "--port", str(port))
    runs: list[str] = []
    started: list[subprocess.Popen[bytes]] = []
    with contextlib.ExitStack() as closing:
        output = closing.enter_context(log.open("wb"))
        for kept in (MESSAGES, MESSAGES - 1):
            async with soaking() as script:
                runs.append(script.info.header.run)
                await script.open("talk")
                said = await script.say("talk", MESSAGES)
                for message in said[kept:]:
                    await script.remove(message)
                if not started:
                    environment = sidecar_environment(script) | {"SOAK_LOG__LEVEL": "info"}
                    started.append(subprocess.Popen(command, env=environment, stdout=output, stderr=output))
                    closing.callback(started[0].wait)
                    closing.callback(started[0].kill)
                await script.end()
                (process,) = started
                await until(lambda: log.read_text().count("waiting for the next one") == len(runs), process, log)
                assert await get(port, "/healthz") == "ok\n"
                assert "soak_verified_messages_total" in await get(port, "/metrics"), "what its last sweep found"
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, SECONDS_MAX) == ExitCode.VIOLATION
    first, second = result.read(data / "runs" / runs[0] / "verifier"), result.read(data / "verifier")
    assert first is not None
    assert second is not None
    assert [(one.run, one.verdict, one.totals.verified) for one in (first, second)] == [
        (runs[0], "pass", MESSAGES),
        (runs[1], "violation", MESSAGES - 1),
    ]
