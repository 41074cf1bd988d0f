"""Redis Sentinel: one primary, two replicas and three sentinels that act as one Redis.

What one must know before touching it:
- Sentinels and servers write down in their configuration files what they have learned: who is primary, who follows
  whom. So each file is written once, and is the node's own from then on. A node that is started again has the role it
  had when it ended, as in production.
- Sentinels are started once both replicas follow the primary: they look for replicas only every ten seconds.
- Clients and nodes reach a node at its front (`links`), which is the address it announces.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

from redis.exceptions import RedisError

from soak.errors import ServerUnreachableError, UsageError
from soak.proc.files import write_whole
from soak.proc.spawn import Process
from soak.servers.backend import PortTakenError, ServerBackend
from soak.servers.kinds import ServerKind
from soak.servers.links import CLIENTS, Link, Links
from soak.servers.ports import HOST, free_port
from soak.servers.power_cut.source import CutPower
from soak.servers.process_backend import ProcessSite
from soak.servers.redis import RedisServer
from soak.servers.redis_process import RedisProcess
from soak.servers.server import FRESH_PORTS_MAX, ServerEvent
from soak.servers.state import Pinned
from soak.servers.versions import ServerVersion

NODES_FOLDER = "nodes"
SERVICE = "memory"
"""What the sentinels call the primary."""
SERVERS = ("redis-1", "redis-2", "redis-3")
SENTINELS = ("sentinel-1", "sentinel-2", "sentinel-3")
QUORUM = 2
DOWN_AFTER_MS = 1_000
FAILOVER_TIMEOUT_MS = 5_000
AGREE_SECONDS_MAX = 60.0
_FRONT = "front of "
_POLL_SECONDS = 0.05
_SOURCE_ADDRESS_SINCE = 7
_REPLICATION = {
    "repl-diskless-sync": "yes",
    "repl-diskless-sync-delay": "0",
    "repl-timeout": "5",
}


class Seat(NamedTuple):
    """Where one node is: what it listens on, and the front that it announces."""

    name: str
    host: str
    port: int
    front: int


def take_seats(pinned: Pinned) -> dict[str, Seat]:
    """Return where each node is; ports that were taken before are kept."""
    for name in (*SERVERS, *SENTINELS):
        for key in (name, _FRONT + name):
            if key not in pinned.nodes:
                pinned.nodes[key] = free_port()
    # A loopback network of its own: two groups on one machine do not meet.
    network = f"127.{64 + pinned.nodes[SERVERS[0]] % 128}.{pinned.nodes[SERVERS[0]] // 128 % 256}"
    return {
        name: Seat(name, f"{network}.{number}", pinned.nodes[name], pinned.nodes[_FRONT + name])
        for number, name in enumerate((*SERVERS, *SENTINELS), start=1)
    }


class NodeProcess(RedisProcess):
    """A server of the group. Its configuration file is written once; the server keeps it up to date."""

    def __init__(self, site: ProcessSite, seat: Seat, seats: Mapping[str, Seat], **choices: Any) -> None:
        super().__init__(site, **choices)
        self.seat = seat
        self._primary = seats[SERVERS[0]]

    def write_settings(self, text: str) -> None:
        if self._settings_path.exists():
            return
        lines = [
            *(f"{name} {value}" for name, value in _REPLICATION.items() if name not in self.options),
            f"masterauth {self.pinned.password}",
            f"replica-announce-ip {HOST}",
            f"replica-announce-port {self.seat.front}",
            *self._source_lines(),
        ]
        if self.seat.name != self._primary.name:
            lines.append(f"replicaof {HOST} {self._primary.front}")
        write_whole(self._settings_path, "\n".join([text.rstrip("\n"), *lines, ""]).encode())

    @property
    def listens_on(self) -> str:
        return self.seat.host

    def _source_lines(self) -> list[str]:
        # Older versions call from the address they listen on, and refuse to start with this line.
        return [f"bind-source-addr {self.seat.host}"] if self.version.major >= _SOURCE_ADDRESS_SINCE else []


class SentinelProcess(NodeProcess):
    """A sentinel: the same program, without data."""

    async def prepare(self) -> None:
        self.working_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._settings_path.exists():
            return
        password = self.pinned.password
        lines = [
            f"port {self.seat.port}",
            f"bind {self.seat.host}",
            *self._source_lines(),
            "protected-mode no",
            f"requirepass {password}",
            f'dir "{self.working_folder}"',
            f"sentinel sentinel-pass {password}",
            f"sentinel announce-ip {HOST}",
            f"sentinel announce-port {self.seat.front}",
            f"sentinel monitor {SERVICE} {HOST} {self._primary.front} {QUORUM}",
            f"sentinel auth-pass {SERVICE} {password}",
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {SERVICE} {FAILOVER_TIMEOUT_MS}",
        ]
        write_whole(self._settings_path, "\n".join([*lines, ""]).encode())

    def spawn(self) -> Process:
        return self.start_program([self._program, self._settings_path, "--sentinel"], home=self.folder)


class Node(RedisServer):
    """One server or sentinel of a group, asked past its front."""

    def __init__(self, kind: ServerKind, pinned: Pinned, backend: NodeProcess, *, fresh: bool) -> None:
        super().__init__(kind, pinned, backend, fresh=fresh)
        self.seat = backend.seat
        self.name = self.seat.name

    def address_at(self, port: int) -> str:
        return f"redis://:{self.pinned.password}@{self.seat.host}:{port}/0"

    async def ask(self, *command: str) -> Any:
        """Send one command to this node."""
        async with self._asking() as client:
            return await client.execute_command(*command)  # type: ignore[no-untyped-call]


class SentinelNode(Node):
    """One sentinel."""

    async def read_configuration(self) -> dict[str, str]:
        return {}

    async def named_front(self) -> int | None:
        """Return the front of the server that this sentinel calls the primary; None if it does not answer.

        Asked as clients do: in a failover, GET-MASTER-ADDR-BY-NAME names the new one a second before they learn of it.
        """
        try:
            async with self._asking() as client:
                told = await client.sentinel_master(SERVICE)
        except ServerUnreachableError:
            return None
        return int(told["port"]) if isinstance(told, dict) else None

    async def knows_all(self) -> bool:
        """Whether it has found both replicas and the other sentinels."""
        replicas = await self.ask("SENTINEL", "REPLICAS", SERVICE)
        others = await self.ask("SENTINEL", "SENTINELS", SERVICE)
        return (len(replicas), len(others)) == (len(SERVERS) - 1, len(SENTINELS) - 1)


_N = TypeVar("_N", bound=Node)


class GroupBackend(ServerBackend):
    """Starts and ends all nodes of a group."""

    is_local_process = True

    def __init__(self, title: str, folder: Path, options: Mapping[str, str]) -> None:
        super().__init__(title, folder, options)
        self.group: SentinelGroup | None = None

    @property
    def _nodes(self) -> list[Node]:
        if self.group is None:
            raise TypeError("asked before its group is there")
        return [*self.group.servers, *self.group.sentinels]

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
        if self.group is not None:
            await self.group.launch_nodes()

    async def how_it_ended(self) -> str | None:
        return None  # each node is watched, and started again, by itself

    async def end(self, seconds: float) -> None:
        if self.group is None:
            return
        del seconds  # each node has as much as any server
        # The sentinels first, or they would replace a primary that ends in good order.
        await asyncio.gather(*(node.stop_cleanly() for node in self.group.sentinels))
        await self.group.last_primary.stop_cleanly()
        await asyncio.gather(*(node.stop_cleanly() for node in self.group.servers))
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


class SentinelGroup(RedisServer):
    """The group as its clients see it: one Redis, whose address is that of its sentinels."""

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
    ) -> None:
        backend = GroupBackend(f"{version.title} with Sentinel for {kind.name}", site.folder, options)
        super().__init__(kind, pinned, backend, fresh=fresh)
        self.version = version
        self._site = site
        self._choices = {"options": options, "version": version, "binary": binary}
        self._is_formed = not fresh
        """Whether the nodes know each other from an earlier start."""
        self.links: Links | None = None
        self._take_seats()
        backend.group = self

    def _take_seats(self) -> None:
        self._seats = take_seats(self.pinned)
        self.servers = [self._node(Node, NodeProcess, name) for name in SERVERS]
        self.sentinels = [self._node(SentinelNode, SentinelProcess, name) for name in SENTINELS]
        self.last_primary = self.servers[0]

    def _node(self, make: type[_N], process: type[NodeProcess], name: str) -> _N:
        seat = self._seats[name]
        folder = self._site.folder / NODES_FOLDER / name
        site = ProcessSite(name, folder, Pinned(seat.port, self.pinned.password), self._site.on_spawn)
        node = make(self.kind, site.pinned, process(site, seat, self._seats, **self._choices), fresh=False)
        node.tell(self._on_node_event)
        return node

    def address_at(self, port: int) -> str:
        del port
        password = quote(self.pinned.password)
        hosts = ",".join(f"{HOST}:{self._seats[name].front}" for name in SENTINELS)
        return f"redis+sentinel://:{password}@{hosts}/{SERVICE}?sentinel_password={password}"

    async def start_proxy(self, host: str = HOST) -> None:
        del host
        self.no_proxy = "clients reach the nodes of a group at their fronts"

    async def telemetry(self) -> dict[str, str]:
        return {**await super().telemetry(), "primary": (await self.primary()).name}

    # -- life --

    async def start(self) -> None:
        for _ in range(FRESH_PORTS_MAX):
            try:
                await super().start()
            except PortTakenError:
                if self._is_formed:
                    raise
                # Lost the race for a port that nobody knows yet: all nodes take others, for each knows those of all.
                await self.backend.kill()
                await self.close_links()
                await asyncio.to_thread(shutil.rmtree, self.folder / NODES_FOLDER, ignore_errors=True)
                self.pinned.nodes.clear()
                self._take_seats()
            else:
                return
        raise ServerUnreachableError(f"{self.title} found {FRESH_PORTS_MAX} free ports taken by others; start it again")

    async def launch_nodes(self) -> None:
        """Start every node, and return when sentinels and servers agree who is the primary."""
        await self._open_links()
        await asyncio.gather(*(node.start_again() for node in self.servers))
        if not self._is_formed:
            await self._until(self._replicas_follow, "get its replicas attached")
        await asyncio.gather(*(node.start_again() for node in self.sentinels))
        if not self._is_formed:
            await self._until(self._all_know_all, "have its sentinels find each other")
        self._is_formed = True
        await self.until_agreed()

    def _on_node_event(self, event: ServerEvent) -> Any:
        # Only the death of the primary is one of the memory; the others are replaced without anybody noticing.
        if event.kind == self.last_primary.name and self._on_event is not None:
            return self._on_event(ServerEvent(kind=self.name, what=event.what, at_us=event.at_us, detail=event.detail))
        return None

    async def _open_links(self) -> None:
        if self.links is not None:
            return
        self.links = Links({seat.host: seat.name for seat in self._seats.values()})
        for seat in self._seats.values():
            await self.links.listen(seat.name, seat.front, seat.host, seat.port)

    async def close_links(self) -> None:
        if self.links is not None:
            await self.links.close()
            self.links = None

    # -- who is what --

    async def primary(self) -> Node:
        """Return the server that most sentinels call the primary."""
        fronts = await asyncio.gather(*(sentinel.named_front() for sentinel in self.sentinels))
        named = Counter(front for front in fronts if front is not None).most_common(1)
        if not named:
            raise ServerUnreachableError(f"no sentinel of {self.title} answers; see the logs in {self.folder}")
        self.last_primary = next(node for node in self.servers if node.seat.front == named[0][0])
        return self.last_primary

    async def until_agreed(self, *, other_than: Node | None = None) -> Node:
        """Wait until all sentinels name the same primary, and every other server follows it; return it."""
        await self._until(lambda: self._agree(other_than), "agree on a primary")
        return self.last_primary

    async def until_named(self, *, other_than: Node) -> Node:
        """Wait until most sentinels name another primary."""
        await self._until(lambda: self._is_named(other_than), "name another primary")
        return self.last_primary

    async def _is_named(self, other_than: Node) -> bool:
        return await self.primary() is not other_than

    async def _agree(self, other_than: Node | None) -> bool:
        primary = await self.primary()
        fronts = await asyncio.gather(*(sentinel.named_front() for sentinel in self.sentinels))
        if primary is other_than or set(fronts) != {primary.seat.front}:
            return False
        return all([await self._has_its_role(node, primary) for node in self.servers])

    async def _has_its_role(self, node: Node, primary: Node) -> bool:
        told = await node.information("replication")
        if node is primary:
            return told["role"] == "master"
        follows = (told["role"], told.get("master_port"), told.get("master_link_status"))
        return follows == ("slave", str(primary.seat.front), "up") and told.get("master_sync_in_progress") == "0"

    async def _replicas_follow(self) -> bool:
        told = await self.servers[0].information("replication")
        return told.get("connected_slaves") == str(len(SERVERS) - 1)

    async def _all_know_all(self) -> bool:
        return all([await sentinel.knows_all() for sentinel in self.sentinels])

    async def _until(self, holds: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + AGREE_SECONDS_MAX
        while True:
            try:
                if await holds():
                    return
            except (ServerUnreachableError, RedisError):
                pass  # one of them is still starting
            if time.monotonic() >= deadline:
                raise ServerUnreachableError(
                    f"{self.title} did not {what} within {AGREE_SECONDS_MAX:.0f} s; see the logs in {self.folder}"
                )
            await asyncio.sleep(_POLL_SECONDS)

    # -- links --

    def around(self, node: Node, *, clients: bool) -> list[Link]:
        """Return the links between a server with the sentinel beside it and the rest; `clients`: theirs to it, too."""
        side = {node.name, SENTINELS[SERVERS.index(node.name)]}
        rest = {*SERVERS, *SENTINELS} - side
        links = [Link(one, other) for one in side for other in rest]
        links += [Link(other, one) for one, other in links]
        return links + [Link(CLIENTS, one) for one in side] if clients else links
