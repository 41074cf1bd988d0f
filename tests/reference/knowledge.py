"""What can be known of a history: which reads showed a message, and what the verifier learns of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from tests.reference.findings import Ruling
from tests.reference.history import (
    VERIFIER,
    Attempt,
    Fault,
    Forget,
    History,
    Item,
    MessageId,
    Micros,
    Outcome,
    Read,
    Source,
    Unreadable,
    lease_of,
)

NEVER: Micros = 10**18
"""Later than everything."""


class View:
    """One read that returned, with its messages at hand."""

    def __init__(self, read: Read, items: Sequence[Item | Unreadable]) -> None:
        self.read = read
        self.session = read.session
        self.invoked = read.invoked
        self.returned = read.returned
        self.source = read.source
        self.is_full = read.last is None and read.reader == VERIFIER
        self.items = items
        self.own = [item.id for item in items if isinstance(item, Item) and item.id.session == read.session]
        self.counts = Counter(self.own)
        self.order: list[MessageId] = list(self.counts)
        """Each message once, where it stands first."""
        self.ids = self.counts.keys()
        self.foreign = [item.id for item in items if isinstance(item, Item) and item.id.session != read.session]
        self.altered = {item.id for item in items if isinstance(item, Item) and not item.intact}
        self.has_unreadable = any(isinstance(item, Unreadable) for item in items)


class Knowledge:
    """A history, indexed. Only what the verifier can know by the end of the history counts as known."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.contract = history.contract
        self.attempts = {attempt.id: attempt for attempt in history.attempts}
        self.views: dict[int, list[View]] = {session: [] for session in history.sessions}
        self.shown: dict[MessageId, list[View]] = {}
        for read in sorted(history.reads, key=lambda read: (read.returned, read.invoked)):
            if read.items is None:
                continue
            view = View(read, read.items)
            self.views[read.session].append(view)
            for message in view.order:
                self.shown.setdefault(message, []).append(view)
        self.full = {session: [view for view in views if view.is_full] for session, views in self.views.items()}
        self.applied_by: dict[MessageId, Micros] = {a.id: self._applied_by(a) for a in history.attempts}
        self.by_session: dict[int, list[Attempt]] = {session: [] for session in history.sessions}
        for attempt in history.attempts:
            self.by_session[attempt.id.session].append(attempt)
        self.forgets: dict[int, list[Forget]] = {session: [] for session in history.sessions}
        for forget in history.forgets:
            self.forgets[forget.session].append(forget)
        self.rulings: dict[tuple[MessageId, int], Ruling] = {}
        self.exist_until: dict[MessageId, tuple[Micros, Micros]] = {}
        """Filled as it is asked for, because one life depends on those before it."""

    def outcome(self, attempt: Attempt | Forget) -> Outcome:
        """Return the outcome as the verifier knows it in the end: a missing outcome is unknown."""
        return Outcome.UNKNOWN if attempt.delivered_at is None else attempt.outcome

    def is_acknowledged(self, attempt: Attempt) -> bool:
        return attempt.delivered_at is not None and attempt.outcome is Outcome.OK and attempt.ended is not None

    def is_refused(self, attempt: Attempt) -> bool:
        return attempt.delivered_at is not None and attempt.outcome is Outcome.FAILED

    def _applied_by(self, attempt: Attempt) -> Micros:
        """Return when it had been applied at the latest: its acknowledgement, or the first read that showed it [R2]."""
        seen = self.shown.get(attempt.id)
        found = seen[0].returned if seen else NEVER  # views come in order of their return
        if self.is_acknowledged(attempt) and attempt.ended is not None:
            found = min(found, attempt.ended)
        return found

    def done_by(self, attempt: Attempt) -> Micros:
        """Return after when nothing more of it is applied: a store that retries may add a copy until it replies."""
        if not self.contract.at_least_once:
            return self.applied_by[attempt.id]
        return attempt.ended if self.is_acknowledged(attempt) and attempt.ended is not None else NEVER

    def is_before(self, earlier: MessageId, later: Attempt) -> bool:
        """Whether one was certainly applied before the other was sent."""
        return self.applied_by[earlier] < later.sent

    @cached_property
    def lossy_faults(self) -> list[Fault]:
        """Faults after which something acknowledged may be missing."""
        return [fault for fault in self.history.faults if self.may_lose(fault)]

    def may_lose(self, fault: Fault) -> bool:
        return fault.target is Source.PRIMARY and self.contract.loss(fault.excuse) != 0

    def staleness(self) -> Micros:
        return NEVER if self.contract.staleness is None else self.contract.staleness

    def is_tolerated(self, view: View) -> bool:
        """Whether a read may be behind because of a fault [R12].

        A replica may be until it has caught up, and a primary that is being replaced until that is over.
        """
        if self.contract.strict_replica:
            return False
        return any(
            fault.started <= view.returned and view.invoked <= self._tolerated_until(fault, view.source)
            for fault in self.history.faults
        )

    def _tolerated_until(self, fault: Fault, source: Source) -> Micros:
        if source is Source.PRIMARY:
            return fault.ended if fault.leaves_old else -1
        bound = fault.ended + self.history.recovery_max
        return bound if fault.caught_up is None else min(bound, fault.caught_up)

    def is_current(self, view: View, since: Micros) -> bool:
        """Whether this read certainly shows a state no older than `since`."""
        return view.invoked > since + self.staleness() and not self.is_tolerated(view)

    def leased(self, message: MessageId) -> int:
        return lease_of(self.history, message.session, message.writer)

    def fault_between(self, start: Micros, end: Micros) -> bool:
        return any(fault.started <= end and start <= fault.ended for fault in self.history.faults)
