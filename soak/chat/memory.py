"""The store as the chat uses it: bounded calls with one of three outcomes, and messages under the clients' own ids.

An id that names a message as soak does (run, session, writer, seq, checksum) becomes that message, so that a direct
reader of the store can identify it. Any other id is kept as it is and returned as it came.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Sequence
from typing import NamedTuple, TypeVar, cast

import msgspec

from soak.checker.message import MISMADE, Message, Stored, checksum, garbled, is_well_made
from soak.checker.outcome import NotApplied
from soak.masking import mask
from soak.stores.http_contract import Wire, from_wire, to_wire
from soak.stores.protocol import MemoryStore, search_of

LIMIT_FACTOR = 1.5
LIMIT_SLACK_SECONDS = 1.0
"""The store's own timeout should fire first: its error says more."""
WHY_CHARACTERS_MAX = 200
NUMBER_MAX = 2**31 - 1
"""The largest number of a writer or a message that every store can keep."""
_OPAQUE = "id:"

T = TypeVar("T")


class WriteState(enum.StrEnum):
    """What became of a message, in the words that the page shows."""

    REMEMBERED = "remembered"
    NOT_REMEMBERED = "not remembered"
    UNKNOWN = "unknown"


class WriteResult(NamedTuple):
    """The state of a write, and why if it was not acknowledged."""

    state: WriteState
    why: str = ""


class UnreachableMemoryError(Exception):
    """The store gave no answer, which is not the same as an empty answer."""


class ChatMemory:
    """One store, used by many requests at the same time."""

    def __init__(self, store: MemoryStore, timeout_seconds: float) -> None:
        self._store = store
        self._limit_seconds = timeout_seconds * LIMIT_FACTOR + LIMIT_SLACK_SECONDS

    async def append(self, session: str, message: Message) -> WriteResult:
        return await self._write(self._store.append(session, message))

    async def forget(self, session: str) -> WriteResult:
        return await self._write(self._store.forget(session))

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        """Read a session; raises `UnreachableMemoryError` where the store gives no history."""
        return await self._read(self._store.history(session, last))

    async def search(self, session: str, text: str, limit: int) -> Sequence[Stored]:
        """Search a session, where the store can be searched."""
        search = search_of(self._store)
        if search is None:
            raise UnreachableMemoryError("this memory cannot be searched")
        return await self._read(search(session, text, limit))

    @property
    def can_search(self) -> bool:
        return search_of(self._store) is not None

    async def _read(self, call: Awaitable[Sequence[Stored]]) -> Sequence[Stored]:
        try:
            items: object = await self._bounded(call)
        except Exception as error:
            raise UnreachableMemoryError(_words(error)) from error
        # A user's store may return anything; what is no list counts as one item that is no message.
        return items if isinstance(items, list | tuple) else [cast("Stored", items)]

    async def _write(self, call: Awaitable[None]) -> WriteResult:
        try:
            await self._bounded(call)
        except NotApplied as error:
            return WriteResult(WriteState.NOT_REMEMBERED, _words(error))
        except Exception as error:  # noqa: BLE001  whatever a store raises: the write may have happened
            return WriteResult(WriteState.UNKNOWN, _words(error))
        return WriteResult(WriteState.REMEMBERED)

    async def _bounded(self, call: Awaitable[T]) -> T:
        async with asyncio.timeout(self._limit_seconds):
            return await call


def to_message(session: str, wire: Wire) -> Message:
    """Make the message that a store is asked to remember."""
    named = from_wire(msgspec.json.encode(wire))
    if isinstance(named, Message) and to_wire(named).id == wire.id and _is_keepable(named):
        return named
    unsigned = Message(_OPAQUE + wire.id, session, 0, 0, wire.role, wire.content, 0)
    return msgspec.structs.replace(unsigned, checksum=checksum(unsigned))


def to_item(stored: Stored) -> dict[str, str]:
    """Return a stored item as the contract writes it; what is no message has no id."""
    if not isinstance(stored, Message) or not is_well_made(stored):
        return {"unreadable": garbled(stored, MISMADE).reason}
    named = stored.run.removeprefix(_OPAQUE) if _is_opaque(stored) else to_wire(stored).id
    return {"id": named, "role": stored.role, "content": stored.content}


def answer_to(message: Message, content: str) -> Message:
    """Name an answer after what it answers: the next number of the same writer."""
    if _is_opaque(message):
        unsigned = msgspec.structs.replace(message, run=f"{message.run}.answer", role="assistant", content=content)
    else:
        unsigned = msgspec.structs.replace(message, seq=message.seq + 1, role="assistant", content=content)
    return msgspec.structs.replace(unsigned, checksum=checksum(unsigned))


def _is_opaque(message: Message) -> bool:
    return message.run.startswith(_OPAQUE) and not message.writer and not message.seq


def _is_keepable(message: Message) -> bool:
    numbers = (message.writer, message.seq)
    return all(0 <= number < NUMBER_MAX for number in numbers) and not message.run.startswith(_OPAQUE)


def _words(error: BaseException) -> str:
    text = " ".join(str(error).split()) or ("no answer in time" if isinstance(error, TimeoutError) else "")
    return mask(f"{type(error).__name__}: {text}" if text else type(error).__name__)[:WHY_CHARACTERS_MAX]
