"""The same history as several hosts tell it, whose clocks are apart; and one in which everything takes longer."""

from __future__ import annotations

from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True)
class Clock:
    """How far one host's clock, as the verifier places its times, is ahead of what it would be without any error.

    What is known of a clock gets better and worse, and clocks drift, so the same host is placed otherwise later on. All
    that stays within epsilon.
    """

    first: Micros
    last: Micros
    changes_at: Micros
    """When it steps from one to the other, unless it drifts."""
    length: Micros
    """Of the history, in which it drifts from one to the other."""
    drifts: bool

    def ahead(self, at: Micros) -> Micros:
        if self.drifts:
            return self.first + (self.last - self.first) * min(max(at, 0), self.length) // self.length
        return self.last if at >= self.changes_at else self.first


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
        self._clocks: dict[tuple[int, ...], Clock] = {}
        ends = [one.ended or one.sent for one in history.attempts] + [one.returned for one in history.reads]
        self._length = max([*ends, SECOND])
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

    def _ahead(self, at: Micros, *host: int) -> Micros:
        """Return what turns a time into that of a host as it is placed then; the verifier's own has its epoch only."""
        if (clock := self._clocks.get(host)) is None:
            first, last = self._draw(), self._draw()
            changes_at, drifts = self._random.randint(0, self._length), self._random.random() < 0.5
            clock = self._clocks[host] = Clock(first, last, changes_at, self._length, drifts)
        return EPOCH + self._low + clock.ahead(at)

    def _draw(self) -> Micros:
        return self._random.choice((0, self._epsilon, self._random.randint(0, self._epsilon)))

    def _worker(self, at: Micros, session: int, writer: int) -> Micros:
        return self._ahead(at, session, writer) if self._is_by_writer else self._ahead(at, session)

    def _attempt(self, one: Attempt) -> Attempt:
        by = self._worker(one.ended or one.sent, one.id.session, one.id.writer)
        return replace(one, sent=one.sent + by, ended=None if one.ended is None else one.ended + by)

    def _forget(self, one: Forget) -> Forget:
        by = self._worker(one.ended or one.sent, one.session, 0)
        return replace(one, sent=one.sent + by, ended=None if one.ended is None else one.ended + by)

    def _read(self, one: Read) -> Read:
        by = EPOCH if one.reader == VERIFIER else self._worker(one.returned, one.session, one.reader)
        return replace(one, invoked=one.invoked + by, returned=one.returned + by)

    def _fault(self, one: Fault) -> Fault:
        """Place each of its records by what is known of the clock then; what comes later is not placed before."""
        started, injected, ended = (at + self._ahead(at) for at in (one.started, one.injected, one.ended))
        injected = max(started, injected)
        ended = max(injected, ended)
        caught_up = None if one.caught_up is None else max(ended, one.caught_up + self._ahead(one.caught_up))
        return replace(one, started=started, injected=injected, ended=ended, caught_up=caught_up)


def slowed(history: History, times: int) -> History:
    """Return the same history with all that takes time taking so many times as long: promises, settling, delivery."""

    def longer(at: Micros | None) -> Micros | None:
        return None if at is None else at * times

    given = history.contract
    return replace(
        history,
        contract=replace(
            given,
            crash_loss=longer(given.crash_loss),
            power_loss=longer(given.power_loss),
            failover_loss=longer(given.failover_loss),
            staleness=longer(given.staleness),
            ttl=longer(given.ttl),
        ),
        settle=history.settle * times,
        recovery_max=history.recovery_max * times,
        attempts=tuple(
            replace(one, sent=one.sent * times, ended=longer(one.ended), delivered_at=longer(one.delivered_at))
            for one in history.attempts
        ),
        forgets=tuple(
            replace(one, sent=one.sent * times, ended=longer(one.ended), delivered_at=longer(one.delivered_at))
            for one in history.forgets
        ),
        faults=tuple(
            replace(
                one,
                started=one.started * times,
                injected=one.injected * times,
                ended=one.ended * times,
                caught_up=longer(one.caught_up),
            )
            for one in history.faults
        ),
        reads=tuple(replace(one, invoked=one.invoked * times, returned=one.returned * times) for one in history.reads),
    )
