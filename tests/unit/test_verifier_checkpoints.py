"""How often the verifier saves its state."""

from __future__ import annotations

import pytest

from soak.verifier.process import seconds_between_checkpoints


@pytest.mark.parametrize(
    ("wanted", "cost_seconds", "seconds"),
    [
        pytest.param(2.0, 0.001, 2.0, id="a small state: as often as was asked for"),
        pytest.param(2.0, 0.008, 4.0, id="a larger one: for little of the time"),
        pytest.param(2.0, 0.1, 5.0, id="but not much less often"),
        pytest.param(2.0, 1.0, 20.0, id="unless nothing else could be done"),
        pytest.param(30.0, 0.008, 30.0, id="never more often than was asked for"),
    ],
)
def test_a_large_state_is_saved_less_often(wanted: float, cost_seconds: float, seconds: float) -> None:
    assert seconds_between_checkpoints(wanted, cost_seconds) == pytest.approx(seconds)
