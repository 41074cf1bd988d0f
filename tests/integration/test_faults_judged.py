"""Faults in a whole soak: what they take is reported with its cause, and where they take nothing nobody is accused."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, FlawSetup, WrongFrom, store_of
from soak.flaws.postgres_memory import PostgresMemory
from soak.flaws.redis_memory import EverySecondMemory
from soak.scenarios.scenario import ScenarioFault
from tests.support.scenarios import make_trial

if TYPE_CHECKING:
    from pathlib import Path


class ReplicatedMemory(PostgresMemory):
    """Rows in a primary that has a replica, under the strictest contract."""

    needs: ClassVar[tuple[str, ...]] = ("postgres", "postgres-replica")


def trial_of(store: type, target: str, wrong: str, right: str, cause: Cause) -> Flaw:
    """Try two faults on the same store: one that takes what was acknowledged, and one that takes nothing."""
    first, second = (
        FlawSetup(store=store_of(store), fault=ScenarioFault(fault=name, target=target, after_seconds=2.0))
        for name in (wrong, right)
    )
    return Flaw(
        name=wrong,
        incident="",
        code="",
        mocks="",
        user="",
        kinds=GONE,
        causes=frozenset({cause}),
        setups=(first, second),
        wrong_from=WrongFrom.FAULT_ENDED,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "flaw",
    [
        trial_of(ReplicatedMemory, "postgres", "early_failover", "failover", Cause.REPLICA_LAG),
        trial_of(EverySecondMemory, "redis", "downgrade", "restart_from_rdb", Cause.RESTART_WITHOUT_PERSISTENCE),
        trial_of(EverySecondMemory, "redis", "aof_truncation", "restart_from_aof", Cause.UNKNOWN),
    ],
    ids=lambda flaw: flaw.name,
)
async def test_a_fault_that_takes_something_is_reported_and_its_harmless_twin_is_not(
    tmp_path: Path, flaw: Flaw
) -> None:
    trial = await make_trial(flaw, tmp_path)
    assert trial.failures == []
    assert trial.affected > 0
