"""Several nodes that act as one server: what the groups of Redis and of PostgreSQL share.

Each node is a process with a loopback address of its own. Clients and peers reach it at its front (`links`), which is
the address it announces, so every link can be cut by itself.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from soak.clock import now_us
from soak.errors import ServerUnreachableError, UsageError
from soak.servers.backend import PortTakenError, ServerBackend
from soak.servers.callers import CLIENTS, Callers, CallersByAddress
from soak.servers.links import Link, Links
from soak.servers.ports import HOST, free_port
from soak.servers.power_cut.source import CutPower
from soak.servers.process_backend import ProcessSite
from soak.servers.server import FRESH_PORTS_MAX, EventListener, LifecycleEvent, Server, ServerState
from soak.servers.state import Pinned

NODES_FOLDER = "nodes"
AGREE_SECONDS_MAX = 60.0
BUS_OFFSET = 10_000
"""From the port of a node to its second one: the bus of a Redis Cluster, Patroni's REST API, etcd's port for peers."""
_PORT_MAX = 22_767
_LOW_TRIES = 50
_FRONT = "front of "
_BUS = "bus of "
_CLIENT_FRONT = "client front of "
_POLL_SECONDS = 0.05
_WATCH_SECONDS = 0.5
STAYED_SECONDS_MIN = 0.2
"""A client that sends to the old primary so long after the group has named another one has stayed with it."""
STAYED_SHOWN_MAX = 8


class Seat(NamedTuple):
    """Where one node is: what it listens on, and the fronts that it announces."""

    name: str
    host: str
    port: int
    front: int
    bus: int
    """The front of its second port."""
    client_front: int
    """The front for clients, where they have one of their own."""

    @property
    def bus_port(self) -> int:
        return self.port + BUS_OFFSET


class Replacement(NamedTuple):
    """A primary whose place another server has taken. Times are of the monotonic clock."""

    primary: str
    asked_seconds: float
    """When it was to be replaced."""
    replaced_seconds: float
    """When the group called another one the primary."""


class GroupNode(Server, abc.ABC):
    """One node of a group, asked past its front."""

    seat: Seat

    async def standing(self) -> str | None:
        """Say what it is in its group, and how far it has come; None if it keeps no data."""
        return None


N = TypeVar("N", bound=GroupNode)


class GroupBackend(ServerBackend):
    """Starts and ends all nodes of a group."""

    is_local_process = True

    def __init__(self, title: str, folder: Path, options: Mapping[str, str]) -> None:
        super().__init__(title, folder, options)
        self.group: NodeGroup[Any] | None = None

    @property
    def _nodes(self) -> list[GroupNode]:
        if self.group is None:
            raise TypeError("asked before its group is there")
        return self.group.nodes

    @property
    def working_folder(self) -> Path:
        raise UsageError(f"{self.title} keeps its data in a folder for each of its nodes")

    @property
    def pid(self) -> int | None:
        return next((node.pid for node in self._nodes if node.pid is not None), None)

    @property
    def no_power_cut(self) -> str | None:
        return "power cuts of a group are not done yet"

    async def launch(self) -> None:
        if self.group is None:
            return
        try:
            await self.group.launch_nodes()
        except BaseException:
            # Nobody ends what has not been started: nodes that are up, and fronts that clients still call.
            await self.kill()
            await self.group.close_links()
            raise

    async def how_it_ended(self) -> str | None:
        return None  # each node is watched, and started again, by itself

    async def end(self, seconds: float) -> None:
        if self.group is None:
            return
        del seconds  # each node has as much as any server
        for nodes in self.group.in_order_of_end():
            await asyncio.gather(*(node.stop_cleanly() for node in nodes))
        await self.group.close_links()

    async def kill(self) -> None:
        await asyncio.gather(*(node.kill() for node in self._nodes))

    async def freeze(self) -> None:
        await asyncio.gather(*(node.pause() for node in self._nodes))

    async def thaw(self) -> None:
        await asyncio.gather(*(node.resume() for node in self._nodes))

    async def wipe(self) -> None:
        await asyncio.gather(*(node.wipe() for node in self._nodes))

    async def cut_power(self) -> CutPower | None:
        raise UsageError(f"the power of {self.title} cannot be cut: {self.no_power_cut}")

    async def last_words(self, lines_max: int = 3) -> str:
        words = [f"{node.name}: {await node.backend.last_words(lines_max)}" for node in self._nodes]
        return "; ".join(words)


class NodeGroup(Server, abc.ABC, Generic[N]):
    """The group as its clients see it: one server."""

    topology: ClassVar[str]
    """What it is called in sentences."""
    flag: ClassVar[str]
    """How a person asks for it."""

    name_of_nodes: ClassVar[tuple[str, ...]]
    """All nodes, in the order of their addresses."""

    node_errors: ClassVar[tuple[type[Exception], ...]] = (ServerUnreachableError,)
    """What asking a node may raise that is down, or about to be something else."""
    is_group = True
    agree_seconds_max: ClassVar[float] = AGREE_SECONDS_MAX

    def _join(self, site: ProcessSite, *, fresh: bool) -> None:
        """Make the nodes, once the group itself is made."""
        self._site = site
        self._is_formed = not fresh
        """Whether the nodes know each other from an earlier start."""
        self.links: Links | None = None
        self.replacements_expected: float = 0
        """How often a primary may be replaced without a report: a fault is under way that does that."""
        self.last_replacement: Replacement | None = None
        """The last one that a fault brought about."""
        self.nodes: list[N] = []
        self._take_seats()
        if isinstance(self.backend, GroupBackend):
            self.backend.group = self

    @property
    def nodes_folder(self) -> Path:
        """Holds one folder for each node."""
        return (self._site.home or self._site.folder) / NODES_FOLDER

    @abc.abstractmethod
    def _make_nodes(self) -> list[N]:
        """Make all nodes, in the seats they have."""

    @abc.abstractmethod
    def in_order_of_end(self) -> Sequence[Sequence[N]]:
        """Return the nodes in the order in which they are ended, so that nothing is lost and nobody is replaced."""

    @abc.abstractmethod
    async def _form(self) -> None:
        """Start the nodes, and let them find each other if they have not before."""

    @abc.abstractmethod
    async def primaries(self) -> list[N]:
        """Return the servers that take writes now, as the group itself sees it."""

    @abc.abstractmethod
    async def _agree(self) -> bool:
        """Whether all nodes see the same primaries, and every other server follows one of them."""

    @abc.abstractmethod
    def beside(self, node: N) -> set[str]:
        """Return the nodes that are on the same machine as this one, with itself."""

    # -- seats --

    def _take_seats(self) -> None:
        ports = self.pinned.nodes
        for name in self.name_of_nodes:
            for key in (name, _FRONT + name, _BUS + name, _CLIENT_FRONT + name):
                if key not in ports:
                    ports[key] = _low_port()
        # A loopback network of its own: two groups on one machine do not meet.
        first = ports[self.name_of_nodes[0]]
        network = f"127.{64 + first % 128}.{first // 128 % 256}"
        self.seats = {
            name: Seat(
                name,
                f"{network}.{number}",
                *(ports[key] for key in (name, _FRONT + name, _BUS + name, _CLIENT_FRONT + name)),
            )
            for number, name in enumerate(self.name_of_nodes, start=1)
        }
        self.nodes = self._make_nodes()
        self.last_primaries = self.nodes[:1]
        self._seen: frozenset[str] = frozenset()

    def site_of(self, name: str) -> ProcessSite:
        """Return where a node lives."""
        seat, site = self.seats[name], self._site
        home = None if site.home is None else site.home / NODES_FOLDER / name
        pinned = Pinned(seat.port, self.pinned.password)
        return ProcessSite(name, site.folder / NODES_FOLDER / name, pinned, site.on_spawn, home)

    def node_at(self, front: int) -> N:
        """Return the node with this front."""
        return next(node for node in self.nodes if node.seat.front == front)

    # -- life --

    async def start(self) -> None:
        # Not as one server does, which would only take another port for itself.
        self.state = ServerState.STARTING
        for _ in range(FRESH_PORTS_MAX):
            try:
                await self._launch()
            except PortTakenError:
                if self._is_formed:
                    raise
                # Lost the race for a port that nobody knows yet: all nodes take others, for each knows those of all.
                await asyncio.to_thread(shutil.rmtree, self.nodes_folder, ignore_errors=True)
                self.pinned.nodes.clear()
                self._take_seats()
            else:
                self._fresh = False
                return
        raise ServerUnreachableError(f"{self.title} found {FRESH_PORTS_MAX} free ports taken by others; start it again")

    async def start_proxy(self, host: str = HOST) -> None:
        del host
        self.no_proxy = "clients reach the nodes of a group at their fronts"

    async def launch_nodes(self) -> None:
        """Start every node, and return when all agree who is a primary."""
        await self._open_links()
        await self._form()
        self._is_formed = True
        await self.until_agreed()

    async def telemetry(self) -> dict[str, str]:
        answers = await asyncio.gather(*(self._standing(node) for node in self.nodes))
        standings = {node.name: one for node, one in zip(self.nodes, answers, strict=True) if one is not None}
        primaries = ", ".join(node.name for node in await self.primaries())
        return {**await super().telemetry(), "primary": primaries, **standings, **self._replacement_facts()}

    async def _standing(self, node: N) -> str | None:
        try:
            return await node.standing()
        except self.node_errors:
            return "no answer"

    def _replacement_facts(self) -> dict[str, str]:
        """Say how the last primary was replaced, and which clients went on writing to it."""
        last = self.last_replacement
        if last is None or self.links is None:
            return {}
        replaced = last.replaced_seconds
        stayed = self.links.stayed(last.primary, opened_before=replaced, sent_since=replaced + STAYED_SECONDS_MIN)
        shown = [f"{one.client} {one.last_sent_seconds - last.replaced_seconds:.1f}s" for one in stayed]
        return {
            "replaced": last.primary,
            "replaced_after_seconds": f"{last.replaced_seconds - last.asked_seconds:.2f}",
            "stayed_clients": str(len(stayed)),
            "stayed": ", ".join(shown[:STAYED_SHOWN_MAX]),
        }

    async def _keep_alive(self, on_event: EventListener) -> None:
        """Report a failover that nobody asked for; each node is watched, and started again, by itself."""
        self._seen = await self._names_of_primaries()
        asked = now_us()
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            at = now_us()
            try:
                found = await self._names_of_primaries()
            except self.node_errors:
                continue
            if found == self._seen:
                asked = at
                continue
            before, self._seen = self._seen, found
            if self.replacements_expected > 0:
                self.replacements_expected -= 1
                continue
            detail = f"{', '.join(sorted(before - found))} was replaced by {', '.join(sorted(found - before))}"
            await self._report(on_event, "died", detail, at=asked)
            with contextlib.suppress(ServerUnreachableError):
                await self.until_agreed()
            self._seen = await self._names_of_primaries()
            await self._report(on_event, "restarted", f"{detail}, and all agree")

    async def _names_of_primaries(self) -> frozenset[str]:
        return frozenset(node.name for node in await self.primaries())

    async def replaced_as_expected(self) -> None:
        """Take the primaries as they are now, and report every change from now on."""
        self._seen = await self._names_of_primaries()
        self.replacements_expected = 0

    def _on_node_event(self, event: LifecycleEvent) -> Any:
        # Only the death of a primary is one of the memory; the others are replaced without anybody noticing.
        if self._on_event is None or event.kind not in {node.name for node in self.last_primaries}:
            return None
        return self._on_event(LifecycleEvent(kind=self.name, what=event.what, at_us=event.at_us, detail=event.detail))

    async def _open_links(self) -> None:
        if self.links is not None:
            return
        self.links = Links(self._callers())
        for seat in self.seats.values():
            await self.links.listen(seat.name, seat.front, seat.host, seat.port)
            if self.has_bus:
                await self.links.listen(seat.name, seat.bus, seat.host, seat.bus_port)
            if self.has_client_fronts:
                await self.links.listen(seat.name, seat.client_front, seat.host, seat.port, caller=CLIENTS)

    has_bus: ClassVar[bool] = False
    has_client_fronts: ClassVar[bool] = False
    """Whether clients have fronts of their own: where it takes time to find out who calls."""

    def _callers(self) -> Callers:
        return CallersByAddress({seat.host: seat.name for seat in self.seats.values()})

    async def close_links(self) -> None:
        if self.links is not None:
            await self.links.close()
            self.links = None

    # -- who is what --

    async def until_agreed(self) -> None:
        """Wait until all nodes see the same primaries, and every other server follows one of them."""
        await self.until(self._agree, "agree on its primaries")

    async def until_replaced(self, primary: N, ask: Callable[[], Awaitable[None]] | None = None) -> None:
        """Wait until a server is no longer called a primary, asking for that again and again."""
        asked = time.monotonic()
        self.last_replacement = None

        async def replaced() -> bool:
            if primary not in await self.primaries():
                return True
            if ask is not None:
                await ask()
            return False

        await self.until(replaced, f"replace {primary.name}")
        self.last_replacement = Replacement(primary.name, asked, time.monotonic())

    async def until(self, holds: Callable[[], Any], what: str) -> None:
        """Wait until something holds; one that does not answer meanwhile is still starting."""
        deadline = time.monotonic() + self.agree_seconds_max
        while True:
            try:
                if await holds():
                    return
            except self.node_errors:
                pass
            if time.monotonic() >= deadline:
                raise ServerUnreachableError(
                    f"{self.title} did not {what} within {self.agree_seconds_max:.0f} s; see the logs in {self.folder}"
                )
            await asyncio.sleep(_POLL_SECONDS)

    # -- links --

    def to_others(self, node: N) -> list[Link]:
        """Return the links of clients to all nodes but a server and what is beside it."""
        return [Link(CLIENTS, other) for other in self.name_of_nodes if other not in self.beside(node)]

    def around(self, node: N, *, clients: bool) -> list[Link]:
        """Return the links between a server with what is beside it and the rest; `clients`: theirs to it, too."""
        side = self.beside(node)
        rest = set(self.name_of_nodes) - side
        links = [Link(one, other) for one in side for other in rest]
        links += [Link(other, one) for one, other in links]
        return links + [Link(CLIENTS, one) for one in side] if clients else links


def _low_port() -> int:
    """Return a free port: if possible so low that no outgoing connection is given the port of the cluster bus."""
    found = free_port()
    for _ in range(_LOW_TRIES):
        if found <= _PORT_MAX:
            break
        found = free_port()
    return found
