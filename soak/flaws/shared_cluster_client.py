"""One cluster client for everybody, as the documentation has it."""

from __future__ import annotations

from typing import Any

from redis.asyncio.cluster import ClusterNode, RedisCluster

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.flaws.flaw import Flaw, Load, WrongFrom, same_server
from soak.flaws.redis_memory import NO_RETRIES, EverySecondMemory
from soak.hosts import REDIS_PORT, parse_cluster
from soak.scenarios.scenario import ScenarioFault, ServerSetup
from soak.servers.kinds import REDIS, RedisTopology
from soak.stores import StoreContext


class SharedClusterClient(EverySecondMemory):
    """redis-py tries again when a connection is lost, and loses connections itself when the cluster changes."""

    def connect(self, context: StoreContext) -> Any:
        return cluster_client(context)


class NothingTwice(EverySecondMemory):
    """The same client, told to try nothing again: what was lost with its connection is an error."""

    def connect(self, context: StoreContext) -> Any:
        return cluster_client(context, retry=NO_RETRIES)


def cluster_client(context: StoreContext, **options: Any) -> Any:
    address = parse_cluster(context.servers[REDIS.name])
    tls: dict[str, Any] = {"ssl": True, **address.ssl} if address.is_encrypted else {}
    return RedisCluster(
        startup_nodes=[ClusterNode(host, port or REDIS_PORT) for host, port in address.nodes],
        username=address.username,
        password=address.password,
        socket_timeout=context.timeout_seconds,
        **tls,
        **options,
    )


FLAW = Flaw(
    name="shared_cluster_client",
    incident="one redis-py cluster client for the whole application writes messages twice in a graceful failover",
    code="RedisCluster.from_url(URL) in a module, and its retries as they come. Every guide has it like that.",
    mocks="A mock of a cluster has one node, and no slot ever moves.",
    user="'Book the flight' stood there twice, and so it was booked twice.",
    kinds=frozenset({Kind.DUPLICATED}),
    # Where no operation fails at that moment, nothing else speaks for a retry.
    causes=frozenset({Cause.RETRY, Cause.UNKNOWN}),
    setups=same_server(
        SharedClusterClient,
        NothingTwice,
        ScenarioFault(fault="cluster_failover", after_seconds=1.5, hold_seconds=0.2),
        ServerSetup(redis_topology=RedisTopology.CLUSTER),
    ),
    load=Load(users=32, think_seconds=0.005),
    wrong_from=WrongFrom.FAULT_STARTED,
)
