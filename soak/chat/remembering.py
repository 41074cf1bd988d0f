"""The memory as the service uses it: every call is bounded, and ends in one of three ways."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Sequence
from typing import NamedTuple, TypeVar, cast

from soak.checker.message import Message, Stored
from soak.checker.outcome import NotApplied
from soak.masking import mask
from soak.stores.protocol import MemoryStore, search_of

LIMIT_FACTOR = 1.5
LIMIT_SLACK_SECONDS = 1.0
"""The store's own timeout should strike first: it knows better what it means."""
WHY_CHARACTERS_MAX = 200

T = TypeVar("T")


class State(enum.StrEnum):
    """What became of a message, in the words that the page shows."""

    REMEMBERED = "remembered"
    NOT_REMEMBERED = "not remembered"
    UNKNOWN = "unknown"


class Fate(NamedTuple):
    """What became of something the memory was asked to do, and why if it was not done."""

    state: State
    why: str = ""


class UnreachableMemoryError(Exception):
    """The memory gave no answer: not even that it knows nothing."""


class Remembering:
    """One store, asked by many at the same time."""

    def __init__(self, memory: MemoryStore, timeout_seconds: float) -> None:
        self.memory = memory
        self._limit_seconds = timeout_seconds * LIMIT_FACTOR + LIMIT_SLACK_SECONDS

    async def append(self, session: str, message: Message) -> Fate:
        return await self._fate(self.memory.append(session, message))

    async def forget(self, session: str) -> Fate:
        return await self._fate(self.memory.forget(session))

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        """Read a session; raises `UnreachableMemoryError` where the store gives no history."""
        return await self._read(self.memory.history(session, last))

    async def search(self, session: str, text: str, limit: int) -> Sequence[Stored]:
        """Read what is nearest to a text, from a store that can be searched."""
        search = search_of(self.memory)
        if search is None:
            raise UnreachableMemoryError("this memory cannot be searched")
        return await self._read(search(session, text, limit))

    @property
    def can_search(self) -> bool:
        return search_of(self.memory) is not None

    async def _read(self, call: Awaitable[Sequence[Stored]]) -> Sequence[Stored]:
        try:
            items: object = await self._bounded(call)
        except Exception as error:
            raise UnreachableMemoryError(_words(error)) from error
        # A store of the user's may answer with anything; what is no list is one thing that is no message.
        return items if isinstance(items, list | tuple) else [cast("Stored", items)]

    async def _fate(self, call: Awaitable[None]) -> Fate:
        try:
            await self._bounded(call)
        except NotApplied as error:
            return Fate(State.NOT_REMEMBERED, _words(error))
        except Exception as error:  # noqa: BLE001  whatever a store raises: it may have happened
            return Fate(State.UNKNOWN, _words(error))
        return Fate(State.REMEMBERED)

    async def _bounded(self, call: Awaitable[T]) -> T:
        async with asyncio.timeout(self._limit_seconds):
            return await call


def _words(error: BaseException) -> str:
    text = " ".join(str(error).split()) or ("no answer in time" if isinstance(error, TimeoutError) else "")
    return mask(f"{type(error).__name__}: {text}" if text else type(error).__name__)[:WHY_CHARACTERS_MAX]
