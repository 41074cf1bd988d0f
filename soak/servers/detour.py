"""The way to a given server through a proxy of ours: pure, from its address alone.

What one must know before touching it:
- The proxy passes bytes on and ends no encryption: behind TLS the client and the server check each other as before, and
  what they say cannot be read. So no single reply can be recognized there.
- A client that compares the name in a certificate with the name it connects to would find the proxy's, and refuse.
  Nothing overrides that: the operator says in the address that the name is not compared, or there is no detour.
- Addresses hold passwords. What is said of one names host and port, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qs, urlencode, urlsplit, urlunsplit

from soak.errors import UsageError
from soak.hosts import VIA, HostPort, hosts_of
from soak.servers.kinds import Protocol, ServerKind

_FALSE = frozenset({"false", "0", "no", "f", "n"})
_PLAIN_MODE = "disable"
_NAME_MODE = "verify-full"


class Detour(NamedTuple):
    """Where a server is, and the address clients get instead."""

    url: str
    places: tuple[HostPort, ...]
    """Every host of it; each gets a proxy of its own."""
    is_opaque: bool
    """Whether what passes is encrypted, or may be."""
    is_group: bool = False
    """Whether clients learn from sentinels, or from the nodes of a cluster, where its servers are."""

    def through(self, *proxies: HostPort) -> str:
        """Return the address with the proxies in place of its hosts; user, password, database and options stay.

        That of a group keeps its hosts, and says besides which proxy leads to which server.
        """
        parts = urlsplit(self.url)
        if self.is_group:
            ways = [(VIA, f"{place}={proxy}") for place, proxy in zip(self.places, proxies, strict=True)]
            return urlunsplit(parts._replace(query="&".join(filter(None, (parts.query, urlencode(ways))))))
        login, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{login}{at}{','.join(map(str, proxies))}"))


def detour_to(kind: ServerKind, url: str) -> Detour:
    """Return how to get to a server through a proxy; raises `UsageError` that says why there is no such way."""
    parts = urlsplit(url)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    hosts = hosts_of(url)
    if parts.scheme == "unix" or any(one.host.startswith("/") for one in hosts):
        raise UsageError(
            "its address is a socket of this machine, which no proxy can be put in front of; give host and port"
        )
    if not hosts:
        raise UsageError("its address names no host; give host and port")
    if len(hosts) > 1 and kind.protocol is not Protocol.POSTGRES:
        raise UsageError("its address names several hosts, and only PostgreSQL has such; give the address of one")
    is_opaque = _IS_ENCRYPTED[kind.protocol](parts, options)
    ports = _ports(kind, options, len(hosts))
    places = tuple(HostPort(one.host, one.port or port) for one, port in zip(hosts, ports, strict=True))
    return Detour(url, places, is_opaque)


def detour_to_group(url: str, places: Iterable[HostPort]) -> Detour:
    """Return how to get to the servers of a Sentinel group or a Cluster; raises `UsageError` if that cannot be."""
    parts = urlsplit(url)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    return Detour(url, tuple(places), _redis_is_encrypted(parts, options), is_group=True)


def _redis_is_encrypted(parts: SplitResult, options: dict[str, str]) -> bool:
    if not parts.scheme.startswith("rediss"):
        return False
    compares = options.get("ssl_check_hostname", "true").lower() not in _FALSE
    if compares and options.get("ssl_cert_reqs") != "none":
        raise UsageError(
            f"its certificate is for {parts.hostname}, and clients would find the proxy's name instead; "
            "add ssl_check_hostname=false to its address, which still checks who signed the certificate"
        )
    return True


def _postgres_is_encrypted(parts: SplitResult, options: dict[str, str]) -> bool:
    mode = options.get("sslmode") or os.environ.get("PGSSLMODE") or "prefer"
    if mode == _NAME_MODE:
        raise UsageError(
            f"its certificate is for {parts.hostname}, and clients would find the proxy's name instead; "
            "write sslmode=verify-ca in its address, which still checks who signed the certificate"
        )
    return mode != _PLAIN_MODE


def _http_is_encrypted(parts: SplitResult, options: dict[str, str]) -> bool:
    del options
    if parts.scheme == "https":
        raise UsageError(f"its certificate is for {parts.hostname}, and clients would find the proxy's name instead")
    return False


_IS_ENCRYPTED = {
    Protocol.REDIS: _redis_is_encrypted,
    Protocol.POSTGRES: _postgres_is_encrypted,
    Protocol.HTTP: _http_is_encrypted,
}


def _ports(kind: ServerKind, options: dict[str, str], count: int) -> list[int]:
    """Return the ports of hosts that name none: of PostgreSQL's option `port`, one for all or one for each."""
    given = options.get("port", "").split(",") if kind.protocol is Protocol.POSTGRES else []
    ports = [int(one) if one.isdigit() else kind.port for one in given] or [kind.port]
    return ports if len(ports) == count else [ports[0]] * count
