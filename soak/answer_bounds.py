"""How much a server may answer at most: one that announces or sends more costs us a connection, not our memory.

- Our own Redis connection counts bytes, and looks at what a reply announces, in `redis_wire`.
- redis-py, which asks the ledger and the servers' telemetry, gets `BoundedParser`.
- asyncpg gets `postgres_bounds`.
"""

from __future__ import annotations

from typing import Any

from redis._parsers import _AsyncHiredisParser
from redis.exceptions import ConnectionError, InvalidResponse  # noqa: A004  redis-py's own

ANSWER_BYTES_MAX = 64 * 1024 * 1024
"""One reply of a Redis, or all that a PostgreSQL answers to one statement."""
LINE_BYTES_MAX = 1024 * 1024
"""One status, number or error of a Redis, with whatever else was received together with it."""
ELEMENTS_MAX = 1_000_000
"""Of one reply of a Redis; room for all that are announced is made at once."""
TOO_LARGE = f"the server sends more than {ANSWER_BYTES_MAX // 2**20} MiB in one answer, and no more is read"


class BoundedParser(_AsyncHiredisParser):
    """redis-py's parser, with an end to its patience."""

    __slots__ = ("_unanswered",)

    async def read_response(self, *arguments: Any, **options: Any) -> Any:
        self._unanswered = Unanswered()
        reader: Any = self._reader
        if reader.has_data():
            self._unanswered.go_on_within()
        try:
            return await super().read_response(*arguments, **options)
        except MemoryError:
            raise InvalidResponse(TOO_LARGE) from None

    async def read_from_socket(self) -> bool:
        buffer = await self._stream.read(self._read_size)  # type: ignore[union-attr]
        if not buffer:
            raise ConnectionError("the server has closed the connection")
        if self._unanswered.is_too_much(buffer):
            raise InvalidResponse(TOO_LARGE)
        self._reader.feed(buffer)  # type: ignore[attr-defined]
        return True


class Unanswered:
    """What a Redis has sent since its last reply was complete."""

    __slots__ = ("bytes", "bytes_max")

    def __init__(self) -> None:
        self.bytes = 0
        self.bytes_max = ANSWER_BYTES_MAX

    def go_on_within(self) -> None:
        """Note that what comes next is not the beginning of a reply, but belongs to one that was begun before."""
        self.bytes, self.bytes_max = 1, ANSWER_BYTES_MAX

    def is_too_much(self, data: bytes) -> bool:
        """Take in what was received; returns whether it is part of a reply that is larger than any that is read."""
        if not self.bytes:
            if announces_too_much(data):
                return True
            # What announces no length is one short line; to look for its end over and over would take for ever.
            self.bytes_max = ANSWER_BYTES_MAX if data[:1] in _ANNOUNCED else LINE_BYTES_MAX
        self.bytes += len(data)
        return self.bytes > self.bytes_max


_ANNOUNCED = frozenset({b"$", b"*", b"=", b"%", b"~", b">"})


def announces_too_much(data: bytes) -> bool:
    """Whether the first reply in what was received says that it is larger than any that is read."""
    if data[:1] not in _ANNOUNCED:
        return False
    number = data[1 : data.find(b"\r\n", 0, 32)]
    return number.isdigit() and int(number) > (ANSWER_BYTES_MAX if data[:1] in (b"$", b"=") else ELEMENTS_MAX)
