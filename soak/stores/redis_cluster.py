"""A Redis Cluster, through redis-py's own client, shared by everybody in the process as applications share it.

What one must know before touching it:
- Nothing is tried twice: redis-py's retries are off. It still follows MOVED and ASK, which a node answers before it has
  executed anything.
- Only two failures matter to a write: certainly not executed, or nobody knows. The cluster's own refusals (CLUSTERDOWN,
  NOREPLICAS, READONLY, TRYAGAIN) are certain. A connection that was lost is not, also when redis-py itself closed it to
  learn of another layout while other commands were under way on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Container, Mapping
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.cluster import LoadBalancingStrategy
from redis.crc import REDIS_CLUSTER_HASH_SLOTS
from redis.exceptions import (
    AuthenticationError,
    MaxConnectionsError,
    NoPermissionError,
    RedisClusterException,
    RedisError,
    ResponseError,
    SlotNotCoveredError,
)

from soak.hosts import REDIS_PORT, ClusterAddress, HostPort, member_address, parse_cluster
from soak.stores.redis_client import (
    CLIENT_NAME,
    Argument,
    CommandTimedOutError,
    ConnectionLostError,
    LoginRefusedError,
    NotSentError,
)
from soak.stores.redis_client import RedisError as OurError
from soak.stores.redis_reader import reply_error

SCAN_COUNT = 1000
READ_TRIES_MAX = 8
ASKED_IN_TIME = 3
"""So many nodes of an address can be asked for the others in the time that is given for it."""
LAYOUT_SECONDS_MAX = 5.0
"""A client that reads replicas asks after that time which there are."""
_READS = frozenset({"LRANGE", "XRANGE", "XREVRANGE", "ZRANGE", "HGETALL", "HMGET", "EXISTS"})
_NO_CONNECTION = ("Error ", "connecting to")


def cluster_at(address: ClusterAddress, *, timeout_seconds: float, **options: Any) -> RedisCluster:
    """Return redis-py's client for a cluster; nothing is tried twice."""
    tls: dict[str, Any] = {"ssl": True, **address.ssl} if address.is_encrypted else {}

    def way_to(place: tuple[str, int]) -> tuple[str, int]:
        proxy = address.via.get(HostPort(*place))
        return place if proxy is None else (proxy.host, proxy.port or place[1])

    return RedisCluster(
        startup_nodes=[ClusterNode(host, port or REDIS_PORT) for host, port in address.nodes],
        username=address.username,
        password=address.password,
        client_name=CLIENT_NAME,
        socket_timeout=timeout_seconds,
        socket_connect_timeout=timeout_seconds,
        retry=Retry(NoBackoff(), 0),
        require_full_coverage=False,
        protocol=2,
        address_remap=way_to,
        **tls,
        **options,
    )


class ClusterClient:
    """Sends each command to the node that has its key."""

    def __init__(
        self,
        address: ClusterAddress,
        *,
        connections_max: int,
        timeout_seconds: float,
        reads_again: bool,
        reads_replicas: bool = False,
    ) -> None:
        """`reads_again`: a read whose connection was lost is asked again, as the verifier does.

        After a partition redis-py's pool holds connections that the other side has closed, and hands out one after the
        other. `reads_replicas`: what only reads goes to replicas, in turn.
        """
        self.address = address
        self._reads_again = reads_again
        self._timeout_seconds = timeout_seconds
        self._room = asyncio.Semaphore(connections_max)
        self._reads_replicas = reads_replicas
        self._layout_due_seconds = math.inf
        strategy = LoadBalancingStrategy.ROUND_ROBIN_REPLICAS if reads_replicas else None
        self._cluster = cluster_at(address, timeout_seconds=timeout_seconds, load_balancing_strategy=strategy)
        # Replies as the server sent them, but for those that redis-py itself needs to find the right node.
        callbacks = self._cluster.response_callbacks
        for name in [name for name in callbacks if not name.startswith(("CLUSTER", "COMMAND"))]:
            del callbacks[name]

    def execute(self, *command: Argument) -> Awaitable[Any]:
        """Send a command; awaiting the result gives the reply."""
        return self._execute(*command)

    async def connect(self) -> None:
        """Learn who has which keys."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await _learn_layout(self._cluster)
                await _check_state(self._cluster)
            self._schedule_layout()
        except (AuthenticationError, NoPermissionError) as error:
            raise LoginRefusedError(str(error)) from error
        except TimeoutError as error:
            raise NotSentError(f"no node answers within {self._timeout_seconds:g}s") from error
        except RedisClusterException as error:
            if isinstance(error.__cause__, AuthenticationError | NoPermissionError):
                raise LoginRefusedError(str(error.__cause__)) from error
            # redis-py's text says first that it could not, and only then why.
            raise NotSentError(_first_line(error).rpartition("reachable node: ")[2]) from error
        except (RedisError, OSError) as error:
            raise NotSentError(_first_line(error)) from error

    def _schedule_layout(self) -> None:
        self._layout_due_seconds = time.monotonic() + LAYOUT_SECONDS_MAX if self._reads_replicas else math.inf

    async def _refresh_layout(self) -> None:
        """Ask who has which keys: now and then where replicas are read, and after a node was silent.

        redis-py asks by itself only after an error of its own. Our time limit comes before its, so without this a
        client would stay with a silent primary when another one has long taken its place.
        """
        self._schedule_layout()  # first: one caller asks, and the others go on
        for _ in range(ASKED_IN_TIME):
            # Where no node answers, what is known stays, and the command itself says why it fails.
            with contextlib.suppress(RedisError, OSError, IndexError, TimeoutError):
                async with asyncio.timeout(self._timeout_seconds / ASKED_IN_TIME):
                    await self._cluster.nodes_manager.initialize()
                return
        self._layout_due_seconds = 0.0

    async def close(self) -> None:
        """Drop the connections. What is under way on them fails."""
        await self._cluster.aclose()

    async def keys(self, pattern: bytes) -> AsyncIterator[bytes]:
        """Return all keys of this pattern, of all primaries."""
        for node in self._cluster.get_primaries():
            client = Redis(host=node.host, port=int(node.port), **self._login)
            async with client:
                async for key in client.scan_iter(match=pattern, count=SCAN_COUNT):
                    yield key

    @property
    def _login(self) -> dict[str, Any]:
        given = self.address
        return {
            "username": given.username,
            "password": given.password,
            "socket_timeout": self._timeout_seconds,
            **({"ssl": True, **given.ssl} if given.is_encrypted else {}),
        }

    async def _execute(self, *command: Argument) -> Any:
        if time.monotonic() >= self._layout_due_seconds:
            await self._refresh_layout()
        tries = READ_TRIES_MAX if self._reads_again and command[0] in _READS else 1
        while True:
            tries -= 1
            try:
                return await self._execute_once(*command)
            except ConnectionLostError:
                if not tries:
                    raise

    async def _execute_once(self, *command: Argument) -> Any:
        is_sent = False
        try:
            async with asyncio.timeout(self._timeout_seconds), self._room:
                is_sent = True
                return await self._cluster.execute_command(*command)
        except ResponseError as error:
            raise reply_error(error) from error
        except TimeoutError as error:
            if not is_sent:
                raise NotSentError(f"no connection to {self.address} had room in time: not sent") from error
            self._layout_due_seconds = 0.0
            late = CommandTimedOutError(f"no reply from {self.address} within {self._timeout_seconds:g}s")
            raise _of_a_node(late) from error
        except Exception as error:
            # Others than redis-py's own: in a change of the layout it uses connections that it has closed.
            raise _of_a_node(self._failure(error)) from error

    def _failure(self, error: Exception) -> OurError:
        text = _first_line(error)
        if isinstance(error, AuthenticationError | NoPermissionError):
            return LoginRefusedError(text)
        certain = isinstance(error, SlotNotCoveredError | RedisClusterException | MaxConnectionsError)
        if certain or all(words in text for words in _NO_CONNECTION):
            return NotSentError(f"{self.address}: {text}")
        return ConnectionLostError(f"connection to {self.address} was lost before the reply came ({text})")


def _of_a_node(error: OurError) -> OurError:
    """Mark a failure as one of the node that has the key: sessions on other nodes are answered meanwhile."""
    error.of_server = True
    return error


async def _learn_layout(cluster: RedisCluster) -> None:
    try:
        await cluster.initialize()
    except IndexError:
        # redis-py takes the first primary without looking whether there is one.
        raise RedisClusterException("the cluster is down: none of its nodes serves any slot") from None


async def _check_state(cluster: RedisCluster) -> None:
    """Raise `RedisClusterException` if the cluster itself says that it serves nobody."""
    with contextlib.suppress(ResponseError):  # an account that may not ask
        said = await cluster.execute_command("CLUSTER INFO", target_nodes=RedisCluster.RANDOM)
        if said.get("cluster_state") == "fail":
            slots = said.get("cluster_slots_ok", "not all")
            raise RedisClusterException(f"the cluster is down: {slots} of {REDIS_CLUSTER_HASH_SLOTS} slots are served")


async def cluster_addresses(url: str, *, timeout_seconds: float, replicas: bool) -> list[str]:
    """Return the address of every primary of a cluster, or of every replica, with our login."""
    cluster = _asked_for_its_nodes(url, timeout_seconds)
    try:
        await _learn_layout(cluster)
        nodes = cluster.get_replicas() if replicas else cluster.get_primaries()
        places = [HostPort(str(node.host), int(node.port)) for node in nodes]
    finally:
        await cluster.aclose()
    return [member_address(url, place) for place in places]


def _asked_for_its_nodes(url: str, timeout_seconds: float) -> RedisCluster:
    address = parse_cluster(url)
    # They are asked one after the other, in any order: one that is silent is to leave some time for the next.
    parts = min(len(address.nodes), ASKED_IN_TIME)
    return cluster_at(address, timeout_seconds=timeout_seconds / parts)


async def server_addresses(url: str, *, timeout_seconds: float) -> list[str]:
    """Return the address of every node of a cluster that has keys, or copies of them, with our login.

    A node names to clients no replica that is down or has just come; to those who ask for all nodes it does.
    """
    cluster = _asked_for_its_nodes(url, timeout_seconds)
    try:
        await _learn_layout(cluster)
        places = [HostPort(str(node.host), int(node.port)) for node in cluster.get_nodes()]
        asked = [cluster.execute_command("CLUSTER NODES", target_nodes=node) for node in cluster.get_primaries()]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        # None where the account may not ask.
        told = next((answer for answer in answers if isinstance(answer, Mapping)), {})
        via = parse_cluster(url).via
        known = {*places, *(real for real, proxy in via.items() if proxy in places)}
        places += [via.get(one, one) for one in replicas_besides(told, {str(place) for place in known})]
    finally:
        await cluster.aclose()
    return [member_address(url, place) for place in places]


def replicas_besides(told: Mapping[str, Mapping[str, Any]], known: Container[str]) -> list[HostPort]:
    """Return the replicas and the nodes that failed, whose address is known, and which are not among these."""
    found = []
    for place, view in told.items():
        host, _, port = place.rpartition(":")
        flags = {*view["flags"].split(",")}
        has_keys = bool(flags & {"slave", "fail", "fail?"}) and not flags & {"noaddr", "handshake"}
        if not (has_keys and host and port.isdigit()):
            continue
        if not any(str(HostPort(name, int(port))) in known for name in (host, view["hostname"])):
            found.append(HostPort(host, int(port)))
    return found


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
