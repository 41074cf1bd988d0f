"""Redis Sentinel: one primary, two replicas and three sentinels that act as one Redis.

What one must know before touching it:
- Sentinels and servers write down in their configuration files what they have learned: who is primary, who follows
  whom. So each file is written once, and is the node's own from then on. A node that is started again has the role it
  had when it ended, as in production.
- Sentinels are started once both replicas follow the primary: they look for replicas only every ten seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from soak.errors import ServerUnreachableError
from soak.proc.files import write_whole
from soak.proc.spawn import Running
from soak.servers.ports import HOST
from soak.servers.redis_group import Node, NodeProcess, RedisGroup

SERVICE = "memory"
"""What the sentinels call the primary."""
SERVERS = ("redis-1", "redis-2", "redis-3")
SENTINELS = ("sentinel-1", "sentinel-2", "sentinel-3")
QUORUM = 2
DOWN_AFTER_MS = 3_000
"""On a busy machine a healthy server may be silent for more than a second."""
FAILOVER_TIMEOUT_MS = 5_000
ELECTION_SECONDS = 8.0
"""After that time a failover for which no sentinel was elected has been given up."""
COORDINATED_SINCE = 9
"""The Valkey that knows SENTINEL FAILOVER ... COORDINATED; no Redis does."""


class ServerProcess(NodeProcess):
    """A server that sentinels watch. Its configuration file is written once; the server keeps it up to date."""

    def write_settings(self, text: str) -> None:
        if self._settings_path.exists():
            self.renew_settings()
            return
        primary = self.seats[SERVERS[0]]
        lines = [
            *self.replication_lines(),
            f"replica-announce-ip {HOST}",
            f"replica-announce-port {self.seat.front}",
            *self.source_lines(),
        ]
        if self.seat.name != primary.name:
            lines.append(f"replicaof {HOST} {primary.front}")
        write_whole(self._settings_path, "\n".join([text.rstrip("\n"), *lines, ""]).encode())


class SentinelProcess(NodeProcess):
    """A sentinel: the same program, without data."""

    async def prepare(self) -> None:
        self.working_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._settings_path.exists():
            self.renew_settings()
            return
        password = self.pinned.password
        lines = [
            f"port {self.seat.port}",
            f"bind {self.seat.host}",
            *self.source_lines(),
            "protected-mode no",
            f"requirepass {password}",
            f'dir "{self.working_folder}"',
            f"sentinel sentinel-pass {password}",
            f"sentinel announce-ip {HOST}",
            f"sentinel announce-port {self.seat.front}",
            f"sentinel monitor {SERVICE} {HOST} {self.seats[SERVERS[0]].front} {QUORUM}",
            f"sentinel auth-pass {SERVICE} {password}",
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {SERVICE} {FAILOVER_TIMEOUT_MS}",
        ]
        write_whole(self._settings_path, "\n".join([*lines, ""]).encode())

    async def spawn(self) -> Running:
        return await self.start_program([self._program, self._settings_path, "--sentinel"], home=self.folder)


class SentinelNode(Node):
    """One sentinel."""

    async def read_configuration(self) -> dict[str, str]:
        return {}

    async def named_front(self) -> int | None:
        """Return the front of the server that this sentinel calls the primary; None if it does not answer.

        Asked as clients do: in a failover, GET-MASTER-ADDR-BY-NAME names the new one a second before they learn of it.
        """
        try:
            return int((await self.view())["port"])
        except ServerUnreachableError:
            return None

    async def view(self) -> dict[str, Any]:
        """Return what it says of the primary."""
        async with self._asking() as client:
            return dict(await client.sentinel_master(SERVICE))  # type: ignore[arg-type]  # its stub says bool, too

    async def standing(self) -> str | None:
        view = await self.view()
        return f"names {view['port']}, epoch {view['config-epoch']}"

    async def knows_all(self) -> bool:
        """Whether it has found both replicas and the other sentinels."""
        replicas = await self.ask("SENTINEL", "REPLICAS", SERVICE)
        others = await self.ask("SENTINEL", "SENTINELS", SERVICE)
        return (len(replicas), len(others)) == (len(SERVERS) - 1, len(SENTINELS) - 1)


class SentinelGroup(RedisGroup):
    """The group as its clients see it: one Redis, whose address is that of its sentinels."""

    topology = "Sentinel"
    flag = "--redis sentinel"
    name_of_nodes = (*SERVERS, *SENTINELS)
    replacement_seconds = (DOWN_AFTER_MS + 2 * FAILOVER_TIMEOUT_MS) / 1000  # a failed election is repeated after that

    def _make_nodes(self) -> list[Node]:
        self.servers: list[Node] = [self._node(Node, ServerProcess, name) for name in SERVERS]
        self.sentinels = [self._node(SentinelNode, SentinelProcess, name) for name in SENTINELS]
        return [*self.servers, *self.sentinels]

    def address_at(self, port: int) -> str:
        del port
        password = quote(self.pinned.password)
        hosts = ",".join(f"{HOST}:{self.seats[name].front}" for name in SENTINELS)
        return f"redis+sentinel://:{password}@{hosts}/{SERVICE}?sentinel_password={password}"

    @property
    def hands_over(self) -> bool:
        return self.version.family == "valkey" and self.version.major >= COORDINATED_SINCE

    async def hand_over(self, primary: Node) -> None:
        await self.fail_over(primary, *(("COORDINATED",) if self.hands_over else ()))

    async def fail_over(self, primary: Node, *how: str) -> None:
        """Ask for SENTINEL FAILOVER until the primary is replaced."""
        asked = -ELECTION_SECONDS

        async def ask() -> None:
            nonlocal asked
            # Sentinels that have just started may not reach each other yet: then none is elected, and it is given up.
            # So is a failover whose replica is not seen as a primary in time, on a busy machine.
            if time.monotonic() - asked >= ELECTION_SECONDS:
                asked = time.monotonic()
                await self.sentinels[0].ask("SENTINEL", "FAILOVER", SERVICE, *how)

        await self.until_replaced(primary, ask)

    def in_order_of_end(self) -> Sequence[Sequence[Node]]:
        # The sentinels first, or they would replace a primary that ends cleanly.
        return [self.sentinels, self.last_primaries, self.servers]

    def beside(self, node: Node) -> set[str]:
        return {node.name, SENTINELS[SERVERS.index(node.name)]}

    async def _form(self) -> None:
        await asyncio.gather(*(node.start_again() for node in self.servers))
        if not self._is_formed:
            await self.until(self._replicas_follow, "get its replicas attached")
        await asyncio.gather(*(node.start_again() for node in self.sentinels))
        if not self._is_formed:
            await self.until(self._all_know_all, "have its sentinels find each other")

    async def primaries(self) -> list[Node]:
        """Return the server that most sentinels call the primary."""
        fronts = await self._named()
        named = Counter(front for front in fronts if front is not None).most_common(1)
        if not named:
            raise ServerUnreachableError(f"no sentinel of {self.title} answers; see the logs in {self.folder}")
        self.last_primaries = [self.node_at(named[0][0])]
        return self.last_primaries

    async def _agree(self) -> bool:
        (primary,) = await self.primaries()
        if set(await self._named()) != {primary.seat.front} or not await primary.is_primary():
            return False
        return all([await node.follows(primary) for node in self.servers if node is not primary])

    async def _named(self) -> list[int | None]:
        return await asyncio.gather(*(sentinel.named_front() for sentinel in self.sentinels))

    async def _replicas_follow(self) -> bool:
        info = await self.servers[0].information("replication")
        return info.get("connected_slaves") == str(len(SERVERS) - 1)

    async def _all_know_all(self) -> bool:
        return all([await sentinel.knows_all() for sentinel in self.sentinels])
