"""What a cell of the recovery matrix is held to."""

from __future__ import annotations

import pytest

from soak.checker.contract import Contract, Order
from soak.checker.telemetry import ServerSample
from soak.errors import SoakError
from soak.scenarios.recovery_matrix.judgement import promise_of

OWN = Contract(order=Order.PER_WRITER, crash_loss_seconds=77.0, power_loss_seconds=77.0)


def redis(**configuration: str) -> ServerSample:
    return ServerSample(server="redis", at=0, configuration=configuration)


def test_what_may_be_lost_is_what_the_server_says_and_the_rest_is_the_stores_own() -> None:
    promise = promise_of(redis(appendonly="yes", appendfsync="no", save=""), OWN, None)
    assert promise.contract == Contract(order=Order.PER_WRITER, crash_loss_seconds=0.0, power_loss_seconds=None)
    assert promise.origin.startswith("AOF without sync: nothing lost after a crash")


def test_a_preset_takes_the_place_of_what_the_server_says_and_both_are_told() -> None:
    promise = promise_of(redis(appendonly="yes", appendfsync="no", save=""), OWN, "redis-always")
    assert (promise.contract.crash_loss_seconds, promise.contract.power_loss_seconds) == (0.0, 0.0)
    assert promise.contract.order is Order.PER_WRITER
    assert promise.origin.startswith("held to redis-always, and configured to AOF without sync")


def test_a_server_that_does_not_say_is_held_to_nothing_that_nobody_declared() -> None:
    with pytest.raises(SoakError, match="does not say how it keeps its data"):
        promise_of(redis(), OWN, None)
    assert promise_of(redis(), OWN, "redis-everysec").contract.power_loss_seconds == 2.0
