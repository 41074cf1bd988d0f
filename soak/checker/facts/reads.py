"""Facts about what the reads showed."""

from __future__ import annotations

from soak.checker.clues import Clues, acknowledged_before, neighbours
from soak.checker.facts.fact import Fact, When, attempt_of, seconds
from soak.checker.kinds import Kind
from soak.checker.read import MessageId


class NeverSeen(Fact, frozen=True, kw_only=True):
    """No read had shown it."""

    def holds(self, clues: Clues) -> bool:
        is_absent = clues.place is not None and clues.first_missed > 0 and not clues.is_present(clues.place)
        return is_absent and not clues.was_seen and not clues.last_seen and not clues.history_unknown

    def sentence(self, when: When) -> str:
        return "no read of its session by the verifier showed it"


class SeenThenGone(Fact, frozen=True, kw_only=True):
    """A read showed it, a later one did not."""

    last_seen: int
    first_missed: int

    def holds(self, clues: Clues) -> bool:
        is_same = (self.last_seen, self.first_missed) == (clues.last_seen, clues.first_missed)
        return is_same and 0 < self.last_seen < self.first_missed

    def sentence(self, when: When) -> str:
        return f"the read at {when(self.last_seen)} showed it, the one at {when(self.first_missed)} did not"


class SeenBefore(Fact, frozen=True, kw_only=True):
    """A read had shown it; when is not known."""

    first_missed: int

    def holds(self, clues: Clues) -> bool:
        return clues.was_seen and 0 < clues.first_missed == self.first_missed

    def sentence(self, when: When) -> str:
        return f"a read had shown it before the one at {when(self.first_missed)} did not"


class StandsElsewhere(Fact, frozen=True, kw_only=True):
    """A read of another session showed it."""

    session: str

    def holds(self, clues: Clues) -> bool:
        return self.session in clues.elsewhere

    def sentence(self, when: When) -> str:
        return f"it stands in session {self.session}"


class NeighboursPresent(Fact, frozen=True, kw_only=True):
    """What was said right before and after it stands in the read that lacks it."""

    before: MessageId | None
    after: MessageId | None

    def holds(self, clues: Clues) -> bool:
        if clues.place is None or clues.is_present(clues.place) or (self.before is None and self.after is None):
            return False
        return clues.beside() == (self.before, self.after)

    def sentence(self, when: When) -> str:
        sides = (("before", self.before), ("after", self.after))
        named = " and ".join(f"{place[0]}/{place[1]} {side} it" for side, place in sides if place is not None)
        return f"its neighbours stand in the read that lacks it: {named}"


class GapAround(Fact, frozen=True, kw_only=True):
    """It is missing between something older and something younger that stands."""

    before: MessageId
    after: MessageId

    def holds(self, clues: Clues) -> bool:
        if clues.place is None or clues.present_cut or clues.is_present(clues.place):
            return False
        return neighbours(clues.places(), clues.times(), clues.place) == (self.before, self.after)

    def sentence(self, when: When) -> str:
        before, after = (f"{writer}/{seq}" for writer, seq in (self.before, self.after))
        return f"the read that lacks it shows {before}, which is older, and {after}, which is younger"


class HoleInLog(Fact, frozen=True, kw_only=True):
    """One read had shown it together with something that was sent after its acknowledgement, and still stands."""

    writer: int
    seq: int

    def holds(self, clues: Clues) -> bool:
        mine, other = clues.attempt, attempt_of(clues, (self.writer, self.seq))
        if mine is None or other is None or clues.survivor != (self.writer, self.seq):
            return False
        return clues.was_seen and clues.is_present(clues.survivor) and acknowledged_before(mine, other)

    def sentence(self, when: When) -> str:
        other = f"{self.writer}/{self.seq}, which was sent after its acknowledgement and is still there"
        return f"an earlier read had shown it together with {other}: it is a hole, and no tail"


class GoneFromTheBeginning(Fact, frozen=True, kw_only=True):
    """Several messages are gone, and nothing older stands."""

    count: int

    def holds(self, clues: Clues) -> bool:
        return clues.is_prefix and len(clues.gone) == self.count

    def sentence(self, when: When) -> str:
        return f"{self.count} messages are gone, and nothing that is known to be older stands in the session"


class LastAcknowledged(Fact, frozen=True, kw_only=True):
    """Nothing younger stands in the session."""

    def holds(self, clues: Clues) -> bool:
        return clues.is_tail

    def sentence(self, when: When) -> str:
        return "nothing that is known to be younger stands in the session"


class AnswerWasEmpty(Fact, frozen=True, kw_only=True):
    """A read returned nothing."""

    invoked: int

    def holds(self, clues: Clues) -> bool:
        is_first = 0 < clues.first_missed == self.invoked and clues.first_items == 0
        return is_first or (0 < clues.read_invoked == self.invoked and clues.items == 0)

    def sentence(self, when: When) -> str:
        return f"the answer at {when(self.invoked)} held no messages at all"


class ShownLater(Fact, frozen=True, kw_only=True):
    """A later read shows what one had lacked."""

    first_missed: int
    invoked: int

    def holds(self, clues: Clues) -> bool:
        is_later = 0 < clues.first_missed == self.first_missed < self.invoked == clues.read_invoked
        return is_later and clues.place is not None and clues.is_present(clues.place)

    def sentence(self, when: When) -> str:
        return f"the answer at {when(self.first_missed)} lacked it, the read at {when(self.invoked)} shows it"


class ReadsReplica(Fact, frozen=True, kw_only=True):
    """The store is set up to read from a replica."""

    def holds(self, clues: Clues) -> bool:
        return clues.reads_replica

    def sentence(self, when: When) -> str:
        return "the store reads from a replica"


class SameText(Fact, frozen=True, kw_only=True):
    """The same words stand in the session already."""

    count: int

    def holds(self, clues: Clues) -> bool:
        return 0 < self.count == len(clues.same_text) and all(map(clues.is_present, clues.same_text))

    def sentence(self, when: When) -> str:
        messages = "another message" if self.count == 1 else f"{self.count} other messages"
        return f"{messages} with the same role and words stand{'s' if self.count == 1 else ''} in the session"


class EveryLossRepeats(Fact, frozen=True, kw_only=True):
    """So it was with every loss of the store."""

    losses: int

    def holds(self, clues: Clues) -> bool:
        return 0 < self.losses == clues.losses == clues.losses_repeating

    def sentence(self, when: When) -> str:
        return f"so it is with each of the {self.losses} losses of this store so far"


class RepeatedInSearch(Fact, frozen=True, kw_only=True):
    """The answer to a search holds it several times."""

    count: int

    def holds(self, clues: Clues) -> bool:
        return clues.is_search and 1 < self.count == list(clues.places()).count(clues.place or (-1, 0))

    def sentence(self, when: When) -> str:
        return f"the answer to one search holds it {self.count} times"


class OutOfOrder(Fact, frozen=True, kw_only=True):
    """It stands after something that was sent later."""

    writer: int
    seq: int
    later_us: int

    def holds(self, clues: Clues) -> bool:
        mine, other = clues.attempt, attempt_of(clues, (self.writer, self.seq))
        if mine is None or other is None or clues.place is None:
            return False
        stands = list(clues.places())
        pair = (self.writer, self.seq), clues.place
        is_after = all(place in stands for place in pair) and stands.index(pair[0]) < _last_index(stands, pair[1])
        return is_after and 0 < self.later_us == other.sent - mine.sent

    def sentence(self, when: When) -> str:
        return f"it stands after {self.writer}/{self.seq}, which was sent {seconds(self.later_us, 3)} later"


class SentClose(Fact, frozen=True, kw_only=True):
    """It stands next to something that was sent at nearly the same time."""

    writer: int
    seq: int
    apart_us: int

    def holds(self, clues: Clues) -> bool:
        mine, other = clues.attempt, attempt_of(clues, (self.writer, self.seq))
        if mine is None or other is None or clues.place is None:
            return False
        is_next = (self.writer, self.seq) in next_to(list(clues.places()), clues.place)
        return is_next and abs(other.sent - mine.sent) == self.apart_us

    def sentence(self, when: When) -> str:
        return f"it stands next to {self.writer}/{self.seq}, which was sent {seconds(self.apart_us, 3)} before or after"


class StoredNotFound(Fact, frozen=True, kw_only=True):
    """A read shows it; a search for its own words does not."""

    searched: int
    invoked: int

    def holds(self, clues: Clues) -> bool:
        is_it = clues.kind is Kind.UNFINDABLE and (self.searched, self.invoked) == (
            clues.first_missed,
            clues.read_invoked,
        )
        return is_it and clues.place is not None and clues.is_present(clues.place)

    def sentence(self, when: When) -> str:
        searched, read = when(self.searched), when(self.invoked)
        return f"the search for its own words at {searched} lacked it, the read at {read} shows it"


def next_to(stands: list[MessageId], place: MessageId) -> list[MessageId]:
    """Return what stands right before and right after a message in a read."""
    if place not in stands:
        return []
    at = stands.index(place)
    return [stands[index] for index in (at - 1, at + 1) if 0 <= index < len(stands)]


def _last_index(stands: list[MessageId], place: MessageId) -> int:
    return len(stands) - 1 - stands[::-1].index(place)
