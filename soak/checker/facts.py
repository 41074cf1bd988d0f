"""Facts about a violation: typed values, each with the sentence that states it and the test that makes it true.

`holds` decides by the evidence alone, never by the text. A sentence is shown only with a fact that holds.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Literal

import msgspec

from soak.checker.clues import Clues, ProcessChange, Rise, Spell, are_rivals, neighbours
from soak.checker.faults import PROMOTIONS, FaultWindow
from soak.checker.kinds import Kind
from soak.checker.outcome import Attempt
from soak.checker.read import MessageId
from soak.checker.telemetry import FOLDER_MARK

When = Callable[[int], str]
"""Writes a moment of the run as people read it."""

During = Literal["append", "read"]


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class FaultRef(msgspec.Struct, frozen=True):
    """Which fault: no server has two that begin at once."""

    server: str
    kind: str
    started: int

    def window(self, clues: Clues) -> FaultWindow | None:
        return next((window for window in clues.faults if ref_of(window) == self), None)

    def said(self, when: When, ended: int | None = None) -> str:
        until = "" if ended is None else f", until {when(ended)}"
        return f"{self.server} had a fault ({self.kind}) at {when(self.started)}{until}"


def ref_of(window: FaultWindow) -> FaultRef:
    return FaultRef(window.target, window.kind, window.started)


class Fact(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=_snake):
    """Something that is so, by the evidence. Times are microseconds of CLOCK_MONOTONIC."""

    def holds(self, clues: Clues) -> bool:
        """Whether the evidence says so."""
        raise NotImplementedError

    def sentence(self, when: When) -> str:
        """Say it in one short sentence."""
        raise NotImplementedError


def overlap(since: int, until: int | None, start: int, end: int) -> bool:
    """Whether two times have a moment in common; an end of None is still to come."""
    return since <= end and (until is None or until >= start)


def seconds(us: int, digits: int = 1) -> str:
    return f"{us / 1e6:.{digits}f} s"


def attempt_of(clues: Clues, place: MessageId) -> Attempt | None:
    return next((other for other in clues.others if (other.writer, other.seq) == place), None)


# -- facts about what else went wrong, and who else wrote, while an operation ran --


class FaultDuring(Fact, frozen=True, kw_only=True):
    """A fault was active while the operation was under way."""

    fault: FaultRef
    ended: int | None
    during: During

    def holds(self, clues: Clues) -> bool:
        window = self.fault.window(clues)
        if window is None or window.ended != self.ended:
            return False
        return any(overlap(window.started, window.ended, *span) for span in spans(clues, self.during))

    def sentence(self, when: When) -> str:
        return f"{self.fault.said(when, self.ended)}, while the {self.during} ran"


class OperationsFailed(Fact, frozen=True, kw_only=True):
    """Other operations failed while the operation was under way."""

    count: int
    since: int
    until: int
    during: During

    def holds(self, clues: Clues) -> bool:
        is_spell = Spell(self.count, self.since, self.until) in clues.spells()
        return is_spell and any(overlap(self.since, self.until, *span) for span in spans(clues, self.during))

    def sentence(self, when: When) -> str:
        operations = "operation" if self.count == 1 else "operations"
        span = f"at {when(self.since)}" if self.count == 1 else f"from {when(self.since)} to {when(self.until)}"
        return f"{self.count} other {operations} on this store failed {span}, while the {self.during} ran"


class ServerSilent(Fact, frozen=True, kw_only=True):
    """A server gave no sample of itself while the operation was under way."""

    server: str
    since: int
    until: int
    during: During

    def holds(self, clues: Clues) -> bool:
        is_silent = (self.server, self.since, self.until) in clues.silences()
        return is_silent and any(overlap(self.since, self.until, *span) for span in spans(clues, self.during))

    def sentence(self, when: When) -> str:
        span = f"between {when(self.since)} and {when(self.until)}"
        return f"{self.server} gave no sample of itself {span}, while the {self.during} ran"


class NothingElseKnown(Fact, frozen=True, kw_only=True):
    """Nothing is known that could have taken it."""

    def holds(self, clues: Clues) -> bool:
        if clues.attempt is None:
            return False
        sent, end = clues.attempt.sent, clues.read_returned
        quiet = not any(overlap(window.started, window.ended, sent, end) for window in clues.faults)
        counters = all(not clues.risen(counter) for counter in ("evicted_keys", "expired_keys"))
        restarts = any(overlap(restart.since, restart.until, sent, end) for restart in clues.restarts())
        return quiet and counters and not restarts

    def sentence(self, when: When) -> str:
        return "no fault, restart, eviction or expiry is known between its sending and the read that confirmed it"


class OverlappingAppend(Fact, frozen=True, kw_only=True):
    """Another writer appended to the session at the same time."""

    writer: int
    seq: int
    sent: int
    ended: int

    def holds(self, clues: Clues) -> bool:
        mine, other = clues.attempt, attempt_of(clues, (self.writer, self.seq))
        if mine is None or other is None:
            return False
        return are_rivals(mine, other) and (other.sent, other.ended) == (self.sent, self.ended)

    def sentence(self, when: When) -> str:
        span = f"from {when(self.sent)} to {when(self.ended)}"
        return f"writer {self.writer} appended its message {self.seq} to the session {span}, while this append ran"


class NoRival(Fact, frozen=True, kw_only=True):
    """No other writer appended to the session at the same time."""

    def holds(self, clues: Clues) -> bool:
        mine = clues.attempt
        if mine is None or clues.others_cut:
            return False
        return not any(are_rivals(mine, other) for other in clues.others)

    def sentence(self, when: When) -> str:
        return "no append of another writer to the session is known that ran at the same time"


class LossesAlone(Fact, frozen=True, kw_only=True):
    """Some losses of the store had no other writer about."""

    alone: int
    losses: int

    def holds(self, clues: Clues) -> bool:
        return (self.alone, self.losses) == (clues.losses_alone, clues.losses) and 0 < self.alone <= self.losses

    def sentence(self, when: When) -> str:
        return f"{self.alone} of the {self.losses} losses of this store had no other writer about"


class SentOnce(Fact, frozen=True, kw_only=True):
    """The ledger has one attempt to append it."""

    sent: int
    ended: int

    def holds(self, clues: Clues) -> bool:
        attempt = clues.attempt
        return attempt is not None and (attempt.sent, attempt.ended) == (self.sent, self.ended)

    def sentence(self, when: When) -> str:
        return f"the load called append for it once, at {when(self.sent)}"


class WriterSilent(Fact, frozen=True, kw_only=True):
    """The process that wrote it has not been heard of."""

    silent_us: int

    def holds(self, clues: Clues) -> bool:
        return 0 < self.silent_us == clues.worker_silent_us

    def sentence(self, when: When) -> str:
        return f"the load process that wrote it had not been heard of for {seconds(self.silent_us)}"


class AppendsDuringRead(Fact, frozen=True, kw_only=True):
    """Appends to the session ran while it was read."""

    count: int

    def holds(self, clues: Clues) -> bool:
        return 0 < self.count == len(appends_during_read(clues))

    def sentence(self, when: When) -> str:
        return f"{self.count} {'append' if self.count == 1 else 'appends'} to the session ran while it was read"


def spans(clues: Clues, during: During) -> list[tuple[int, int]]:
    """Return when the append of the message ran, or the reads that lacked it."""
    if during == "append":
        return [] if clues.attempt is None else [(clues.attempt.sent, clues.attempt.ended)]
    reads = ((clues.first_missed, clues.first_missed_returned), (clues.read_invoked, clues.read_returned))
    return [(invoked, max(invoked, returned)) for invoked, returned in reads if invoked]


def appends_during_read(clues: Clues) -> list[Attempt]:
    if not clues.read_invoked:
        return []
    return [
        other for other in clues.others if overlap(other.sent, other.ended, clues.read_invoked, clues.read_returned)
    ]


# -- facts about what the reads showed --


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


# -- facts about what was done to the servers, and what they say of themselves --


OFF = frozenset({"no", "off", "0", ""})
PERSISTENCE = ("appendonly", "fsync")
"""The settings that decide whether a server keeps acknowledged writes through a crash."""

IDENTITY_CHARACTERS_MAX = 12


class FaultHappened(Fact, frozen=True, kw_only=True):
    """A fault began, or was under way, after the message was acknowledged or seen, and before it was missed."""

    fault: FaultRef
    ended: int | None
    acknowledged: int | None

    def holds(self, clues: Clues) -> bool:
        known = clues.attempt.ended if clues.attempt is not None else None
        window = self.fault.window(clues)
        return window is not None and window.ended == self.ended and known == self.acknowledged

    def sentence(self, when: When) -> str:
        sentence = self.fault.said(when, self.ended)
        if self.acknowledged is None:
            return sentence
        after = self.fault.started - self.acknowledged
        if after >= 0:
            return f"{sentence}: it began {seconds(after)} after the acknowledgement"
        return f"{sentence}: the acknowledgement came {seconds(-after)} after it began"


class ServerRestarted(Fact, frozen=True, kw_only=True):
    """A server is another process than before, by its own words."""

    server: str
    mark: str
    before: str
    after: str
    since: int
    until: int

    def holds(self, clues: Clues) -> bool:
        change = ProcessChange(self.server, self.mark, self.before, self.after, self.since, self.until)
        return change in clues.restarts() and self.until >= clues.stood_since and self.since <= clues.read_returned

    def sentence(self, when: When) -> str:
        before, after = (text[:IDENTITY_CHARACTERS_MAX] for text in (self.before, self.after))
        changed = f"its {self.mark} changed from {before} to {after}" if before != after else f"its {self.mark} changed"
        return f"{self.server} restarted between {when(self.since)} and {when(self.until)}: {changed}"


class NoPersistence(Fact, frozen=True, kw_only=True):
    """A server was configured so that a crash takes what it has acknowledged."""

    server: str
    settings: dict[str, str]
    at: int

    def holds(self, clues: Clues) -> bool:
        return _are_configured(clues, self.server, self.settings, self.at) and any(
            self.settings.get(name, "yes") in OFF for name in PERSISTENCE
        )

    def sentence(self, when: When) -> str:
        return f"{self.server} was configured with {_settings(self.settings)}: a crash may take what it acknowledged"


class Persistence(Fact, frozen=True, kw_only=True):
    """A server was configured to keep what it acknowledges."""

    server: str
    settings: dict[str, str]
    at: int

    def holds(self, clues: Clues) -> bool:
        return _are_configured(clues, self.server, self.settings, self.at) and any(
            name in self.settings and self.settings[name] not in OFF for name in PERSISTENCE
        )

    def sentence(self, when: When) -> str:
        return f"{self.server} was configured with {_settings(self.settings)}"


class ConfigurationUnknown(Fact, frozen=True, kw_only=True):
    """No sample says how the server was configured."""

    server: str

    def holds(self, clues: Clues) -> bool:
        return all(clues.configured(self.server, name, clues.read_returned) is None for name in PERSISTENCE)

    def sentence(self, when: When) -> str:
        return f"no sample says how {self.server} was configured"


class SyncLeftToKernel(Fact, frozen=True, kw_only=True):
    """A server leaves to the kernel when its log reaches the disk."""

    server: str
    at: int

    def holds(self, clues: Clues) -> bool:
        return clues.configured(self.server, "appendfsync", self.at) == "no"

    def sentence(self, when: When) -> str:
        return f"{self.server} was configured with appendfsync=no: the kernel decides when its log reaches the disk"


class AcknowledgedWhileDown(Fact, frozen=True, kw_only=True):
    """The append began and was acknowledged while a fault kept the server down."""

    fault: FaultRef
    sent: int
    acknowledged: int

    def holds(self, clues: Clues) -> bool:
        window, attempt = self.fault.window(clues), clues.attempt
        if window is None or window.ended is None or attempt is None:
            return False
        since = window.started if window.injected is None else window.injected
        is_mine = (attempt.sent, attempt.ended) == (self.sent, self.acknowledged)
        return is_mine and since <= self.sent and self.acknowledged <= window.ended

    def sentence(self, when: When) -> str:
        return (
            f"{self.fault.said(when)}, and was down from before the append was sent"
            f" until after it was acknowledged at {when(self.acknowledged)}"
        )


class ReplicaPromoted(Fact, frozen=True, kw_only=True):
    """A replica took the place of its primary."""

    fault: FaultRef
    lag_bytes: str | None

    def holds(self, clues: Clues) -> bool:
        window = self.fault.window(clues)
        promotes = self.fault.kind in PROMOTIONS
        return window is not None and promotes and window.telemetry.get("replication_lag_bytes") == self.lag_bytes

    def sentence(self, when: When) -> str:
        behind = "" if self.lag_bytes is None else f"; it was {self.lag_bytes} bytes behind before"
        return f"a replica of {self.fault.server} was promoted{behind}"


class OtherVersionStarted(Fact, frozen=True, kw_only=True):
    """Another version of a server was started on the same data."""

    fault: FaultRef
    keys_after: str | None

    def holds(self, clues: Clues) -> bool:
        window = self.fault.window(clues)
        is_other = self.fault.kind in {"upgrade", "downgrade"}
        return window is not None and is_other and window.telemetry_after.get("keys") == self.keys_after

    def sentence(self, when: When) -> str:
        keys = "" if self.keys_after is None else f", and had {self.keys_after} keys when the fault was over"
        return f"another version of {self.fault.server} was started on its data{keys}"


class FilesChanged(Fact, frozen=True, kw_only=True):
    """Bytes in a server's files were changed while it was stopped."""

    fault: FaultRef

    def holds(self, clues: Clues) -> bool:
        window = self.fault.window(clues)
        return window is not None and self.fault.kind in {"file_corruption", "aof_truncation"}

    def sentence(self, when: When) -> str:
        return f"{self.fault.said(when)}: soak changed its files while it was stopped"


class OtherDataFolder(Fact, frozen=True, kw_only=True):
    """A server came back with another data folder than it had before."""

    fault: FaultRef

    def holds(self, clues: Clues) -> bool:
        window = self.fault.window(clues)
        if window is None:
            return False
        marks = window.telemetry.get(FOLDER_MARK), window.telemetry_after.get(FOLDER_MARK)
        return None not in marks and marks[0] != marks[1]

    def sentence(self, when: When) -> str:
        return f"{self.fault.server} came back with another data folder than before"


class NoSurvivorKnown(Fact, frozen=True, kw_only=True):
    """No message is known that was acknowledged before a fault and outlived it."""

    fault: FaultRef

    def holds(self, clues: Clues) -> bool:
        window = self.fault.window(clues)
        return window is not None and window.survivor_sent == 0

    def sentence(self, when: When) -> str:
        return "no message is known that was acknowledged shortly before the fault and outlived it"


class EarlierSurvived(Fact, frozen=True, kw_only=True):
    """A message that was sent before a fault outlived it."""

    fault: FaultRef
    sent: int

    def holds(self, clues: Clues) -> bool:
        window = self.fault.window(clues)
        return window is not None and 0 < window.survivor_sent == self.sent

    def sentence(self, when: When) -> str:
        return f"a message sent at {when(self.sent)} was applied before the fault took effect, and outlived it"


class TimeToLiveChanged(Fact, frozen=True, kw_only=True):
    """The time to live of a server's keys was changed while the message was there."""

    server: str
    started: int

    def holds(self, clues: Clues) -> bool:
        window = FaultRef(self.server, "ttl_change", self.started).window(clues)
        return window is not None and clues.stood_since <= (window.ended or window.started) <= clues.read_returned

    def sentence(self, when: When) -> str:
        return f"soak changed the time to live of the keys of {self.server} at {when(self.started)}"


class CounterRose(Fact, frozen=True, kw_only=True):
    """A server counted that it removed keys."""

    server: str
    counter: str
    before: int
    after: int
    since: int
    until: int

    def holds(self, clues: Clues) -> bool:
        rise = self.rise
        return rise.by > 0 and rise in (clues.rises(self.counter) or [])

    @property
    def rise(self) -> Rise:
        return Rise(self.server, self.counter, self.before, self.after, self.since, self.until)

    def sentence(self, when: When) -> str:
        span = f"between {when(self.since)} and {when(self.until)}"
        if self.after < self.before:
            return f"{self.server} began to count anew {span}, and counted {self.after} {self.counter}"
        return f"{self.server} counted {self.after - self.before} {self.counter} {span}"


class NotCounted(Fact, frozen=True, kw_only=True):
    """No server counts the keys that expire."""

    counter: str

    def holds(self, clues: Clues) -> bool:
        return clues.rises(self.counter) is None

    def sentence(self, when: When) -> str:
        return f"no sample of the servers has {self.counter}"


def _settings(settings: dict[str, str]) -> str:
    return ", ".join(
        f'{name}="{value}"' if " " in value or not value else f"{name}={value}" for name, value in settings.items()
    )


def _are_configured(clues: Clues, server: str, settings: dict[str, str], at: int) -> bool:
    return bool(settings) and all(clues.configured(server, name, at) == value for name, value in settings.items())


# -- facts about what stands in the place of a message --


DIFFERENCE_CHARACTERS_MAX = 4


class ChangedInPlace(Fact, frozen=True, kw_only=True):
    """A read returned it as it was written, a later answer otherwise."""

    right_until: int
    wrong_since: int

    def holds(self, clues: Clues) -> bool:
        is_same = (self.right_until, self.wrong_since) == (clues.last_seen, clues.read_invoked)
        return is_same and 0 < self.right_until < self.wrong_since and clues.kind is Kind.CORRUPTED

    def sentence(self, when: When) -> str:
        right, wrong = when(self.right_until), when(self.wrong_since)
        return f"it was right until {right}, then changed in place: the answer at {wrong} has it otherwise"


class RightBefore(Fact, frozen=True, kw_only=True):
    """It had been read as it was written; when is not known."""

    wrong_since: int

    def holds(self, clues: Clues) -> bool:
        return clues.was_seen and clues.kind is Kind.CORRUPTED and self.wrong_since == clues.read_invoked

    def sentence(self, when: When) -> str:
        return f"an earlier read had returned it as it was written; the answer at {when(self.wrong_since)} did not"


class NeverRight(Fact, frozen=True, kw_only=True):
    """No read had returned it as it was written."""

    def holds(self, clues: Clues) -> bool:
        is_wrong = clues.kind is Kind.CORRUPTED and clues.place is not None
        return is_wrong and not clues.was_seen and not clues.last_seen and not clues.history_unknown

    def sentence(self, when: When) -> str:
        return "no earlier read of the verifier had returned it as it was written"


class NotAMessage(Fact, frozen=True, kw_only=True):
    """Something stands in the session that is no message."""

    def holds(self, clues: Clues) -> bool:
        return clues.kind is Kind.UNDECODABLE

    def sentence(self, when: When) -> str:
        return "what was read is no message that soak wrote"


class ReplacedInPlace(Fact, frozen=True, kw_only=True):
    """Something that is no message is read where an earlier read had shown a message."""

    writer: int
    seq: int

    def holds(self, clues: Clues) -> bool:
        place = (self.writer, self.seq)
        return clues.kind is Kind.UNDECODABLE and place in clues.replaced and not clues.is_present(place)

    def sentence(self, when: When) -> str:
        return f"{self.writer}/{self.seq}, which an earlier read had shown, is not in this one"


class RoleDiffers(Fact, frozen=True, kw_only=True):
    """The role is another one."""

    expected: str
    got: str

    def holds(self, clues: Clues) -> bool:
        return (self.expected, self.got) == (clues.expected_role, clues.got_role) and self.expected != self.got

    def sentence(self, when: When) -> str:
        return f"its role is {self.got!a}, not {self.expected!a}"


class TextDiffers(Fact, frozen=True, kw_only=True):
    """The content is another one from some character on."""

    at: int
    expected: str
    got: str

    def holds(self, clues: Clues) -> bool:
        return clues.expected is not None and clues.got is not None and self == text_difference(clues)

    def sentence(self, when: When) -> str:
        is_plain = (self.got + self.expected).isascii() and (self.got + self.expected).isprintable()
        got, expected = (repr(text) if is_plain else written_out(text) for text in (self.got, self.expected))
        if not self.expected:
            return f"it goes on after its end, at character {self.at}: {got}"
        return f"from character {self.at} on it says {got} in place of {expected}"


class TextCut(Fact, frozen=True, kw_only=True):
    """The content ends early."""

    characters: int
    bytes: int
    of_characters: int

    def holds(self, clues: Clues) -> bool:
        want, have = clues.expected, clues.got
        if want is None or have is None or len(have) >= len(want) or not want.startswith(have):
            return False
        return (len(have), len(encoded(have)), len(want)) == (self.characters, self.bytes, self.of_characters)

    def sentence(self, when: When) -> str:
        size = f"{self.characters:,} of {self.of_characters:,} characters ({self.bytes:,} bytes of UTF-8)"
        lengths = {"characters": self.characters, "bytes": self.bytes}
        powers = [f"{length:,} {unit}" for unit, length in lengths.items() if is_power_of_two(length)]
        return f"it is cut after {size}" + (f"; {powers[0]} is a power of two" if powers else "")


class SameInNormalForm(Fact, frozen=True, kw_only=True):
    """The two texts differ only in how their characters are composed."""

    form: Literal["NFC", "NFKC"]

    def holds(self, clues: Clues) -> bool:
        want, have = clues.expected, clues.got
        if want is None or have is None or want == have:
            return False
        return unicodedata.normalize(self.form, want) == unicodedata.normalize(self.form, have)

    def sentence(self, when: When) -> str:
        return f"both texts have the same Unicode normal form {self.form}"


def text_difference(clues: Clues) -> TextDiffers | None:
    """Return where the content that was read parts from the one that was written."""
    want, have = clues.expected, clues.got
    if want is None or have is None or want == have:
        return None
    at = next((i for i, (a, b) in enumerate(zip(want, have, strict=False)) if a != b), min(len(want), len(have)))
    end = at + DIFFERENCE_CHARACTERS_MAX
    return TextDiffers(at=at, expected=_writable(want[at:end]), got=_writable(have[at:end]))


def written_out(text: str) -> str:
    """Write a short text so that every difference can be seen: escaped where it is not ASCII, with its code points."""
    points = " ".join(f"U+{ord(character):04X}" for character in text)
    return f"{text!a} ({points})"


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def is_power_of_two(number: int) -> bool:
    return number >= 16 and number & (number - 1) == 0


def _writable(text: str) -> str:
    """Return a text that can be written into a file: half a character is escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


AnyFact = (
    FaultHappened | ServerRestarted | NoPersistence | Persistence | ConfigurationUnknown | SyncLeftToKernel
    | AcknowledgedWhileDown | ReplicaPromoted | OtherVersionStarted | FilesChanged | OtherDataFolder | NoSurvivorKnown
    | EarlierSurvived | TimeToLiveChanged | CounterRose | NotCounted | FaultDuring | OperationsFailed | ServerSilent
    | NothingElseKnown | OverlappingAppend | NoRival | LossesAlone | SentOnce | WriterSilent | AppendsDuringRead
    | NeverSeen | SeenThenGone | SeenBefore | StandsElsewhere | NeighboursPresent | GapAround | GoneFromTheBeginning
    | LastAcknowledged | AnswerWasEmpty | ShownLater | ReadsReplica | SameText | EveryLossRepeats | OutOfOrder
    | SentClose | StoredNotFound | ChangedInPlace | RightBefore | NeverRight | NotAMessage | ReplacedInPlace
    | RoleDiffers | TextDiffers | TextCut | SameInNormalForm
)  # fmt: skip
"""Every kind of fact, for reading them back."""
