"""Keeps Locust's own statistics from growing: they are made for minutes, a soak takes weeks.

Locust counts requests per second and per row for ever, and its chart history too: tens of megabytes a day. Its own
rates look back twelve seconds; a minute is kept.
"""

from __future__ import annotations

import time
from typing import Any

import gevent

PRUNE_SECONDS = 10.0
KEPT_SECONDS = 60
HISTORY_MAX = 1_000
EXCEPTIONS_MAX = 100


def prune(stats: Any, *, now_seconds: float) -> None:
    """Drop what Locust's tables and charts no longer look at."""
    before = int(now_seconds) - KEPT_SECONDS
    for entry in (stats.total, *stats.entries.values()):
        for per_second in (entry.num_reqs_per_sec, entry.num_fail_per_sec):
            for second in [second for second in per_second if second < before]:
                del per_second[second]
    del stats.history[:-HISTORY_MAX]


def prune_for_ever(runner: Any) -> None:
    """Run as a greenlet next to the runner."""
    while True:
        gevent.sleep(PRUNE_SECONDS)
        prune(runner.stats, now_seconds=time.time())
        exceptions = runner.exceptions
        for key in list(exceptions)[: max(0, len(exceptions) - EXCEPTIONS_MAX)]:
            del exceptions[key]
