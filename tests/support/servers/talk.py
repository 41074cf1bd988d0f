"""A participant that writes while something breaks."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import TYPE_CHECKING

from soak.checker.message import Message
from soak.checker.outcome import NotApplied
from soak.stores.speaking import Speaker

if TYPE_CHECKING:
    from soak.stores.protocol import MemoryStore

PATIENCE_SECONDS = 60.0
OLD = 50
"""A write takes 5 ms or more."""


class Talk:
    """One participant that writes to one session until it is told to stop."""

    def __init__(self, store: MemoryStore, session: str | None = None) -> None:
        self._store = store
        self._speaker = Speaker("run")
        self.session = session or self._speaker.session("talk")
        self.acknowledged: list[int] = []
        self.unknown: list[int] = []
        self._is_over = False
        self._task = asyncio.create_task(self._write())

    async def _write(self) -> None:
        for seq in itertools.takewhile(lambda _: not self._is_over, itertools.count(1)):
            message = self._speaker.message(self.session, seq, f"number {seq}")
            try:
                await self._store.append(self.session, message)
                self.acknowledged.append(seq)
            except NotApplied:
                await asyncio.sleep(0.02)
            except Exception:  # noqa: BLE001  whether it was applied is not known
                self.unknown.append(seq)
            await asyncio.sleep(0.005)

    async def until_acknowledged(self, count: int) -> None:
        """Wait until so many more are acknowledged."""
        wanted, deadline = len(self.acknowledged) + count, time.monotonic() + PATIENCE_SECONDS
        while len(self.acknowledged) < wanted and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        assert len(self.acknowledged) >= wanted

    async def until_old(self) -> int:
        """Return the last of what is acknowledged now, when as much again has followed: replicas have it long since."""
        await self.until_acknowledged(OLD)
        old = self.acknowledged[-1]
        await self.until_acknowledged(OLD)
        return old

    async def lost(self) -> list[int]:
        """Stop, and return what was acknowledged and is not there."""
        self._is_over = True
        await self._task
        found = {one.seq for one in await self._store.history(self.session) if isinstance(one, Message)}
        assert found <= {*self.acknowledged, *self.unknown}, "a refused write was applied"
        return [seq for seq in self.acknowledged if seq not in found]
