"""One primary and one standby that follows it; soak promotes the standby when the primary is gone.

What one must know before touching it:
- A commit waits for the standby (`synchronous_standby_names`), so the standby has all that was acknowledged, and may be
  promoted at any moment. The setting is made once the standby streams, or the first commit would wait for ever, and
  taken back when the standby is promoted, until the old primary follows it.
- So while nobody follows, nobody is promoted: the primary is started again instead.
- The old primary is killed before the other one is promoted (it is fenced): two that both take writes would be another
  fault. It comes back as a fresh copy, for its history may have parted from that of the new primary.
- Who is the primary is pinned before the promotion: after a kill at any moment the next start knows whose data counts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

import asyncpg

from soak.clock import now_us
from soak.errors import ServerUnreachableError
from soak.servers.kinds import Replication
from soak.servers.node_group import GroupNode, Seat
from soak.servers.ports import HOST
from soak.servers.postgres_group import PostgresGroup, PostgresNode, PostgresNodeProcess, address_of_nodes
from soak.servers.server import EventListener
from soak.tasks import until

NODES = ("postgres-1", "postgres-2")
DOWN_AFTER_SECONDS = 3.0
"""On a busy machine a healthy server may be silent for more than a second."""
_PRIMARY = "primary"
_WATCH_SECONDS = 0.2
_STREAMING_SECONDS_MAX = 10.0
_POLL_SECONDS = 0.02
_LOG = logging.getLogger(__name__)
_COMMITS = {Replication.REMOTE_APPLY: "remote_apply"}


class WatchedNode(PostgresNode):
    """A node that its group starts again: whether it comes back as a primary is not for it to decide."""

    def watch(self, on_event: EventListener) -> None:
        del on_event


class SyncStandbyGroup(PostgresGroup):
    """A primary, its standby, and who promotes it."""

    topology = "a synchronous standby"
    flag = "--postgres sync-standby"
    name_of_nodes = NODES
    replacement_seconds = DOWN_AFTER_SECONDS + 2 * _STREAMING_SECONDS_MAX  # the old one may have to be copied anew

    def _make_nodes(self) -> list[GroupNode]:
        self._is_paired = False
        """Whether the standby has followed since the last promotion, and so may be promoted."""
        self._changing = asyncio.Lock()
        self.pinned.nodes.setdefault(_PRIMARY, 0)
        self.servers = [self._make_node(name) for name in NODES]
        return [*self.servers]

    def _make_node(self, name: str) -> PostgresNode:
        site = self.site_of(name)
        options = {"synchronous_commit": _COMMITS.get(self.replication, "on"), **self.options}
        seat = self.seats[name]

        def followed() -> Seat | None:
            return None if self.primary.seat is seat else self.primary.seat

        process = PostgresNodeProcess(site, seat, self.programs, options, followed)
        return WatchedNode(self.kind, site.pinned, process, seat)

    @property
    def is_synchronous(self) -> bool:
        return self.replication is not Replication.ASYNC

    @property
    def primary(self) -> PostgresNode:
        """The node that takes writes, or is about to."""
        return self.servers[self.pinned.nodes[_PRIMARY]]

    @property
    def standby(self) -> PostgresNode:
        return self.servers[1 - self.pinned.nodes[_PRIMARY]]

    def in_order_of_end(self) -> Sequence[Sequence[GroupNode]]:
        # The primary hands the last of its log to the standby as it ends.
        return [[self.primary], [self.standby]]

    def beside(self, node: GroupNode) -> set[str]:
        return {node.name}

    async def primaries(self) -> list[GroupNode]:
        self.last_primaries = [self.primary]
        return self.last_primaries

    async def _form(self) -> None:
        await self.primary.start_again()
        if not await self.primary.is_primary():
            await self._promote()  # soak was killed just before it did
        await self._pair()

    async def _agree(self) -> bool:
        if self.primary.pid is None or not await self.primary.is_primary():
            return False
        return self._is_paired and await self._is_followed()

    async def _is_followed(self) -> bool:
        state = (await self.primary.followers()).get(self.standby.name)
        return state == "sync" if self.is_synchronous else state is not None

    # -- following --

    async def until_agreed(self) -> None:
        await self._pair()
        await super().until_agreed()

    async def _pair(self) -> None:
        """Let the standby follow the primary, from a fresh copy if it cannot otherwise; nothing if it does."""
        async with self._changing:
            standby = self.standby
            if self._is_paired and standby.pid is not None:
                return
            if not await self._comes_to_follow(standby):
                await standby.kill()
                await standby.wipe()
                if not await self._comes_to_follow(standby):
                    raise await standby.failure(f"{standby.title} does not stream from {self.primary.name}")
            if self.is_synchronous:
                await _wait_for(self.primary, standby.name)
            self._is_paired = True

    async def _comes_to_follow(self, standby: PostgresNode) -> bool:
        try:
            await standby.start_again()
            return await until(lambda: standby.follows(self.primary), _STREAMING_SECONDS_MAX, _POLL_SECONDS)
        except ServerUnreachableError:
            return False

    # -- promotion --

    async def _until_taken_over(self) -> None:
        await self.until(self.primary.is_primary, f"promote {self.primary.name}")

    async def _keep_alive(self, on_event: EventListener) -> None:
        """Promote the standby when the primary is gone, and let a standby that died follow again."""
        answered, answered_us = time.monotonic(), now_us()
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            try:
                if self.primary.pid is not None and await self._serves_clients():
                    answered, answered_us = time.monotonic(), now_us()
                    if not self.replacements_expected:  # a fault leaves behind what it wants
                        await self._pair()
                elif self.primary.pid is None or time.monotonic() - answered >= DOWN_AFTER_SECONDS:
                    await self._replace(on_event, answered_us)
                    answered, answered_us = time.monotonic(), now_us()
            except ServerUnreachableError as error:
                _LOG.warning("%s cannot be brought back yet: %s", self.name, error)

    async def _serves_clients(self) -> bool:
        """Whether the primary takes writes where clients connect: its network is what matters to them."""
        url = address_of_nodes(self.pinned.password, [f"{HOST}:{self.primary.seat.client_front}"], "read-write")
        try:
            async with asyncio.timeout(DOWN_AFTER_SECONDS):
                connection = await asyncpg.connect(url, statement_cache_size=0)
                connection.terminate()
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError):
            return False
        return True

    async def _replace(self, on_event: EventListener, since_us: int) -> None:
        """Promote the standby, or bring the primary back where the standby may lack something."""
        old = self.primary
        is_reported = not self.replacements_expected
        async with self._changing:
            takes_over = self._is_paired and self.standby.pid is not None
            if is_reported:
                named = {"primary": old.name}
                detail = f"{old.name} is gone"
                await self._report(on_event, "died", detail, at=since_us, replaces=takes_over, telemetry=named)
                self.begin_replacements(0, since_us=since_us)
            if takes_over:
                await old.kill()
                self._take_over()
            elif is_reported:
                await old.start_again()
            if self.primary.pid is not None and not await self.primary.is_primary():
                await self._promote()
        if is_reported:
            await self._pair()
            told = f"{self.primary.name} is the primary, and is followed"
            await self._report(on_event, "restarted", told, replaces=takes_over, telemetry=await self._facts())

    async def hand_over(self, primary: GroupNode) -> None:
        """Stop the primary cleanly, which hands the last of its log to the standby, and promote that one."""
        await self.until_agreed()
        async with self._changing:
            await primary.stop_cleanly()
            self._take_over()
            await self._promote()
        await self.until_replaced(primary)

    def _take_over(self) -> None:
        """Call the standby the primary, from the next start of soak on, too."""
        self._is_paired = False
        self.pinned.nodes[_PRIMARY] = self.servers.index(self.standby)
        self._site.on_spawn()  # which writes down what is pinned

    async def _promote(self) -> None:
        await _wait_for(self.primary, "")
        await self.primary.ask("select pg_promote(false)::text as promoted")
        await self._until_taken_over()
        await self._look()


async def _wait_for(node: PostgresNode, standby: str) -> None:
    """Make the commits of a node wait for this standby, or for none."""
    wanted = f'"{standby}"' if standby else ""
    await node.ask(f"alter system set synchronous_standby_names = '{wanted}'")
    await node.ask("select pg_reload_conf()::text as reloaded")
