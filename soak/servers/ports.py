"""Ports for servers: chosen once, then pinned, because clients and proxies hold on to the address.

A server listens only seconds after its port was chosen. Until then the port is claimed by a name that all processes of
this machine see, so that no two of them choose the same one.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections import deque
from pathlib import Path

from soak.errors import ServerUnreachableError

HOST = "127.0.0.1"
_LOWEST = 10_000
_TRIES_MAX = 500
_CLAIM_SECONDS = 60.0
_CLAIMS_MAX = 256
_claims: deque[tuple[float, int]] = deque()
"""Until when each is kept, and the descriptor that keeps it."""
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """Return a port on the loopback address that nobody listens on and no client is given by chance."""
    # A port of the ephemeral range may be taken by any outgoing connection while its server restarts; a
    # client that connects to it from this very machine can even end up connected to itself.
    first, last = _range_outside_ephemeral()
    for _ in range(_TRIES_MAX):
        port = first + secrets.randbelow(last - first + 1)
        if is_free(port) and _claim(port):
            return port
    raise ServerUnreachableError(f"no free port between {first} and {last} on {HOST}; end what uses them")


def _claim(port: int) -> bool:
    """Claim a port by a name that vanishes with this process; False: it is claimed already."""
    now = time.monotonic()
    while _claims and (len(_claims) >= _CLAIMS_MAX or _claims[0][0] < now):
        os.close(_claims.popleft()[1])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as name:
        try:
            name.bind(f"\0soak-port-{port}")
        except OSError:
            return False
        _claims.append((now + _CLAIM_SECONDS, name.detach()))
    return True


def is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do; without it a port with connections in TIME_WAIT would look taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _range_outside_ephemeral() -> tuple[int, int]:
    try:
        lowest, highest = (int(word) for word in _EPHEMERAL.read_text().split())
    except (OSError, ValueError):
        lowest, highest = 32_768, 60_999
    if lowest - _LOWEST >= 1_000:
        return _LOWEST, lowest - 1
    if 65_535 - highest >= 1_000:
        return highest + 1, 65_535
    return _LOWEST, 65_535
