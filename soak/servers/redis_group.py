"""Several Redis nodes that act as one server: what Sentinel and Cluster groups share."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from redis.exceptions import RedisError

from soak.errors import ServerUnreachableError
from soak.proc.files import write_whole
from soak.servers.kinds import ServerKind
from soak.servers.node_group import GroupBackend, GroupNode, NodeGroup, Seat
from soak.servers.process_backend import ProcessSite
from soak.servers.redis import RedisServer
from soak.servers.redis_process import RedisProcess
<<<<<<< HEAD
=======
from soak.servers.server import FRESH_PORTS_MAX, EventListener, LifecycleEvent, ServerState
>>>>>>> groups
from soak.servers.state import Pinned
from soak.servers.versions import ServerRelease, ServerVersion, redis_version

REPLICATION = {"repl-diskless-sync": "yes", "repl-diskless-sync-delay": "0", "repl-timeout": "5"}
"""Quick to follow, and quick to notice that the other side is gone."""
_SOURCE_ADDRESS_SINCE = 7


class NodeProcess(RedisProcess):
    """One node as a process."""

    def __init__(self, site: ProcessSite, seat: Seat, seats: Mapping[str, Seat], **choices: Any) -> None:
        super().__init__(site, **choices)
        self.seat = seat
        self.seats = seats

    @property
    def listens_on(self) -> str:
        return self.seat.host

    def source_lines(self) -> list[str]:
        """Return what makes it call from its own address: the fronts tell callers apart by that."""
        # Older versions call from the address they listen on, and refuse to start with this line.
        return [f"bind-source-addr {self.seat.host}"] if self.version.major >= _SOURCE_ADDRESS_SINCE else []

    def renew_settings(self) -> None:
        """Add to a file that an older version has written what this version needs besides."""
        text = self._settings_path.read_text()
        if missing := [line for line in self.source_lines() if line not in text.splitlines()]:
            write_whole(self._settings_path, "\n".join([text.rstrip("\n"), *missing, ""]).encode())

    def replication_lines(self) -> list[str]:
        return [
            *(f"{name} {value}" for name, value in REPLICATION.items() if name not in self.options),
            f"masterauth {self.pinned.password}",
        ]


class Node(GroupNode, RedisServer):
    """One node of a group, asked past its front."""

    def __init__(self, kind: ServerKind, pinned: Pinned, backend: NodeProcess) -> None:
        super().__init__(kind, pinned, backend, fresh=False)
        self.seat = backend.seat
        self.name = self.seat.name

    def address_at(self, port: int) -> str:
        return f"redis://:{self.pinned.password}@{self.seat.host}:{port}/0"

    async def ask(self, *command: str) -> Any:
        """Send one command to this node."""
        async with self._asking() as client:
            return await client.execute_command(*command)  # type: ignore[no-untyped-call]

    async def standing(self) -> str | None:
        info = await self.information("replication")
        epoch = await self.epoch()
        is_primary = info.get("role") == "master"
        offset = info.get("master_repl_offset" if is_primary else "slave_repl_offset", "?")
        return f"{'primary' if is_primary else 'replica'}, offset {offset}{epoch and f', epoch {epoch}'}"

    async def epoch(self) -> str:
        """Return the number of the last failover that it knows of; nothing where only sentinels count them."""
        return ""

    async def follows(self, primary: Node) -> bool:
        """Whether it is a replica of this primary and has caught up with its data set."""
        info = await self.information("replication")
        if (info["role"], info.get("master_link_status"), info.get("master_sync_in_progress")) != ("slave", "up", "0"):
            return False
        return info.get("master_port") == str(primary.seat.front)

    async def is_primary(self) -> bool:
        return (await self.information("replication"))["role"] == "master"


_N = TypeVar("_N", bound=Node)


class RedisGroup(NodeGroup[Node], RedisServer, abc.ABC):
    """The group as its clients see it: one Redis."""

    node_errors = (ServerUnreachableError, RedisError)
    servers: Sequence[Node] = ()
    """Those that hold data."""

    def __init__(
        self,
        kind: ServerKind,
        pinned: Pinned,
        site: ProcessSite,
        *,
        fresh: bool,
        options: Mapping[str, str],
        version: ServerVersion,
        binary: Path | None = None,
        upgrade: ServerVersion | None = None,
        upgrade_binary: Path | None = None,
    ) -> None:
        if pinned.version is not None:  # it has been upgraded
            version, binary = redis_version(pinned.version), None if pinned.program is None else Path(pinned.program)
        backend = GroupBackend(f"{version.title} with {self.topology} for {kind.name}", site.folder, options)
        super().__init__(kind, pinned, backend, fresh=fresh)
        self.version = version
        self._choices = {
            "options": options,
            "version": version,
            "binary": binary,
            "upgrade": upgrade,
            "upgrade_binary": upgrade_binary,
        }
        self._join(site, fresh=fresh)

    def _node(self, make: type[_N], process: type[NodeProcess], name: str) -> _N:
        site = self.site_of(name)
        node = make(self.kind, site.pinned, process(site, self.seats[name], self.seats, **self._choices))
        node.report_to(self._on_node_event)
        return node

    # -- failovers --

    @property
    def hands_over(self) -> bool:
        """Whether a primary can be replaced without losing anything."""
        return True

    @abc.abstractmethod
    async def hand_over(self, primary: Node) -> None:
        """Let a replica take the place of a primary, in the best order that this version knows."""

<<<<<<< HEAD
    async def until_takes_writes(self, node: Node) -> None:
        """Wait until a server calls itself a primary, whatever the group says."""
        self.last_replacement = None
        await self.until(node.is_primary, f"let {node.name} take over")
=======
    @abc.abstractmethod
    def beside(self, node: Node) -> set[str]:
        """Return the nodes that are on the same machine as this one, with itself."""

    # -- seats --

    def _take_seats(self) -> None:
        ports = self.pinned.nodes
        for name in self.name_of_nodes:
            for key in (name, _FRONT + name, _BUS + name):
                if key not in ports:
                    ports[key] = _low_port()
        # A loopback network of its own: two groups on one machine do not meet.
        first = ports[self.name_of_nodes[0]]
        network = f"127.{64 + first % 128}.{first // 128 % 256}"
        self.seats = {
            name: Seat(name, f"{network}.{number}", ports[name], ports[_FRONT + name], ports[_BUS + name])
            for number, name in enumerate(self.name_of_nodes, start=1)
        }
        self.nodes = self._make_nodes()
        self.last_primaries = self.nodes[:1]
        self._seen: frozenset[str] = frozenset()

    def _node(self, make: type[_N], process: type[NodeProcess], name: str) -> _N:
        seat = self.seats[name]
        folder = self._site.folder / NODES_FOLDER / name
        site = ProcessSite(name, folder, Pinned(seat.port, self.pinned.password), self._site.on_spawn)
        node = make(self.kind, site.pinned, process(site, seat, self.seats, **self._choices))
        node.report_to(self._on_node_event)
        return node

    def node_at(self, front: int) -> Node:
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
                await asyncio.to_thread(shutil.rmtree, self.folder / NODES_FOLDER, ignore_errors=True)
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
        positions = await asyncio.gather(*(node.position() for node in self.nodes))
        names = ", ".join(node.name for node in await self.primaries())
        each = {node.name: position for node, position in zip(self.nodes, positions, strict=True)}
        return {**await super().telemetry(), "primary": names, **each, **self._told_of_replacement()}

    def _told_of_replacement(self) -> dict[str, str]:
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
            except (ServerUnreachableError, RedisError):
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
        self.links = Links({seat.host: seat.name for seat in self.seats.values()})
        for seat in self.seats.values():
            await self.links.listen(seat.name, seat.front, seat.host, seat.port)
            if self.has_bus:
                await self.links.listen(seat.name, seat.bus, seat.host, seat.port + BUS_OFFSET)

    has_bus: ClassVar[bool] = False

    async def close_links(self) -> None:
        if self.links is not None:
            await self.links.close()
            self.links = None
>>>>>>> groups

    # -- versions --

    def next_release(self) -> ServerRelease:
        """Return what it would be upgraded to; raises `UsageError` if there is nothing newer."""
        return self._processes[0].next_release()

    def pin(self, release: ServerRelease) -> None:
        """Be another version from the next start of soak on, whichever nodes have become it by then."""
        self.pinned.version, self.pinned.program = release.version.name, release.program
        self._site.on_spawn()  # which writes down what is pinned

    @property
    def _processes(self) -> list[NodeProcess]:
        return [node.backend for node in self.nodes if isinstance(node.backend, NodeProcess)]
