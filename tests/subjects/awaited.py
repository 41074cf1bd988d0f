# /// script
# dependencies = []
#
# [tool.soak]
# library = "dict"
# title = "a dict behind coroutines"
# processes = 1
# ///
"""The same, written for an event loop, and opened on one. What it is told to refuse, it refuses."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from soak_subject import ChatTurn, RefusedError, Surroundings, serve


class Awaited:
    """Lists in a dict; it can tell whether all its calls came on one loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._said: dict[str, list[ChatTurn]] = defaultdict(list)

    async def append(self, session: str, message: ChatTurn) -> None:
        assert asyncio.get_running_loop() is self._loop
        if message.content == "refuse me":
            raise RefusedError("as you like")
        if message.content == "break":
            raise ConnectionError("nobody knows")
        await asyncio.sleep(0)
        self._said[session].append(message)

    async def history(self, session: str, last: int | None) -> list[ChatTurn]:
        if session.endswith("broken"):
            raise ConnectionError("nobody is there")
        said = list(self._said.get(session, ()))
        return said if last is None else said[-last:]

    async def forget(self, session: str) -> None:
        self._said.pop(session, None)


async def open_awaited(_surroundings: Surroundings) -> Awaited:
    return Awaited()


if __name__ == "__main__":
    serve(open_awaited)
