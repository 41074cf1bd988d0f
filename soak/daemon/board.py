"""The board on which everything about the running soak can be read: for the page, the metrics and the view."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from soak.api.status import ServerStatus, SoakStatus, VerifierStatus
from soak.daemon.announced_faults import AnnouncedWindows
from soak.daemon.children import Child
from soak.daemon.conductor import Conductor
from soak.daemon.consumption import Consumption, Use
from soak.daemon.folder import DataFolder
from soak.daemon.http_clients import VerifierClient
from soak.daemon.plan import LEDGER, without_secrets
from soak.daemon.run_identity import RunIdentity
from soak.daemon.unplanned_faults import UnplannedFaults
from soak.exposition import Exposition
from soak.servers.servers import Servers
from soak.verifier.endpoint import read_last_metrics

STATUS_AGE_SECONDS_MAX = 0.5


class StatusBoard:
    """Asks everybody how they are; holds nothing itself but the phase and what went wrong."""

    def __init__(
        self,
        beginning: RunIdentity,
        folder: DataFolder,
        duration_seconds: float | None,
        testbed: Servers,
        children: Mapping[str, Child],
        faults: UnplannedFaults,
        announced: AnnouncedWindows,
    ) -> None:
        self.phase = "starting"
        self.problems: list[str] = []
        self.http_address = ""
        self.conductor: Conductor | None = None
        self._beginning = beginning
        self._folder = folder
        self._duration_seconds = duration_seconds
        self._testbed = testbed
        self._children = children
        self._faults = faults
        self._announced = announced
        self._client = VerifierClient(folder.endpoint_file)
        self.consumption = Consumption(folder.path, self._pids)
        self._began = time.monotonic()
        self.has_run = False
        self._clock_since: float | None = None
        self._verdict: str | None = None
        self._verifier_status: VerifierStatus | None = None
        self._verifier_status_at = 0.0

    async def close(self) -> None:
        await self._client.close()

    def running(self) -> None:
        self.phase = "running"
        self.has_run = True

    def ended(self, verdict: str) -> None:
        self.phase = "done"
        self._verdict = verdict

    def start_clock(self) -> None:
        """Begin to count the duration."""
        self._clock_since = time.monotonic()

    def remaining_seconds(self) -> float | None:
        """Return how long the run still goes on; the time before it was resumed counts."""
        if self._duration_seconds is None:
            return None
        active = self._beginning.active_seconds
        if self._clock_since is not None:
            active += time.monotonic() - self._clock_since
        return max(0.0, self._duration_seconds - active)

    @property
    def faults_scheduled(self) -> int:
        """Faults of the schedule that began or did not fit, also before the run was resumed."""
        return self._beginning.faults_scheduled + (self.conductor.scheduled if self.conductor is not None else 0)

    @property
    def faults_skipped(self) -> int:
        """Those of them that did not fit."""
        return self._beginning.faults_skipped + (self.conductor.skipped if self.conductor is not None else 0)

    async def verifier_metrics(self, exposition: Exposition) -> str | None:
        if self.phase == "done":
            return read_last_metrics(self._folder.verifier, exposition)
        return await self._client.metrics(self._children["verifier"].pid, exposition)

    def use(self) -> Use:
        return self.consumption.use()

    def _pids(self) -> dict[str, int | None]:
        """Name the processes that are ours: not the servers under test, but the ledger."""
        ledger = self._testbed.nodes.get(LEDGER)
        return {
            "daemon": os.getpid(),
            **{name: child.pid for name, child in self._children.items()},
            LEDGER: ledger.pid if ledger is not None else None,
        }

    async def snapshot(self) -> SoakStatus:
        """Return how the soak is now."""
        status = await self._fresh_verifier_status()
        beginning = self._beginning
        servers = self._servers()
        conductor = self.conductor
        found = status.totals.violations if status is not None else 0
        return SoakStatus(
            run=beginning.run,
            phase=self.phase,
            verdict=self._verdict or ("violation" if found else "undecided"),
            stores=beginning.plan.names,
            seed=str(beginning.seed),
            namespace=beginning.namespace,
            data_dir=str(self._folder.path),
            http_address=self.http_address,
            uptime_seconds=time.monotonic() - self._began,
            remaining_seconds=self.remaining_seconds(),
            children=[child.status() for child in self._children.values()],
            servers=servers,
            faults_active=[
                *self._faults.active,
                *(conductor.active if conductor is not None else []),
                *self._announced.active,
            ],
            faults_recent=list(conductor.recent) if conductor is not None else [],
            fault_next=conductor.upcoming if conductor is not None and self.phase == "running" else None,
            not_ready=self._not_ready(servers),
            warnings=[*self.problems, *(status.warnings if status is not None else [])],
            verifier=status,
            faults_scheduled=self.faults_scheduled,
            faults_skipped=self.faults_skipped,
            problems=list(self.problems),
            active_seconds=beginning.active_seconds + time.monotonic() - self._began,
            servers_of={spec.name: list(spec.needs) for spec in beginning.plan.specs},
        )

    async def _fresh_verifier_status(self) -> VerifierStatus | None:
        now = time.monotonic()
        if now - self._verifier_status_at > STATUS_AGE_SECONDS_MAX:
            self._verifier_status_at = now
            self._verifier_status = await self._client.status(self._children["verifier"].pid)
        return self._verifier_status

    def _servers(self) -> list[ServerStatus]:
        plan = self._beginning.plan
        return [
            *(self._embedded(kind) for kind in plan.embedded),
            *(self._given(kind, address) for kind, address in plan.given.items()),
        ]

    def _given(self, kind: str, address: str) -> ServerStatus:
        server = self._testbed.nodes.get(kind)
        return ServerStatus(
            kind=kind,
            embedded=False,
            state="given",
            pid=None,
            restarts=0,
            planned_restarts=server.planned_restarts if server is not None else 0,
            address=without_secrets(address),
        )

    def _embedded(self, kind: str) -> ServerStatus:
        server = self._testbed.nodes.get(kind)
        if server is None:
            state = "starting" if self.phase == "starting" else "stopped"
            return ServerStatus(kind=kind, embedded=True, state=state, pid=None, restarts=0, address="")
        return ServerStatus(
            kind=kind,
            embedded=True,
            state=str(server.state),
            pid=server.pid,
            restarts=server.restarts,
            planned_restarts=server.planned_restarts,
            address=without_secrets(server.url),
        )

    def _not_ready(self, servers: list[ServerStatus]) -> list[str]:
        reasons = [f"server {server.kind} is {server.state}" for server in servers if not server.is_up]
        if self.phase != "running":
            reasons.append(f"the soak is {self.phase}")
        reasons += [f"{child.name} is {child.state}" for child in self._children.values() if not child.is_up]
        if self._children["verifier"].is_up and self._verifier_status is None:
            reasons.append("verifier does not answer yet")
        return reasons
