"""The standby is back; the reader has not noticed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.flaws.flaw import Flaw, Load, WrongFrom, same_server
from soak.scenarios.scenario import ScenarioFault
from soak.servers.kinds import POSTGRES_REPLICA
from soak.stores import Stored
from soak.stores.postgres import STALENESS_SECONDS, PostgresReplicaStore
from soak.stores.postgres_pool import PostgresPool
from soak.stores.postgres_schema import Schema


class ReplicaSnapshot(PostgresReplicaStore):
    """Keeps what it read last. Once the replica has failed it answers from that, and never asks again."""

    schema_suffix: ClassVar[str] = "-snapshot"

    def __init__(self, pool: PostgresPool, schema: Schema, replica: PostgresPool) -> None:
        super().__init__(pool, schema, replica)
        self._known: dict[str, Sequence[Stored]] = {}
        self._has_failed = False

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        if not self._has_failed:
            try:
                self._known[session] = await super().history(session)
            except Exception:  # noqa: BLE001  that is what is wrong with it
                self._has_failed = True
        rows = self._known.get(session, ())
        return list(rows if last is None else rows[-last:])


FLAW = Flaw(
    name="replica_snapshot",
    incident="a standby restarts; the reader falls back to its last snapshot and never asks the standby again",
    code="except ConnectionError: self.has_failed = True, with a fallback to the cache. Nothing sets it to False.",
    mocks="The test of the fallback asserts that reads go on. They do.",
    user="From Tuesday, 04:12, on the assistant remembered everything up to Tuesday, 04:12.",
    kinds=frozenset({Kind.STALE, Kind.NON_MONOTONIC}),
    causes=frozenset({Cause.REPLICA_LAG}),
    # The right one is the built-in store: after the restart it is behind for a moment, which its contract tolerates.
    setups=same_server(
        ReplicaSnapshot,
        PostgresReplicaStore,
        ScenarioFault(fault="restart", target=POSTGRES_REPLICA.name, after_seconds=3.0, hold_seconds=1.0),
    ),
    load=Load(users=8),
    wrong_from=WrongFrom.FAULT_ENDED,
    latent_seconds=STALENESS_SECONDS,
    patience_seconds=40.0,
)
