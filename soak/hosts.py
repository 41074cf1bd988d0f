"""Addresses of servers that may be several hosts: `scheme://user:password@a:1,b:2/name`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlencode, urlsplit, urlunsplit

SENTINEL = "+sentinel"
"""Ends the scheme of an address that names sentinels and not the Redis they watch."""
CLUSTER = "+cluster"
"""The same of one that names nodes of a Redis Cluster."""
REDIS_PORT = 6379
SENTINEL_PORT = 26379
_CLUSTER_EXAMPLE = "write one like redis+cluster://:password@host:6379,host:6379"
VIA = "via"
"""An option of both: `real=proxy`, once for each server that is reached through a proxy of ours."""
_SENTINEL_EXAMPLE = "write one like redis+sentinel://:password@host:26379,host:26379/mymaster"


class HostPort(NamedTuple):
    """One host of an address."""

    host: str
    port: int | None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"


def with_login(url: str, login: str) -> str:
    """Return an address with another login in it, given as user:password."""
    parts = urlsplit(url)
    user, _, password = login.partition(":")
    places = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{quote(user, safe='')}:{quote(password, safe='')}@{places}"))


def hosts_of(url: str) -> tuple[HostPort, ...]:
    """Return every host that an address names; raises `ValueError` if a port is none."""
    places = urlsplit(url).netloc.rpartition("@")[2]
    parts = [urlsplit(f"//{place}") for place in places.split(",")]
    return tuple(HostPort(unquote(part.hostname), part.port) for part in parts if part.hostname)


def each_host(url: str, **options: str) -> list[str]:
    """Return for every host that an address names the same address of that host alone, with these options."""
    parts = urlsplit(url)
    login, at, _ = parts.netloc.rpartition("@")
    query = urlencode({**{name: values[-1] for name, values in parse_qs(parts.query).items()}, **options})
    return [urlunsplit(parts._replace(netloc=f"{login}{at}{host}", query=query)) for host in hosts_of(url)]


def member_address(url: str, place: object, database: int = 0) -> str:
    """Return the address of one server of a group, with the login and the TLS options of the group's own address."""
    parts = urlsplit(url)
    login, at, _ = parts.netloc.rpartition("@")
    scheme = parts.scheme.partition("+")[0]
    query = urlencode({name: values[-1] for name, values in parse_qs(parts.query).items() if name.startswith("ssl_")})
    return urlunsplit((scheme, f"{login}{at}{place}", f"/{database}", query, ""))


def is_sentinel(url: str) -> bool:
    """Whether an address names sentinels."""
    return urlsplit(url).scheme.endswith(SENTINEL)


def is_cluster(url: str) -> bool:
    """Whether an address names nodes of a Redis Cluster."""
    return urlsplit(url).scheme.endswith(CLUSTER)


def is_group(url: str) -> bool:
    """Whether several nodes answer at an address, one of which can take the place of another."""
    return is_sentinel(url) or is_cluster(url) or len(hosts_of(url)) > 1


class ClusterAddress(NamedTuple):
    """Nodes of a Redis Cluster, and who we are to it. Its text form holds no secret."""

    nodes: tuple[HostPort, ...]
    username: str | None
    password: str | None
    is_encrypted: bool
    ssl: dict[str, str]
    via: Mapping[HostPort, HostPort]
    """Where to connect instead of some of its servers."""

    def __str__(self) -> str:
        return f"the cluster {', '.join(map(str, self.nodes))}"

    def __repr__(self) -> str:
        return f"ClusterAddress({self})"


def parse_cluster(url: str) -> ClusterAddress:
    """Read `redis+cluster://[user][:password@]host[:port][,host[:port]…]`.

    Raises `ValueError` that says what is wrong.
    """
    parts = urlsplit(url)
    nodes = tuple(HostPort(host, port or REDIS_PORT) for host, port in hosts_of(url))
    if not nodes:
        raise ValueError(f"names no node of the cluster; {_CLUSTER_EXAMPLE}")
    if parts.path.strip("/") not in {"", "0"}:
        raise ValueError(f"names a database, and a cluster has none; {_CLUSTER_EXAMPLE}")
    return ClusterAddress(
        nodes=nodes,
        username=_unquoted(parts.username),
        password=_unquoted(parts.password),
        is_encrypted=parts.scheme.startswith("rediss"),
        ssl=_options(parts, ("ssl_",), _CLUSTER_EXAMPLE),
        via=_via(parts),
    )


class SentinelAddress(NamedTuple):
    """Sentinels, the name of the primary they watch, and who we are to both. Its text form holds no secret."""

    sentinels: tuple[HostPort, ...]
    service: str
    database: int
    username: str | None
    password: str | None
    sentinel_username: str | None
    sentinel_password: str | None
    is_encrypted: bool
    ssl: dict[str, str]
    """Options of TLS as redis-py takes them, for sentinels and servers."""
    via: Mapping[HostPort, HostPort]
    """Where to connect instead of some of the servers that the sentinels name."""

    def __str__(self) -> str:
        return f"{self.service} of the sentinels {', '.join(map(str, self.sentinels))}"

    def __repr__(self) -> str:
        return f"SentinelAddress({self})"


def parse_sentinel(url: str) -> SentinelAddress:
    """Read `redis+sentinel://[user][:password@]host[:port][,host[:port]…]/name[/database][?sentinel_password=…]`.

    Raises `ValueError` that says what is wrong.
    """
    parts = urlsplit(url)
    hosts = tuple(HostPort(host, port or SENTINEL_PORT) for host, port in hosts_of(url))
    service, _, database = unquote(parts.path.lstrip("/")).partition("/")
    if not hosts:
        raise ValueError(f"names no sentinel; {_SENTINEL_EXAMPLE}")
    if not service:
        raise ValueError(f"does not say which primary of the sentinels is meant; {_SENTINEL_EXAMPLE}")
    if database and not database.isdigit():
        raise ValueError(f"has no number as its database; {_SENTINEL_EXAMPLE}")
    options = _options(parts, ("sentinel_", "ssl_"), _SENTINEL_EXAMPLE)
    return SentinelAddress(
        sentinels=hosts,
        service=service,
        database=int(database or 0),
        username=_unquoted(parts.username),
        password=_unquoted(parts.password),
        sentinel_username=options.pop("sentinel_username", None),
        sentinel_password=options.pop("sentinel_password", None),
        is_encrypted=parts.scheme.startswith("rediss"),
        ssl=options,
        via=_via(parts),
    )


def _options(parts: SplitResult, known: tuple[str, ...], example: str) -> dict[str, str]:
    options = {name: values[-1] for name, values in parse_qs(parts.query).items() if name != VIA}
    if unknown := [name for name in options if not name.startswith(known)]:
        raise ValueError(f"has an option that is not known: {unknown[0]}; {example}")
    return options


def _via(parts: SplitResult) -> dict[HostPort, HostPort]:
    pairs = [text.partition("=")[::2] for text in parse_qs(parts.query).get(VIA, [])]
    return {place: proxy for real, ours in pairs for place, proxy in zip(_places(real), _places(ours), strict=True)}


def _places(text: str) -> tuple[HostPort, ...]:
    return hosts_of(f"//{text}")


def _unquoted(text: str | None) -> str | None:
    return unquote(text) if text else None
