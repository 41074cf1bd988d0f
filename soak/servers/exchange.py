"""Which reply of a server acknowledges a write: what a proxy must know to lose exactly that reply.

Losing any other reply proves nothing: without the answer to a login there is no connection, and without the answer
to a preparation the write was never executed.
"""

from __future__ import annotations

import re
from typing import Protocol


class Exchange(Protocol):
    """Follows the conversation of one connection."""

    def requested(self, data: bytes) -> None:
        """Take note of what the client sends."""

    def acknowledges(self, data: bytes) -> bool:
        """Return whether this part of the reply acknowledges a write."""


class RedisExchange:
    """A conversation in RESP: each request names its command first."""

    _COMMAND = re.compile(rb"\*\d+\r\n\$\d+\r\n([A-Za-z._|-]+)\r\n")
    # Whatever is not known to write nothing is taken for a write: modules bring commands of their own.
    _WRITING_NOTHING = frozenset(
        b"""
        ACL AUTH BITCOUNT BITPOS CLIENT CLUSTER COMMAND CONFIG DBSIZE DEBUG DISCARD DUMP ECHO EXISTS EXPIRETIME GET
        GETBIT GETRANGE HELLO HEXISTS HGET HGETALL HKEYS HLEN HMGET HSCAN HSTRLEN HVALS INFO JSON.GET KEYS LASTSAVE
        LATENCY LCS LINDEX LLEN LOLWUT LPOS LRANGE MEMORY MGET MODULE MONITOR MULTI OBJECT PEXPIRETIME PING PSUBSCRIBE
        PTTL PUBSUB QUIT RANDOMKEY READONLY ROLE SCAN SCARD SCRIPT SELECT SISMEMBER SLOWLOG SMEMBERS SMISMEMBER SSCAN
        STRLEN SUBSCRIBE SUBSTR TIME TTL TYPE UNSUBSCRIBE UNWATCH WAIT WAITAOF WATCH XINFO XLEN XPENDING XRANGE XREAD
        XREVRANGE ZCARD ZCOUNT ZLEXCOUNT ZMSCORE ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK ZREVRANGE ZREVRANGEBYSCORE
        ZREVRANK ZSCAN ZSCORE
        """.split()
    )

    _QUEUED = b"+QUEUED\r\n"  # inside a transaction nothing is promised yet

    def __init__(self) -> None:
        self._writes = False

    def requested(self, data: bytes) -> None:
        # A request may come in several parts, and a part may hold several requests (a pipeline, a transaction): the
        # command is at the beginning, and one that writes is enough.
        if data.startswith(b"*"):
            self._writes |= any(name.upper() not in self._WRITING_NOTHING for name in self._COMMAND.findall(data))

    def acknowledges(self, data: bytes) -> bool:
        writes, self._writes = self._writes, False
        return writes and data != self._QUEUED


class HttpExchange:
    """A conversation in HTTP/1.1, without pipelining: each request begins with its method and its path."""

    _READING = (b"/health", b"/heartbeat", b"/history", b"/search", b"/get", b"/query", b"/count")
    _REQUEST = re.compile(rb"(POST|PUT|PATCH|DELETE) ([^ ?\r\n]+)")

    def __init__(self) -> None:
        self._writes = False

    def requested(self, data: bytes) -> None:
        # Further parts of a request are of its body, and begin otherwise.
        if found := self._REQUEST.match(data):
            self._writes = not found[2].endswith(self._READING)

    def acknowledges(self, data: bytes) -> bool:
        writes, self._writes = self._writes, False
        return writes and data.startswith((b"HTTP/1.1 2", b"HTTP/1.0 2"))


class PostgresExchange:
    """A conversation in PostgreSQL's protocol: the reply names what was executed.

    A write is acknowledged when the server is ready for the next query, outside a transaction, after it has
    completed a command that writes.
    """

    _ENCRYPTION_REQUESTS = (b"\x00\x00\x00\x08\x04\xd2\x16\x2f", b"\x00\x00\x00\x08\x04\xd2\x16\x30")
    _WRITING = (b"INSERT", b"UPDATE", b"DELETE", b"MERGE", b"COPY", b"COMMIT", b"SELECT INTO", b"CREATE", b"TRUNCATE")
    _TAG_BYTES_MAX = 64
    _READY = ord("Z")
    _COMPLETE = ord("C")

    def __init__(self) -> None:
        self._rest = b""
        """The beginning of a message that has not come whole, where the whole of it is wanted."""
        self._skip = 0
        """So many bytes of a message that is of no interest are still to come."""
        self._bare_answer = False
        self._opaque = False
        self._wrote = False

    def requested(self, data: bytes) -> None:
        # Asked before anything else; the answer is one bare letter.
        if data.startswith(self._ENCRYPTION_REQUESTS) and len(data) == 8:
            self._bare_answer = True

    def acknowledges(self, data: bytes) -> bool:
        if self._bare_answer:
            self._bare_answer = False
            self._opaque = data[:1] == b"S"  # encrypted from here on
            data = data[1:]
        return not self._opaque and self._walk(data)

    def _walk(self, data: bytes) -> bool:
        skipped = min(self._skip, len(data))
        self._skip -= skipped
        data = self._rest + data[skipped:]
        self._rest = b""
        acknowledged = False
        position = 0
        while position < len(data):
            # A message: one letter, then its length, which counts itself but not the letter.
            length = int.from_bytes(data[position + 1 : position + 5])
            end = position + 1 + length
            wanted = data[position] in (self._READY, self._COMPLETE) and length <= self._TAG_BYTES_MAX
            if position + 5 > len(data) or (wanted and end > len(data)):
                self._rest = data[position:]
                break
            if wanted:
                acknowledged |= self._told(data[position], data[position + 5 : end])
            self._skip = max(0, end - len(data))
            position = end
        return acknowledged

    def _told(self, kind: int, body: bytes) -> bool:
        if kind == self._COMPLETE:
            self._wrote |= body.startswith(self._WRITING)
            return False
        # Inside a transaction nothing is promised yet.
        acknowledged = self._wrote and body == b"I"
        if body == b"I":
            self._wrote = False
        return acknowledged
