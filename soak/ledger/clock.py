"""How the clock of this host stands to that of the ledger's server, measured all the time.

Hosts are compared through the ledger, which all of them reach. Whoever writes times there asks its server what time it
is, every second. The server looked at its clock between question and answer, so each exchange brackets the offset, and
the quickest one does so best. Brackets are intersected; from one to the next they widen by what two clocks can drift
apart meanwhile. An exchange that does not fit shows that a clock was set, or that a machine was suspended: what was
known before is put aside, and it is measured anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec
from redis.exceptions import RedisError, ResponseError

from soak.clock import now_us

_log = logging.getLogger("soak.clock")  # as the load, which does without structlog

DRIFT_PPM_MAX = 500
"""Two clocks drift apart by no more than this: what a kernel slews a clock by at most. Faster is a step."""
MEASURE_SECONDS = 1.0
EXCHANGES_FIRST = 8
EXCHANGES = 3
EARLIER_KEPT = 8
"""Brackets from before a step: what others measured before it is compared with these."""


def drift_us(elapsed_us: int) -> int:
    """Return by how much two clocks may have drifted apart in this time."""
    return max(0, elapsed_us) * DRIFT_PPM_MAX // 1_000_000


class ClockReading(NamedTuple):
    """What is known of an offset: the ledger's time less that of this host, in microseconds."""

    offset_us: int
    error_us: int


class Bracket(msgspec.Struct):
    """The bounds of an offset between two clocks."""

    low: int
    high: int
    at: int
    """When they were true, in microseconds; they widen from then on."""

    def widened(self, at: int) -> Bracket:
        drift = drift_us(at - self.at)
        return Bracket(self.low - drift, self.high + drift, max(at, self.at))

    def meets(self, other: Bracket) -> bool:
        """Whether the offset can be within both."""
        return self.low <= other.high and other.low <= self.high

    def narrowed(self, other: Bracket) -> Bracket:
        return Bracket(max(self.low, other.low), min(self.high, other.high), other.at)

    @property
    def reading(self) -> ClockReading:
        middle = (self.low + self.high) // 2
        return ClockReading(middle, self.high - middle)


class LedgerClock:
    """Measures this host's clock against the ledger's."""

    def __init__(self, ask: Callable[[], Awaitable[tuple[int, int]]]) -> None:
        """Take what asks the ledger's server for its time, in seconds and microseconds."""
        self._ask = ask
        self._bracket: Bracket | None = None
        self._earlier: deque[Bracket] = deque(maxlen=EARLIER_KEPT)
        self.is_refused = False
        """The server does not say what time it is."""

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            await asyncio.sleep(MEASURE_SECONDS)
            await self.try_to_measure()

    async def try_to_measure(self, exchanges: int = EXCHANGES) -> None:
        """Measure, unless the ledger is away: then the next time will do."""
        try:
            await self.measure(exchanges)
        except ResponseError as error:
            if not self.is_refused:
                _log.warning("the ledger's server refuses TIME (%s)", error)
            self.is_refused = True
        except (RedisError, OSError):
            return

    async def measure(self, exchanges: int = EXCHANGES) -> None:
        """Exchange the time a few times, and take in each."""
        for _ in range(exchanges):
            asked = now_us()
            seconds, microseconds = await self._ask()
            answered = now_us()
            ledger = seconds * 1_000_000 + microseconds
            self.take(Bracket(ledger - answered, ledger - asked, answered))

    def take(self, measured: Bracket) -> None:
        """Take in one exchange."""
        known = None if self._bracket is None else self._bracket.widened(measured.at)
        if known is not None and not known.meets(measured):
            by = measured.reading.offset_us - known.reading.offset_us
            _log.warning("the clock of the ledger's server, or of this host, stepped by %.6f s", by / 1e6)
            self._earlier.appendleft(known)
            known = None
        self._bracket = measured if known is None else known.narrowed(measured)

    def forget(self) -> None:
        """Begin anew: the clock of this process is another one from now on."""
        self._bracket = None
        self._earlier.clear()

    @property
    def brackets(self) -> list[Bracket]:
        """What is known, and behind it what was known before each step, the latest first."""
        return [] if self._bracket is None else [self._bracket.widened(now_us()), *self._earlier]

    def reading(self) -> ClockReading | None:
        """Return what is known of the offset now; None: it was never measured."""
        return None if self._bracket is None else self._bracket.widened(now_us()).reading

    def is_fresh(self) -> bool:
        """Whether it was measured a moment ago."""
        return self._bracket is not None and now_us() - self._bracket.at < MEASURE_SECONDS * 1e6
