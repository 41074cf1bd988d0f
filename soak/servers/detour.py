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
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit, urlunsplit

from soak.errors import UsageError
from soak.servers.kinds import Protocol, ServerKind

_FALSE = frozenset({"false", "0", "no", "f", "n"})
_PLAIN_MODE = "disable"
_NAME_MODE = "verify-full"


class Detour(NamedTuple):
    """Where a server is, and the address clients get instead."""

    url: str
    host: str
    port: int
    is_opaque: bool
    """Whether what passes is encrypted, or may be."""

    def through(self, host: str, port: int) -> str:
        """Return the address with the proxy's host and port in it; user, password, database and options stay."""
        parts = urlsplit(self.url)
        login, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{login}{at}{host}:{port}"))


def detour_to(kind: ServerKind, url: str) -> Detour:
    """Return how to get to a server through a proxy; raises `UsageError` that says why there is no such way."""
    parts = urlsplit(url)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    host = unquote(parts.hostname or "")
    if parts.scheme == "unix" or host.startswith("/"):
        raise UsageError(
            "its address is a socket of this machine, which no proxy can be put in front of; give host and port"
        )
    if not host:
        raise UsageError("its address names no host; give host and port")
    if "," in (hosts := parts.netloc.rpartition("@")[2]):
        raise UsageError(f"its address names several hosts ({hosts}), and a proxy serves one; give the address of one")
    return Detour(url, host, _port(kind, parts, options), _IS_ENCRYPTED[kind.protocol](parts, options))


def _redis_is_encrypted(parts: SplitResult, options: dict[str, str]) -> bool:
    if parts.scheme != "rediss":
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


def _port(kind: ServerKind, parts: SplitResult, options: dict[str, str]) -> int:
    given = options.get("port", "") if kind.protocol is Protocol.POSTGRES else ""
    return parts.port or (int(given) if given.isdigit() else kind.port)
