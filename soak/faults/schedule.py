"""Which fault happens when: a pure function of rules, limits, seed and the time at which the run began.

Each rule has occurrences: every so often, or at times of the clock. What the n-th of them does follows from the seed,
the rule and n alone, so a run that is resumed goes on with the plan it began with. An occurrence that the limits do
not allow at its time waits; of one rule only one waits, and those that fall due meanwhile are passed over. What would
fall into quiet hours does not happen at all.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Iterator, Sequence

import msgspec

from soak.cron import Cron
from soak.quiet_hours import QuietHours, is_quiet
from soak.servers.kinds import group_name

HEALTHY_SECONDS_MAX = 30.0
HEALTHY_SHARE = 0.25
"""Of the mean time between two faults."""
PASSED_OVER_MAX = 100_000
"""So many occurrences in a row that may not happen, and the schedule is taken to be at its end."""

LocalClock = Callable[[float], dt.datetime]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One source of faults for one server."""

    faults: tuple[tuple[str, float], ...]
    """Names and weights."""
    target: str
    every_seconds: float | None = None
    first_seconds: float | None = None
    """When the first one comes, without jitter; None: after `every_seconds`, as the others do."""
    cron: Cron | None = None
    """In place of `every_seconds`: times of the local clock."""
    jitter_seconds: float = 0.0
    """Each occurrence comes up to so much later, at random."""
    hold_seconds: float = 5.0
    parameters: dict[str, str | float] = {}
    """Of the fault, where there is one."""
    in_turn: bool = False
    """One after the other instead of by weight; only where they come every so often."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for all rules together."""

    quiet_hours: tuple[QuietHours, ...] = ()
    concurrent_max: int = 1
    healthy_min_seconds: float = 30.0
    """Once the last fault under way has ended, none begins for so long."""


def healthy_seconds(rules: Sequence[Rule]) -> float:
    """Return how long servers stay healthy between two faults, so that these rules can be kept: 30 s at most."""
    per_second = sum(1 / rule.every_seconds for rule in rules if rule.every_seconds)
    return min(HEALTHY_SECONDS_MAX, HEALTHY_SHARE / per_second) if per_second else HEALTHY_SECONDS_MAX


def busy_share(rules: Sequence[Rule], limits: Limits) -> float:
    """Return which share of the time the faults of these rules take; above 1 the schedule cannot be kept."""
    needed = sum(
        (rule.hold_seconds + limits.healthy_min_seconds) / rule.every_seconds for rule in rules if rule.every_seconds
    )
    return needed / limits.concurrent_max


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """One fault to come."""

    offset_seconds: float
    """Since the run began."""
    fault: str
    target: str
    hold_seconds: float
    parameters: dict[str, str | float] = {}


class Busy(msgspec.Struct, frozen=True):
    """A time in which a fault is under way on one server."""

    began: float
    ended: float
    target: str


def earliest(due: float, busy: Sequence[Busy], target: str, limits: Limits) -> float:
    """Return the first time from `due` on at which another fault may begin, given those under way and those before."""
    ends = [one.ended for one in busy]
    times = [due, *(end for end in ends), *(end + limits.healthy_min_seconds for end in ends)]
    return min(time for time in times if time >= due and is_allowed(time, busy, target, limits))


def is_allowed(time: float, busy: Sequence[Busy], target: str, limits: Limits) -> bool:
    """Whether a fault may begin at this time, given those under way and those before."""
    active = [one for one in busy if one.ended > time]
    if not active:
        return all(time >= one.ended + limits.healthy_min_seconds for one in busy)
    is_free = all(group_name(one.target) != group_name(target) for one in active)
    return is_free and len(active) < limits.concurrent_max


class Schedule:
    """The faults of a run in the order in which they happen."""

    def __init__(
        self,
        rules: Sequence[Rule],
        limits: Limits,
        *,
        seed: int,
        began_wall_seconds: float,
        since_seconds: float = 0.0,
        until_seconds: float = math.inf,
        local: LocalClock = dt.datetime.fromtimestamp,
    ) -> None:
        """Plan for a run that began at this time; what was due before `since_seconds` is past.

        At `until_seconds` the run is over: a fault that cannot begin before does not happen.
        """
        self.passed_over = 0
        """Occurrences that fell due while an earlier one of the same rule waited."""
        self._rules = rules
        self._limits = limits
        self._seed = seed
        self._began = began_wall_seconds
        self._since = since_seconds
        self._until = until_seconds
        self._local = local
        self._waiting = {number: self._occurrences(number) for number in range(len(self._rules))}
        self._heads = {number: next(occurrences) for number, occurrences in self._waiting.items()}

    def actions(self) -> Iterator[Planned]:
        """Yield what happens, once; without end unless nothing ever may."""
        heads = self._heads
        busy: list[Busy] = []
        last = self._since
        passed_over = 0
        while heads and passed_over < PASSED_OVER_MAX:
            # Who has waited longest goes first, so that no rule starves another.
            number = min(heads, key=lambda number: (heads[number].offset_seconds, number))
            due = heads[number]
            start = earliest(max(due.offset_seconds, last), busy, due.target, self._limits)
            if start >= self._until:
                return
            happens = not self._is_quiet(start, due)
            if happens:
                yield msgspec.structs.replace(due, offset_seconds=start)
                last, passed_over = start, 0
                busy = [*(one for one in busy if one.ended + self._limits.healthy_min_seconds > start)]
                busy.append(Busy(start, start + due.hold_seconds, due.target))
            passed_over += not happens
            # In quiet hours what was due is gone; a wait that would end in them does not end later.
            past = start if happens else due.offset_seconds
            while heads[number].offset_seconds <= past:
                self.passed_over += heads[number] is not due and not self._is_quiet(
                    heads[number].offset_seconds, heads[number]
                )
                heads[number] = next(self._waiting[number])

    def overdue(self, at_seconds: float) -> int:
        """Return how many occurrences were due by then and never came to their turn; the end of the plan."""
        at, count = min(at_seconds, self._until), 0
        for number, head in self._heads.items():
            while head.offset_seconds < at:
                count += not self._is_quiet(head.offset_seconds, head)
                head = next(self._waiting[number])  # noqa: PLW2901  the next one of the same rule
        return count

    def _is_quiet(self, start: float, planned: Planned) -> bool:
        return is_quiet(self._limits.quiet_hours, self._local(self._began + start), planned.hold_seconds)

    def _occurrences(self, number: int) -> Iterator[Planned]:
        rule = self._rules[number]
        return self._by_clock(number, rule.cron) if rule.cron is not None else self._by_interval(number)

    def _by_interval(self, number: int) -> Iterator[Planned]:
        rule = self._rules[number]
        every = rule.every_seconds or 0.0
        first = every if rule.first_seconds is None else rule.first_seconds
        count = max(1, int((self._since - first) // every) + 1)
        while True:
            occurrence = self._drawn(number, count, first + (count - 1) * every)
            if occurrence.offset_seconds >= self._since:
                yield occurrence
            count += 1

    def _by_clock(self, number: int, cron: Cron) -> Iterator[Planned]:
        moment = self._local(self._began + self._since)
        last = self._since
        while True:
            moment = cron.next_after(moment)
            wall_seconds = moment.timestamp()
            # Named by its minute, not counted: when the run began must not change what happens at noon.
            occurrence = self._drawn(number, int(wall_seconds // 60), wall_seconds - self._began)
            last = max(last, occurrence.offset_seconds)
            yield msgspec.structs.replace(occurrence, offset_seconds=last)

    def _drawn(self, number: int, count: int, offset_seconds: float) -> Planned:
        rule = self._rules[number]
        draw = random.Random(f"{self._seed}/{number}/{count}")
        later = draw.uniform(0.0, rule.jitter_seconds)
        if count == 1 and rule.first_seconds is not None:
            later = 0.0
        names = [name for name, _ in rule.faults]
        weights = [weight for _, weight in rule.faults]
        fault = names[(count - 1) % len(names)] if rule.in_turn else draw.choices(names, weights)[0]
        return Planned(
            offset_seconds=offset_seconds + later,
            fault=fault,
            target=rule.target,
            hold_seconds=rule.hold_seconds,
            parameters=rule.parameters,
        )
