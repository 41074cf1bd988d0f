"""A Python module of ours as a process that answers once, and is never left behind."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import soak
from soak.masking import mask
from soak.proc.spawn import PIPE, AsyncProcess, start_async
from soak.proc.tree import end_async

END_SECONDS_MAX = 20.0
LAST_WORDS_CHARACTERS = 300


class NoAnswerError(Exception):
    """A child process did not give the answer it was started for; the text says what it did instead."""


async def answer_of(module: str, *words: str, seconds_max: float) -> bytes:
    """Run a module with these arguments and return what it writes to its standard output."""
    child = await start_async(
        (sys.executable, "-m", module, *words),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        environment={**os.environ, "PYTHONPATH": _import_path()},
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
    # Its standard input stays open: it is what tells the child that we are here.
    said, complaints, _ = await asyncio.gather(child.stdout.read(), child.stderr.read(), child.wait())
    return said, complaints
