"""The servers of one scenario: how they are set, and what happened to them while it ran."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import msgspec

from soak.checker.contract import Contract
from soak.contracts.guarantees import Guarantees
from soak.scenarios.scenario import ServerSetup
from soak.servers import versions
from soak.servers.local import LocalServers
from soak.servers.managed import ManagedOptions
from soak.servers.server import LifecycleEvent
from soak.servers.servers import Servers
from soak.servers.web_process import ServiceProgram

PROXIED_FAULTS = frozenset({"connection_refused", "dropped_reply"})
"""Faults of the way to a server, which need a proxy before it."""


class ScenarioServers:
    """The testbed of one scenario, and what its servers did by themselves."""

    def __init__(
        self, setup: ServerSetup, folder: Path, faults: Collection[str] = (), service: ServiceProgram | None = None
    ) -> None:
        """Choose the servers for a scenario with these faults; none is started yet."""
        self.deaths: list[LifecycleEvent] = []
        self.repairs: list[str] = []
        """What had to be done about data by hand before a server started again."""
        self.bed = self._make_bed(setup, folder, faults, service)

    @contextlib.asynccontextmanager
    async def started(self, kinds: Collection[str]) -> AsyncIterator[dict[str, str]]:
        """Start servers of these kinds and give their addresses; nothing is left of them at the end."""
        try:
            yield await self.bed.start(kinds)
        finally:
            await self.bed.stop()
            await self.bed.discard()

    def _make_bed(
        self, setup: ServerSetup, folder: Path, faults: Collection[str], service: ServiceProgram | None
    ) -> Servers:
        redis = versions.redis_version(setup.redis)
        # Only where it is needed: a power cut costs a compilation, or a file system.
        options: ManagedOptions = {
            "redis_options": setup.redis_options,
            "postgres_options": setup.postgres_options,
            "proxied": not PROXIED_FAULTS.isdisjoint(faults),
            "power_cuts": "power_cut" in faults,
            "power_cut_by": setup.power_cut,
            "on_event": self._note,
        }
        if setup.testbed == "docker":
            # Imported only where it is used: the client of Docker is a heavy one.
            from soak.servers.docker.servers import DockerServers  # noqa: PLC0415

            return DockerServers(
                folder,
                redis_version=redis,
                postgres_version=versions.postgres_version(setup.postgres),
                redis_image=setup.redis_image,
                postgres_image=setup.postgres_image,
                **options,
            )
        return LocalServers(
            folder,
            redis_version=redis,
            redis_topology=setup.redis_topology,
            postgres_version=int(setup.postgres),
            postgres_topology=setup.postgres_topology,
            postgres_replication=setup.postgres_replication,
            service=service,
            **options,
        )

    def _note(self, event: LifecycleEvent) -> None:
        if event.what == "repaired":
            self.repairs.append(event.detail)
        elif event.what in {"died", "gave_up"}:
            self.deaths.append(event)


def as_given(contract: Contract, given: Guarantees) -> Contract:
    """Return the contract with the durability that the running server says it gives."""
    return msgspec.structs.replace(
        contract,
        crash_loss_seconds=given.crash.seconds,
        power_loss_seconds=given.power.seconds,
        failover_loss_seconds=given.crash.seconds,
    )
