"""When a server is of use again: the first write and read that succeed after a fault."""

from __future__ import annotations

import asyncio

from soak.checker.message import Message
from soak.checker.text import Author
from soak.clock import now_us
from soak.errors import ServerUnreachableError
from soak.stores.protocol import MemoryStore

SESSION = "probe-short"
TRIES_MAX = 10_000
TRY_SECONDS_MAX = 2.0
PACE_SECONDS = 0.01


async def first_success(memory: MemoryStore, author: Author) -> int:
    """Return when a message was first written and read back, in microseconds of CLOCK_MONOTONIC.

    Begin when the server is down; whoever calls bounds the time by healing it, or giving up.
    """
    last = "nothing was tried"
    for seq in range(1, TRIES_MAX + 1):
        message = author.write(SESSION, 0, seq)
        try:
            async with asyncio.timeout(TRY_SECONDS_MAX):
                await _write_and_read(memory, message)
        except Exception as error:  # noqa: BLE001  it is down, starting, or loading: all mean not yet
            last = f"{type(error).__name__}: {error}"
        else:
            return now_us()
        await asyncio.sleep(PACE_SECONDS)
    raise ServerUnreachableError(f"the server did not serve again within {TRIES_MAX} tries ({last}); see its log")


async def _write_and_read(memory: MemoryStore, message: Message) -> None:
    await memory.append(SESSION, message)
    found = await memory.history(SESSION, last=1)
    if list(found) != [message]:
        raise ValueError("what was written is not what is read")
