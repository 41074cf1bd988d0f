"""Writes how the run stands into its data folder while it runs, so that a daemon that is killed leaves it there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from soak.report import outcome
from soak.report.outcome import Outcome
from soak.verifier.result import Result, read_so_far

INTERVAL_SECONDS = 5.0
LOOK_SECONDS = 0.5
"""How often it is looked whether a violation was found since."""

_log = structlog.get_logger("soak.daemon")


async def tell_forever(folder: Path, verifier: Path, run: str, make: Callable[[Result | None], Outcome]) -> None:
    """Write how it stands every few seconds, and as soon as the verifier has told of another violation."""
    written_at, told = float("-inf"), None
    while True:
        so_far = await asyncio.to_thread(read_so_far, verifier)
        so_far = so_far if so_far is not None and so_far.run == run else None
        found = so_far.totals.violations if so_far is not None else None
        if found != told or time.monotonic() - written_at >= INTERVAL_SECONDS:
            written_at, told = time.monotonic(), found
            try:
                await asyncio.to_thread(outcome.write, folder, make(so_far))
            except OSError as error:
                _log.warning("how it stands cannot be written", error=str(error))
        await asyncio.sleep(LOOK_SECONDS)
