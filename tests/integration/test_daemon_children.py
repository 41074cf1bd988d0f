from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import psutil
import pytest

from soak.daemon.children import Child, ChildLog, pause_seconds
from soak.daemon.processes import ChildrenFile, end_group, identify
from soak.settings import SupervisionSettings

QUICK = SupervisionSettings(backoff=0.01, backoff_max=0.05, restarts_max=3, window=60.0)
WAIT_SECONDS_MAX = 20.0


class Nursery:
    """Makes children of a few lines of Python and remembers what was said of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.children: list[Child] = []
        self.register = ChildrenFile(folder / "children.json")

    def child(
        self, code: str, *, settings: SupervisionSettings = QUICK, final: Path | None = None, ended_by: str = ""
    ) -> Child:
        child = Child(
            "child",
            [sys.executable, "-c", textwrap.dedent(code), str(self.folder)],
            environment=dict(os.environ),
            log_path=self.folder / "child.log",
            settings=settings,
            register=self.register,
            is_final=(lambda: False) if final is None else final.exists,
            ended_by=lambda: ended_by,
            on_event=self.said.append,
        )
        self.children.append(child)
        child.start()
        return child


@pytest.fixture
async def nursery(tmp_path: Path) -> AsyncIterator[Nursery]:
    nursery = Nursery(tmp_path)
    yield nursery
    for child in nursery.children:
        child.kill()
        await child.stop(1)


async def until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while not condition():
            await asyncio.sleep(0.01)


async def test_a_child_that_dies_is_started_again_and_the_restart_is_told(nursery: Nursery) -> None:
    child = nursery.child("import time; time.sleep(60)")
    await until(lambda: child.is_up)
    first = child.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await until(lambda: child.is_up and child.pid not in (None, first))
    assert child.restarts == 1
    assert child.status().last_exit == -signal.SIGKILL
    assert nursery.said == ["child died (killed by SIGKILL) and is started again"]


async def test_a_child_that_dies_too_often_is_given_up_with_its_last_words(nursery: Nursery) -> None:
    child = nursery.child("import sys; sys.exit('soak: the well is dry')")
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        await child.ended.wait()
    assert child.gave_up
    assert child.restarts == QUICK.restarts_max
    assert nursery.said[-1] == "child died 4 times (exit code 1) and is given up: the well is dry"


async def test_its_last_words_are_what_soak_said_was_wrong_and_no_table_of_locust(nursery: Nursery) -> None:
    said = "[2026-11-19 23:40:40,295] vm/ERROR/soak.load: a worker process has died", "Error report", "-----|-----"
    child = nursery.child(f"import sys; print(*{said!r}, sep='\\n'); sys.exit(5)")
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        await child.ended.wait()
    assert nursery.said[-1] == "child died 4 times (exit code 5) and is given up: a worker process has died"


async def test_one_that_a_fault_ends_on_purpose_is_not_given_up_however_often(nursery: Nursery) -> None:
    child = nursery.child("import time; time.sleep(60)", ended_by="writer_crash of sqlite")
    for count in range(QUICK.restarts_max + 2):
        await until(lambda count=count: child.is_up and child.restarts == count)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
    await until(lambda: child.restarts == QUICK.restarts_max + 2)
    assert {*nursery.said} == {"child was ended by writer_crash of sqlite and is started again"}


def test_the_first_restart_is_at_once_and_the_pause_before_others_doubles_up_to_its_limit() -> None:
    settings = SupervisionSettings(backoff=1, backoff_max=5)
    assert [pause_seconds(deaths, settings) for deaths in range(1, 7)] == [0, 1, 2, 4, 5, 5]


async def test_an_end_that_was_wanted_is_no_death(nursery: Nursery, tmp_path: Path) -> None:
    child = nursery.child("import pathlib, sys; pathlib.Path(sys.argv[1], 'done').touch()", final=tmp_path / "done")
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        await child.ended.wait()
    assert (child.restarts, child.gave_up, nursery.said) == (0, False, [])


async def test_a_child_that_is_asked_to_stop_is_given_time_to_finish(nursery: Nursery, tmp_path: Path) -> None:
    child = nursery.child(
        """
        import pathlib, signal, sys, time
        def finish(*_):
            time.sleep(0.2)
            pathlib.Path(sys.argv[1], "finished").touch()
            sys.exit(0)
        signal.signal(signal.SIGTERM, finish)
        pathlib.Path(sys.argv[1], "ready").touch()
        time.sleep(60)
        """
    )
    await until((tmp_path / "ready").exists)
    await child.stop(WAIT_SECONDS_MAX)
    assert (tmp_path / "finished").exists()
    assert child.restarts == 0


async def test_a_child_that_does_not_stop_is_killed_with_its_own_children(nursery: Nursery, tmp_path: Path) -> None:
    child = nursery.child(
        """
        import pathlib, signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        grandchild = subprocess.Popen(["sleep", "60"])
        pathlib.Path(sys.argv[1], "pid").write_text(str(grandchild.pid))
        pathlib.Path(sys.argv[1], "ready").touch()
        time.sleep(60)
        """
    )
    await until((tmp_path / "ready").exists)
    grandchild = int((tmp_path / "pid").read_text())
    await child.stop(0.05)
    assert "child did not end within 0.05s and is killed" in nursery.said
    await until(lambda: not is_running(grandchild))


async def test_a_child_that_cannot_be_started_is_given_up(nursery: Nursery, tmp_path: Path) -> None:
    child = Child(
        "child",
        [str(tmp_path / "no-such-program")],
        environment={},
        log_path=tmp_path / "child.log",
        settings=QUICK,
        register=nursery.register,
        on_event=nursery.said.append,
    )
    child.start()
    await child.ended.wait()
    assert child.gave_up
    assert nursery.said[0].startswith("child cannot be started")


async def test_children_die_with_a_daemon_that_is_killed(tmp_path: Path) -> None:
    code = """
        import asyncio, os, pathlib, sys
        from soak.daemon.processes import spawn
        async def main():
            child = await spawn(["sleep", "60"], os.environ)
            pathlib.Path(sys.argv[1], "pid.new").write_text(str(child.process.pid))
            pathlib.Path(sys.argv[1], "pid.new").rename(pathlib.Path(sys.argv[1], "pid"))
            await asyncio.sleep(60)
        asyncio.run(main())
        """
    daemon = await asyncio.create_subprocess_exec(sys.executable, "-c", textwrap.dedent(code), str(tmp_path))
    try:
        await until((tmp_path / "pid").exists)
        child = int((tmp_path / "pid").read_text())
        assert is_running(child)
    finally:
        daemon.kill()
        await daemon.wait()
    await until(lambda: not is_running(child))


async def test_what_a_killed_daemon_left_behind_is_ended_and_nothing_else(tmp_path: Path) -> None:
    left = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    other = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    register = tmp_path / "children.json"
    ChildrenFile(register).note("load", identify(left.pid))
    reused = msgspec.structs.replace(identify(other.pid), created_seconds=1.0)
    try:
        assert ChildrenFile(register).end_leftovers() == 1
        assert await left.wait() == -signal.SIGKILL
        assert end_group(reused) == 0
        assert is_running(other.pid)
    finally:
        other.kill()
        await other.wait()


async def test_a_log_keeps_its_bound_and_its_last_line(tmp_path: Path) -> None:
    stream = asyncio.StreamReader()
    child_log = ChildLog(tmp_path / "child.log", bytes_max=1000)
    copying = asyncio.create_task(child_log.copy(stream))
    for number in range(50):
        stream.feed_data(f"line {number} {'x' * 90}\n".encode())
        await asyncio.sleep(0)
    stream.feed_data(b"the end\n\n")
    stream.feed_eof()
    await copying
    assert child_log.last_line == "the end"
    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert len(sizes) == 2
    assert max(sizes) <= 1000


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
