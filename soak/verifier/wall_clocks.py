"""Noticing clocks that are set, and machines that are suspended.

Nothing is judged by a wall clock but the life of sessions that expire: servers count that by their own. So each
server's wall clock is followed against the clock of the run. If it is set, or if this machine was suspended while the
server's clock ran on, nothing is claimed about open sessions that expire by it. What happens to the wall clock of this
machine changes no verdict, and is only reported.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from soak.checker.telemetry import ServerSample
from soak.clock import clock_offset_us, suspended_us
from soak.contracts.drift import Event
from soak.ledger.clock import Bracket
from soak.verifier.state import SERVER_EVENTS_KEPT, State

_log = structlog.get_logger()

WATCH_SECONDS = 1.0
STEP_US_MIN = 100_000
"""A smaller one is not told from slow answers and slewing."""
THIS_HOST = "this machine"


class WallClocks:
    """Follows the wall clocks of the servers, and that of this machine."""

    def __init__(
        self,
        state: State,
        ttl_epsilon_us: int,
        on_server_step: Callable[[frozenset[str]], None] = lambda _servers: None,
    ) -> None:
        """Take the slack around every expiry: half of it is how far a server's clock may be set without harm."""
        self._state = state
        self._harmful_us = max(STEP_US_MIN, ttl_epsilon_us // 2)
        self._on_server_step = on_server_step
        self._servers: dict[str, Bracket] = {}
        self._suspended_us = suspended_us()
        self._wall_us = clock_offset_us() - self._suspended_us

    async def run(self) -> None:
        """Watch the clock of this machine until cancelled."""
        while True:
            self.look(clock_offset_us(), suspended_us())
            await asyncio.sleep(WATCH_SECONDS)

    def look(self, offset_us: int, asleep_us: int) -> None:
        """Take in the offset of the wall clock, and how long this machine was suspended."""
        suspended = asleep_us - self._suspended_us
        stepped = offset_us - asleep_us - self._wall_us
        if suspended >= STEP_US_MIN:
            self._tell(THIS_HOST, f"{THIS_HOST} was suspended for {suspended / 1e6:.1f} s", suspended)
        if abs(stepped) >= STEP_US_MIN:
            self._tell(THIS_HOST, f"the wall clock of {THIS_HOST} was set by {stepped / 1e6:+.1f} s", stepped)
        # What is too little to be told counts no further: a clock that is slewed is not set.
        self._suspended_us, self._wall_us = asleep_us, offset_us - asleep_us

    def take(self, sample: ServerSample, asked: int, *, is_planned: bool) -> None:
        """Take in what time it was on a server that was asked at `asked`; a planned fault may set its clock."""
        told = _server_time_us(sample)
        if told is None or is_planned:
            self._servers.pop(sample.server, None)
            return
        measured = Bracket(told - sample.at, told - asked, sample.at)
        known = self._servers.get(sample.server)
        widened = measured if known is None else known.widened(sample.at)
        if widened.meets(measured):
            self._servers[sample.server] = widened.narrowed(measured)
            return
        self._servers[sample.server] = measured
        by = measured.low - widened.high if measured.low > widened.high else measured.high - widened.low
        if abs(by) >= STEP_US_MIN:
            self._server_stepped(sample.server, by)

    def _server_stepped(self, server: str, by_us: int) -> None:
        self._tell(server, f"the wall clock of {server} was set by {by_us / 1e6:+.1f} s", by_us)
        contracts = self._state.header.contracts
        expires = any(
            contracts[store].ttl_seconds is not None and server in targets
            for store, targets in self._state.targets.items()
        )
        if expires and abs(by_us) >= self._harmful_us:
            steps = self._state.tally.server_clock_steps
            steps[server] = steps.get(server, 0) + 1
            self._on_server_step(frozenset({server}))

    def _tell(self, whose: str, text: str, by_us: int) -> None:
        _log.warning("clock_set", whose=whose, seconds=round(by_us / 1e6, 3), detail=text)
        events = self._state.tally.events
        events.append(
            Event(
                at_wall_seconds=time.time(),
                server=whose,
                setting="clock",
                before="",
                now=f"{by_us / 1e6:+.1f}s",
                text=text,
                what="clock",
            )
        )
        del events[:-SERVER_EVENTS_KEPT]


def _server_time_us(sample: ServerSample) -> int | None:
    """Return what time it was on a server by its own clock; None: it does not say."""
    told = sample.telemetry
    try:
        if "server_time_usec" in told:
            return int(told["server_time_usec"])
        return int((float(told["postmaster_started"]) + float(told["uptime_seconds"])) * 1e6)
    except (KeyError, ValueError):
        return None
