"""Faults that only a Redis-compatible server knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from soak.faults.fault import Fault
from soak.testbed.redis import RedisServer

if TYPE_CHECKING:
    from soak.testbed.local import LocalTestbed


class RedisFault(Fault):
    """A fault of one Redis-compatible server."""

    targets: ClassVar[tuple[str, ...]] = ("redis",)

    def redis(self, bed: LocalTestbed, target: str) -> RedisServer:
        server = bed.servers[target]
        if not isinstance(server, RedisServer):
            raise TypeError(server)
        return server


def writes_a_log(server: RedisServer) -> bool:
    """Whether the server was found to keep an append-only file."""
    return server.configuration.get("appendonly") == "yes"


def makes_snapshots(server: RedisServer) -> bool:
    """Whether the server was found to have points at which it saves everything."""
    return bool(server.configuration.get("save", "").strip())
