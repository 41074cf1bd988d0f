"""A client of Redis in a few lines of the standard library: one connection a call, nothing is ever sent twice."""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import urlsplit

SECONDS_MAX = 5.0


def call(url: str, *words: str | int | bytes) -> Any:
    """Ask one thing, and raise if there is no whole answer."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=SECONDS_MAX) as connection:
        stream = connection.makefile("rwb")
        _send(stream, "AUTH", parts.password or "")
        _send(stream, *words)
        stream.flush()
        _receive(stream)
        return _receive(stream)


def _send(stream: Any, *words: str | int | bytes) -> None:
    encoded = [word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogatepass") for word in words]
    stream.write(b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded))


def _receive(stream: Any) -> Any:
    line = stream.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionError("the server hung up")
    kind, rest = line[:1], line[1:-2]
    if kind == b"-":
        raise ConnectionError(rest.decode())
    if kind == b"$":
        size = int(rest)
        return None if size < 0 else stream.read(size + 2)[:-2]
    if kind == b"*":
        return [_receive(stream) for _ in range(int(rest))]
    return int(rest) if kind == b":" else rest
