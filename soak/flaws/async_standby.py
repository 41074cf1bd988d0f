"""A standby that nobody waits for."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, FlawSetup, WrongFrom, store_of
from soak.flaws.postgres_memory import PostgresMemory
from soak.scenarios.scenario import ScenarioFault, ServerSetup
from soak.servers.kinds import POSTGRES, PostgresTopology, Replication

_STORE = store_of(PostgresMemory)
_DIES = ScenarioFault(
    fault="machine_crash", target=POSTGRES.name, parameters={"latency": "200ms"}, after_seconds=2.0, hold_seconds=0.2
)

FLAW = Flaw(
    name="async_standby",
    incident="the primary's machine dies, the standby is promoted, and the last acknowledged messages are not on it",
    code="synchronous_standby_names = ''. It is the default, and 'we have a hot standby' stands in the document.",
    mocks="A mock of PostgreSQL has no standby. On one server a commit is a commit.",
    user="The assistant had confirmed the cancellation, and knew nothing of it a minute later.",
    kinds=GONE,
    causes=frozenset({Cause.REPLICA_LAG}),
    setups=(
        FlawSetup(
            store=_STORE,
            servers=ServerSetup(
                postgres_topology=PostgresTopology.SYNC_STANDBY, postgres_replication=Replication.ASYNC
            ),
            fault=_DIES,
        ),
        FlawSetup(
            store=_STORE,
            servers=ServerSetup(postgres_topology=PostgresTopology.SYNC_STANDBY),
            fault=_DIES,
        ),
    ),
    wrong_from=WrongFrom.FAULT_ENDED,
    patience_seconds=30.0,
)
