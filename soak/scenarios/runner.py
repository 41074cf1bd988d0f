"""Runs scenarios side by side: each in a process of its own, a few at a time, and none is left when we are gone."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple

import msgspec

import soak
from soak.errors import SoakError
from soak.json_input import decode_json
from soak.masking import mask
from soak.proc.spawn import PIPE, AsyncProcess, start_async
from soak.proc.tree import end_async
from soak.scenarios.scenario import E, L, R, Scenario
from soak.scenarios.terminal import ScenarioProgress
from soak.servers.temporary import TemporaryFolder

_CHILD = "soak.scenarios.child"

END_SECONDS_MAX = 20.0
LAST_WORDS_CHARACTERS = 300


class NoAnswerError(Exception):
    """A child process did not give the answer it was started for; the text says what it did instead."""


async def answer_of(module: str, *words: str, seconds_max: float) -> bytes:
    """Run a module with these arguments and return what it writes to its standard output."""
    child = await start_async(
        (sys.executable, "-m", module, *words),
        environment={**os.environ, "PYTHONPATH": _import_path()},
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        async with asyncio.timeout(seconds_max):
            said, complaints = await _listen(child)
    except TimeoutError:
        raise NoAnswerError(f"it did not end within {seconds_max:.0f} s") from None
    finally:
        await end_async(child, END_SECONDS_MAX)
    if not said:
        last = mask(" ".join(complaints.decode("utf-8", "replace").split()))[-LAST_WORDS_CHARACTERS:]
        raise NoAnswerError(last or f"its process ended with status {child.returncode} and said nothing")
    return said


def _import_path() -> str:
    """Let the children use this very soak, wherever it was started from."""
    ours = str(Path(soak.__file__).resolve().parent.parent)
    return os.pathsep.join([ours, *filter(None, [os.environ.get("PYTHONPATH")])])


async def _listen(child: AsyncProcess) -> tuple[bytes, bytes]:
    assert child.stdout is not None  # noqa: S101  they are pipes
    assert child.stderr is not None  # noqa: S101
    # Its standard input stays open: the child ends when it is closed.
    said, complaints, _ = await asyncio.gather(child.stdout.read(), child.stderr.read(), child.wait())
    return said, complaints


class Ran(NamedTuple, Generic[R]):
    """The results of a list of scenarios, in its order."""

    results: list[R]
    seconds: float


def run_scenarios(
    scenarios: Sequence[Scenario[L, E, R]],
    what: str,
    side_by_side: int,
    *,
    tries: int = 1,
    worst_of: Callable[[Sequence[R]], R] = lambda results: results[0],
) -> Ran[R] | None:
    """Run a list of scenarios for a command; None after Ctrl-C or SIGTERM, when all of them were ended."""
    begun = time.monotonic()
    progress = ScenarioProgress(len(scenarios))
    try:
        results = asyncio.run(_run_all(scenarios, progress, side_by_side, tries, worst_of))
    except (KeyboardInterrupt, asyncio.CancelledError):
        progress.clear()
        sys.stderr.write(f"soak: interrupted; all {what} were ended, and nothing is proved\n")
        return None
    finally:
        progress.clear()
    return Ran(results, time.monotonic() - begun)


async def _run_all(
    scenarios: Sequence[Scenario[L, E, R]],
    progress: ScenarioProgress,
    side_by_side: int,
    tries: int,
    worst_of: Callable[[Sequence[R]], R],
) -> list[R]:
    if (task := asyncio.current_task()) is not None:
        # A supervisor's SIGTERM is handled as Ctrl-C is.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    slots = asyncio.Semaphore(side_by_side)
    folder = TemporaryFolder("soak-scenarios-")
    results: dict[int, R] = {}

    async def run(number: int, scenario: Scenario[L, E, R]) -> None:
        async with slots:
            progress.begun(scenario.name)
            own = folder.path / str(number)
            results[number] = worst_of([await _in_process(scenario, own) for _ in range(tries)])
            progress.ended(scenario.name, results[number].outcome)

    try:
        async with asyncio.TaskGroup() as group:
            for number in sorted(range(len(scenarios)), key=lambda number: scenarios[number].weight, reverse=True):
                try:
                    ready = await asyncio.to_thread(scenarios[number].prepare, progress.say)
                except SoakError as error:
                    results[number] = scenarios[number].not_made(str(error))
                    progress.begun(scenarios[number].name)
                    progress.ended(scenarios[number].name, results[number].outcome)
                else:
                    group.create_task(run(number, ready))
    finally:
        folder.remove()
    return [results[number] for number in range(len(scenarios))]


async def _in_process(scenario: Scenario[L, E, R], folder: Path) -> R:
    kind = type(scenario)
    words = (
        f"{kind.__module__}:{kind.__name__}",
        msgspec.json.encode(scenario).decode(),
        str(folder),
        str(os.getpid()),
    )
    try:
        answer = await answer_of(_CHILD, *words, seconds_max=scenario.seconds_max)
        result: R = decode_json(answer, kind.result)
    except (NoAnswerError, msgspec.MsgspecError) as error:
        result = scenario.not_made(" ".join(str(error).split()))
    finally:
        scenario.keep(folder)
        shutil.rmtree(folder, ignore_errors=True)
    return result
