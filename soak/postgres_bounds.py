"""How much a PostgreSQL may answer at most; `answer_bounds` says why.

asyncpg has no limit and no place to put one. It makes its protocol in one place, `connect_utils`; there it is given
one that counts, and only for connections that are made inside `bounded_answers`: a user's store that uses asyncpg in
this process is left alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import asyncpg
from asyncpg import connect_utils
from asyncpg import protocol as asyncpg_protocol

from soak.answer_bounds import ANSWER_BYTES_MAX, TOO_LARGE


class AnswerTooLargeError(asyncpg.InterfaceError):  # type: ignore[misc]  # without types
    """A PostgreSQL server sent more in one answer than is sensible; whether a write was applied is not known."""


class CountingProtocol(asyncpg_protocol.Protocol):  # type: ignore[misc]  # compiled, without types
    """asyncpg's protocol; it drops the connection when an answer becomes too large."""

    received_bytes = 0
    is_too_large = False

    def connection_made(self, transport: Any) -> None:
        self._made_transport = transport
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        if self.received_bytes > ANSWER_BYTES_MAX:
            self.is_too_large = True
            self._made_transport.abort()
            return
        super().data_received(data)


class Bounded:
    """The protocol of a connection that is being made, or was."""

    protocol: CountingProtocol | None = None

    @property
    def is_too_large(self) -> bool:
        return self.protocol is not None and self.protocol.is_too_large

    def begin_answer(self) -> None:
        if self.protocol is not None:
            self.protocol.received_bytes = 0


_bounded: ContextVar[Bounded | None] = ContextVar("bounded", default=None)


@contextlib.contextmanager
def bounded_answers() -> Iterator[Bounded]:
    """Give the asyncpg connections that are made meanwhile a limit."""
    bounded = Bounded()
    token = _bounded.set(bounded)
    try:
        yield bounded
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        if bounded.is_too_large:
            raise AnswerTooLargeError(TOO_LARGE) from error
        raise
    finally:
        _bounded.reset(token)


class _Protocols:
    """Stands in for the module of protocols where asyncpg makes one."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncpg_protocol, name)

    @staticmethod
    def Protocol(*arguments: Any) -> Any:  # noqa: N802  asyncpg's name
        bounded = _bounded.get()
        if bounded is None:
            return asyncpg_protocol.Protocol(*arguments)
        bounded.protocol = CountingProtocol(*arguments)
        return bounded.protocol


connect_utils.protocol = _Protocols()
