"""A failover with nothing broken."""

from __future__ import annotations

from typing import ClassVar

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, FlawSetup, WrongFrom, after_a_while, store_of
from soak.flaws.sentinel_memory import SentinelMemory
from soak.scenarios.scenario import ServerSetup
from soak.servers.kinds import RedisTopology
from soak.stores import Contract


class PromisesFailovers(SentinelMemory):
    """Promises that a failover loses nothing. Asynchronous replication keeps that only if every write waits for it."""

    contract: ClassVar[Contract] = Contract(crash_loss_seconds=2.0, power_loss_seconds=2.0, failover_loss_seconds=0.0)


_SENTINEL = ServerSetup(redis_topology=RedisTopology.SENTINEL)
_STORE = store_of(PromisesFailovers)


FLAW = Flaw(
    name="unconfirmed_failover",
    incident="SENTINEL FAILOVER before maintenance: clients go on writing to the old primary, and all of it is lost",
    code="SENTINEL FAILOVER in the runbook of every maintenance, without COORDINATED (Valkey 9). 'We have replicas.'",
    mocks="A mock has one server. On it, nothing is ever handed over.",
    user="Ten seconds of the conversation never happened, and no error was logged anywhere.",
    kinds=GONE,
    causes=frozenset({Cause.REPLICA_LAG}),
    setups=(
        FlawSetup(store=_STORE, servers=_SENTINEL, fault=after_a_while("sentinel_failover")),
        # The primary stops first, and hands over to a replica that has everything.
        FlawSetup(store=_STORE, servers=_SENTINEL, fault=after_a_while("coordinated_failover")),
    ),
    wrong_from=WrongFrom.FAULT_ENDED,
)
