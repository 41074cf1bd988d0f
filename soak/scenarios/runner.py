"""Scenarios side by side: each in a process of its own, a few at a time, and none left when we are gone."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

import soak
from soak.json_input import decode_json
from soak.masking import mask
from soak.scenarios.terminal import ScenarioProgress
from soak.servers.temporary import TemporaryFolder

END_SECONDS_MAX = 20.0
LAST_WORDS_CHARACTERS = 300


class NoAnswerError(Exception):
    """A child process did not give the answer it was started for; the text says what it did instead."""


async def answer_of(module: str, *words: str, seconds_max: float) -> bytes:
    """Run a module with these arguments and return what it writes to its standard output."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *words),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env={**os.environ, "PYTHONPATH": _import_path()},
        # A group of its own: Ctrl-C is for us, and we end the children in order.
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds_max):
            said, complaints = await _listen(child)
    except TimeoutError:
        raise NoAnswerError(f"it did not end within {seconds_max:.0f} s") from None
    finally:
        await _end(child)
    if not said:
        last = mask(" ".join(complaints.decode("utf-8", "replace").split()))[-LAST_WORDS_CHARACTERS:]
        raise NoAnswerError(last or f"its process ended with status {child.returncode} and said nothing")
    return said


def _import_path() -> str:
    """Let the children use this very soak, wherever it was started from."""
    ours = str(Path(soak.__file__).resolve().parent.parent)
    return os.pathsep.join([ours, *filter(None, [os.environ.get("PYTHONPATH")])])


async def _listen(child: Process) -> tuple[bytes, bytes]:
    assert child.stdout is not None  # noqa: S101  they are pipes
    assert child.stderr is not None  # noqa: S101
    # Its standard input stays open: the child ends when it is closed.
    said, complaints, _ = await asyncio.gather(child.stdout.read(), child.stderr.read(), child.wait())
    return said, complaints


async def _end(child: Process) -> None:
    if child.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        child.terminate()
    try:
        async with asyncio.timeout(END_SECONDS_MAX):
            await child.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


_CHILD = "soak.scenarios.child"


class Scenario(Protocol):
    """What one process must know to make a scenario: a value that can be written as JSON."""

    @property
    def name(self) -> str:
        """What it is called while it is under way."""

    @property
    def seconds_max(self) -> float:
        """How long its process may take."""


class ScenarioResult(Protocol):
    """What came of a scenario: a `msgspec.Struct`, to which the child process adds how long it took."""

    @property
    def seconds(self) -> float: ...

    @property
    def outcome(self) -> str:
        """What came of it, in a few words."""


P = TypeVar("P", bound=Scenario)
R = TypeVar("R", bound=ScenarioResult)


class ScenarioKind(NamedTuple, Generic[P, R]):
    """One kind of scenario. It is called `KIND` in its module, where the child process finds it."""

    name: str
    module: str
    plan: type[P]
    result: type[R]
    make: Callable[[P, Path], Awaitable[R]]
    """Makes one in a folder; raises `SoakError` where it cannot be made."""
    not_made: Callable[[P, str, bool], R]
    """The result of one that could not be made, for this reason; the last says whether a server is unreachable."""


@contextlib.asynccontextmanager
async def running(
    kind: ScenarioKind[P, R],
    progress: ScenarioProgress,
    side_by_side: int,
    *,
    tries: int = 1,
    worst_of: Callable[[Sequence[R]], R] = lambda results: results[0],
    before_removal: Callable[[P, Path], None] = lambda _plan, _folder: None,
) -> AsyncIterator[Callable[[P], asyncio.Task[R]]]:
    """Give a function that begins a scenario; all have ended at the end of the block, and their folders are gone."""
    places = asyncio.Semaphore(side_by_side)
    folder = TemporaryFolder(f"soak-{kind.name}-")
    numbers = itertools.count()

    async def make_once(plan: P) -> R:
        own = folder.path / str(next(numbers))
        try:
            return await _in_process(kind, plan, own)
        finally:
            before_removal(plan, own)
            shutil.rmtree(own, ignore_errors=True)

    async def make(plan: P) -> R:
        async with places:
            progress.begun(plan.name)
            result = worst_of([await make_once(plan) for _ in range(tries)])
            progress.ended(plan.name, result.outcome)
            return result

    try:
        async with asyncio.TaskGroup() as group:
            yield lambda plan: group.create_task(make(plan))
    finally:
        folder.remove()


async def run_all(
    kind: ScenarioKind[P, R],
    scenarios: Sequence[P],
    progress: ScenarioProgress,
    side_by_side: int,
    *,
    takes_long: Callable[[P], float],
    tries: int = 1,
    worst_of: Callable[[Sequence[R]], R] = lambda results: results[0],
) -> list[R]:
    """Make these scenarios; the results come in their order."""
    async with running(kind, progress, side_by_side, tries=tries, worst_of=worst_of) as begin:
        # Begun first, the long ones do not hold up the end.
        longest_first = sorted(scenarios, key=takes_long, reverse=True)
        tasks = {scenario.name: begin(scenario) for scenario in longest_first}
    return [tasks[scenario.name].result() for scenario in scenarios]


async def _in_process(kind: ScenarioKind[P, R], plan: P, folder: Path) -> R:
    words = (kind.module, msgspec.json.encode(plan).decode(), str(folder), str(os.getpid()))
    try:
        return decode_json(await answer_of(_CHILD, *words, seconds_max=plan.seconds_max), kind.result)
    except (NoAnswerError, msgspec.MsgspecError) as error:
        return kind.not_made(plan, " ".join(str(error).split()), False)  # noqa: FBT003  nobody was asked
