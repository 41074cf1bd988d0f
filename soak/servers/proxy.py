"""A TCP proxy in front of one server: one stable address for clients, and network faults at will.

What one must know before touching it:
- Nothing is kept in memory beyond small bounds: a side that takes no more bytes makes the other side unread, and the
  kernel's own buffers hold the sender back.
- Bytes that are held or late are never dropped: they arrive when the fault is healed, even after their sender
  has given up and gone. That is what real networks do to a write whose client has timed out.
- A reply is lost only after the server has given it, so the request was applied.
- A connection that is cut is reset, not closed: a client must not take it for an orderly goodbye.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import enum
import os
import random
import socket
import struct
import time
from collections.abc import Callable
from typing import cast

from soak.errors import ServerUnreachableError
from soak.servers.exchange import Exchange
from soak.servers.ports import HOST
from soak.tasks import end_tasks

CONNECTIONS_MAX = 4_096
EVERYWHERE = "0.0.0.0"
"""To listen on every address of this machine."""
BUFFER_BYTES_MAX = 256 * 1024
"""Per connection and direction; reached only by what is late, or by a receiver that is slow."""
CONNECT_SECONDS_MAX = 5.0
CUT_AFTER_SECONDS = 0.05
"""From a lost reply to the cut, so that a request that came in parts is with the server as a whole."""
_BACKLOG = 512
_QUEUE_FILLERS = 4
"""A queue of length 0 takes one; the others make sure of it."""
_ROUNDS_MAX = 1_000
_REBIND_SECONDS_MAX = 2.0
_EPSILON = 1e-9
"""A share of 1/7 is a little less than that: the seventh counts all the same."""


class Direction(enum.Enum):
    """Which way bytes go."""

    TO_SERVER = "to_server"
    TO_CLIENT = "to_client"


def directions(name: str) -> tuple[Direction, ...]:
    """Return what is meant by `to_server`, `to_client` or `both`."""
    return tuple(Direction) if name == "both" else (Direction(name),)


class Proxy:
    """Listens on one port and passes everything on to another, unless a fault says otherwise."""

    def __init__(
        self,
        port: int,
        server_port: int,
        exchange: Callable[[], Exchange],
        *,
        host: str = HOST,
        server_host: str = HOST,
        is_opaque: bool = False,
    ) -> None:
        """Listen here and pass on to there; of opaque traffic no reply can be recognized."""
        self.port = port
        self.server_port = server_port
        self.server_host = server_host
        self.is_opaque = is_opaque
        self._host = host
        self.replies_dropped = 0
        self._exchange = exchange
        self._links: set[_Link] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._placeholder: socket.socket | None = None
        self._silence: list[socket.socket] = []
        """What keeps the port while nobody is answered: a socket that listens, and what fills its queue."""
        self._bytes_per_second = 0.0
        self._link_free_at = dict.fromkeys(Direction, 0.0)
        self._held: frozenset[Direction] = frozenset()
        self._latency_seconds = dict.fromkeys(Direction, 0.0)
        self._random = random.Random()
        self._jitter_seconds = dict.fromkeys(Direction, 0.0)
        self._drop_share = 0.0
        self._writes_answered = 0

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._links)

    @property
    def host(self) -> str:
        """Where clients on this machine reach it."""
        return HOST if self._host == EVERYWHERE else self._host

    @property
    def refuses(self) -> bool:
        return self._placeholder is not None

    async def start(self) -> None:
        """Listen; raises `ServerUnreachableError` when the port is taken."""
        try:
            await self._listen(_bound(self._host, self.port))
        except OSError as error:
            raise ServerUnreachableError(
                f"the proxy of port {self.server_port} cannot listen on {self._host}:{self.port} ({error.strerror}); "
                "end what uses that port or choose another data folder"
            ) from error

    async def close(self) -> None:
        """End all connections and give the port free."""
        self._break_silence()
        if self._placeholder is not None:
            self._placeholder.close()
            self._placeholder = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        await end_tasks(self._connecting)
        self.reset_connections()
        # Transports give up their sockets in the next rounds of the loop.
        for _ in range(_ROUNDS_MAX):
            if not self._links:
                return
            await asyncio.sleep(0)

    async def refuse(self) -> None:
        """Let nobody connect from now on, as if no server listened; connections that are open go on."""
        if self._listener is None:
            return
        self._listener.close()
        self._listener = None
        # A socket that is bound and does not listen keeps the port ours, and its kernel refuses connections.
        self._placeholder = await _bound_again(self._host, self.port)

    async def accept(self) -> None:
        """Let clients connect again."""
        placeholder, self._placeholder = self._placeholder, None
        if placeholder is not None:
            await self._listen(placeholder)

    async def vanish(self, *directions: Direction) -> None:
        """Let all packets vanish: open connections stay open and silent, and new ones are never answered.

        In one direction only, open connections go on in the other; no new one can be made either way.
        """
        self.hold(*(directions or tuple(Direction)))
        if self._listener is None:
            return
        self._listener.close()
        self._listener = None
        # A kernel drops the packets of those who want to connect while the queue of a listener is full.
        silent = await _bound_again(self._host, self.port)
        self._silence = [silent]
        silent.listen(0)
        for _ in range(_QUEUE_FILLERS):
            filler = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self._silence.append(filler)
            filler.settimeout(0)
            filler.connect_ex((self.host, self.port))

    async def reappear(self) -> None:
        """Let packets through again; what was held arrives, and those who still try to connect succeed."""
        if self._silence:
            self._break_silence()
            await self._listen(await _bound_again(self._host, self.port))
        self.release()

    def _break_silence(self) -> None:
        # The listener last: as long as it is there, nobody else gets the port.
        while self._silence:
            self._silence.pop().close()

    def reset_connections(self, share: float = 1.0) -> None:
        """Cut open connections on both sides, all or a share of them; whatever was under way is lost."""
        links = list(self._links)
        for link in links[: max(1, round(len(links) * share))]:
            link.cut()

    def hold(self, *directions: Direction) -> None:
        """Pass nothing on in these directions, of open and new connections, until `release`."""
        self._held = frozenset(directions)
        for link in self._links:
            link.follow_hold()

    def release(self) -> None:
        self.hold()

    def held(self, direction: Direction) -> bool:
        return direction in self._held

    def delay(self, seconds: float, *directions: Direction, jitter_seconds: float = 0.0) -> None:
        """Let every byte arrive so much later, and up to the jitter later still; without directions, in both."""
        for direction in directions or tuple(Direction):
            self._latency_seconds[direction] = seconds
            self._jitter_seconds[direction] = jitter_seconds

    def narrow(self, bytes_per_second: float) -> None:
        """Let no more than so many bytes a second through, of all connections together in each direction; 0: all."""
        self._bytes_per_second = bytes_per_second
        self._link_free_at = dict.fromkeys(Direction, 0.0)
        if not bytes_per_second:
            for link in self._links:
                link.hurry()

    def seconds_until_due(self, direction: Direction, size: int) -> float:
        """Return when so many bytes that have come just now are through: a slow link takes its time for each."""
        seconds = self._latency_seconds[direction] + self._random.uniform(0.0, self._jitter_seconds[direction])
        if self._bytes_per_second:
            now = asyncio.get_running_loop().time()
            free_at = max(now, self._link_free_at[direction]) + size / self._bytes_per_second
            self._link_free_at[direction] = free_at
            seconds += free_at - now
        return seconds

    def drop_replies(self, share: float) -> None:
        """Lose this share of the acknowledgements of writes, evenly, and their connections with them; 0: none."""
        self._drop_share = share
        self._writes_answered = 0

    async def heal(self) -> None:
        """End all faults."""
        await self.reappear()
        self.delay(0.0)
        self.narrow(0.0)
        self.drop_replies(0)
        await self.accept()

    def is_to_be_lost(self) -> bool:
        """Count an acknowledged write; tells whether its reply is one to lose."""
        due = int(self._writes_answered * self._drop_share + _EPSILON)
        self._writes_answered += 1
        if int(self._writes_answered * self._drop_share + _EPSILON) == due:
            return False
        self.replies_dropped += 1
        return True

    async def _listen(self, bound: socket.socket) -> None:
        try:
            loop = asyncio.get_running_loop()
            self._listener = await loop.create_server(self._client, sock=bound, backlog=_BACKLOG)
        except BaseException:
            bound.close()
            raise

    def _client(self) -> asyncio.Protocol:
        return _Link(self, self._exchange()).client

    def opened(self, link: _Link) -> None:
        if len(self._links) >= CONNECTIONS_MAX:
            link.cut()
            return
        self._links.add(link)
        task = asyncio.get_running_loop().create_task(self._connect(link))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    def closed(self, link: _Link) -> None:
        self._links.discard(link)

    async def _connect(self, link: _Link) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS_MAX):
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: link.server, self.server_host, self.server_port)
        except (OSError, TimeoutError):
            link.cut()
        except asyncio.CancelledError:
            link.cut()
            raise


class _Link:
    """One client's connection, and the one to the server on its behalf."""

    def __init__(self, proxy: Proxy, exchange: Exchange) -> None:
        self.proxy = proxy
        self._exchange = exchange
        self.client = _Side(self, Direction.TO_SERVER)
        self.server = _Side(self, Direction.TO_CLIENT)
        self.client.peer, self.server.peer = self.server, self.client
        self._is_cut = False
        self._loses_reply = False

    def opened(self, side: _Side) -> None:
        if self._is_cut or (side is self.server and self.client.is_gone):
            side.abort()
        elif side is self.client:
            # Nothing is read before there is somebody to pass it on to.
            side.unread("connecting", on=True)
            self.proxy.opened(self)
        else:
            self.client.unread("connecting", on=False)
        self.follow_hold()

    def received(self, side: _Side, data: bytes) -> None:
        if self._loses_reply:
            if side is self.client:
                side.peer.deliver(data)
            return
        if side is self.client:
            self._exchange.requested(data)
        elif self._exchange.acknowledges(data) and self.proxy.is_to_be_lost():
            self._loses_reply = True
            asyncio.get_running_loop().call_later(CUT_AFTER_SECONDS, self.cut)
            return
        side.peer.deliver(data)

    def lost(self, side: _Side) -> None:
        side.peer.close()
        if side.peer.is_gone:
            self.proxy.closed(self)

    def follow_hold(self) -> None:
        for side in (self.client, self.server):
            side.unread("held", on=self.proxy.held(side.direction))

    def hurry(self) -> None:
        self.client.hurry()
        self.server.hurry()

    def cut(self) -> None:
        self._is_cut = True
        self.client.abort()
        self.server.abort()
        if self.client.is_gone and self.server.is_gone:
            self.proxy.closed(self)


class _Side(asyncio.Protocol):
    """One of a link's two sockets: bytes read from it go in one direction, to the other."""

    peer: _Side

    def __init__(self, link: _Link, direction: Direction) -> None:
        self._link = link
        self.direction = direction
        self._transport: asyncio.Transport | None = None
        self._gone = False
        self._closing = False
        self._unread_for: set[str] = set()
        self._late: collections.deque[tuple[float, bytes]] = collections.deque()
        """What is to be written to this socket, and when."""
        self._late_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_gone(self) -> bool:
        """Whether there is no socket: not yet, or no more."""
        return self._transport is None or self._gone

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = opened = cast("asyncio.Transport", transport)
        opened.set_write_buffer_limits(high=BUFFER_BYTES_MAX)
        if self._unread_for:
            opened.pause_reading()
        self._link.opened(self)
        if self._late:
            self._deliver_late()
        if self._closing:
            self.close()

    def data_received(self, data: bytes) -> None:
        self._link.received(self, data)

    def pause_writing(self) -> None:
        self.peer.unread("full", on=True)

    def resume_writing(self) -> None:
        self.peer.unread("full", on=False)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  how it ended is of no interest
        self._gone = True
        self._forget_late()
        self._link.lost(self)

    def deliver(self, data: bytes) -> None:
        """Write to this socket: now, or when it is due."""
        if self._gone:
            return
        seconds = self._link.proxy.seconds_until_due(self.peer.direction, len(data))
        if self._transport is not None and not seconds and not self._late:
            self._transport.write(data)
            return
        loop = asyncio.get_running_loop()
        self._late.append((loop.time() + seconds, data))
        self._late_bytes += len(data)
        if self._late_bytes > BUFFER_BYTES_MAX:
            self.peer.unread("late", on=True)
        # Some event loops read a moment before they can be asked not to: it waits until there is a socket for it.
        if self._timer is None and self._transport is not None:
            self._timer = loop.call_at(self._late[0][0], self._deliver_late)

    def close(self) -> None:
        """Close after all that is on its way has been written."""
        self._closing = True
        if self._transport is not None and not self._gone and not self._late:
            self._transport.close()

    def abort(self) -> None:
        """Reset the connection."""
        self._forget_late()
        if self._transport is None or self._gone:
            return
        with contextlib.suppress(OSError):
            _reset_on_close(self._transport)
        self._transport.abort()

    def unread(self, reason: str, *, on: bool) -> None:
        """Read nothing from this socket while there is a reason not to."""
        (self._unread_for.add if on else self._unread_for.discard)(reason)
        if self._transport is None or self._transport.is_closing():
            return
        if self._unread_for and self._transport.is_reading():
            self._transport.pause_reading()
        elif not self._unread_for and not self._transport.is_reading():
            self._transport.resume_reading()

    def hurry(self) -> None:
        """Let everything arrive now that was to be late."""
        self._late = collections.deque((0.0, data) for _, data in self._late)
        if self._timer is not None:
            self._timer.cancel()
            self._deliver_late()

    def _deliver_late(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        while self._late and self._late[0][0] <= loop.time():
            _, data = self._late.popleft()
            self._late_bytes -= len(data)
            if self._transport is not None and not self._gone:
                self._transport.write(data)
        if self._late_bytes <= BUFFER_BYTES_MAX:
            self.peer.unread("late", on=False)
        if self._late:
            self._timer = loop.call_at(self._late[0][0], self._deliver_late)
        elif self._closing:
            self.close()

    def _forget_late(self) -> None:
        self._late.clear()
        self._late_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _bound(host: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except BaseException:
        bound.close()
        raise
    return bound


async def _bound_again(host: str, port: int) -> socket.socket:
    # Some event loops close a listening socket a round later than they are asked to.
    deadline = time.monotonic() + _REBIND_SECONDS_MAX
    while True:
        try:
            return _bound(host, port)
        except OSError:
            if time.monotonic() >= deadline:
                raise
            await asyncio.sleep(0)


def _reset_on_close(transport: asyncio.Transport) -> None:
    # On a copy of the descriptor: event loops other than asyncio's own hand out no real socket.
    with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as copy:
        copy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
