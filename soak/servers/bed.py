"""What every testbed offers, whether its servers are processes here, containers, or somebody else's."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Protocol

from soak.errors import UsageError
from soak.servers.server import Server

LEDGER = "ledger"
POSTGRES = "postgres"
REPLICA = "postgres-replica"
CHROMA = "chroma"
HTTP = "http"
"""A memory behind a web service: given, or a program that is started here."""
KINDS = (LEDGER, "redis", POSTGRES, REPLICA, CHROMA, HTTP)
FOLDER_NAME = "servers"
"""In the data folder: what testbeds keep there."""


class BedKind(enum.StrEnum):
    """Where servers live."""

    LOCAL = "local"
    DOCKER = "docker"
    EXTERNAL = "external"
    COMBINED = "combined"


class Testbed(Protocol):
    """The servers of one soak."""

    @property
    def kind(self) -> BedKind:
        """Where its servers live."""

    @property
    def no_power_cuts(self) -> str | None:
        """Why no server under test can lose its power here; None if one can."""

    namespace: str | None
    """What everything that the run writes begins with, once whoever starts the run has said so."""

    @property
    def servers(self) -> Mapping[str, Server]:
        """The started servers by kind."""

    async def start(self, kinds: Iterable[str]) -> dict[str, str]:
        """Start these kinds of servers, on the data they had if there is any; returns all addresses by kind.

        May be called again for further kinds. Raises `ServerUnreachableError` or `UsageError`, and then
        leaves none of the servers it was asked for running.
        """

    async def stop(self) -> None:
        """End all servers, cleanly where they let us; afterwards nothing of them runs, and their data is kept."""

    async def discard(self) -> None:
        """Remove the data of all servers, which have been stopped."""

    async def telemetry(self, kind: str) -> dict[str, str]:
        """Sample a server's own counters; raises `ServerUnreachableError` when it does not answer."""

    def refuses(self, fault: str, target: str) -> str | None:
        """Return why this fault must not happen to this server; None if it may, as far as the testbed is concerned."""


def in_order(kinds: Iterable[str]) -> list[str]:
    """Return the kinds with what they need, each after what it needs."""
    wanted = set(kinds)
    unknown = wanted - set(KINDS)
    if unknown:
        raise UsageError(f"no such kind of server: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    if REPLICA in wanted:
        wanted.add(POSTGRES)
    return [kind for kind in KINDS if kind in wanted]
