"""All trials side by side: each in a process of its own, a few at a time, and none left when we are gone."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import shutil
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

import soak
from soak.flaws.flaw import Flaw
from soak.masking import mask
from soak.selftest.result import Trial, not_made

SIDE_BY_SIDE = 3
"""On two cores: one trial waits where another one works."""
TRIAL_SECONDS_MAX = 180.0
END_SECONDS_MAX = 20.0
LAST_WORDS_CHARACTERS = 300


class Step(enum.Enum):
    """How far a trial has come."""

    BEGUN = "begun"
    ENDED = "ended"


OnStep = Callable[[Flaw, Step, Trial | None], None]


async def make_trials(flaws: Sequence[Flaw], on_step: OnStep, side_by_side: int = SIDE_BY_SIDE) -> list[Trial]:
    """Make the trials of these flaws; the results come in their order."""
    folder = Path(tempfile.mkdtemp(prefix="soak-selftest-"))
    places = asyncio.Semaphore(side_by_side)

    async def make_one(flaw: Flaw) -> Trial:
        async with places:
            on_step(flaw, Step.BEGUN, None)
            trial = await _in_process(flaw, folder / flaw.name)
            on_step(flaw, Step.ENDED, trial)
            return trial

    # Begun first, the long ones do not hold up the end.
    longest_first = sorted(flaws, key=_takes_long, reverse=True)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = {flaw.name: group.create_task(make_one(flaw)) for flaw in longest_first}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [tasks[flaw.name].result() for flaw in flaws]


def _takes_long(flaw: Flaw) -> bool:
    """Whether it needs two rigs, a replica, or processes that start only to die."""
    disturbance = flaw.wrong.disturbance
    is_slow = disturbance is not None and disturbance.target in {"load", "postgres-replica"}
    return is_slow or not flaw.wrong.can_share_a_server_with(flaw.right)


async def _in_process(flaw: Flaw, folder: Path) -> Trial:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "soak.selftest.child", flaw.name, str(folder)),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env={**os.environ, "PYTHONPATH": _import_path()},
        # A group of its own: Ctrl-C is for us, and we tell the children in order.
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(TRIAL_SECONDS_MAX):
            said, complaints = await _listen(child)
    except TimeoutError:
        return not_made(flaw, f"it did not end within {TRIAL_SECONDS_MAX:.0f} s")
    finally:
        await _end(child)
    try:
        return msgspec.json.decode(said, type=Trial)
    except msgspec.MsgspecError:
        words = mask(" ".join(complaints.decode("utf-8", "replace").split()))[-LAST_WORDS_CHARACTERS:]
        return not_made(flaw, words or f"its process ended with status {child.returncode} and said nothing")


def _import_path() -> str:
    """Let the children use this very soak, wherever it was started from."""
    ours = str(Path(soak.__file__).resolve().parent.parent)
    return os.pathsep.join([ours, *filter(None, [os.environ.get("PYTHONPATH")])])


async def _listen(child: Process) -> tuple[bytes, bytes]:
    assert child.stdout is not None  # noqa: S101  they are pipes
    assert child.stderr is not None  # noqa: S101
    # Its standard input stays open: it is what tells the child that we are here.
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
