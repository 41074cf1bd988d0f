"""The Locust user: a greenlet that thinks, takes a turn over the bridge, and reports it to Locust."""

from __future__ import annotations

import math
import random
import time
from typing import Any, ClassVar, Self

from locust import User, task
from locust.exception import StopUser
from locust.runners import MasterRunner, WorkerRunner

from soak.browsing.chromium import find_chromium
from soak.join import JoinInfo
from soak.load.bridge import Bridge, BridgeCancelledError, BridgeClosedError
from soak.load.browsers import LazyBrowsers
from soak.load.participant import Participant
from soak.load.plan import Plan
from soak.load.session_pool import SessionPool
from soak.settings import LedgerSettings, LoadSettings

TICK_SECONDS = 0.005
"""Users wake on the beat of a common clock, many at once: waking the process for each costs more than its turn."""
TICK_SECONDS_MAX = 0.010
TICK_SHARE = 0.02
"""Of the mean pause: users that think for longer wake in larger groups, and none thinks much longer for that."""

TOGETHER_SHARE = 0.5
"""How often the writers of a shared session speak at the same moment: a double click, a callback, a second tab."""


def tick_of(think_seconds: float) -> float:
    """Return the beat for users that think for so long on average."""
    return min(TICK_SECONDS_MAX, max(TICK_SECONDS, think_seconds * TICK_SHARE))


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
            return until_tick(pause, tick_of(plan.think_seconds))
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


# The Locust user that has a browser: it thinks longer, and is shown apart from the others.


class BrowserUser(ChatUser):
    """A participant that types into the chat's page. Nothing but the way to the memory is different."""

    type_prefix: ClassVar[str] = "browser:"

    def participant_of(self, load: RunningLoad) -> Participant | None:
        del load
        return None  # a browser takes seconds to start: the spawner must not wait for that

    def on_start(self) -> None:
        if self._load is None:
            raise StopUser
        browsers = self._load.browsers.get()
        browsers.is_ready.wait()
        self._participant = browsers.participant()

    def plan_of(self, load: RunningLoad) -> Plan:
        return load.browsers.plan


def add_browser_users(environment: Any, load: LoadSettings, runner: Any) -> None:
    """Put them beside the other users, so many of them; raises `UsageError` where they cannot be had."""
    if load.browser_users and (not isinstance(runner, MasterRunner) or environment.parsed_options.processes):
        find_chromium(load.browser)
    # The master decides how many a worker has; the worker only knows what they are.
    if load.browser_users or isinstance(runner, WorkerRunner):
        BrowserUser.fixed_count = load.browser_users
        environment.user_classes.append(BrowserUser)


# The load of one process while a test runs: a bridge, a pool on its loop, and the participants.
#
# It is made when Locust's test starts and ends with it, so that a test stopped on the web page is drained, recorded and
# said goodbye for, and the next one is a new worker in the ledger.


START_SECONDS_MAX = 60.0
FAREWELL_SECONDS_MAX = 20.0


class RunningLoad:
    """Everything that the greenlets of one test share."""

    def __init__(self, bridge: Bridge, pool: SessionPool, plan: Plan, browsers: LazyBrowsers) -> None:
        self.bridge = bridge
        self.plan = plan
        self.random = random.Random()
        self.browsers = browsers
        self._pool = pool

    @classmethod
    def start(cls, info: JoinInfo, ledger: LedgerSettings, load: LoadSettings, stores: tuple[str, ...]) -> Self:
        """Connect to ledger and stores; raises `SoakError` with one line where that fails."""
        plan = Plan.of(load, stores)
        bridge = Bridge()
        try:
            pool = bridge.call(SessionPool.open, info, ledger, plan, timeout_seconds=START_SECONDS_MAX)
        except BaseException:
            bridge.close()
            raise
        return cls(bridge, pool, plan, LazyBrowsers(bridge, info, ledger, load, plan))

    def participant(self) -> Participant:
        return Participant(self._pool)

    def stop(self) -> bool:
        """Drain, write what is left, say goodbye; return whether the goodbye was written in time."""
        if not self.bridge.is_open:
            return True
        try:
            are_gone = self.browsers.stop()
            self.bridge.call(self._pool.close, timeout_seconds=FAREWELL_SECONDS_MAX)
        except TimeoutError:
            return False
        finally:
            self.bridge.close()
        return are_gone
