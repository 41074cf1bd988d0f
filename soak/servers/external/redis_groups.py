"""A Sentinel group and a Redis Cluster that were given: what they are asked, and how a failover is asked for.

What one must know before touching it:
- Nothing is started, stopped or cut off here. All of it is commands to servers that others may be using.
- The addresses of the single servers are those that the group itself names, as its clients are told them.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import redis.exceptions
from redis.asyncio import Redis
from redis.exceptions import RedisClusterException, RedisError, ResponseError

from soak.errors import ServerUnreachableError, UsageError
from soak.hosts import HostPort, hosts_of, parse_sentinel
from soak.redis_sentinel import sentinels_of
from soak.servers.detour import Detour, detour_to_group
from soak.servers.redis import RedisServer
from soak.stores.redis_cluster import cluster_addresses, server_addresses

AGREE_SECONDS_MAX = 120.0
"""Sentinels demote an old primary about ten seconds after a failover; their own time limit is three minutes."""
ASK_AGAIN_SECONDS = 8.0
"""A failover for which no sentinel was elected is given up; it is asked for again then."""
NODES_TOLD_MAX = 16
"""Of so many nodes the role and the position are told before and after a fault."""
_NOT_NOW = ("NOGOODSLAVE", "INPROG")
"""What sentinels answer that will do it later: no replica is known to be good yet, or a failover is under way."""
_POLL_SECONDS = 0.1
_SILENT = (ServerUnreachableError, RedisError, RedisClusterException, OSError, TimeoutError)


class GivenRedisGroup(RedisServer, abc.ABC):
    """Several servers that act as one Redis, and that soak has not started."""

    @abc.abstractmethod
    async def fail_over(self, *how: str) -> None:
        """Ask for a failover, and return when another server is a primary."""

    @abc.abstractmethod
    async def agrees(self) -> bool:
        """Whether all see the same primaries, and every other server follows one of them."""

    async def until_agreed(self) -> None:
        """Wait until a failover is over for everybody."""
        await self.until(self.agrees, "agree on its primaries")

    async def until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait until something holds; a server that does not answer meanwhile is asked again."""
        deadline = time.monotonic() + AGREE_SECONDS_MAX
        while True:
            with contextlib.suppress(*_SILENT):
                if await holds():
                    return
            if time.monotonic() >= deadline:
                raise ServerUnreachableError(f"{self.title} did not {what} within {AGREE_SECONDS_MAX:.0f} s")
            await asyncio.sleep(_POLL_SECONDS)

    async def until_replaced(
        self, is_replaced: Callable[[], Awaitable[bool]], ask: Callable[[], Awaitable[Any]]
    ) -> None:
        """Ask for a failover until it has happened."""
        asked = -ASK_AGAIN_SECONDS

        async def replaced() -> bool:
            nonlocal asked
            if await is_replaced():
                return True
            if time.monotonic() - asked >= ASK_AGAIN_SECONDS:
                asked = time.monotonic()
                await ask()
            return False

        await self.until(replaced, "replace its primary")

    async def telemetry(self) -> dict[str, str]:
        found = await super().telemetry()
        with contextlib.suppress(*_SILENT):
            primaries = await self.primary_places()
            found["primary"] = ", ".join(primaries)
            self._notice_newcomers(primaries)
            places = [*primaries, *await self.replica_places()][:NODES_TOLD_MAX]
            found |= dict(zip(places, await asyncio.gather(*map(self._standing, places)), strict=True))
        return found

    @abc.abstractmethod
    async def replica_places(self) -> list[str]:
        """Return where the servers are that follow the primaries, as the group itself names them."""

    async def _standing(self, place: str) -> str:
        try:
            return await self.standing_at(place)
        except _SILENT:
            return "no answer"

    async def _way_through(self, url: str) -> Detour:
        try:
            places = [*await self.primary_places(), *await self.replica_places()]
        except ServerUnreachableError as error:
            raise UsageError(f"where its servers are is not known: {error}") from error
        return detour_to_group(url, [hosts_of(f"//{place}")[0] for place in places])

    def _notice_newcomers(self, primaries: list[str]) -> None:
        """Refuse faults of the network where clients would not notice them: a primary has joined after the start."""
        if self._detour is not None and (new := [one for one in primaries if one not in map(str, self._detour.places)]):
            self.no_proxy = f"its primary {new[0]} has joined since the start, so clients reach it past our proxies"

    async def follows(self, place: str) -> bool:
        """Whether the server at this place is a replica that is connected to its primary."""
        info = await self.information("replication", place)
        state = (info.get("role"), info.get("master_link_status"), info.get("master_sync_in_progress"))
        return state == ("slave", "up", "0")

    async def command(self, place: str, *words: str) -> Any:
        """Send one command to the server at this place; raises `UsageError` if it refuses."""
        async with self._asking(place) as client:
            return await _obeyed(client, *words)

    @asynccontextmanager
    async def _naming(self) -> AsyncIterator[None]:
        try:
            yield
        except (RedisError, RedisClusterException, OSError, TimeoutError) as error:
            why = " ".join(str(error).split()) or type(error).__name__
            raise ServerUnreachableError(f"{self.title} does not name its primaries ({why})") from error


class GivenSentinel(GivenRedisGroup):
    """What sentinels watch."""

    async def primary_places(self) -> list[str]:
        async with self._naming(), self._sentinels() as sentinels:
            return [_place_of(await _first_answer(sentinels, self._view))]

    async def replica_places(self) -> list[str]:
        async with self._naming(), self._sentinels() as sentinels:
            return [_place_of(one) for one in await _first_answer(sentinels, self._replicas)]

    async def fail_over(self, *how: str) -> None:
        before = await self.primary_places()
        words = ("SENTINEL", "FAILOVER", parse_sentinel(self.own_url).service, *how)

        async def replaced() -> bool:
            return await self.primary_places() != before

        async def ask() -> None:
            async with self._sentinels() as sentinels:
                await _first_answer(sentinels, lambda sentinel: _obeyed(sentinel, *words))

        await self.until_replaced(replaced, ask)

    async def agrees(self) -> bool:
        async with self._sentinels() as sentinels:
            views = await asyncio.gather(*map(self._view, sentinels))
            replicas = await _first_answer(sentinels, self._replicas)
        (primary, *others) = {_place_of(view) for view in views}
        if others or (await self.information("replication", primary))["role"] != "master":
            return False
        # One that is down was so before, or is not ours to wait for.
        there = [one for one in replicas if not one.get("is_sdown") and not one.get("is_odown")]
        return all([await self.follows(_place_of(one)) for one in there])

    async def _view(self, sentinel: Redis) -> Mapping[str, Any]:
        return dict(await sentinel.sentinel_master(parse_sentinel(self.own_url).service))  # type: ignore[arg-type]

    async def _replicas(self, sentinel: Redis) -> list[Mapping[str, Any]]:
        found: Any = await sentinel.sentinel_slaves(parse_sentinel(self.own_url).service)
        return list(found)

    @asynccontextmanager
    async def _sentinels(self) -> AsyncIterator[list[Redis]]:
        async with sentinels_of(parse_sentinel(self.own_url), self.backend.answer_seconds_max) as sentinels:
            yield list(sentinels.sentinels)


class GivenCluster(GivenRedisGroup):
    """A Redis Cluster. Whatever is asked of one server is asked at its place; the address of the cluster has none."""

    async def read_limits(self) -> dict[str, str]:
        return {}  # each node has limits of its own

    async def answers(self) -> bool:
        try:
            return all([(await self._info(place))["cluster_state"] == "ok" for place in await self.primary_places()])
        except ServerUnreachableError:
            return False

    async def primary_places(self) -> list[str]:
        return await self._places(replicas=False)

    async def replica_places(self) -> list[str]:
        # Also those that have just come, or are down: nodes name neither to clients.
        primaries = await self.primary_places()
        async with self._naming():
            found = await server_addresses(self.own_url, timeout_seconds=self.backend.answer_seconds_max)
        return [place for url in found if (place := str(hosts_of(url)[0])) not in primaries]

    async def epoch(self, place: str = "") -> str:
        return (await self._info(place)).get("cluster_my_epoch", "?")

    async def fail_over(self, *how: str) -> None:
        """Let a replica of the first primary that has one take its place."""
        replica = ""

        async def one_follows() -> bool:
            nonlocal replica
            replica = await self._some_replica()
            return bool(replica)

        async def replaced() -> bool:
            return replica in await self.primary_places()

        # Nodes name a replica only once it has an offset, which takes seconds after a start or a failover.
        await self.until(one_follows, "connect a replica to its primary")
        await self.until_replaced(replaced, lambda: self.command(replica, "CLUSTER", "FAILOVER", *how))

    async def agrees(self) -> bool:
        primaries, replicas = await self.primary_places(), await self.replica_places()
        views = [await self._info(place) for place in (*primaries, *replicas)]
        is_settled = {one["cluster_state"] for one in views} == {"ok"}
        is_settled &= len({one["cluster_current_epoch"] for one in views}) == 1
        return is_settled and all([await self.follows(place) for place in replicas])

    async def _some_replica(self) -> str:
        for place in await self.replica_places():
            if await self.follows(place):
                return place
        return ""

    async def _places(self, *, replicas: bool) -> list[str]:
        async with self._naming():
            found = await cluster_addresses(
                self.own_url, timeout_seconds=self.backend.answer_seconds_max, replicas=replicas
            )
        return [str(hosts_of(url)[0]) for url in found]

    async def _info(self, place: str) -> Mapping[str, str]:
        return dict(await self.command(place, "CLUSTER INFO"))


async def _obeyed(client: Redis, *words: str) -> Any:
    try:
        return await client.execute_command(*words)  # type: ignore[no-untyped-call]
    except ResponseError as error:
        if str(error).startswith(_NOT_NOW):
            return None
        raise UsageError(f"{' '.join(words)} is refused: {error}") from error


async def _first_answer(sentinels: list[Redis], ask: Callable[[Redis], Awaitable[Any]]) -> Any:
    """Return what the first sentinel says that answers; raises what the last one raised."""
    for sentinel in sentinels[:-1]:
        with contextlib.suppress(redis.exceptions.ConnectionError, redis.exceptions.TimeoutError):
            return await ask(sentinel)
    return await ask(sentinels[-1])


def _place_of(view: Mapping[str, Any]) -> str:
    return str(HostPort(str(view["ip"]), int(view["port"])))
