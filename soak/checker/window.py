"""Judging a read of the last N by a later whole read: was it the last N at any moment it could have been?"""

from __future__ import annotations

from typing import NamedTuple

from soak.checker.contract import Contract, Duplicates, Order
from soak.checker.kinds import Kind

MessageId = tuple[int, int]

STRICTEST = Contract()
_HOLE = "missing in the middle of the window"
_OLDEST = "the oldest messages were returned, not the last"


class WindowFinding(NamedTuple):
    """What is wrong with a read of the last N."""

    kind: Kind
    place: MessageId
    detail: str


def judge_window(
    last: int | None,
    seen: list[MessageId],
    acked: set[MessageId],
    whole: list[MessageId],
    unsure: set[MessageId],
    contract: Contract = STRICTEST,
) -> list[WindowFinding]:
    """Compare what a read of the last N showed with the order a later whole read shows.

    `acked` is what had been acknowledged when it was invoked; what is not in `whole` at all is left to the search for
    lost messages. `unsure` may rightly have appeared in between at any place, so it is not missed; but where it was
    seen it took up a place. If the read is the end of the history as it was at some earlier moment it was `stale`;
    otherwise it is no window.
    """
    if last is not None and len(seen) > last:
        return [WindowFinding(Kind.WINDOW, seen[0], f"{len(seen)} messages returned, {last} asked for")]
    if contract.duplicates is Duplicates.AT_LEAST_ONCE or contract.order is Order.NONE:
        # Which the last N are cannot be told where messages may stand twice, or in any order.
        return []
    line = [place for place in whole if place not in unsure]
    shown = [place for place in seen if place not in unsure]
    at = {place: index for index, place in enumerate(line)}
    indexes = [at[place] for place in shown if place in at]
    if indexes != sorted(indexes):
        wrong = next(i for i in range(1, len(indexes)) if indexes[i] < indexes[i - 1])
        place = line[indexes[wrong]]
        return [WindowFinding(Kind.REORDERED, place, "stands in another order than in a later read of all")]
    anchored = [place for place in whole if place not in unsure or place in seen]
    found = _judge_gaps(last, len(seen), _indexes(seen, anchored), acked, anchored)
    if not set(seen) <= set(whole):
        # It showed something the later read does not have, or has not settled yet: where it ended cannot be told.
        return [one for one in found if one.detail == _HOLE]
    if contract.staleness_us != 0:
        # Where a read may be behind, the oldest messages may simply have been all there was to see.
        return [one._replace(kind=Kind.STALE) if one.detail == _OLDEST else one for one in found]
    return found


def _indexes(seen: list[MessageId], line: list[MessageId]) -> list[int]:
    at = {place: index for index, place in enumerate(line)}
    return sorted(at[place] for place in seen if place in at)


def _judge_gaps(
    last: int | None, size: int, indexes: list[int], acked: set[MessageId], line: list[MessageId]
) -> list[WindowFinding]:
    expected = [index for index, place in enumerate(line) if place in acked]
    end = indexes[-1] if indexes else -1
    newer = [line[index] for index in expected if index > end]
    # Inside the span it covers nothing may be missing, and before it only what no longer fits into N.
    start = indexes[0] if indexes else 0
    shown = set(indexes)
    holes = [line[index] for index in expected if start < index < end and index not in shown]
    if holes:
        return [WindowFinding(Kind.WINDOW, place, _HOLE) for place in holes]
    older = [line[index] for index in expected if index < start]
    if older and (last is None or size < last):
        detail = f"only {size} messages returned" + ("" if last is None else f", {last} asked for")
        return [WindowFinding(Kind.WINDOW, place, detail) for place in older[-(last or len(older)) :]]
    if newer and last is not None and start == 0 and size >= last and len(newer) >= last:
        return [WindowFinding(Kind.WINDOW, place, _OLDEST) for place in newer]
    return [
        WindowFinding(Kind.STALE, place, "acknowledged before the read, shown only by a later one") for place in newer
    ]
