"""The evidence of one violation: what the ledger, the reads, the faults and the servers' samples say. Values only.

A fact (`soak.checker.facts`) is true or false by these values, and a cause is named only from facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from soak.checker.faults import FaultWindow
from soak.checker.kinds import Kind
from soak.checker.outcome import Attempt, Outcome
from soak.checker.read import MessageId
from soak.checker.telemetry import ServerSample

SPELL_GAP_US = 1_000_000
"""Operations that fail this close to each other belong to the same trouble."""

SAMPLE_GAP_US = 5_000_000
"""Servers are sampled every two seconds; with no sample for so long, they did not answer."""

LEDGER_LAG_US = 1_000_000
"""A read is judged by what the ledger had said when it began: it need not have shown what is younger than this."""

IDENTITIES = ("run_id", "pg_postmaster_start_time")
"""What a server says of itself that is another one after each restart."""

PRESENT_RUNS_MAX = 4_000
GONE_MAX = 1_000
OTHERS_MAX = 300

SILENT_FAULTS = frozenset({"eviction", "replica_lag", "ttl_change"})
"""Faults that let every operation through: no error of an append or a read comes from them."""

Run = tuple[int, int, int]
"""Messages of the session that stand one after the other: (writer, first, last)."""


class Spell(NamedTuple):
    """A time in which operations failed."""

    failed: int
    since: int
    until: int


class ProcessChange(NamedTuple):
    """A server that is another process than before, by its own words."""

    server: str
    mark: str
    before: str
    after: str
    since: int
    until: int


class Rise(NamedTuple):
    """A counter of a server, at the last sample in which the message may have been there and at the last of all."""

    server: str
    counter: str
    before: int
    after: int
    since: int
    until: int

    @property
    def by(self) -> int:
        """By how much it has risen."""
        # A server that restarted counts from zero again.
        return self.after - self.before if self.after >= self.before else self.after


class Clues(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that a diagnosis goes by. Times are microseconds of CLOCK_MONOTONIC; 0 stands for a time nobody knows."""

    kind: Kind
    place: MessageId | None = None
    """The message in question; None: it is no message of the session."""
    attempt: Attempt | None = None
    """How its append ended, where its times are still known."""
    others: list[Attempt] = []
    """Appends of the same session whose times are still known; it may be among them."""
    others_cut: bool = False
    """There were more of them."""
    read_invoked: int = 0
    read_returned: int = 0
    """The read that showed the violation, or confirmed it."""
    items: int = 0
    """How many elements that read returned."""
    present: list[Run] = []
    """The messages of the session in that read, in its order."""
    present_cut: bool = False
    first_missed: int = 0
    first_missed_returned: int = 0
    """The first read, or search, that lacked it; 0: it was not absent."""
    first_items: int = 0
    """How many elements that one returned."""
    gone: list[MessageId] = []
    """What was found together: of a loss, all that is missing."""
    was_seen: bool = False
    """A read had shown it before."""
    last_seen: int = 0
    """When a read was invoked that certainly showed it, and as it was written; 0: nobody knows."""
    history_unknown: bool = False
    """It was judged by a read that came later: what earlier ones had shown is not known any more."""
    replaced: list[MessageId] = []
    """What an earlier read had shown and this one lacks, where it returned something that is no message."""
    same_text: list[MessageId] = []
    """Other messages in the read with the same role and content."""
    survivor: MessageId | None = None
    """Something that the full read before it was missed had shown together with it, and that still stands."""
    is_search: bool = False
    """The read that showed the violation is the answer to a search."""
    elsewhere: list[str] = []
    """Other sessions in which a read showed it."""
    expected_role: str = ""
    expected: str | None = None
    """The content that was written, where another one was read."""
    got_role: str = ""
    got: str | None = None
    reads_replica: bool = False
    worker_silent_us: int = 0
    """For how long the process that wrote it has not been heard of."""
    faults: list[FaultWindow] = []
    """Fault windows of the servers of this store."""
    samples: list[ServerSample] = []
    """What those servers said of themselves, oldest first."""
    troubles: list[int] = []
    """When other operations of this store failed."""
    losses: int = 0
    """Losses of this store so far, these included."""
    losses_alone: int = 0
    """Those of them with nobody else writing to the session at the time."""
    losses_repeating: int = 0
    """Those of them whose text stood in the session already."""

    @property
    def rivals(self) -> list[Attempt]:
        """Appends by other writers that overlapped it, and can have undone it."""
        mine = self.attempt
        if mine is None:
            return []
        # What ended before a read showed the message cannot have undone it.
        return [other for other in self.others if are_rivals(mine, other) and other.ended > self.last_seen]

    @property
    def acknowledged(self) -> int | None:
        """When it was acknowledged; None: it never was, or nobody knows any more."""
        return self.attempt.ended if self.attempt is not None and self.attempt.outcome == Outcome.OK else None

    @property
    def stood_since(self) -> int:
        """The last moment at which it was certainly there, or should have been."""
        sent = 0 if self.attempt is None else self.attempt.sent
        return max(self.last_seen, sent if self.acknowledged is None else self.acknowledged)

    def outlived(self, window: FaultWindow) -> int:
        """Return when the latest was sent of what is known to have outlived a fault, here or in other sessions."""
        return max((window.survivor_sent, *(one.sent for one in self.survivors(window))))

    def survivors(self, window: FaultWindow) -> list[Attempt]:
        """Return what stands in the session and was applied before a fault took effect."""
        times = self.times()
        stood = (times[place] for place in self.places() if place in times)
        return [one for one in stood if one.outcome == Outcome.OK and one.ended <= window.survivors_until]

    # -- what stands in the read --

    def places(self) -> Iterator[MessageId]:
        for writer, first, last in self.present:
            for seq in range(first, last + 1):
                yield writer, seq

    def is_present(self, place: MessageId) -> bool:
        return any(writer == place[0] and first <= place[1] <= last for writer, first, last in self.present)

    def times(self) -> dict[MessageId, Attempt]:
        """Return the appends of the session whose times are known, by message."""
        known = {(other.writer, other.seq): other for other in self.others}
        if self.attempt is not None:
            known[self.attempt.writer, self.attempt.seq] = self.attempt
        return known

    @property
    def is_prefix(self) -> bool:
        """Whether more than one message is gone, and nothing stands that is known to be older than the newest."""
        if len(self.gone) <= 1 or self.present_cut:
            return False
        times = self.times()
        newest = max(self.gone, key=lambda place: (times[place].ended if place in times else 0, place[1]))
        return not any(precedes(times, place, newest) for place in self.places())

    @property
    def is_tail(self) -> bool:
        """Whether nothing stands that is known to be younger."""
        place = self.place
        if place is None or self.present_cut:
            return False
        times = self.times()
        return not any(precedes(times, place, other) for other in self.places())

    def beside(self) -> tuple[MessageId | None, MessageId | None]:
        """Return what was said right before and right after it, if that stands: nothing between is gone, too."""
        place = self.place
        if place is None or self.present_cut:
            return None, None
        times, standing = self.times(), set(self.places())
        before, after = neighbours(standing, times, place)
        absent = {*times, *self.gone, (place[0], place[1] - 1), (place[0], place[1] + 1)} - standing - {place}
        # There is no message 0.
        absent -= {(place[0], 0)}
        if before is not None and any(precedes(times, before, one) and precedes(times, one, place) for one in absent):
            before = None
        if after is not None and any(precedes(times, place, one) and precedes(times, one, after) for one in absent):
            after = None
        return before, after

    # -- what went wrong at the time --

    def spells(self) -> list[Spell]:
        """Return the times in which other operations of this store failed."""
        spells: list[Spell] = []
        for at in sorted(self.troubles):
            if spells and at - spells[-1].until <= SPELL_GAP_US:
                spells[-1] = Spell(spells[-1].failed + 1, spells[-1].since, at)
            else:
                spells.append(Spell(1, at, at))
        return spells

    def silences(self) -> list[tuple[str, int, int]]:
        """Return the times in which a server gave no sample of itself: (server, since, until)."""
        found: list[tuple[str, int, int]] = []
        for server in sorted({sample.server for sample in self.samples}):
            times = [sample.at for sample in self.samples if sample.server == server]
            pairs = zip(times, [*times[1:], self.read_returned], strict=True)
            found += [(server, one, two) for one, two in pairs if two - one > SAMPLE_GAP_US]
        return found

    # -- what the servers say of themselves --

    def rises(self, counter: str) -> list[Rise] | None:
        """Return by how much servers' counters have risen since it was there; None where no server has the counter."""
        found: list[Rise] = []
        for server in sorted({sample.server for sample in self.samples}):
            counts = [
                (s.at, int(s.telemetry[counter]))
                for s in self.samples
                if s.server == server and s.telemetry.get(counter, "").isdigit()
            ]
            if counts:
                before = [count for count in counts if count[0] <= self.stood_since]
                first, last = (before[-1] if before else counts[0]), counts[-1]
                found.append(Rise(server, counter, first[1], last[1], first[0], last[0]))
        return found or None

    def risen(self, counter: str) -> int | None:
        """Return how much they have risen together."""
        rises = self.rises(counter)
        return None if rises is None else sum(rise.by for rise in rises)

    def configured(self, server: str, setting: str, before: int) -> str | None:
        """Return what a server was configured to shortly before a moment, None if nobody asked it."""
        known = [s for s in self.samples if s.server == server and setting in s.configuration]
        earlier = [s for s in known if s.at <= before]
        chosen = earlier[-1] if earlier else (known[0] if known else None)
        return None if chosen is None else chosen.configuration[setting]

    def restarts(self) -> list[ProcessChange]:
        """Return each time a server was another process than before, by its own words."""
        found: list[ProcessChange] = []
        for window in self.faults:
            for mark in IDENTITIES:
                before, after = window.telemetry.get(mark), window.telemetry_after.get(mark)
                if before and after and before != after:
                    until = window.started if window.ended is None else window.ended
                    found.append(ProcessChange(window.target, mark, before, after, window.started, until))
        for server in sorted({sample.server for sample in self.samples}):
            for mark in IDENTITIES:
                samples = [s for s in self.samples if s.server == server and s.telemetry.get(mark)]
                found += [
                    ProcessChange(server, mark, one.telemetry[mark], two.telemetry[mark], one.at, two.at)
                    for one, two in pairwise(samples)
                    if one.telemetry[mark] != two.telemetry[mark]
                ]
        return found


def precedes(times: Mapping[MessageId, Attempt], one: MessageId, other: MessageId) -> bool:
    """Whether the one was acknowledged before the other was sent, as far as is known."""
    if one[0] == other[0]:
        return one[1] < other[1]
    first, second = times.get(one), times.get(other)
    return first is not None and second is not None and first.ended < second.sent


def neighbours(
    places: Iterable[MessageId], times: Mapping[MessageId, Attempt], place: MessageId
) -> tuple[MessageId | None, MessageId | None]:
    """Return the nearest that stands of what was said before and after a message: by its writer, or by the times."""
    standing = set(places)
    earlier = [one for one in standing if precedes(times, one, place)]
    later = [one for one in standing if precedes(times, place, one)]
    # Of several, the nearest is one that no other stands between.
    before = _nearest(earlier, place, lambda one: times[one].ended if one in times else 0)
    after = _nearest(later, place, lambda one: -times[one].sent if one in times else -_NEVER)
    return before, after


def _nearest(candidates: list[MessageId], place: MessageId, closeness: Callable[[MessageId], int]) -> MessageId | None:
    """Return the candidate with the latest time; where times are not known, the closest number of the same writer."""
    return max(
        candidates,
        key=lambda one: (closeness(one), one[0] == place[0], -abs(one[1] - place[1]), -one[0]),
        default=None,
    )


_NEVER = 2**62


def acknowledged_before(one: Attempt, other: Attempt) -> bool:
    """Whether the one was acknowledged before the other was sent, and the other was acknowledged, too."""
    return one.outcome == other.outcome == Outcome.OK and one.ended < other.sent


def are_rivals(one: Attempt, other: Attempt) -> bool:
    """Whether two writers appended at the same time: both may have read the session before either wrote to it."""
    return one.writer != other.writer and one.sent <= other.ended and other.sent <= one.ended


def when_seen(place: MessageId, attempts: Sequence[Attempt], last_whole: int) -> int:
    """Return when a whole read was invoked that certainly showed a message which was seen before; 0: nobody knows.

    The last whole read before it was missed had shown it, unless it was younger and only a read of the end had.
    """
    mine = next((one for one in attempts if (one.writer, one.seq) == place), None)
    if mine is not None:
        is_old = mine.outcome == Outcome.OK and mine.ended + LEDGER_LAG_US <= last_whole
        return last_whole if is_old else 0
    # Times are forgotten by age: it is older than any of the same writer that is remembered.
    later = [one for one in attempts if one.writer == place[0] and one.seq > place[1]]
    is_old = any(one.ended + LEDGER_LAG_US <= last_whole for one in later) or not attempts
    return last_whole if is_old else 0
