"""The load of one process while a test runs: a bridge, a lobby on its loop, and the participants.

It is made when Locust's test starts and ends with it, so that a test stopped on the web page is drained, recorded and
said goodbye for, and the next one is a new worker in the ledger.
"""

from __future__ import annotations

import random
from typing import Self

from soak.join import JoinInfo
from soak.load.bridge import Bridge
from soak.load.browsers import LazyBrowsers
from soak.load.participant import Participant
from soak.load.plan import Plan
from soak.load.session_pool import SessionPool
from soak.settings import LedgerSettings, LoadSettings

START_SECONDS_MAX = 60.0
FAREWELL_SECONDS_MAX = 20.0


class RunningLoad:
    """Everything that the greenlets of one test share."""

    def __init__(self, bridge: Bridge, lobby: SessionPool, plan: Plan, browsers: LazyBrowsers) -> None:
        self.bridge = bridge
        self.plan = plan
        self.random = random.Random()
        self.browsers = browsers
        self._lobby = lobby

    @classmethod
    def start(cls, info: JoinInfo, ledger: LedgerSettings, load: LoadSettings, stores: tuple[str, ...]) -> Self:
        """Connect to ledger and stores; raises `SoakError` with one line where that fails."""
        plan = Plan.of(load, stores)
        bridge = Bridge()
        try:
            lobby = bridge.call(SessionPool.open, info, ledger, plan, timeout_seconds=START_SECONDS_MAX)
        except BaseException:
            bridge.close()
            raise
        return cls(bridge, lobby, plan, LazyBrowsers(bridge, info, ledger, load, plan))

    def participant(self) -> Participant:
        return Participant(self._lobby)

    def stop(self) -> bool:
        """Drain, write what is left, say goodbye; return whether the goodbye was written in time."""
        if not self.bridge.is_open:
            return True
        try:
            are_gone = self.browsers.stop()
            self.bridge.call(self._lobby.close, timeout_seconds=FAREWELL_SECONDS_MAX)
        except TimeoutError:
            return False
        finally:
            self.bridge.close()
        return are_gone
