"""Who comes for the metrics, and how often: a run that ends between two scrapes must not look like one that died.

Prometheus learns that a run is over, and what its last sweep found, only if it is answered once more after the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping

SCRAPER_HEADER = "X-Prometheus-Scrape-Timeout-Seconds"
"""Prometheus and its kin send it; a browser or curl does not, and is not waited for."""
INTERVAL_SECONDS_FIRST = 15.0
"""How often somebody may come who has come once."""
INTERVAL_SECONDS_MAX = 60.0
MISSED_MAX = 3
"""Who has not come for so many intervals does not come any more."""
MARGIN_SECONDS = 2.0


class Scrapes:
    """Remembers the last two scrapes, and lets one wait for the next."""

    def __init__(self) -> None:
        self._last_seconds: float | None = None
        self._interval_seconds = INTERVAL_SECONDS_FIRST
        self._is_listening = False
        self._heard = asyncio.Event()

    @contextlib.contextmanager
    def one(self, headers: Mapping[str, str]) -> Iterator[None]:
        """Answer somebody; one who asked before the end was near does not count as told of it."""
        asked_in_time = self._is_listening
        yield
        if SCRAPER_HEADER not in headers:
            return
        now = time.monotonic()
        if self._last_seconds is not None:
            self._interval_seconds = min(now - self._last_seconds, INTERVAL_SECONDS_MAX)
        self._last_seconds = now
        if asked_in_time:
            self._heard.set()

    def expected_seconds(self) -> float:
        """Return how long the next scrape may take to come; 0 if none is to be expected."""
        if self._last_seconds is None:
            return 0.0
        since = time.monotonic() - self._last_seconds
        if since > MISSED_MAX * self._interval_seconds + MARGIN_SECONDS:
            return 0.0
        return 2 * self._interval_seconds + MARGIN_SECONDS

    async def until_next(self) -> bool:
        """Wait until somebody has been answered who asks from now on; returns whether that happened."""
        self._is_listening = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._heard.wait(), self.expected_seconds())
        return self._heard.is_set()
