"""A client of redis-py for whatever acts as one Redis: a single server, one behind sentinels, or a cluster.

It is made as the client's documentation has it, and its defaults stay: what a library is given here is what it is given
in production.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from redis import Redis, RedisCluster, cluster, sentinel

SENTINEL, CLUSTER = "redis+sentinel", "redis+cluster"


def redis_client(address: str) -> Any:
    """Return a client for `redis://…`, `redis+sentinel://…/name` or `redis+cluster://…`."""
    parts = urlsplit(address)
    if parts.scheme not in {SENTINEL, CLUSTER}:
        return Redis.from_url(address)
    login, _, places = parts.netloc.rpartition("@")
    password = unquote(login.partition(":")[2]) or None
    hosts = [(host, int(port)) for host, _, port in (place.rpartition(":") for place in places.split(","))]
    if parts.scheme == CLUSTER:
        node: Any = cluster.ClusterNode
        return RedisCluster(startup_nodes=[node(*host) for host in hosts], password=password)
    sentinel_password = parse_qs(parts.query).get("sentinel_password", [None])[-1]
    make: Any = sentinel.Sentinel
    return make(hosts, sentinel_kwargs={"password": sentinel_password}, password=password).master_for(
        parts.path.strip("/")
    )
