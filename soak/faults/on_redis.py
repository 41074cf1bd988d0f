"""Faults that only a Redis-compatible server knows."""

from __future__ import annotations

from typing import ClassVar

from soak.faults.fault import Fault, FaultUnavailableError
from soak.servers.bed import Testbed
from soak.servers.redis import RedisServer
from soak.servers.redis_process import RedisProcess


class RedisFault(Fault):
    """A fault of one Redis-compatible server."""

    targets: ClassVar[tuple[str, ...]] = ("redis",)

    def redis(self, bed: Testbed, target: str) -> RedisServer:
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


def redis_process(server: RedisServer) -> RedisProcess | None:
    """Return the process of a server, which can be another version next time; None where it runs elsewhere."""
    return server.vessel if isinstance(server.vessel, RedisProcess) else None


def changeable(server: RedisServer, fault: str) -> RedisProcess:
    """Return the same where it must be there."""
    process = redis_process(server)
    if process is None:
        raise FaultUnavailableError(f"{fault} cannot be injected: {server.title} is no process on this machine")
    return process
