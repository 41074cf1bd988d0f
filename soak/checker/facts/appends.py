"""Facts about what else went wrong, and who else wrote, while an operation ran."""

from __future__ import annotations

from typing import Literal

from soak.checker.clues import Clues, Spell, are_rivals
from soak.checker.facts.fact import Fact, FaultRef, When, attempt_of, overlap, seconds
from soak.checker.outcome import Attempt, Outcome

During = Literal["append", "read"]


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
        if self.count == 1:
            return f"1 other operation on this store failed at {when(self.since)}, while the {self.during} ran"
        span = f"from {when(self.since)} to {when(self.until)}"
        return f"{self.count} other operations on this store failed {span}, and the {self.during} ran in that time"


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


class NotAcknowledged(Fact, frozen=True, kw_only=True):
    """Its append ended without an acknowledgement."""

    sent: int
    ended: int

    def holds(self, clues: Clues) -> bool:
        attempt = clues.attempt
        is_unknown = attempt is not None and attempt.outcome == Outcome.UNKNOWN
        return is_unknown and attempt is not None and (attempt.sent, attempt.ended) == (self.sent, self.ended)

    def sentence(self, when: When) -> str:
        return f"its append, from {when(self.sent)} to {when(self.ended)}, was never acknowledged, but a read showed it"


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
