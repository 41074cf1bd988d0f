"""A conversation memory on Redis Cluster as most applications write it: one client for all, and its defaults."""

from __future__ import annotations

from typing import Any

from redis.asyncio.cluster import ClusterNode, RedisCluster

from soak.flaws.redis_memory import RedisMemory
from soak.hosts import REDIS_PORT, parse_cluster
from soak.servers.kinds import REDIS
from soak.stores import StoreContext


class SharedClusterClient(RedisMemory):
    """redis-py tries again when a connection is lost, and loses connections itself when the cluster changes."""

    def connect(self, context: StoreContext) -> Any:
        address = parse_cluster(context.servers[REDIS.name])
        return RedisCluster(
            startup_nodes=[ClusterNode(host, port or REDIS_PORT) for host, port in address.nodes],
            username=address.username,
            password=address.password,
            socket_timeout=context.timeout_seconds,
        )
