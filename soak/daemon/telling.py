"""Writes how the run stands into its data folder while it runs, so that a daemon that is killed leaves it there."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import structlog

from soak.daemon.folder import DataFolder
from soak.report import outcome as outcomes
from soak.report.outcome import Outcome
from soak.verifier.result import Result

INTERVAL_SECONDS = 5.0
LOOK_SECONDS = 0.5
"""How often it is looked whether a violation was found since."""

_log = structlog.get_logger("soak.daemon")


class Teller:
    """Keeps the outcome in the data folder up to date; the last word is the last."""

    def __init__(self, folder: DataFolder, run: str) -> None:
        self._folder = folder
        self._run = run
        self._writing = threading.Lock()
        self._is_over = False

    async def tell_forever(self, make: Callable[[Result | None], Outcome]) -> None:
        """Write how it stands every few seconds, and as soon as the verifier has told of another violation."""
        written_at, told = float("-inf"), None
        while True:
            so_far = await asyncio.to_thread(self._folder.result_so_far, self._run)
            found = so_far.totals.violations if so_far is not None else None
            if found != told or time.monotonic() - written_at >= INTERVAL_SECONDS:
                written_at, told = time.monotonic(), found
                await asyncio.to_thread(self._write, make(so_far))
            await asyncio.sleep(LOOK_SECONDS)

    def tell_last(self, outcome: Outcome) -> None:
        """Write how it ended. A thread that is late with how it stood before writes nothing any more."""
        self._write(outcome, is_last=True)

    def _write(self, outcome: Outcome, *, is_last: bool = False) -> None:
        with self._writing:
            if self._is_over:
                return
            self._is_over = is_last
            try:
                outcomes.write(self._folder.path, outcome)
            except OSError as error:
                _log.warning("how it stands cannot be written", error=str(error))
