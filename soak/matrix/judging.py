"""What one fault took of what was acknowledged, held against the contract. Pure: no clock, no socket."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from soak.contracts.given import Loss
from soak.model.attempt import Attempt
from soak.model.contract import Contract
from soak.model.faults import FaultWindow, allowed_loss_seconds, is_excused
from soak.model.outcome import Outcome
from soak.model.recovery import age_at

Place = tuple[int, int]
"""Which message: the number of its session, and its place in it."""


class ReadBack(msgspec.Struct, frozen=True, kw_only=True):
    """What the store shows after its recovery."""

    present: Collection[Place]
    """The messages that stand there exactly as they were written."""
    strange: int = 0
    """Items that are no message of ours, not as written, or there already."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and what the contract says to it."""

    acknowledged: int
    unknown: int
    """Writes whose reply never came."""
    surfaced: int
    """Those of them that are there: nobody may count on it, and it is no fault."""
    lost: int
    holes: int
    """Lost, although something that was sent after their acknowledgement is still there."""
    beyond: int
    """Lost, and not excused by the contract."""
    recovery_point_seconds: float
    """How long before the fault the oldest lost message had been acknowledged."""
    promised_seconds: float | None
    """Acknowledged tail that this fault may take; None: anything."""
    complaints: list[str]
    """Why this is beyond the contract; empty: it is inside."""

    @property
    def is_inside(self) -> bool:
        return not self.complaints

    @property
    def promised(self) -> str:
        return Loss(seconds=self.promised_seconds).words


def judge(attempts: Sequence[Attempt], read: ReadBack, window: FaultWindow, contract: Contract) -> Measured:
    """Count what is gone, and decide whether the contract lets this fault take it.

    The window ends when the server is down and its last reply was read: what is acknowledged later is acknowledged by
    the server that came back, so this fault excuses none of it.
    """
    acknowledged = [attempt for attempt in attempts if attempt.outcome == Outcome.OK]
    unknown = [attempt for attempt in attempts if attempt.outcome == Outcome.UNKNOWN]
    lost = [attempt for attempt in acknowledged if _place(attempt) not in read.present]
    window = msgspec.structs.replace(window, survivor_sent=_last_survivor_sent(acknowledged, read, window))
    # Asked apart from the contract: one that allows any tail to be lost allows no hole in what is left.
    holes = [attempt for attempt in lost if attempt.ended < window.survivor_sent]
    too_old = [attempt for attempt in lost if attempt.ended >= window.survivor_sent]
    too_old = [attempt for attempt in too_old if not is_excused(attempt, window, contract)]
    point_us = max((age_at(window, attempt) for attempt in lost), default=0)
    promised_seconds = allowed_loss_seconds(window, contract)
    return Measured(
        acknowledged=len(acknowledged),
        unknown=len(unknown),
        surfaced=sum(1 for attempt in unknown if _place(attempt) in read.present),
        lost=len(lost),
        holes=len(holes),
        beyond=len(holes) + len(too_old),
        recovery_point_seconds=point_us / 1e6,
        promised_seconds=promised_seconds,
        complaints=[*_hole(holes), *_tail(too_old, window, promised_seconds), *_strange(read.strange)],
    )


def _last_survivor_sent(acknowledged: Sequence[Attempt], read: ReadBack, window: FaultWindow) -> int:
    """Return when the last message that the server acknowledged before it went down, and kept, had been sent."""
    return max(
        (
            attempt.sent
            for attempt in acknowledged
            if (window.ended is None or attempt.ended <= window.ended) and _place(attempt) in read.present
        ),
        default=0,
    )


def _place(attempt: Attempt) -> Place:
    return attempt.session, attempt.seq


def _hole(holes: Sequence[Attempt]) -> list[str]:
    if not holes:
        return []
    return [f"{len(holes):,} lost out of the middle: something that was sent after their acknowledgement is there"]


def _tail(too_old: Sequence[Attempt], window: FaultWindow, promised_seconds: float | None) -> list[str]:
    if not too_old:
        return []
    oldest_seconds = max(age_at(window, attempt) for attempt in too_old) / 1e6
    promised = Loss(seconds=promised_seconds).words
    return [f"{len(too_old):,} lost up to {oldest_seconds:.2f} s before the fault, and promised is: {promised}"]


def _strange(items: int) -> list[str]:
    return [f"{items:,} items read back are not as they were written, or stand twice"] if items else []
