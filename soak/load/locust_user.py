"""The Locust user: a greenlet that thinks, takes a turn over the bridge, and reports it to Locust."""

from __future__ import annotations

import math
import time
from typing import Any, ClassVar

from locust import User, task
from locust.exception import StopUser

from soak.load.bridge import BridgeCancelledError, BridgeClosedError
from soak.load.participant import Participant
from soak.load.plan import Plan
from soak.load.running import RunningLoad

TICK_SECONDS = 0.005
"""Users wake on the beat of a common clock, many at once: waking the process for each costs more than its turn."""


TOGETHER_SHARE = 0.5
"""How often the writers of a shared session speak at the same moment: a double click, a callback, a second tab."""


def until_tick(pause_seconds: float, tick_seconds: float = TICK_SECONDS, phase_seconds: float = 0.0) -> float:
    """Lengthen a pause, if there is one, so that it ends with the next tick."""
    if pause_seconds <= 0.0:
        return 0.0
    now = time.monotonic() - phase_seconds
    return math.ceil((now + pause_seconds) / tick_seconds) * tick_seconds - now


class ChatUser(User):
    """A chat participant. All it does runs on the bridge's loop; here it only waits."""

    type_prefix: ClassVar[str] = ""
    """Before the name of the store, in Locust's tables."""

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self._load: RunningLoad | None = getattr(environment, "soak_load", None)
        self._participant: Participant | None = None
        if self._load is not None:
            self._participant = self.participant_of(self._load)

    def participant_of(self, load: RunningLoad) -> Participant | None:
        """Take part in the load; None: later, when the user has started."""
        return load.participant()

    def wait_time(self) -> float:
        load, participant = self._load, self._participant
        if load is None or participant is None:
            return 0.0
        plan = self.plan_of(load)
        pause = plan.draw_think_seconds(load.random)
        phase = participant.phase
        if phase is None or load.random.random() >= TOGETHER_SHARE:
            return until_tick(pause)
        beat = max(TICK_SECONDS, plan.think_seconds)
        return until_tick(pause, beat, phase * beat)

    def plan_of(self, load: RunningLoad) -> Plan:
        """Say by which plan of the load this user goes."""
        return load.plan

    @task
    def turn(self) -> None:
        load, participant = self._load, self._participant
        if load is None or participant is None:
            raise StopUser
        try:
            performed = load.bridge.call(participant.turn)
        except (BridgeClosedError, BridgeCancelledError):
            raise StopUser from None
        fire = self.environment.events.request.fire
        for operation, store, milliseconds, error in performed:
            fire(
                request_type=self.type_prefix + store,
                name=operation,
                response_time=milliseconds,
                response_length=0,
                exception=error,
                context={},
            )

    def on_stop(self) -> None:
        load, participant = self._load, self._participant
        if load is not None and participant is not None and load.bridge.is_open:
            load.bridge.post(participant.leave)
