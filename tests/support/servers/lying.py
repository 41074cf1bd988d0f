"""Servers that speak the first words of a protocol and then inject_io_errors."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

CHUNK = b"x" * (256 * 1024)
SENT_BYTES_MAX = 1024 * 1024 * 1024


@contextlib.asynccontextmanager
async def serving(talk: Talk) -> AsyncIterator[int]:
    """Run such a server; returns its port."""

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(guarded, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def endlessly(writer: asyncio.StreamWriter) -> None:
    for _ in range(SENT_BYTES_MAX // len(CHUNK)):
        writer.write(CHUNK)
        await writer.drain()


async def huge_bulk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Announce one string of two gigabytes, and begin to send it."""
    await reader.read(1)
    writer.write(b"$2000000000\r\n")
    await endlessly(writer)


async def endless_line(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send a simple string that does not end; nothing announces how long it is."""
    await reader.read(1)
    writer.write(b"+")
    await endlessly(writer)


async def huge_array(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Announce a list of two thousand million elements, for which room would be made at once."""
    await reader.read(1)
    writer.write(b"*2000000000\r\n")
    await writer.drain()
    await asyncio.sleep(60)


async def always_ok(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer +OK to every command, whatever it is."""
    while line := await reader.readline():
        if line.startswith(b"*"):
            for _ in range(int(line[1:])):
                length = int((await reader.readline())[1:])
                await reader.readexactly(length + 2)
            writer.write(b"+OK\r\n")
            await writer.drain()


async def huge_message(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Announce, as a PostgreSQL to whom one logs in, a message of two gigabytes, and begin to send it."""
    length, code = struct.unpack("!ii", await reader.readexactly(8))
    if code == 80877103:  # it asks for TLS
        writer.write(b"N")
        length, code = struct.unpack("!ii", await reader.readexactly(8))
    await reader.readexactly(length - 8)
    writer.write(b"R" + struct.pack("!ii", 8, 0))
    writer.write(b"S" + struct.pack("!i", 2_000_000_000))
    await endlessly(writer)
