"""The probable cause of a violation, with the facts for and against it. Facts corroborate; they never excuse."""

from __future__ import annotations

from soak.checker import facts
from soak.checker.causes import Cause, Explanation
from soak.checker.clues import Clues
from soak.checker.facts import Fact
from soak.checker.kinds import Kind
from soak.checker.loss_cause import (
    beside_it,
    deadly_window,
    empty_answers,
    explain_loss,
    happened,
    restarted,
    restarts_since,
)
from soak.checker.trouble import trouble_during

CLOCK_APART_US = 1_500_000
"""Clocks of two machines, or timestamps of whole seconds, put in the wrong order only what was sent this close."""


def explain(clues: Clues) -> Explanation:
    """Name the likeliest cause, with the facts that hold. What the evidence does not say stays unknown."""
    found = candidates(clues)
    speaking, against, observed = (
        [fact for fact in group if fact.holds(clues)] for group in (found.facts, found.against, found.observed)
    )
    return Explanation(found.cause, speaking, against, observed, clues)


def candidates(clues: Clues) -> Explanation:
    """Name the cause with every fact that was thought to hold."""
    found = _cause(clues)
    known = [*found.facts, *found.against]
    return found._replace(observed=[fact for fact in _observed(clues) if fact not in known])


def _cause(clues: Clues) -> Explanation:  # noqa: PLR0911  one answer a line reads better than one variable
    kind = clues.kind
    if kind in {Kind.LOST, Kind.ROLLED_BACK}:
        return explain_loss(clues)
    if kind is Kind.STALE or (kind is Kind.NON_MONOTONIC and clues.first_missed):
        return _explain_absence(clues)
    if kind in {Kind.REORDERED, Kind.NON_MONOTONIC}:
        return _explain_order(clues)
    if kind is Kind.DUPLICATED:
        return _explain_duplicate(clues)
    if kind is Kind.UNFINDABLE:
        return _explain_unfindable(clues)
    if kind in {Kind.CORRUPTED, Kind.UNDECODABLE}:
        return _explain_changed_bytes(clues)
    return Explanation(Cause.UNKNOWN)


def _explain_absence(clues: Clues) -> Explanation:
    """Say why one read lacked what a later one shows."""
    if clues.reads_replica:
        return Explanation(Cause.REPLICA_LAG, [facts.ReadsReplica(), *_shown_later(clues)])
    trouble = trouble_during(clues, "read")
    if trouble is not None:
        return Explanation(Cause.SWALLOWED_ERROR, [trouble, *_shown_later(clues)])
    empty = empty_answers(clues)
    if empty and clues.was_seen:
        return Explanation(Cause.SWALLOWED_ERROR, [*empty, *_shown_later(clues)])
    return Explanation(Cause.UNKNOWN)


def _shown_later(clues: Clues) -> list[Fact]:
    later = facts.ShownLater(first_missed=clues.first_missed, invoked=clues.read_invoked)
    return [later] if later.holds(clues) else []


def _explain_order(clues: Clues) -> Explanation:
    """Blame clocks only where a timestamp would have produced this order: what was sent close together."""
    inverted = _inverted(clues)
    if inverted:
        worst = max(inverted, key=lambda fact: fact.later_us)
        return Explanation(Cause.CLIENT_CLOCK if worst.later_us <= CLOCK_APART_US else Cause.UNKNOWN, [worst])
    close = _sent_close(clues)
    return Explanation(Cause.CLIENT_CLOCK, close) if close else Explanation(Cause.UNKNOWN)


def _inverted(clues: Clues) -> list[facts.OutOfOrder]:
    """Return what stands in front of it and was sent later."""
    mine, place = clues.attempt, clues.place
    if mine is None or place is None:
        return []
    stands, times = list(clues.places()), clues.times()
    if place not in stands:
        return []
    end = len(stands) - 1 - stands[::-1].index(place)
    return [
        facts.OutOfOrder(writer=one[0], seq=one[1], later_us=times[one].sent - mine.sent)
        for one in dict.fromkeys(stands[:end])
        if one in times and times[one].sent > mine.sent
    ]


def _sent_close(clues: Clues) -> list[Fact]:
    mine, place, times = clues.attempt, clues.place, clues.times()
    if mine is None or place is None:
        return []
    apart = {
        one: abs(times[one].sent - mine.sent)
        for one in facts.next_to(list(clues.places()), place)
        if one in times and one != place
    }
    close = [one for one in apart if apart[one] <= CLOCK_APART_US]
    return [facts.SentClose(writer=one[0], seq=one[1], apart_us=apart[one]) for one in close[:1]]


def _explain_duplicate(clues: Clues) -> Explanation:
    trouble = trouble_during(clues, "append")
    return Explanation(Cause.UNKNOWN) if trouble is None else Explanation(Cause.RETRY, [*_sent_once(clues), trouble])


def _explain_unfindable(clues: Clues) -> Explanation:
    """Say why what is stored is not found: the store keeps it in two places, and only one of them has it."""
    found = facts.StoredNotFound(searched=clues.first_missed, invoked=clues.read_invoked)
    window = deadly_window(clues)
    if window is not None:
        return Explanation(Cause.UNKNOWN, [found, happened(clues, window)])
    trouble = trouble_during(clues, "append")
    return Explanation(Cause.SWALLOWED_ERROR, [found, *([trouble] if trouble is not None else [])])


def _explain_changed_bytes(clues: Clues) -> Explanation:
    if clues.kind is Kind.UNDECODABLE and not clues.items:
        return Explanation(Cause.UNKNOWN)  # the read raised: it returned nothing that could be compared
    for window in clues.faults:
        if window.kind == "file_corruption" and clues.stood_since <= (window.ended or window.started):
            return Explanation(Cause.UNKNOWN, [facts.FilesChanged(fault=facts.ref_of(window))])
    if clues.was_seen or clues.replaced or clues.history_unknown:
        return Explanation(Cause.UNKNOWN, _changed(clues))
    return Explanation(Cause.SERIALIZATION_CHANGE, _changed(clues))


def _changed(clues: Clues) -> list[Fact]:
    """Return since when it differs from what was written, and how."""
    if clues.kind is Kind.UNDECODABLE:
        replaced = [facts.ReplacedInPlace(writer=writer, seq=seq) for writer, seq in clues.replaced[:1]]
        return [facts.NotAMessage(), *replaced]
    since: list[Fact] = []
    if clues.last_seen:
        since = [facts.ChangedInPlace(right_until=clues.last_seen, wrong_since=clues.read_invoked)]
    elif clues.was_seen:
        since = [facts.RightBefore(wrong_since=clues.read_invoked)]
    elif not clues.history_unknown:
        since = [facts.NeverRight()]
    return [*since, *_differences(clues)]


def _differences(clues: Clues) -> list[Fact]:
    want, have = clues.expected, clues.got
    if want is None or have is None:
        return []
    found: list[Fact] = []
    if clues.expected_role != clues.got_role:
        found.append(facts.RoleDiffers(expected=clues.expected_role, got=clues.got_role))
    cut = facts.TextCut(characters=len(have), bytes=len(facts.encoded(have)), of_characters=len(want))
    difference = facts.text_difference(clues)
    if cut.holds(clues):
        found.append(cut)
    elif difference is not None:
        found.append(difference)
    same = (facts.SameInNormalForm(form="NFC"), facts.SameInNormalForm(form="NFKC"))
    return [*found, *[fact for fact in same if fact.holds(clues)][:1]]


def _sent_once(clues: Clues) -> list[Fact]:
    attempt = clues.attempt
    return [] if attempt is None else [facts.SentOnce(sent=attempt.sent, ended=attempt.ended)]


def _observed(clues: Clues) -> list[Fact]:
    """Return what else is known of the message, whatever the cause."""
    kind = clues.kind
    if kind in {Kind.LOST, Kind.ROLLED_BACK}:
        return [*_sightings(clues), *empty_answers(clues), *beside_it(clues), *map(restarted, restarts_since(clues))]
    if kind in {Kind.STALE, Kind.NON_MONOTONIC}:
        return _shown_later(clues)
    if kind is Kind.CORRUPTED:
        return _changed(clues)
    if kind is Kind.DUPLICATED:
        during = len(facts.appends_during_read(clues))
        return [*_sent_once(clues), *([facts.AppendsDuringRead(count=during)] if during else [])]
    return []


def _sightings(clues: Clues) -> list[Fact]:
    if clues.last_seen:
        return [facts.SeenThenGone(last_seen=clues.last_seen, first_missed=clues.first_missed)]
    if clues.was_seen:
        return [facts.SeenBefore(first_missed=clues.first_missed)]
    return [facts.NeverSeen()]


__all__ = ["Cause", "Clues", "Explanation", "candidates", "explain"]
