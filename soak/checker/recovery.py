"""What one fault took of one store: the recovery point that was measured, against the one that is promised."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from soak.checker.attempt import Attempt
from soak.checker.contract import Contract
from soak.checker.faults import Excuse, FaultWindow, allowed_loss_seconds
from soak.checker.outcome import Outcome


class Recovery(msgspec.Struct, kw_only=True):
    """One fault on one store's server. The point is the age of the oldest acknowledged message that was gone after."""

    fault: str
    kind: str
    target: str
    store: str
    planned: bool
    at_wall_seconds: float
    promised_seconds: float | None
    """None: anything may be lost."""
    tolerated: int = 0
    """Messages lost inside the contract."""
    lost: int = 0
    """Messages lost outside of it."""
    point_seconds: float = 0.0
    is_at_least: bool = False
    """Something so old was lost that its time is no longer known."""
    is_unread: bool = False
    """Not every session could be read since: more may be gone than is known."""
    is_settled: bool = False
    """Everything has been read since, and what was missing is confirmed."""
    lasted_seconds: float | None = None
    """From its beginning until it was healed; None: it is not."""
    read_seconds: float | None = None
    """From the fault's beginning to the first answer to a read that was asked while it was in effect, or later."""
    write_seconds: float | None = None
    """The same for an append."""
    unknown: int = 0
    """Appends under way in its time of which nobody knows whether they were applied."""
    surfaced: int = 0
    """Those of them that were seen later."""
    errors: int = 0
    """Operations of clients that got no answer, or a refusal, until it was over for them."""
    last_failed: int = 0
    """When something was last asked of the server in vain, in microseconds."""

    @property
    def is_kept(self) -> bool:
        """Whether the server gave back what is promised."""
        if self.lost:
            return False
        return self.promised_seconds is None or self.point_seconds <= self.promised_seconds

    @property
    def awaits(self) -> list[str]:
        """What has not been seen to work again."""
        times = {"read": self.read_seconds, "write": self.write_seconds}
        return [operation for operation, seconds in times.items() if seconds is None]

    def note(self, age_us: int, *, is_exact: bool, is_tolerated: bool) -> None:
        """Count a lost message that was acknowledged so long before the fault, or, if not exact, even longer."""
        if is_tolerated:
            self.tolerated += 1
        else:
            self.lost += 1
        self.is_at_least = self.is_at_least or not is_exact
        self.point_seconds = max(self.point_seconds, age_us / 1e6)


def begin_recovery(window: FaultWindow, store: str, contract: Contract, at_wall_seconds: float) -> Recovery:
    return Recovery(
        fault=window.fault,
        kind=window.kind,
        target=window.target,
        store=store,
        planned=window.planned,
        at_wall_seconds=at_wall_seconds,
        promised_seconds=allowed_loss_seconds(window, contract),
    )


def blamed_window(
    attempt: Attempt | None, windows: Iterable[FaultWindow], *, last_seen: int, missed: int
) -> FaultWindow | None:
    """Return the first fault that may have taken a message, whatever the contract says to that.

    It must have begun before the message was missed, and neither an acknowledgement nor a read may have come since.
    """
    for window in sorted(windows, key=lambda window: window.started):
        if window.excuses is Excuse.NOTHING or window.ended is None or window.started > missed:
            continue
        if last_seen <= window.ended and (attempt is None or attempt.ended <= window.ended):
            return window
    return None


def age_at(window: FaultWindow, attempt: Attempt | None) -> int:
    """Return how long before a fault a message was acknowledged, by its own attempt or by one that came after it."""
    if attempt is None or attempt.outcome != Outcome.OK:
        return 0  # when it was applied nobody knows; it may have been a moment before
    return max(0, window.started - attempt.ended)
