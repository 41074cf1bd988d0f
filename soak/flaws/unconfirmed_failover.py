"""A failover with nothing broken."""

from __future__ import annotations

from typing import ClassVar

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, FlawSetup, WrongFrom, store_of
from soak.flaws.sentinel_memory import SentinelMemory
from soak.scenarios.scenario import ScenarioFault, ServerSetup
from soak.servers.kinds import RedisTopology
from soak.stores import Contract


class PromisesFailovers(SentinelMemory):
    """Promises that a failover takes nothing, which replication that is asynchronous keeps only if all wait for it."""

    contract: ClassVar[Contract] = Contract(crash_loss_seconds=2.0, power_loss_seconds=2.0, failover_loss_seconds=0.0)


_SENTINEL = ServerSetup(redis_topology=RedisTopology.SENTINEL)
_STORE = store_of(PromisesFailovers)


def _after_a_while(fault: str) -> ScenarioFault:
    return ScenarioFault(fault=fault, after_seconds=2.0, hold_seconds=0.2)


FLAW = Flaw(
    name="unconfirmed_failover",
    incident="SENTINEL FAILOVER before maintenance: clients go on writing to the old primary, and all of it is lost",
    code="SENTINEL FAILOVER in the runbook of every maintenance, without COORDINATED (Valkey 9). 'We have replicas.'",
    mocks="A mock has one server. On it, nothing is ever handed over.",
    user="Ten seconds of the conversation never happened, and no error was logged anywhere.",
    kinds=GONE,
    causes=frozenset({Cause.REPLICA_LAG}),
    setups=(
        FlawSetup(store=_STORE, servers=_SENTINEL, fault=_after_a_while("sentinel_failover")),
        # The primary stops first, and hands over to a replica that has everything.
        FlawSetup(store=_STORE, servers=_SENTINEL, fault=_after_a_while("coordinated_failover")),
    ),
    wrong_from=WrongFrom.FAULT_ENDED,
)
