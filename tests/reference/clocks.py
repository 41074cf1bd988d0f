"""The same history as several hosts tell it, whose clocks are apart."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.reference.history import (
    MILLISECOND,
    SECOND,
    VERIFIER,
    Attempt,
    Event,
    Fault,
    FaultEvent,
    Forget,
    ForgetDelivered,
    ForgetSent,
    History,
    Micros,
    OutcomeDelivered,
    Read,
    ReadInvoked,
    ReadReturned,
)

EPOCH = 1_000 * SECOND
"""When a history begins, so that no clock is before its own beginning."""
EPSILONS = (MILLISECOND, 20 * MILLISECOND, 200 * MILLISECOND, 600 * MILLISECOND)


class Hosts:
    """Hosts whose clocks are within epsilon of each other: the verifier's, the workers', the one that breaks servers.

    Each session, or each writer, is on a host of its own. What the verifier learns comes in the same order, at the same
    time of its own clock, and with the times of others.
    """

    def __init__(self, history: History) -> None:
        self._random = Random(history.seed)
        self._epsilon = self._random.choice(EPSILONS)
        self._low = self._random.randint(-self._epsilon, 0)
        self._is_by_writer = self._random.random() < 0.5
        self._offsets: dict[tuple[int, ...], Micros] = {}
        self._faults = {id(one): self._fault(one) for one in history.faults}
        self._attempts = {one.id: self._attempt(one) for one in history.attempts}
        self._forgets = {id(one): self._forget(one) for one in history.forgets}
        self._reads = {id(one): self._read(one) for one in history.reads}
        self.history = replace(
            history,
            attempts=tuple(self._attempts.values()),
            forgets=tuple(self._forgets.values()),
            reads=tuple(self._reads.values()),
            faults=tuple(self._faults.values()),
            clock_epsilon=self._epsilon,
        )
        """What the hosts say."""

    def told(self, event: Event) -> Event:  # noqa: PLR0911  one answer a line
        """Return an event as the verifier hears of it."""
        match event:
            case OutcomeDelivered(one):
                return OutcomeDelivered(self._attempts[one.id])
            case ForgetSent(one):
                return ForgetSent(self._forgets[id(one)])
            case ForgetDelivered(one):
                return ForgetDelivered(self._forgets[id(one)])
            case FaultEvent(phase, one):
                return FaultEvent(phase, self._faults[id(one)])
            case ReadInvoked(one):
                return ReadInvoked(self._reads[id(one)])
            case ReadReturned(one):
                return ReadReturned(self._reads[id(one)])
            case _:
                return event

    def _offset(self, *host: int) -> Micros:
        """Return what a host's clock shows at the beginning of the history; the verifier's shows the epoch."""
        drawn = self._random.choice((0, self._epsilon, self._random.randint(0, self._epsilon)))
        return self._offsets.setdefault(host, EPOCH + self._low + drawn)

    def _worker(self, session: int, writer: int) -> Micros:
        return self._offset(session, writer) if self._is_by_writer else self._offset(session)

    def _attempt(self, one: Attempt) -> Attempt:
        by = self._worker(one.id.session, one.id.writer)
        return replace(one, sent=one.sent + by, ended=None if one.ended is None else one.ended + by)

    def _forget(self, one: Forget) -> Forget:
        by = self._worker(one.session, 0)
        return replace(one, sent=one.sent + by, ended=None if one.ended is None else one.ended + by)

    def _read(self, one: Read) -> Read:
        by = EPOCH if one.reader == VERIFIER else self._worker(one.session, one.reader)
        return replace(one, invoked=one.invoked + by, returned=one.returned + by)

    def _fault(self, one: Fault) -> Fault:
        by = self._offset()
        caught_up = None if one.caught_up is None else one.caught_up + by
        return replace(
            one, started=one.started + by, injected=one.injected + by, ended=one.ended + by, caught_up=caught_up
        )
