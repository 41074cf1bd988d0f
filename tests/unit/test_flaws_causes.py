"""Facts without which two incidents would be taken for each other."""

from __future__ import annotations

import pytest

from soak.checker.causes import Cause, explain
from soak.checker.clues import Clues
from soak.checker.faults import Excuse, FaultWindow, Promotion
from soak.checker.kinds import Kind
from soak.checker.outcome import Attempt, Outcome
from soak.checker.telemetry import ServerSample

SECOND = 1_000_000


@pytest.mark.parametrize(("appendfsync", "cause"), [("no", Cause.UNSYNCED_TAIL), ("everysec", Cause.WIPED_VOLUME)])
def test_a_power_cut_takes_everything_from_a_server_that_leaves_syncing_to_the_kernel(
    appendfsync: str, cause: Cause
) -> None:
    """A volume that comes back empty is not called wiped when nothing was ever synced to it."""
    clues = Clues(
        kind=Kind.LOST,
        attempt=Attempt(1, 0, 1, int(Outcome.OK), 10 * SECOND, 10 * SECOND + 1),
        faults=[
            FaultWindow(
                fault="f",
                kind="power_cut",
                target="redis",
                excuses=Excuse.POWER,
                promotes=Promotion.NONE,
                started=20 * SECOND,
                ended=21 * SECOND,
            )
        ],
        samples=[
            ServerSample(server="redis", at=9 * SECOND, configuration={"appendonly": "yes", "appendfsync": appendfsync})
        ],
        first_missed=22 * SECOND,
        read_invoked=23 * SECOND,
        read_returned=23 * SECOND,
    )
    assert explain(clues).cause is cause
