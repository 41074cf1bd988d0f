"""The network of a group: every link from one node to another, or from clients to a node, can be cut by itself.

Each node is reached at its front by its peers and by clients. `callers` says who calls, or a front of its own does.

What one must know before touching it:
- A silent cut drops packets, as a firewall or a pulled cable does: nobody is refused, and what was sent arrives when
  the link heals. A reset flatters every guard: the other side notices at once, and stops acknowledging.
- A dead machine is silent, too, and what it had sent never arrives.
- Nothing is kept in memory beyond what one read brings: a held link is not read, and the kernel holds the sender back.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from soak.servers.backend import PortTakenError
from soak.servers.callers import CLIENTS, Callers
from soak.servers.ports import HOST
from soak.tasks import end_tasks

CONNECTIONS_MAX = 4_096
CLIENTS_MAX = 256
"""Of each node: so many clients are remembered."""
_CONNECT_SECONDS_MAX = 5.0
_READ_BYTES = 65_536


class Link(NamedTuple):
    """A direction of calls: caller and node. Replies go the same way back."""

    caller: str
    node: str
    is_bus: bool = False
    """Whether it leads to the second port of the node."""


class _Cut(enum.Enum):
    """What becomes of a link that is cut."""

    SILENT = "silent"
    """Packets vanish. What is under way arrives when the link heals."""
    RESET = "reset"
    """Connections are reset, and nobody gets a new one."""
    DEAD = "dead"
    """Packets vanish for good. The connections are reset when the link heals."""


class Writer(NamedTuple):
    """A connection of a client that has sent something to a node. Times are of the monotonic clock."""

    client: str
    """Its address."""
    opened_seconds: float
    last_sent_seconds: float


class Links:
    """The fronts of all nodes of a group."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._cut: set[Link] = set()
        self._how = _Cut.SILENT
        self._healed = asyncio.Event()
        self._delays: dict[Link, float] = {}
        self._sent: dict[str, dict[str, Writer]] = defaultdict(dict)
        """By node and client, who has been silent longest first."""
        self._open: dict[Link, set[asyncio.StreamWriter]] = defaultdict(set)
        self._tasks: set[asyncio.Task[None]] = set()
        self._fronts: list[asyncio.Server] = []

    async def listen(
        self, node: str, front: int, host: str, port: int, *, caller: str | None = None, is_bus: bool = False
    ) -> None:
        """Let the node at this host and port be reached at the front: by this caller alone, or by anybody."""

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            if task is None or len(self._tasks) >= CONNECTIONS_MAX:
                writer.transport.abort()
                return
            self._tasks.add(task)
            try:
                if (who := caller or await self._caller(writer)) is None:
                    writer.transport.abort()
                else:
                    await self._serve(Link(who, node, is_bus), reader, writer, (host, port))
            except asyncio.CancelledError:
                # Not raised: its callback in asyncio's streams trips over a task that was cancelled.
                writer.transport.abort()
            finally:
                self._tasks.discard(task)

        try:
            self._fronts.append(await asyncio.start_server(take, HOST, front))
        except OSError as error:
            raise PortTakenError(f"the front of {node}", front) from error

    def cut(self, links: Iterable[Link], *, silent: bool, is_bus_only: bool = False) -> None:
        """Cut these links, and no others, until `heal`: packets vanish, or connections are reset."""
        self._cut_off(_to_ports(links, is_bus_only=is_bus_only), _Cut.SILENT if silent else _Cut.RESET)
        if not silent:
            self._abort(self._cut)

    def lose(self, links: Iterable[Link]) -> None:
        """Cut these links, and no others, as if one end had died: what is under way never arrives."""
        self._cut_off(_to_ports(links), _Cut.DEAD)

    def _cut_off(self, links: Iterable[Link], how: _Cut) -> None:
        self._cut, self._how = set(links), how
        self._healed.clear()

    def slow_down(self, links: Iterable[Link], seconds: float) -> None:
        """Let everything on these links take so much longer until `heal`, at most twice that."""
        self._delays = dict.fromkeys(_to_ports(links), seconds) if seconds else {}

    def heal(self) -> None:
        """Restore every link."""
        if self._how is _Cut.DEAD:
            self._abort(self._cut)
        self._cut = set()
        self._delays = {}
        self._healed.set()

    def _abort(self, links: Iterable[Link]) -> None:
        for writer in [writer for link in links for writer in self._open[link]]:
            writer.transport.abort()

    def stayed(self, node: str, opened_before: float, sent_since: float) -> list[Writer]:
        """Return the connections of clients to a node that are older than this and were used later, the last first."""
        known = reversed(self._sent[node].values())
        return [one for one in known if one.opened_seconds < opened_before and one.last_sent_seconds >= sent_since]

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
                both.create_task(self._pump(link, reader, onward, client=_client(link, writer)))
                both.create_task(self._pump(link, back, writer))
        except* (OSError, TimeoutError, _LinkCutError):
            writer.transport.abort()
        finally:
            for one in (writer, onward):
                if one is not None:
                    self._open[link].discard(one)
                    with contextlib.suppress(OSError):
                        one.close()

    async def _pump(
        self, link: Link, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, client: str | None = None
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_READ_BYTES):
                if delay := self._delays.get(link):
                    await asyncio.sleep(delay)  # what comes meanwhile waits with it, in the kernel
                await self._pass(link)
                if client is not None:
                    self._note_sent(link.node, client)
                sink.write(data)
                await sink.drain()
        # A cut link does not carry the news that one side has gone, either.
        await self._pass(link)
        # A half-closed connection is of no use to any protocol here.
        sink.close()

    def _note_sent(self, node: str, client: str) -> None:
        clients, now = self._sent[node], time.monotonic()
        known = clients.pop(client, None)
        clients[client] = Writer(client, now if known is None else known.opened_seconds, now)
        if len(clients) > CLIENTS_MAX:
            del clients[next(iter(clients))]

    async def _pass(self, link: Link) -> None:
        """Return when the link is whole; raises where nothing may pass any more."""
        while link in self._cut:
            how = self._how
            if how is not _Cut.RESET:
                await self._healed.wait()
            if how is not _Cut.SILENT:
                raise _LinkCutError


def _to_ports(links: Iterable[Link], *, is_bus_only: bool = False) -> list[Link]:
    """Return the links to both ports of the nodes, or to the second one."""
    ports = (True,) if is_bus_only else (False, True)
    return [link._replace(is_bus=is_bus) for link in links for is_bus in ports]


def _client(link: Link, writer: asyncio.StreamWriter) -> str | None:
    """Return the address of a client; None if a node calls."""
    address = writer.get_extra_info("peername")
    return f"{address[0]}:{address[1]}" if address and link.caller == CLIENTS else None


class _LinkCutError(Exception):
    """The link is cut, and its connections are reset."""
