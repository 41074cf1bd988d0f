"""What subjects are served with speaks the contract, tells outcomes as they are, and ends with whoever started it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from soak.checker.message import Message, checksum
from soak.checker.outcome import NotApplied
from soak.conformance.examination import examine
from soak.errors import ServerUnreachableError
from soak.servers.web_process import ServiceContext
from soak.stores.http import HttpStore
from soak.stores.http_contract import HttpAnswerError, HttpRefusedError
from soak.stores.protocol import StoreContext
from soak.subjects.description import read_script
from soak.subjects.process import SubjectProcess, deployed
from tests.support.paths import SUBJECTS

SECONDS_MAX = 60.0


def message(content: str) -> Message:
    bare = Message("run", "talk", 0, 1, "user", content, 0)
    return Message("run", "talk", 0, 1, "user", content, checksum(bare))


@asynccontextmanager
async def running(name: str, folder: Path) -> AsyncIterator[SubjectProcess]:
    (subject,) = read_script(SUBJECTS / f"{name}.py")
    told = ServiceContext(servers={}, folder=str(folder))
    process = SubjectProcess(subject, Path(sys.executable), told, folder / "log")
    await process.start()
    try:
        yield process
    finally:
        await process.stop()


async def opened(process: SubjectProcess) -> HttpStore:
    return await HttpStore.open(StoreContext(servers={"http": process.url}, namespace="n", timeout_seconds=SECONDS_MAX))


@pytest.mark.parametrize("name", ["in_memory", "awaited"])
async def test_a_correct_memory_passes_every_check_of_the_contract(name: str, tmp_path: Path) -> None:
    async with running(name, tmp_path) as process:
        findings = [finding async for finding in examine(process.url, timeout_seconds=SECONDS_MAX)]
    assert {finding.check: finding.found for finding in findings if finding.outcome == "wrong"} == {}
    assert sum(1 for finding in findings if finding.outcome == "ok") >= 12


async def test_a_refusal_is_not_applied_and_any_other_error_leaves_it_open(tmp_path: Path) -> None:
    async with running("awaited", tmp_path) as process:
        store = await opened(process)
        try:
            with pytest.raises(HttpRefusedError):
                await store.append("talk", message("refuse me"))
            with pytest.raises(HttpAnswerError) as raised:
                await store.append("talk", message("break"))
            assert not isinstance(raised.value, NotApplied)
            with pytest.raises(HttpAnswerError):
                await store.history("broken")
            assert await store.history("talk") == []
        finally:
            await store.close()
    assert "nobody knows" in (tmp_path / "log").read_text()


async def test_a_memory_that_can_search_says_so_and_one_that_cannot_is_not_asked(tmp_path: Path) -> None:
    async with running("in_memory", tmp_path) as process:
        store = await opened(process)
        assert store.health.features == ["search"]
        assert store.health.started
        for content in ("red bicycle", "flight at noon"):
            await store.append("talk", message(content))
        found = await store.search("talk", "when is the flight", 1)
        assert [one.content for one in found if isinstance(one, Message)] == ["flight at noon"]
        with pytest.raises(HttpAnswerError, match="status 400"):
            await store.search("talk", "when is the flight", 0)
        await store.close()
    async with running("awaited", tmp_path) as process:
        store = await opened(process)
        assert store.health.features == []
        with pytest.raises(HttpAnswerError, match="status 404"):
            await store.search("talk", "when is the flight", 1)
        await store.close()


async def test_a_subject_ends_when_its_standard_input_does(tmp_path: Path) -> None:
    async with running("in_memory", tmp_path) as process:
        assert process._child is not None
        assert process._child.stdin is not None
        process._child.stdin.close()
        async with asyncio.timeout(SECONDS_MAX):
            await process._child.wait()
        assert not process.is_alive


async def test_one_that_does_not_come_up_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    script = tmp_path / "broken_subject.py"
    script.write_text(
        "# /// script\n# dependencies = []\n# [tool.soak]\n# library = 'x'\n# title = 'x'\n# ///\nimport not_there\n"
    )
    (subject,) = read_script(script)
    with pytest.raises(ServerUnreachableError, match=r"broken-subject did not come up.*not_there"):
        async with deployed(subject, Path(sys.executable), tmp_path, {}, namespace="n", timeout_seconds=1.0):
            pass
    assert not [child for child in psutil.Process().children() if "broken_subject" in " ".join(child.cmdline())]


async def test_a_killed_deployment_is_started_again_with_other_addresses_and_nothing_of_its_memory(
    tmp_path: Path,
) -> None:
    (subject,) = read_script(SUBJECTS / "in_memory.py")
    async with deployed(
        subject, Path(sys.executable), tmp_path, {}, namespace="n", timeout_seconds=SECONDS_MAX
    ) as deployment:
        await deployment.store(0).append("talk", message("hello"))
        assert len(await deployment.store(5).history("talk")) == 1
        await deployment.kill()
        assert not deployment.processes[0].is_alive
        await deployment.restart()
        assert await deployment.store(0).history("talk") == []


async def test_a_subject_sees_nothing_of_our_environment_but_names_of_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOAK_SERVERS__HTTP_TOKEN", "sesame")
    async with running("in_memory", tmp_path) as process:
        assert process._child is not None
        environment = psutil.Process(process._child.pid).environ()
    assert "sesame" not in environment.values()
    assert environment["HOME"] == str(tmp_path)
    assert environment["HTTPS_PROXY"] == "http://127.0.0.1:9"
