"""A client of redis-py for whatever acts as one Redis: a single server, one behind sentinels, or a cluster.

It is made as the client's documentation has it, and its defaults stay: what a library is given here is what it is given
in production.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from redis import Redis, RedisCluster, cluster, sentinel

SENTINEL, CLUSTER = "+sentinel", "+cluster"
PORT, SENTINEL_PORT = 6379, 26379
T = TypeVar("T")


def redis_client(address: str) -> Any:
    """Return a client for `redis://…`, `redis+sentinel://…/name[/database]` or `redis+cluster://…`, or `rediss` …."""
    parts = urlsplit(address)
    if not parts.scheme.endswith((SENTINEL, CLUSTER)):
        return Redis.from_url(address)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    tls: dict[str, Any] = {}
    if parts.scheme.startswith("rediss"):
        tls = {"ssl": True, **{name: value for name, value in options.items() if name.startswith("ssl_")}}
    login, _, places = parts.netloc.rpartition("@")
    username, _, password = (unquote(word) or None for word in login.partition(":"))
    servers: dict[str, Any] = {"username": username, "password": password, **tls}
    if parts.scheme.endswith(CLUSTER):
        node: Any = cluster.ClusterNode
        return RedisCluster(startup_nodes=[node(*_host(place, PORT)) for place in places.split(",")], **servers)
    name, _, database = unquote(parts.path.strip("/")).partition("/")
    sentinels = {one: options.get(f"sentinel_{one}") for one in ("username", "password")}
    make: Any = sentinel.Sentinel
    return make(
        [_host(place, SENTINEL_PORT) for place in places.split(",")],
        sentinel_kwargs={**sentinels, **tls},
        db=int(database or 0),
        **servers,
    ).master_for(name)


def with_index(make: Callable[[], T]) -> T:
    """Return what makes its search index first: again, where another process made it at the same moment."""
    try:
        return make()
    except Exception as error:
        if "already exists" not in str(error):
            raise
        return make()


def _host(place: str, port: int) -> tuple[str, int]:
    parts = urlsplit(f"//{place}")
    return parts.hostname or "", parts.port or port
