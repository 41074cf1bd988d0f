"""The network of a group: every link from one node to another, or from clients to a node, can be cut by itself.

Each node is reached at its front by its peers and by clients. Who calls is told by `callers`, or by a front of its own.

What one must know before touching it:
- A silent cut drops packets, as a firewall or a pulled cable does: nobody is refused, and what was sent arrives when
  the link heals. A reset flatters every guard: the other side notices at once, and stops acknowledging.
- Nothing is kept in memory beyond what one read brings: a held link is not read, and the kernel holds the sender back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from soak.servers.backend import PortTakenError
from soak.servers.callers import Callers
from soak.servers.ports import HOST
from soak.tasks import end_tasks

CONNECTIONS_MAX = 4_096
_CONNECT_SECONDS_MAX = 5.0
_READ_BYTES = 65_536


class Link(NamedTuple):
    """A direction of calls: caller and node. Replies go the same way back."""

    caller: str
    node: str


class Links:
    """The fronts of all nodes of a group."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._cut: set[Link] = set()
        self._is_silent = False
        self._healed = asyncio.Event()
        self._open: dict[Link, set[asyncio.StreamWriter]] = defaultdict(set)
        self._tasks: set[asyncio.Task[None]] = set()
        self._fronts: list[asyncio.Server] = []

    async def listen(self, node: str, front: int, host: str, port: int, *, caller: str | None = None) -> None:
        """Let the node at this host and port be reached at the front: by this caller alone, or by anybody."""

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            if task is None or len(self._tasks) >= CONNECTIONS_MAX:
                writer.transport.abort()
                return
            self._tasks.add(task)
            try:
                # Its callback in asyncio's streams trips over a task that was cancelled.
                with contextlib.suppress(asyncio.CancelledError):
                    if (who := caller or await self._caller(writer)) is None:
                        writer.transport.abort()
                    else:
                        await self._serve(Link(who, node), reader, writer, (host, port))
            finally:
                self._tasks.discard(task)

        try:
            self._fronts.append(await asyncio.start_server(take, HOST, front))
        except OSError as error:
            raise PortTakenError(f"the front of {node}", front) from error

    def cut(self, links: Iterable[Link], *, silent: bool) -> None:
        """Cut these links until `heal`: packets vanish, or connections are reset."""
        self._cut, self._is_silent = set(links), silent
        self._healed.clear()
        if not silent:
            for writer in [writer for link in self._cut for writer in self._open[link]]:
                writer.transport.abort()

    def heal(self) -> None:
        """Restore every link."""
        self._cut = set()
        self._healed.set()

    async def close(self) -> None:
        """Close all fronts and connections."""
        self.heal()
        for front in self._fronts:
            front.close()
        await end_tasks(list(self._tasks))
        self._fronts.clear()

    async def _caller(self, writer: asyncio.StreamWriter) -> str | None:
        caller, front = writer.get_extra_info("peername"), writer.get_extra_info("sockname")
        return await self._callers.name_of(caller, front) if caller and front else None

    async def _serve(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: tuple[str, int]
    ) -> None:
        onward: asyncio.StreamWriter | None = None
        try:
            await self._pass(link)
            async with asyncio.timeout(_CONNECT_SECONDS_MAX):
                back, onward = await asyncio.open_connection(*target)
            self._open[link] |= {writer, onward}
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(link, reader, onward))
                both.create_task(self._pump(link, back, writer))
        except* (OSError, TimeoutError, _LinkCutError):
            writer.transport.abort()
        finally:
            for one in (writer, onward):
                if one is not None:
                    self._open[link].discard(one)
                    with contextlib.suppress(OSError):
                        one.close()

    async def _pump(self, link: Link, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_READ_BYTES):
                await self._pass(link)
                sink.write(data)
                await sink.drain()
        # A cut link does not carry the news that one side has gone, either.
        await self._pass(link)
        # A half-closed connection is of no use to any protocol here.
        sink.close()

    async def _pass(self, link: Link) -> None:
        """Return when the link is whole; a link that is reset raises."""
        while link in self._cut:
            if not self._is_silent:
                raise _LinkCutError
            await self._healed.wait()


class _LinkCutError(Exception):
    """The link is cut, and its connections are reset."""
