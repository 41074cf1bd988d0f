"""How far behind the verifier is: holding the load back, and the longest wait of an acknowledged message.

Acknowledged messages that nobody has read yet are kept one by one, so they are bounded. Twice a second the verifier
writes into a key next to the ledger how many it has not read and how long the oldest of them has been waiting. Past
`verifier.unread_max` it asks the writers to wait until a fifth of them is read. The key expires: a dead verifier
holds nobody back, and then the ledger's own size does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

import structlog

from soak.clock import now_us
from soak.errors import ServerUnreachableError
from soak.ledger.reader import LedgerReader
from soak.ledger.records import VerifierBacklog
from soak.verifier.state import State

PUBLISH_SECONDS = 0.5
VALID_SECONDS = 5.0
RESUME_SHARE = 0.8
"""The load goes on once so much of what is allowed is left: otherwise it would stop and go all the time."""

_log = structlog.get_logger()


class Backpressure:
    """Says how far the verifier has come, and asks the writers to wait where that is not far enough."""

    def __init__(
        self,
        reader: LedgerReader,
        unread: Callable[[], int],
        oldest_unread_seconds: Callable[[], float],
        unread_max: Callable[[], int],
    ) -> None:
        """`unread_max` is asked for each time: there may be more verifiers by then, and less for each."""
        self._reader = reader
        self._unread = unread
        self._oldest_unread_seconds = oldest_unread_seconds
        self._unread_max_now = unread_max
        self.unread = 0
        self.is_holding = False
        self.held_back = 0
        """How often the load was held back since the verifier was started."""

    async def run(self) -> None:
        while True:
            await self.publish()
            await asyncio.sleep(PUBLISH_SECONDS)

    async def publish(self) -> None:
        """Count, decide, and say so."""
        self._decide(self._unread())
        progress = VerifierBacklog(
            unread=self.unread,
            oldest_unread_seconds=self._oldest_unread_seconds(),
            hold=self.is_holding,
            stamp=time.time_ns(),
        )
        try:
            await self._reader.publish(progress, valid_seconds=VALID_SECONDS)
        except ServerUnreachableError:
            return  # without a ledger nobody writes

    @property
    def warning(self) -> str:
        """What a person should know of it; empty while the load is not held back."""
        if not self.is_holding:
            return ""
        return (
            f"the load is held back: {self.unread:,} acknowledged messages are not read yet "
            f"(verifier.unread_max = {self._unread_max:,}); give the run more verifiers (--verifiers) or fewer users"
        )

    @property
    def _unread_max(self) -> int:
        return self._unread_max_now()

    def _decide(self, unread: int) -> None:
        self.unread = unread
        if not self.is_holding and unread >= self._unread_max:
            self.is_holding = True
            self.held_back += 1
            _log.warning("load_held_back", unread=unread, unread_max=self._unread_max)
        elif self.is_holding and unread < self._unread_max * RESUME_SHARE:
            self.is_holding = False
            _log.info("load_resumed", unread=unread)


# How long acknowledged messages had to wait to be verified, at most, over the whole run.
#
# Only time in which the verifier could have read counts. Not: a fault on one of the store's servers, and its recovery;
# an unreachable ledger, for which the writers wait, too; time before the verifier was first started; time in which
# nobody wrote anything to the ledger and the verifier was down as well, because the whole run was. A verifier that is
# down while the load goes on is behind.


TICK_SECONDS = 0.5
NOTICED_US = 5_000_000
"""A server that restarts by itself is known to have done so only this long after it answers again, at most."""
PAUSES_MAX = 64
DEFERRED_MAX = 64

Interval = tuple[int, int]


class UnverifiedAge:
    """Keeps the longest wait of each store in its tally."""

    def __init__(
        self,
        state: State,
        is_ledger_reachable: Callable[[], bool],
        is_downtime_known: Callable[[], bool] = lambda: True,
    ) -> None:
        """Take whether the ledger has told by now when the whole run was down before this start."""
        self._state = state
        self._is_ledger_reachable = is_ledger_reachable
        self._is_downtime_known = is_downtime_known
        self._ticked = 0
        self._silent: dict[str, int] = {}
        """By store: when one of its servers last did not answer."""
        self._deferred: dict[str, dict[int, int]] = {}
        """By store: waits, until when by since when, that may turn out to be due to what nobody knows of yet."""

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
            waits = self._deferred.pop(store, {})
            if since is not None:
                waits[since] = now
            if not waits:
                continue
            # A server that did not answer may have restarted, and the whole run may have been down.
            if now - self._silent.get(store, -NOTICED_US) < NOTICED_US or not self._is_downtime_known():
                while len(waits) > DEFERRED_MAX:
                    del waits[min(waits, key=lambda since: waits[since] - since)]
                self._deferred[store] = waits
            else:
                self._commit(store, waits)
        self._ticked = now

    def finish(self, now: int) -> None:
        """Take in what is left, at the end of the run."""
        self.tick(now)
        for store, waits in self._deferred.items():
            self._commit(store, waits)

    def _commit(self, store: str, waits: dict[int, int]) -> None:
        tally = self._state.tally.stores[store]
        for since, until in waits.items():
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
