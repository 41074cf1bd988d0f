"""Scenarios side by side: each in a process of its own, a few at a time, and none left when we are gone."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from soak.json_input import decode_json
from soak.scenarios.answering import NoAnswerError, answer_of
from soak.scenarios.progress import Progress
from soak.servers.temporary import TemporaryFolder

_CHILD = "soak.scenarios.child"


class Plan(Protocol):
    """What one process must know to make a scenario: a value that can be written as JSON."""

    @property
    def name(self) -> str:
        """What it is called while it is under way."""

    @property
    def seconds_max(self) -> float:
        """How long its process may take."""


class Result(Protocol):
    """What came of a scenario: a `msgspec.Struct`, which the child process tells how long it took."""

    @property
    def seconds(self) -> float: ...

    @property
    def outcome(self) -> str:
        """What came of it, in a few words."""


P = TypeVar("P", bound=Plan)
R = TypeVar("R", bound=Result)


class Kind(NamedTuple, Generic[P, R]):
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
    kind: Kind[P, R],
    progress: Progress,
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


async def _in_process(kind: Kind[P, R], plan: P, folder: Path) -> R:
    words = (kind.module, msgspec.json.encode(plan).decode(), str(folder), str(os.getpid()))
    try:
        return decode_json(await answer_of(_CHILD, *words, seconds_max=plan.seconds_max), kind.result)
    except (NoAnswerError, msgspec.MsgspecError) as error:
        return kind.not_made(plan, " ".join(str(error).split()), False)  # noqa: FBT003  nobody was asked
