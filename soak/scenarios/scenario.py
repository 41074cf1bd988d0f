"""What a scenario is: a store on servers, under a load and a fault, and what is expected of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

import msgspec

from soak.servers.kinds import REDIS, PostgresTopology, RedisTopology, Replication
from soak.servers.power_cut.source import PowerCutWay

BedName = Literal["local", "docker"]
RedisName = Literal["valkey", "6.2"]
PostgresName = Literal["18", "16"]


class ServerSetup(msgspec.Struct, frozen=True, kw_only=True):
    """How the servers of a scenario are run."""

    testbed: BedName = "local"
    redis: RedisName = "valkey"
    redis_topology: RedisTopology = RedisTopology.SINGLE
    postgres: PostgresName = "18"
    postgres_topology: PostgresTopology = PostgresTopology.SINGLE
    postgres_replication: Replication = Replication.AUTO
    redis_image: str | None = None
    """In Docker, another image than the official one."""
    postgres_image: str | None = None
    power_cut: PowerCutWay = "auto"
    redis_options: Mapping[str, str] = {}
    postgres_options: Mapping[str, str] = {}
    service: str = ""
    """A planted service that the store speaks with, by the name of its script; empty: none."""


class ScenarioFault(msgspec.Struct, frozen=True, kw_only=True):
    """The fault of a scenario, and when it happens."""

    fault: str
    """A name of the fault catalogue."""
    parameters: Mapping[str, str] = {}
    target: str = REDIS.name
    after_seconds: float = 1.5
    """How long the load runs before it."""
    hold_seconds: float = 0.5


class ScenarioResult(Protocol):
    """What came of a scenario: a `msgspec.Struct`, to which the child process adds how long it took."""

    @property
    def seconds(self) -> float: ...

    @property
    def outcome(self) -> str:
        """What came of it, in a few words."""


L = TypeVar("L")
E = TypeVar("E")
R = TypeVar("R", bound=ScenarioResult)


class Scenario(msgspec.Struct, Generic[L, E, R], frozen=True, kw_only=True):
    """One scenario. It goes to its process as JSON, so it is all that the process knows."""

    result: ClassVar[type[Any]]
    """What `run` returns; it comes back as JSON."""

    name: str
    """What it is called while it runs."""
    stores: tuple[str, ...]
    """Each is tried in the same way, at the same time, on the same servers."""
    servers: ServerSetup
    load: L
    fault: ScenarioFault | None = None
    expectation: E
    seconds_max: float
    """How long its process may take."""
    weight: float = 0.0
    """The heaviest begin first, so that they do not hold up the end."""

    def prepare(self, say: Callable[[str], None]) -> Self:  # noqa: ARG002  most need nothing
        """Get what is needed before it can run. Only one scenario is prepared at a time; raises `SoakError`."""
        return self

    async def run(self, folder: Path) -> R:
        """Run it, in its own process, with all its files in this folder; raises `SoakError` where that cannot be."""
        raise NotImplementedError

    def not_made(self, reason: str, *, is_unreachable: bool = False) -> R:
        """Return the result of one that could not be run; it proves nothing."""
        raise NotImplementedError

    def keep(self, folder: Path) -> None:
        """Copy what is to outlive the folder, which is removed next."""
