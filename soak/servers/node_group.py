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
from soak.servers.backend import PortTakenError, ServerBackend, StillLoadingError
from soak.servers.callers import CLIENTS, Callers, CallersByAddress
from soak.servers.links import Link, Links
from soak.servers.ports import HOST, free_port
from soak.servers.power_cut.source import CutPower
from soak.servers.process_backend import ProcessSite
from soak.servers.server import FRESH_PORTS_MAX, EventListener, LifecycleEvent, Server, ServerState
from soak.servers.state import Pinned
from soak.tasks import until

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
"""A client that still sends to the old primary so long after the failover has stayed with it."""
STAYED_SHOWN_MAX = 8
REPLACEMENTS_KEPT = 64


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
    """A primary that another server has replaced. Times are of the monotonic clock."""

    primary: str
    asked_seconds: float
    """When it was to be replaced."""
    replaced_seconds: float
    """When the group called another one the primary."""


class GroupNode(Server, abc.ABC):
    """One node of a group, asked past its front."""

    seat: Seat

    async def standing(self) -> str | None:
        """Return its role in the group and its replication position, as text; None if it keeps no data."""
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
            # A group that did not start is never ended, so the nodes that are up and the fronts are ended here.
            await self.kill()
            await self.group.close_links()
            raise

    async def how_it_ended(self) -> str | None:
        return None  # each node is watched, and started again, by itself

    async def end(self, seconds: float) -> None:
        if self.group is None:
            return
        del seconds  # each node may take as long as any server
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
    """What a node that is down or changing its role may raise when it is asked."""
    is_group = True
    servers: Sequence[N]
    """Those that hold data."""
    agree_seconds_max: ClassVar[float] = AGREE_SECONDS_MAX
    shards: ClassVar[int] = 1
    """How many primaries there are when all is well."""

    def _join(self, site: ProcessSite, *, fresh: bool) -> None:
        """Make the nodes, once the group exists."""
        self._site = site
        self._is_formed = not fresh
        """Whether the nodes know each other from an earlier start."""
        self.links: Links | None = None
        self.replacements_expected: float = 0
        """How often a primary may be replaced without a report: a fault is under way that does that."""
        self.replacements: list[Replacement] = []
        """Those of the latest fault, or of the latest time when nobody asked for one; the latest of them."""
        self._asked_seconds = 0.0
        """Since when a primary was to be replaced, or was there no more."""
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
        self._told_dead: set[str] = set()
        """The nodes whose death was reported as one of the group, and whose return was not."""

    def site_of(self, name: str) -> ProcessSite:
        """Return where a node lives."""
        seat, site = self.seats[name], self._site
        home = None if site.home is None else site.home / NODES_FOLDER / name
        pinned = Pinned(seat.port, self.pinned.password)
        return ProcessSite(name, site.folder / NODES_FOLDER / name, pinned, site.on_spawn, home, site.starter)

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
                # A port was taken in the meantime. All nodes take new ones, because each knows the ports of all.
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
        self._seen = await self._names_of_primaries()

    async def read_configuration(self) -> dict[str, str]:
        found: dict[str, str] = {}

        async def told() -> bool:
            found.update(await super(NodeGroup, self).read_configuration())  # type: ignore[safe-super]
            return True

        # All its nodes have just started: on a busy machine the first answer may take longer than any later one.
        await self.until(told, "report its configuration")
        return found

    async def telemetry(self) -> dict[str, str]:
        return {**await super().telemetry(), **await self._roles()}

    async def _roles(self) -> dict[str, str]:
        """Say who is the primary, what each node is and has, and which primaries were replaced."""
        answers = await asyncio.gather(*(self._standing(node) for node in self.nodes))
        standings = {node.name: one for node, one in zip(self.nodes, answers, strict=True) if one is not None}
        primaries = ", ".join(node.name for node in await self.primaries())
        return {"primary": primaries, **standings, **self._replacement_facts()}

    async def _standing(self, node: N) -> str | None:
        try:
            return await node.standing()
        except self.node_errors:
            return "no answer"

    def _replacement_facts(self) -> dict[str, str]:
        """Say which primaries were replaced, how, and which clients went on writing to them."""
        if not self.replacements or self.links is None:
            return {}
        stayed = [
            (one.client, one.last_sent_seconds - last.replaced_seconds)
            for last in self.replacements
            for one in self.links.stayed(
                last.primary,
                opened_before=last.replaced_seconds,
                sent_since=last.replaced_seconds + STAYED_SECONDS_MIN,
            )
        ]
        stayed.sort(key=lambda one: one[1], reverse=True)
        longest = max(one.replaced_seconds - one.asked_seconds for one in self.replacements)
        return {
            "replaced": ", ".join(one.primary for one in self.replacements),
            "replaced_after_seconds": f"{longest:.2f}",
            "stayed_clients": str(len(stayed)),
            "stayed_seconds": f"{max((seconds for _, seconds in stayed), default=0.0):.2f}",
            "stayed": ", ".join(f"{client} {seconds:.1f}s" for client, seconds in stayed[:STAYED_SHOWN_MAX]),
        }

    async def _keep_alive(self, on_event: EventListener) -> None:
        """Report a failover that nobody asked for; each node is watched, and started again, by itself."""
        served = now_us()
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            at, before = now_us(), self._seen
            try:
                found = await self._names_of_primaries()
            except self.node_errors:
                continue
            if before is not self._seen:
                continue  # a fault has looked in the meantime, and this answer may be older
            if found == self._seen and await self._all_answer():
                served = at
            is_expected = self.replacements_expected > 0
            if not is_expected and self._is_replaced(found):
                self.begin_replacements(0, since_us=served)
            if not self._take_in(found) or is_expected:
                continue
            detail = f"{', '.join(sorted(before - found))} was replaced by {', '.join(sorted(found - before))}"
            named = {"primary": ", ".join(sorted(before))}
            await self._report(on_event, "died", detail, at=served, replaces=True, telemetry=named)
            agreed = "not all agree yet"
            with contextlib.suppress(ServerUnreachableError):
                await self.until_agreed()
                agreed = "all agree"
            with contextlib.suppress(*self.node_errors):
                await self._look()
            told = f"{detail}, and {agreed}"
            await self._report(on_event, "restarted", told, replaces=True, telemetry=await self._facts())

    async def _all_answer(self) -> bool:
        """Whether all primaries answer, and soon: what one of them had not replicated dates from before its silence."""
        with contextlib.suppress(*self.node_errors, StillLoadingError, TimeoutError):
            async with asyncio.timeout(_WATCH_SECONDS):
                return all(await asyncio.gather(*(node.answers() for node in self.last_primaries)))
        return False

    async def _names_of_primaries(self) -> frozenset[str]:
        return frozenset(node.name for node in await self.primaries())

    def begin_replacements(self, expected: float, since_us: int | None = None) -> None:
        """Forget earlier replacements: primaries are replaced from now on, so many of them without a report."""
        self.replacements.clear()
        self.replacements_expected = expected
        self._asked_seconds = time.monotonic() if since_us is None else since_us / 1e6

    async def replaced_as_expected(self) -> None:
        """Take the primaries as they are now, and report every change from now on."""
        await self._look()
        self.replacements_expected = 0

    async def _look(self) -> None:
        """Note who are the primaries now, unless that was noted while they were asked for: then it is newer."""
        seen = self._seen
        found = await self._names_of_primaries()
        if seen is self._seen:
            self._take_in(found)

    def _is_replaced(self, found: frozenset[str]) -> bool:
        # Of a cluster, a primary that is gone is named no more before another one takes over from it.
        return bool(self._seen - found) and bool(found - self._seen) and len(found) >= self.shards

    def _take_in(self, found: frozenset[str]) -> bool:
        """Note who are the primaries now; returns whether one was replaced since this was last noted."""
        is_replaced = self._is_replaced(found)
        if is_replaced:
            now = time.monotonic()
            self.replacements += [Replacement(name, self._asked_seconds, now) for name in sorted(self._seen - found)]
            del self.replacements[:-REPLACEMENTS_KEPT]
            self.replacements_expected = max(0, self.replacements_expected - 1)
        if is_replaced or not self._seen:
            self._seen = found
        return is_replaced

    async def _facts(self) -> dict[str, str]:
        with contextlib.suppress(*self.node_errors):
            return await self._roles()
        return {}

    def _on_node_event(self, event: LifecycleEvent) -> Any:
        # Only the death of a primary counts as one of the memory: clients do not notice the others.
        is_primary = event.kind in {node.name for node in self.last_primaries}
        # One that was told to have died is told to be back, also if another one is the primary by then.
        is_back = event.what == "restarted" and event.kind in self._told_dead
        if self._on_event is None or not (is_primary or is_back):
            return None
        (self._told_dead.add if event.what == "died" else self._told_dead.discard)(event.kind)
        return self._on_event(LifecycleEvent(kind=self.name, what=event.what, at_us=event.at_us, detail=event.detail))

    async def _open_links(self) -> None:
        if self.links is not None:
            return
        self.links = Links(self._callers())
        for seat in self.seats.values():
            await self.links.listen(seat.name, seat.front, seat.host, seat.port)
            if self.has_bus:
                await self.links.listen(seat.name, seat.bus, seat.host, seat.bus_port, is_bus=True)
            if self.has_client_fronts:
                await self.links.listen(seat.name, seat.client_front, seat.host, seat.port, caller=CLIENTS)

    has_bus: ClassVar[bool] = False
    has_client_fronts: ClassVar[bool] = False
    """Whether clients have fronts of their own: needed where finding out who calls takes time."""

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
        self._asked_seconds = time.monotonic()

        async def replaced() -> bool:
            found = await self.primaries()
            if primary not in found and len(found) >= self.shards:
                return True
            if ask is not None:
                await ask()
            return False

        await self.until(replaced, f"replace {primary.name}")
        await self._until_taken_over()
        await self._look()

    async def _until_taken_over(self) -> None:
        """Wait until the server that is called the primary now takes writes; where it is not called so before that."""

    async def until(self, holds: Callable[[], Any], what: str) -> None:
        """Wait until something holds; one that does not answer meanwhile is still starting."""

        async def holds_for_all() -> bool:
            try:
                return bool(await holds())
            except self.node_errors:
                return False

        if not await until(holds_for_all, self.agree_seconds_max, _POLL_SECONDS):
            raise ServerUnreachableError(
                f"{self.title} did not {what} within {self.agree_seconds_max:.0f} s; see the logs in {self.folder}"
            )

    # -- orderly changes --

    @property
    def hands_over(self) -> bool:
        """Whether a primary can be replaced without losing anything."""
        return True

    @abc.abstractmethod
    async def hand_over(self, primary: N) -> None:
        """Let another server take the place of a primary, in the best order that this version knows."""

    async def restart(self, node: N) -> None:
        """Stop a node cleanly, if it runs, and start it again."""
        if node.pid is not None:
            await node.stop_cleanly()
        await node.start_again()

    # -- links --

    def to_others(self, node: N) -> list[Link]:
        """Return the links of clients to all nodes but a server and what is beside it."""
        return [Link(CLIENTS, other) for other in self.name_of_nodes if other not in self.beside(node)]

    def around(self, node: N, *, clients: bool) -> list[Link]:
        """Return the links between a server with what is beside it and the rest; `clients`: theirs to it, too."""
        side = self.beside(node)
        rest = set(self.name_of_nodes) - side
        links = [Link(one, other) for one in side for other in rest]
        links += [Link(link.node, link.caller) for link in links]
        return links + [Link(CLIENTS, one) for one in side] if clients else links


def _low_port() -> int:
    """Return a free port: if possible so low that no outgoing connection is given the port of the cluster bus."""
    found = free_port()
    for _ in range(_LOW_TRIES):
        if found <= _PORT_MAX:
            break
        found = free_port()
    return found
