"""How long acknowledged messages had to wait to be verified, at most, over the whole run.

Only time in which the verifier could have read counts. Not: a fault on one of the store's servers, and its recovery; an
unreachable ledger, for which the writers wait, too; time before the verifier was first started; time in which nobody
wrote anything to the ledger and the verifier was down as well, because the whole run was. A verifier that is down while
the load goes on is behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from soak.clock import now_us
from soak.verifier.state import State

TICK_SECONDS = 0.5
NOTICED_US = 5_000_000
"""A server that restarts by itself is known to have done so only this long after it answers again, at most."""
PAUSES_MAX = 64

Interval = tuple[int, int]


class UnverifiedAge:
    """Keeps the longest wait of each store in its tally."""

    def __init__(self, state: State, is_ledger_reachable: Callable[[], bool]) -> None:
        self._state = state
        self._is_ledger_reachable = is_ledger_reachable
        self._ticked = 0
        self._silent: dict[str, int] = {}
        """By store: when one of its servers last did not answer."""
        self._deferred: dict[str, Interval] = {}
        """By store: a wait that may turn out to be due to a restart that nobody knows of yet."""

    async def run(self) -> None:
        while True:
            self.tick(now_us())
            await asyncio.sleep(TICK_SECONDS)

    def tick(self, now: int) -> None:
        """Take in how long the oldest acknowledgement of each store has been waiting by now."""
        oldest = self._state.oldest_unverified()
        for store, tally in self._state.tally.stores.items():
            since = oldest.get(store)
            began = self._paused_since(store, now)
            if began is not None:
                _extend(tally.pauses, began, now)
            if not self._answers(store):
                self._silent[store] = now
            waits = [] if since is None else [(since, now)]
            if (deferred := self._deferred.pop(store, None)) is not None:
                waits.append(deferred)
            if not waits:
                continue
            if now - self._silent.get(store, -NOTICED_US) < NOTICED_US:
                self._deferred[store] = max(waits, key=lambda wait: wait[1] - wait[0])
            else:
                self._commit(store, waits)
        self._ticked = now

    def finish(self, now: int) -> None:
        """Take in what is left, at the end of the run."""
        self.tick(now)
        for store, wait in self._deferred.items():
            self._commit(store, [wait])

    def _commit(self, store: str, waits: list[Interval]) -> None:
        tally = self._state.tally.stores[store]
        for since, until in waits:
            if until - since <= tally.unverified_seconds_max * 1e6:
                continue
            windows = self._state.faults.of(self._state.targets[store])
            faults = ((window.started, until if window.ended is None else window.ended) for window in windows)
            counted = until - since - _covered((*tally.pauses, *faults), since, until)
            tally.unverified_seconds_max = max(tally.unverified_seconds_max, counted / 1e6)

    def _paused_since(self, store: str, now: int) -> int | None:
        """Return since when nothing can be read or judged; None: it can."""
        faults = self._state.faults
        began = [
            window.started
            for window in faults.of(self._state.targets[store])
            if window.ended is None or (not faults.is_swept(window) and now - window.ended < faults.catch_up_us)
        ]
        if not self._is_ledger_reachable():
            began.append(self._ticked or now)
        return min(began, default=None)

    def _answers(self, store: str) -> bool:
        # One that was never sampled is not asked who it is.
        state = self._state
        return all(server in state.answering for server in state.targets[store] if server in state.samples)


def note_downtime(state: State, began: int, ended: int) -> None:
    """Note that nobody was there to read, nor to write."""
    for tally in state.tally.stores.values():
        _extend(tally.pauses, began, ended)


def _extend(pauses: list[Interval], began: int, ended: int) -> None:
    """Add a pause; it joins those that it touches."""
    while pauses and began <= pauses[-1][1]:
        last = pauses.pop()
        began, ended = min(began, last[0]), max(ended, last[1])
    pauses.append((began, ended))
    del pauses[:-PAUSES_MAX]


def _covered(intervals: Iterable[Interval], since: int, until: int) -> int:
    """Return how much of a time these intervals cover together."""
    covered, upto = 0, since
    for began, ended in sorted(intervals):
        reached = min(ended, until)
        covered += max(0, reached - max(began, upto))
        upto = max(upto, reached)
    return covered
