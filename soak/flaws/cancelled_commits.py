"""Somebody helps the commits that hang."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, FlawSetup, WrongFrom, store_of
from soak.flaws.postgres_memory import PostgresMemory
from soak.scenarios.scenario import ScenarioFault, ServerSetup
from soak.servers.kinds import POSTGRES, PostgresTopology

_STORE = store_of(PostgresMemory)
_SYNC = ServerSetup(postgres_topology=PostgresTopology.SYNC_STANDBY)


def _on_postgres(fault: str) -> ScenarioFault:
    return ScenarioFault(fault=fault, target=POSTGRES.name, after_seconds=2.0, hold_seconds=0.2)


FLAW = Flaw(
    name="cancelled_commits",
    incident="commits wait for a standby that is away; they are cancelled, which acknowledges them; it is promoted",
    code="A job that runs pg_cancel_backend on every statement older than a second. Synchronous replication is on.",
    mocks="No mock knows that a cancelled commit answers INSERT 0 1, with a warning that no driver shows.",
    user="Everything of the last minute before the failover was gone, on servers that cannot lose anything.",
    kinds=GONE,
    causes=frozenset({Cause.REPLICA_LAG}),
    setups=(
        FlawSetup(store=_STORE, servers=_SYNC, fault=_on_postgres("cancelled_commits")),
        # Nobody cancels anything: the same failover takes nothing.
        FlawSetup(store=_STORE, servers=_SYNC, fault=_on_postgres("machine_crash")),
    ),
    wrong_from=WrongFrom.FAULT_ENDED,
    patience_seconds=30.0,
)
