"""Holding the load back: acknowledged messages that nobody has read yet are kept one by one, so they are bounded.

Twice a second the verifier says in a key next to the ledger how many it has not read and how long the oldest of them
has been waiting. Past `verifier.unread_max` it asks the writers to wait until a fifth of them is read. The key expires:
a verifier that is dead holds nobody back, and then the ledger's own size does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from soak.errors import ServerUnreachableError
from soak.ledger.reader import LedgerReader
from soak.ledger.records import VerifierProgress

PUBLISH_SECONDS = 0.5
VALID_SECONDS = 5.0
RESUME_SHARE = 0.8
"""The load goes on once so much of what is allowed is left: otherwise it would stop and go all the time."""

_log = structlog.get_logger()


class Backpressure:
    """Says how far the verifier has come, and asks the writers to wait where that is not far enough."""

    def __init__(
        self,
        reader: LedgerReader,
        unread: Callable[[], int],
        oldest_unread_seconds: Callable[[], float],
        unread_max: int,
    ) -> None:
        self._reader = reader
        self._unread = unread
        self._oldest_unread_seconds = oldest_unread_seconds
        self._unread_max = unread_max
        self.unread = 0
        self.is_holding = False
        self.held_back = 0
        """How often the load was held back since the verifier was started."""

    async def run(self) -> None:
        while True:
            await self.publish()
            await asyncio.sleep(PUBLISH_SECONDS)

    async def publish(self) -> None:
        """Count, decide, and say so."""
        self._decide(self._unread())
        progress = VerifierProgress(
            unread=self.unread,
            oldest_unread_seconds=self._oldest_unread_seconds(),
            hold=self.is_holding,
            stamp=time.time_ns(),
        )
        try:
            await self._reader.publish(progress, valid_seconds=VALID_SECONDS)
        except ServerUnreachableError:
            return  # without a ledger nobody writes

    @property
    def warning(self) -> str:
        """What a person should know of it; empty while the load is not held back."""
        if not self.is_holding:
            return ""
        return (
            f"the load is held back: {self.unread:,} acknowledged messages are not read yet "
            f"(verifier.unread_max = {self._unread_max:,}); give the verifier more time, or the run fewer users"
        )

    def _decide(self, unread: int) -> None:
        self.unread = unread
        if not self.is_holding and unread >= self._unread_max:
            self.is_holding = True
            self.held_back += 1
            _log.warning("load_held_back", unread=unread, unread_max=self._unread_max)
        elif self.is_holding and unread < self._unread_max * RESUME_SHARE:
            self.is_holding = False
            _log.info("load_resumed", unread=unread)
