"""Asking a store again and again while a fault is not over for it: when it answers a read, it serves again.

The sweeps cannot tell: they stay away from a store that gives no answer, the longer the longer it lasts.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from soak.clock import now_us
from soak.tasks import raise_if_cancelled
from soak.verifier.examiner import Examiner

if TYPE_CHECKING:
    from soak.verifier.state import State

PROBE_SECONDS = 0.05
ANSWER_SECONDS_MAX = 1.0
"""A read that waits longer is asked anew: its connection may be one that is never answered."""


class Probe:
    """Reads one session of one store, for the time that it takes and nothing else."""

    def __init__(self, examiner: Examiner, state: State) -> None:
        self._examiner = examiner
        self._state = state

    async def run(self) -> None:
        """Ask while there is something to learn, until cancelled."""
        recovery_times = self._state.recovery_times
        while True:
            if recovery_times.awaits_read(self._examiner.name):
                await self._ask()
                raise_if_cancelled()
            elif not recovery_times.is_following:
                recovery_times.has_begun.clear()
                await recovery_times.has_begun.wait()
            await asyncio.sleep(PROBE_SECONDS)

    async def _ask(self) -> None:
        invoked = now_us()
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX):
                # Whether there is such a session does not matter: no answer and no messages are different answers.
                await self._examiner.store.history(f"{self._state.header.namespace}-probe", 1)
        except Exception:  # noqa: BLE001  a user's store may raise anything
            self._state.recovery_times.read(self._examiner.name, invoked, now_us(), answered=False)
        else:
            self._state.recovery_times.read(self._examiner.name, invoked, now_us(), answered=True)
