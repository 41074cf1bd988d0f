"""The probable cause of a violation, with the facts for and against it. Facts corroborate; they never excuse."""

from __future__ import annotations

from soak.model.causes import Cause, Explanation
from soak.model.clues import Clues
from soak.model.kinds import Kind
from soak.model.loss_cause import explain_loss


def explain(clues: Clues) -> Explanation:  # noqa: PLR0911  one answer a line reads better than one variable
    """Name the likeliest cause. What cannot be told from the ledger, the reads and the telemetry stays unknown."""
    kind = clues.kind
    if kind in {Kind.LOST, Kind.ROLLED_BACK}:
        return explain_loss(clues)
    if kind is Kind.STALE or (kind is Kind.NON_MONOTONIC and clues.first_missed):
        return _explain_absence(clues)
    if kind in {Kind.REORDERED, Kind.NON_MONOTONIC}:
        return Explanation(
            Cause.CLIENT_CLOCK,
            ["all messages are there; only their order contradicts the times at which they were sent and acknowledged"],
            ["nobody else wrote to the session at that time"] if clues.attempt and not clues.rivals else [],
        )
    if kind is Kind.DUPLICATED:
        return _explain_duplicate(clues)
    if kind is Kind.UNFINDABLE:
        return _explain_unfindable(clues)
    if kind in {Kind.CORRUPTED, Kind.UNDECODABLE}:
        return _explain_changed_bytes(clues)
    return Explanation(Cause.UNKNOWN, [], [])


def _explain_changed_bytes(clues: Clues) -> Explanation:
    for window in clues.faults:
        if window.kind == "file_corruption" and clues.stood_since <= (window.ended or window.started):
            fact = f"bytes in the files of {window.target} were changed while it was stopped"
            return Explanation(Cause.UNKNOWN, [fact], [])
    was_good = clues.last_seen > 0
    return Explanation(
        Cause.SERIALIZATION_CHANGE,
        ["what came back differs from what was handed to the store"],
        ["an earlier read had returned it unharmed: it was spoiled later, or is read in another way now"]
        if was_good
        else [],
    )


def _explain_absence(clues: Clues) -> Explanation:
    """Tell why one read lacked what a later one shows."""
    if clues.reads_replica:
        return Explanation(
            Cause.REPLICA_LAG, ["the store reads from a replica, and a later read shows the message"], []
        )
    trouble = clues.trouble_near(clues.first_missed, clues.first_missed)
    if clues.items == 0:
        facts = ["the read answered that nothing is remembered, and a later one remembers everything"]
        return Explanation(Cause.SWALLOWED_ERROR, [*facts, *([trouble] if trouble else [])], [])
    if trouble:
        return Explanation(Cause.SWALLOWED_ERROR, [trouble, "the read answered with a part instead of an error"], [])
    if clues.rivals:
        return Explanation(Cause.CONCURRENT_OVERWRITE, [_name_rivals(clues)], [])
    return Explanation(Cause.UNKNOWN, [], ["the store reads from its primary, and nothing else failed at that time"])


def _explain_unfindable(clues: Clues) -> Explanation:
    """Tell why what is stored is not found: the store keeps it in two places, and only one of them has it."""
    attempt = clues.attempt
    trouble = clues.trouble_near(attempt.sent, attempt.ended) if attempt is not None else None
    facts = ["a read of the session shows it, so the append was acknowledged although what is searched did not get it"]
    return Explanation(
        Cause.SWALLOWED_ERROR,
        [*facts, *([trouble] if trouble else [])],
        ["an index that is approximate, or is cut short by a filter, passes over what it holds"],
    )


def _explain_duplicate(clues: Clues) -> Explanation:
    attempt = clues.attempt
    trouble = clues.trouble_near(attempt.sent, attempt.ended) if attempt is not None else None
    if trouble:
        return Explanation(
            Cause.RETRY, ["the writer sent it once; something below the store sent it again", trouble], []
        )
    during = [
        other
        for other in clues.others
        if other.sent <= clues.read_returned and other.ended >= clues.read_invoked and clues.read_invoked
    ]
    if during:
        fact = f"{len(during)} appends were under way while the read was put together"
        return Explanation(Cause.CONCURRENT_OVERWRITE, [fact], ["the duplicate may be in the store itself"])
    return Explanation(
        Cause.RETRY,
        ["the writer sent it once; something below the store sent it again"],
        ["no other operation is known to have failed at that time"],
    )


def _name_rivals(clues: Clues) -> str:
    names = ", ".join(f"writer {other.writer} seq {other.seq}" for other in clues.rivals[:3])
    return f"another writer appended to the session at the same time: {names}"


__all__ = ["Cause", "Clues", "Explanation", "explain"]
