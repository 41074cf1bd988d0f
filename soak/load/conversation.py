"""What the load knows of one session: what was sent, what was acknowledged, what nobody can know.

It is kept small, because a process holds tens of thousands of them: counters per writer, the last few
acknowledgements, and the names of the attempts that did not end well.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from soak.checker.outcome import Outcome

NOT_OK_MAX = 1_000
"""A session with more attempts that did not end well is given up: a new one shows more than this one still can."""

_COLUMNS = 4


def fold(digest: int, fingerprint: int) -> int:
    """Add one more message to the digest of those before it."""
    return hash((digest, fingerprint))


class Acknowledged(NamedTuple):
    """An append that the store acknowledged; sent and ended are the times around the call, in microseconds."""

    writer: int
    seq: int
    sent: int
    ended: int


class Conversation:
    """One session as seen by the process that writes it. Only that process writes it."""

    __slots__ = (
        "_tail",
        "_tail_max",
        "acked_total",
        "attempts",
        "digest",
        "done",
        "ends_forgotten",
        "failed",
        "fingerprints",
        "first_sent",
        "forget_ended",
        "forget_sent",
        "has_ended",
        "is_retired",
        "last_sent",
        "leased",
        "length",
        "number",
        "present",
        "seats_taken",
        "sent",
        "session",
        "store",
        "turns_under_way",
        "unsure",
        "writers",
    )

    def __init__(
        self,
        *,
        number: int,
        session: str,
        store: str,
        writers: int,
        length: int,
        leased: int,
        ends_forgotten: bool,
        window: int,
    ) -> None:
        self.number = number
        self.session = session
        self.store = store
        self.writers = writers
        self.length = length
        self.ends_forgotten = ends_forgotten
        self.sent = [0] * writers
        """The last seq handed to the store, per writer."""
        self.done = [0] * writers
        """The last seq whose attempt has ended, however it ended."""
        self.leased = [leased] * writers
        self.seats_taken = 0
        self.present = 0
        self.attempts = 0
        self.acked_total = 0
        self.failed: set[tuple[int, int]] | None = None
        self.unsure: set[tuple[int, int]] | None = None
        self.fingerprints = array("q")
        """Hashes of the acknowledged messages at the tail, in the order of their acknowledgements."""
        self.digest = 0
        """The hashes of all acknowledged messages, folded in that order: checks a full read without keeping them."""
        self._tail = array("q")
        self._tail_max = max(2 * window, window + 4 * writers)
        self.first_sent = 0
        self.last_sent = 0
        self.forget_sent: int | None = None
        self.forget_ended: int | None = None
        self.turns_under_way = 0
        self.has_ended = False
        self.is_retired = False

    def begin(self, writer: int) -> int:
        """Take the writer's next seq; it is sent at once."""
        seq = self.sent[writer] + 1
        self.sent[writer] = seq
        self.attempts += 1
        return seq

    def end(self, writer: int, seq: int, outcome: Outcome, sent: int, ended: int, fingerprint: int) -> None:
        """Note how an attempt ended."""
        self.done[writer] = seq
        if not self.first_sent:
            self.first_sent = sent
        self.last_sent = sent
        if outcome is Outcome.OK:
            self.acked_total += 1
            self._tail.extend((writer, seq, sent, ended))
            self.digest = fold(self.digest, fingerprint)
            fingerprints = self.fingerprints
            fingerprints.append(fingerprint)
            # Cut rarely and by much: cutting costs a copy of what is left.
            if len(fingerprints) >= 2 * self._tail_max:
                surplus = len(fingerprints) - self._tail_max
                del fingerprints[:surplus]
                del self._tail[: surplus * _COLUMNS]
        elif outcome is Outcome.FAILED:
            self.failed = self.failed or set()
            self.failed.add((writer, seq))
        else:
            self.unsure = self.unsure or set()
            self.unsure.add((writer, seq))

    @property
    def is_complete(self) -> bool:
        """Whether enough has been said, or so much went wrong that a new session shows more."""
        return self.attempts >= self.length or len(self.failed or ()) + len(self.unsure or ()) > NOT_OK_MAX

    @property
    def is_certain(self) -> bool:
        """Whether the order and presence of everything acknowledged follows from what is known here."""
        return self.writers == 1 and self.unsure is None

    def acked(self) -> list[Acknowledged]:
        """List the last acknowledgements, newest last."""
        tail = self._tail
        return [Acknowledged(*tail[at : at + _COLUMNS]) for at in range(0, len(tail), _COLUMNS)]
