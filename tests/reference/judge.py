"""The reference judge: brute force over a complete history, a direct reading of the consistency model.

It answers what any checker that reads the same history must report, may report, and (all the rest) must not report.

The kinds, one function each: `_absences` (lost, rolled_back, stale, non_monotonic), `_order_in_one_read` and
`_order_between_reads` (reordered), `_elements` (duplicated, corrupted, undecodable, phantom, leaked),
`_unreadable_session` (undecodable), `_forgotten` and `_expired` (resurrected), `_windows` (window). `unfindable` is
not covered: histories have no searches. Why an absence is within the contract stands in `excuses.py`.

DECISIONS where the page is silent. What is reported there is neither demanded nor forbidden:
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations

from tests.reference.excuses import (
    absence,
    by_expiry,
    gone_after,
    is_older,
    is_promised,
    is_something_untold,
    may_be_undone,
)
from tests.reference.findings import (
    CORRUPTED,
    DUPLICATED,
    LEAKED,
    LOST,
    NON_MONOTONIC,
    PHANTOM,
    REORDERED,
    RESURRECTED,
    ROLLED_BACK,
    STALE,
    UNDECIDED,
    UNDECODABLE,
    WINDOW,
    Finding,
    Judgement,
    Legit,
    Obligation,
    Ruling,
    found,
)
from tests.reference.history import Attempt, Expiry, Forget, History, MessageId, Order, Outcome, Read, Source
from tests.reference.knowledge import NEVER, Knowledge, View

DECISIONS = {
    "acknowledged-during-fault": "A loss of what was sent before `injected` and acknowledged before `ended` of a fault"
    " whose loss is limited: the page excuses a tail before the fault, and leaves out what was on its way.",
    "during-fault": "A primary that hides a message of the excusable tail during the fault and shows it later.",
    "during-open-forget": "The absence of a message from a read that was made before the outcome of a forget had"
    " reached the verifier.",
    "eventual-late": "Under an eventual contract, a message that the primary lacks and shows later: for how long a loss"
    " stays a suspicion.",
    "eventual-monotonic": "Whether an eventual contract promises monotonic reads from one source.",
    "expired-in-fault": "A message past its time to live that stands again after a fault which may lose a tail.",
    "hole-by-order": "A read of the last N without a message that a full read shows between two that it had, where the"
    " times of the three do not tell their order.",
    "gone-before-judged": "What a participant's read lacked or showed in another order, of a session that was forgotten"
    " or may have expired before the next full read: a read of a part is judged by a full one.",
    "late-forget": "A forget of unknown outcome that takes effect after its caller gave up: said of appends only.",
    "late-insertion": "A message first shown in front of one that an earlier read had shown without it: not"
    " prefix-compatible by the letter, and what a serial column does to concurrent transactions.",
    "late-life": "An absolute time to live begun by an unknown write that was applied long after it was sent.",
    "begun-untold": "An absolute time to live that may have begun with an append whose outcome has not reached the"
    " verifier.",
    "may-be-in-flight": "A last-N retention that one message more of each writer, yet unheard of, would fill.",
    "order-not-promised": "A last-N retention or window without the newer and with the older message, of two writers"
    " between whom the contract promises no order.",
    "order-over-forget": "Two reads that order a pair differently which a forget has removed: one of them is behind,"
    " and shows the session as it was.",
    "other-reader": "What only a participant's read has shown, where the next full read may rightly lack it.",
    "pair-of-two-writers": "Two reads that order messages of two writers differently under per_writer order.",
    "new-primary": "A message that a fault may have taken, and that some read had shown together with one that was sent"
    " after its acknowledgement and survived, if the last full read before it was missed does not say so.",
    "participant-altered": "A message that only a participant's read of the last N shows altered.",
    "refused-anyway": "What else is said of a message that is a phantom already.",
    "raced-life": "A message past its time to live that was in flight together with a forget.",
    "retained-too-many": "A full read that shows more than the retained number.",
    "retries-fill-the-window": "at_least_once with a last-N retention: copies take places.",
    "sent-later": "A message of a leased block that a read shows before it was sent, or that never was.",
    "straddles-lives": "A message past its absolute time to live, where a later append was under way when that ended.",
    "unknown-in-life": "A message past its absolute time to live, in a session some append of which is unknown.",
    "wrong-anyway": "What else a participant's read of the last N shows wrong of a session in which a full read shows"
    " messages twice, in a wrong order or of elsewhere: it is the same wrong once more.",
    "stale-and-seen": "`stale` beside `non_monotonic`: both rows of the table hold for what was hidden meanwhile.",
    "swept-first": "A loss that the first full read after a fault would confirm: who survived it is known only after"
    " every session has been read once.",
    "under-way": "A message past its time to live, of a session some outcome of which has not reached the verifier.",
    "unreadable-in-its-place": "The absence of a message in a read that holds something unreadable.",
    "told-after-forget": "A message that one read hid and a later one showed, of a session that was to be forgotten"
    " before its outcome came, or before it was shown again.",
    "told-after-life": "A message of a sliding life that was over as far as outcomes had come by then, and was not as a"
    " later outcome shows.",
    "told-after-shadow": "A message that a read lacked and a later one shows, if its outcome came only after a read in"
    " the shadow of a fault.",
    "two-forgets": "What one forget has removed, in a read that may be behind another one.",
    "undone-by-fault": "A forget within the tail that a fault may take: what it had removed may stand again.",
}
__doc__ += "".join(f"\n- {name}: {sentence}" for name, sentence in DECISIONS.items())

Rule = Callable[["_Report", Knowledge], None]

RAISED_READS_MIN = 3
"""So many reads of a session must raise before it counts as unreadable [R3]."""


def judge(history: History) -> Judgement:
    """Rule on everything that can be reported of a history."""
    report = _Report()
    known = Knowledge(history)
    for rule in _RULES:
        rule(report, known)
    return report.judgement()


class _Report:
    """Collects what must and what may be reported."""

    def __init__(self) -> None:
        self._must: set[Obligation] = set()
        self._may: dict[Finding, set[str]] = {}

    def must(self, *alternatives: Finding) -> None:
        self._must.add(frozenset(alternatives))

    def may(self, reason: str, *findings: Finding) -> None:
        for finding in findings:
            self._may.setdefault(finding, set()).add(reason)

    def judgement(self) -> Judgement:
        may = {finding: frozenset(reasons) for finding, reasons in self._may.items()}
        return Judgement(must=frozenset(self._must), may=may)


# ---------------------------------------------------------------------------------------------------------------------
# Absence: lost, rolled_back, stale, non_monotonic


def _absences(report: _Report, known: Knowledge) -> None:
    """Rule on what is in A, or was seen [R2], and is missing from a full read."""
    for attempt in known.history.attempts:
        applied_by = known.applied_by[attempt.id]
        if applied_by == NEVER:
            continue
        for view in known.full[attempt.id.session]:
            if view.invoked > applied_by and attempt.id not in view.ids:
                ruling = absence(known, attempt, view)
                if ruling.legit is not Legit.YES:
                    _report_absence(report, known, attempt, view, ruling)


def _report_absence(report: _Report, known: Knowledge, attempt: Attempt, view: View, ruling: Ruling) -> None:
    message = attempt.id
    if known.is_refused(attempt):
        report.may("refused-anyway", found(ROLLED_BACK, message), found(NON_MONOTONIC, message))
        return
    gone, hidden = _kinds_of_absence(known, attempt, view)
    back_surely, back_perhaps = _comes_back(known, attempt, view)
    looked_again = _is_looked_at_again(known, attempt, view)
    reason = UNDECIDED if ruling.legit is Legit.NO else ruling.reason
    if looked_again:
        report.may(reason, *gone)
    if back_perhaps:
        report.may(reason, *hidden)
        if known.is_acknowledged(attempt) and known.contract.staleness is not None:
            report.may("stale-and-seen" if ruling.legit is Legit.NO else reason, found(STALE, message))
    if ruling.legit is Legit.NO:
        confirmed = _is_confirmed(known, attempt, view)
        if looked_again and not confirmed and _is_confirmed(known, attempt, view, unswept=True):
            report.may("swept-first", *gone)
        forgiven = _why_forgiven(known, attempt, view, back_surely=back_surely, back_perhaps=back_perhaps)
        if forgiven is not None:
            report.may(forgiven, *hidden)
        elif back_surely:
            report.must(*hidden, *(gone if looked_again or _was_looked_at_before(known, attempt, view) else ()))
        elif confirmed:
            report.must(*gone, *(hidden if back_perhaps else ()))


def _why_forgiven(
    known: Knowledge, attempt: Attempt, view: View, *, back_surely: bool, back_perhaps: bool
) -> str | None:
    """Return the decision by which an absence that is no right one need not be reported."""
    reasons = {
        "told-after-forget": (
            _is_hidden_before_forget(known, attempt, view) if back_surely else _is_dated_after_forget(known, attempt)
        ),
        "told-after-shadow": back_surely and _is_told_after_shadow(known, attempt, view),
        "swept-first": back_perhaps and _is_asked_around_fault(known, view),
        "other-reader": _only_participants_saw(known, attempt)
        and (_may_be_unseen(known, attempt) or _only_late_reads_saw(known, attempt)),
        "begun-untold": _is_life_untold(known, attempt, view),
        "told-after-life": _is_told_after_life(known, attempt, view),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _only_late_reads_saw(known: Knowledge, attempt: Attempt) -> bool:
    """Whether every read that showed it was made in the shadow of a fault."""
    return all(known.is_tolerated(view) for view in known.shown.get(attempt.id, ()))


def _may_be_unseen(known: Knowledge, attempt: Attempt) -> bool:
    """Whether what only a participant saw is not suspected: the verifier's next full read may rightly lack it."""
    contract = known.contract
    drops = contract.retained is not None or contract.eviction
    return drops or bool(known.forgets[attempt.id.session])


def _only_participants_saw(known: Knowledge, attempt: Attempt) -> bool:
    """Whether a message was never acknowledged, and only participants' reads have shown it."""
    return not known.is_acknowledged(attempt) and not any(v.is_full for v in known.shown.get(attempt.id, ()))


def _is_told_after_forget(known: Knowledge, attempt: Attempt) -> bool:
    """Whether the outcome of an append came when the session was to be forgotten since."""
    told = attempt.delivered_at or NEVER
    forgets = [one for one in known.forgets[attempt.id.session] if known.outcome(one) is not Outcome.FAILED]
    return any(attempt.sent < one.sent <= told for one in forgets)


def _is_hidden_before_forget(known: Knowledge, attempt: Attempt, view: View) -> bool:
    """Whether a session was to be forgotten before what a read hid was shown again, or before its outcome came."""
    later = [v for v in known.shown.get(attempt.id, ()) if v.is_full and v.invoked > view.returned]
    back = min((v.returned for v in later), default=NEVER)
    forgets = [one for one in known.forgets[attempt.id.session] if known.outcome(one) is not Outcome.FAILED]
    return _is_told_after_forget(known, attempt) or any(attempt.sent < one.sent <= back for one in forgets)


def _is_asked_around_fault(known: Knowledge, view: View) -> bool:
    """Whether the primary was asked beside a read of a replica, and a fault came in between: it says nothing then."""
    if view.source is not Source.PRIMARY or known.contract.staleness == 0:
        return False
    return known.fault_between(_asked_for(known, view), view.returned) or not _is_swept(known, view)


def _is_dated_after_forget(known: Knowledge, attempt: Attempt) -> bool:
    """Whether an outcome that came after a forget was sent says that a fault may not have taken what a read showed."""
    told = attempt.delivered_at or NEVER
    is_seen = any(view.is_full and view.returned < told for view in known.shown.get(attempt.id, ()))
    forgets = [forget for forget in known.forgets[attempt.id.session] if forget.sent > attempt.sent]
    return is_seen and bool(known.lossy_faults) and any(forget.sent <= told for forget in forgets)


def _is_told_after_shadow(known: Knowledge, attempt: Attempt, view: View) -> bool:
    """Whether a read in the shadow of a fault came between a read and the outcome that says what it lacked."""
    told = attempt.delivered_at or NEVER
    is_seen = any(v.is_full and v.returned < view.invoked for v in known.shown.get(attempt.id, ()))
    return not is_seen and any(
        view.returned < v.invoked and v.returned <= told and known.is_tolerated(v)
        for v in known.full[attempt.id.session]
    )


def _is_life_untold(known: Knowledge, attempt: Attempt, view: View) -> bool:
    """Whether no outcome of a session that expires had come when a read lacked a message, or only a part showed it."""
    if known.contract.ttl is None:
        return False
    full = known.full[attempt.id.session]
    shown = [v for v in known.shown.get(attempt.id, ()) if v.returned < view.invoked]
    judged = [next((one for one in full if one.invoked >= v.returned), view) for v in shown if not v.is_full]
    reads = [view] if any(v.is_full for v in shown) else judged
    times = [one.delivered_at or NEVER for one in known.by_session[attempt.id.session]]
    is_absolute = known.contract.expiry is Expiry.ABSOLUTE  # of which each append that is untold may be the first
    told = max(times) if is_absolute else min(times)
    return bool(reads) and all(told > one.returned for one in reads)


def _is_told_after_life(known: Knowledge, attempt: Attempt, view: View) -> bool:
    """Whether a sliding life was over, as far as outcomes had come, when a read lacked it or an append was answered."""
    ttl, others = known.contract.ttl, known.by_session[attempt.id.session]
    if ttl is None or known.contract.expiry is not Expiry.SLIDING:
        return False
    acknowledged = [one for one in others if known.is_acknowledged(one)]
    moments = [(v.invoked, v.returned) for v in known.full[view.session] if attempt.id not in v.ids]
    moments += [(one.delivered_at or 0, one.ended or 0) for one in acknowledged if one.sent >= attempt.sent]
    for told_by, at in moments:
        told = [one for one in acknowledged if (one.delivered_at or 0) <= told_by and (one.ended or 0) < at]
        # What only an unknown outcome is known of promises nothing.
        is_doubtful = not told and any(
            known.outcome(one) is Outcome.UNKNOWN and (one.delivered_at or NEVER) <= told_by for one in others
        )
        begun = min((one.sent for one in others if (one.delivered_at or NEVER) <= told_by), default=0)
        # A fault may have undone what prolonged it.
        kept = [one for one in told if not may_be_undone(known, one, by=at)]
        last = max((one.sent for one in kept), default=begun)
        if attempt.sent <= at <= view.returned and (is_doubtful or (told and last + ttl <= at)):
            return True
    return False


def _kinds_of_absence(known: Knowledge, attempt: Attempt, view: View) -> tuple[list[Finding], list[Finding]]:
    """Return the kinds it may have if it stays away, and if it comes back: was it seen before?"""
    message = attempt.id
    shown = known.shown.get(message, ())
    forgets = [one for one in known.history.forgets if one.session == message.session]
    # A read that may be of before a forget is not remembered, where it may be so for ever.
    is_blind = known.contract.staleness is None and any(known.outcome(one) is Outcome.OK for one in forgets)
    surely = not is_blind and any(
        v.is_full
        and v.source is view.source
        and (v.source is Source.REPLICA or known.contract.staleness == 0)  # the primary is asked for a second look only
        and v.returned < view.invoked
        # What a read shows while nobody knows of a forget's outcome is not counted as seen behind it.
        and not any(one.sent <= v.returned <= (one.delivered_at or NEVER) for one in forgets)
        and not any(_may_show_the_forgotten(known, v, one) for one in forgets)
        for v in shown
    )
    perhaps = any(v.invoked <= view.returned for v in shown)
    gone = [found(ROLLED_BACK, message)] if perhaps else []
    hidden = [found(NON_MONOTONIC, message)] if perhaps else []
    if not surely and known.is_acknowledged(attempt):
        gone.append(found(LOST, message))
        if known.contract.staleness is not None:
            hidden.append(found(STALE, message))
    elif perhaps and known.contract.staleness and not any(v.is_full and v.invoked <= view.returned for v in shown):
        hidden.append(found(STALE, message))  # nobody is held to what others have seen, but to the bound
    return gone, hidden


def _may_show_the_forgotten(known: Knowledge, view: View, forget: Forget) -> bool:
    """Whether a read may be behind a forget that has happened: what it shows in flight is not remembered."""
    is_done = known.outcome(forget) is Outcome.OK and forget.ended is not None and forget.sent <= view.returned
    return is_done and not known.is_current(view, forget.ended or 0)


def _comes_back(known: Knowledge, attempt: Attempt, view: View) -> tuple[bool, bool]:
    """Return whether a later read surely shows it again, and whether one perhaps does."""
    later = [v for v in known.shown.get(attempt.id, ()) if v.returned > view.returned]
    surely = any(
        v.is_full and v.invoked > view.returned and (v.source is view.source or known.is_current(v, view.returned))
        for v in later
    )
    return surely, bool(later)


def _is_confirmed(known: Knowledge, attempt: Attempt, view: View, *, unswept: bool = False) -> bool:
    """Whether a second read confirms it: from the primary, after the settle time, with no fault active."""
    settle = known.history.settle
    seen = any(v.returned < view.invoked for v in known.shown.get(attempt.id, ()))
    if not seen and (attempt.delivered_at is None or attempt.delivered_at > view.invoked):
        return False  # not in A at that read
    for second in _absent_from_then_on(known, attempt, view):
        is_late_enough = _asked_for(known, second) >= view.returned + settle
        is_quiet = not known.fault_between(second.invoked - settle, second.returned)
        is_swept = unswept or _is_swept(known, second)
        is_wrong = absence(known, attempt, second).legit is Legit.NO and not _is_told_after_life(known, attempt, second)
        if is_late_enough and is_quiet and is_swept and is_wrong:
            return True
    return False


def _asked_for(known: Knowledge, second: View) -> int:
    """Return when the read was invoked that a second look rests on: the primary is asked beside a read of a replica."""
    replicas = [v.invoked for v in known.full[second.session] if v.source is Source.REPLICA]
    return max((at for at in replicas if at <= second.invoked), default=second.invoked)


def _is_swept(known: Knowledge, second: View) -> bool:
    """Whether every session was read once between the last fault and this read."""
    behind = known.contract.staleness or 0
    ended = max((fault.ended for fault in known.history.faults if fault.ended < second.invoked), default=None)
    if ended is None:
        return True
    return all(
        any(ended + behind < view.invoked and view.returned <= second.invoked for view in known.full[session])
        for session in known.history.sessions
    )


def _is_wrong_anyway(known: Knowledge, view: View) -> bool:
    """Whether a full read shows the session with repeats, in a wrong order, or with what does not belong there."""
    fulls = known.full[view.session]
    has_repeats = any(count > 1 for full in fulls for count in full.counts.values())
    has_others = any(full.foreign or full.has_unreadable for full in fulls)
    if has_repeats or has_others or any(_may_be_inverted(known, full) for full in fulls):
        return True
    return any(_is_flipped(one, other) for one, other in combinations(fulls, 2))


def _is_flipped(one: View, other: View) -> bool:
    """Whether two reads show what both have in another order."""
    common = [message for message in one.order if message in other.ids]
    return common != [message for message in other.order if message in one.ids]


def _is_judged(known: Knowledge, view: View) -> bool:
    """Whether a full read follows a read of a part, of a session that is still the same."""
    later = [full for full in known.full[view.session] if full.invoked >= view.returned]
    if not later:
        return False
    is_forgotten = any(one.session == view.session and one.sent <= later[0].returned for one in known.history.forgets)
    ttl = known.contract.ttl
    sent = [one.sent for one in known.by_session[view.session]]
    return not is_forgotten and (ttl is None or later[0].returned < min(sent, default=0) + ttl)


def _is_looked_at_again(known: Knowledge, attempt: Attempt, view: View) -> bool:
    """Whether some second read may be taken for a confirmation."""
    settle = known.history.settle
    shown = [
        v.invoked for v in known.shown.get(attempt.id, ()) if _is_of_verifier(known, v) and v.invoked < view.invoked
    ]
    # The suspicion is as old as the first read without it, also where that was allowed to be behind.
    lacking = [v.invoked for v in known.full[attempt.id.session] if v.invoked > max(shown, default=attempt.sent)]
    since = min([view.invoked, *(at for at in lacking)])
    for second in (view, *_absent_from_then_on(known, attempt, view)):
        if second.source is not Source.PRIMARY:
            continue
        is_late_enough = second.invoked >= since + settle
        is_quiet = not known.fault_between(second.invoked, second.returned)
        is_wrong = absence(known, attempt, second).legit is not Legit.YES
        if is_late_enough and is_quiet and (is_wrong or _may_seem_alive(known, attempt, second)):
            return True
    return False


def _is_of_verifier(known: Knowledge, view: View) -> bool:
    """Whether a read is full, and no answer of the primary, which is asked beside a read of a replica."""
    return view.is_full and (known.contract.staleness == 0 or view.source is Source.REPLICA)


def _may_seem_alive(known: Knowledge, attempt: Attempt, view: View) -> bool:
    """Whether an absolute life was over by an append of which the verifier had not heard when it read."""
    is_absolute = known.contract.ttl is not None and known.contract.expiry is Expiry.ABSOLUTE
    return is_absolute and is_something_untold(known, attempt, view)


def _was_looked_at_before(known: Knowledge, attempt: Attempt, view: View) -> bool:
    """Whether a loss may have been confirmed already by reads before this one, in the same absence."""
    shown = max((v.invoked for v in known.shown.get(attempt.id, ()) if v.returned < view.invoked), default=0)
    before = [v for v in known.full[attempt.id.session] if shown < v.invoked and v.returned <= view.invoked]
    return any(v.invoked > attempt.sent and _is_looked_at_again(known, attempt, v) for v in before)


def _absent_from_then_on(known: Knowledge, attempt: Attempt, view: View) -> Iterator[View]:
    """Yield later full reads of the primary until one shows the message."""
    for second in known.full[attempt.id.session]:
        if second is view or second.invoked < view.returned or second.source is not Source.PRIMARY:
            continue
        if attempt.id in second.ids:
            return
        yield second


# ---------------------------------------------------------------------------------------------------------------------
# Order


def _order_in_one_read(report: _Report, known: Knowledge) -> None:
    """Acknowledged before sent is inverted; of one writer that is seq order. Unknown writes too [R1]."""
    if known.contract.order is Order.NONE:
        return
    for views in known.views.values():
        for view in views:
            if _may_be_inverted(known, view):
                _report_inversions(report, known, view)


def _may_be_inverted(known: Knowledge, view: View) -> bool:
    """Tell quickly that nothing stands in front of what was acknowledged before it was sent."""
    earliest = NEVER
    for message in reversed(view.order):
        attempt = known.attempts.get(message)
        if attempt is None:
            continue
        if earliest < attempt.sent:
            return True
        if attempt.ended is not None and known.is_acknowledged(attempt):
            earliest = min(earliest, attempt.ended)
    return False


def _report_inversions(report: _Report, known: Knowledge, view: View) -> None:
    surely: set[Finding] = set()
    attempts = [known.attempts[message] for message in view.order if message in known.attempts]
    for front, behind in combinations(attempts, 2):
        if not known.is_acknowledged(behind) or behind.ended is None or behind.ended >= front.sent:
            continue
        if not is_promised(known, front.id.writer, behind.id.writer):
            continue
        pair = (found(REORDERED, front.id), found(REORDERED, behind.id))
        if _is_known_inversion(known, view, front, behind) and _is_compared(known, view, {front.id, behind.id}):
            surely.update(pair)
        report.may("refused-anyway" if known.is_refused(front) else UNDECIDED, *pair)
    if surely:
        window = () if view.is_full else (found(WINDOW, _whole(view)),)
        if not view.is_full and _is_wrong_anyway(known, view):
            report.may("wrong-anyway", *surely, *window)
        elif view.is_full or _is_judged(known, view):
            report.must(*surely, *window)
        else:
            report.may("gone-before-judged", *surely, *window)


def _is_compared(known: Knowledge, view: View, pair: set[MessageId]) -> bool:
    """Whether a read is full, or the full read that judges it shows both of a pair."""
    later = next((full for full in known.full[view.session] if full.invoked >= view.returned), None)
    return view.is_full or (later is not None and pair <= later.ids)


def _is_known_inversion(known: Knowledge, view: View, front: Attempt, behind: Attempt) -> bool:
    """Whether the verifier knew both times when it read: of one writer, the seq tells."""
    if known.is_refused(front) or (known.contract.at_least_once and _stands_twice(known, front.id, behind.id)):
        return False
    same_writer = front.id.writer == behind.id.writer
    knows_front = same_writer or (front.delivered_at is not None and front.delivered_at <= view.invoked)
    return knows_front and behind.delivered_at is not None and behind.delivered_at <= view.invoked


def _stands_twice(known: Knowledge, *messages: MessageId) -> bool:
    return any(view.counts[message] > 1 for message in messages for view in known.shown.get(message, ()))


def _order_between_reads(report: _Report, known: Knowledge) -> None:
    """Two reads order a pair differently, or the later one shows something in front of what was shown without it."""
    if known.contract.order is Order.NONE:
        return
    for views in known.full.values():
        distinct = list({tuple(view.order): view for view in views}.values())
        for one, other in combinations(distinct, 2):
            if _is_flipped(one, other):
                _report_flips(report, known, one, other)
        for view in known.views[views[0].session] if views else ():
            _report_flipped_window(report, known, view)
        for earlier, later in combinations(views, 2):
            if earlier.order != later.order[: len(earlier.order)]:
                _report_insertions(report, earlier, later)


def _report_flips(report: _Report, known: Knowledge, one: View, other: View) -> None:
    surely: set[Finding] = set()
    place = {message: index for index, message in enumerate(other.order)}
    for front, behind in combinations([message for message in one.order if message in place], 2):
        if place[front] < place[behind]:
            continue
        pair = [found(kind, message) for kind in (REORDERED, NON_MONOTONIC) for message in (front, behind)]
        attempts = [known.attempts.get(message) for message in (front, behind)]
        if any(attempt is None or known.is_refused(attempt) for attempt in attempts):
            report.may("refused-anyway", *pair)
        elif _may_be_forgotten(known, front, one, other) or _was_excused_between(known, front, behind, one, other):
            report.may("order-over-forget", *pair)
        elif not is_promised(known, front.writer, behind.writer):
            report.may("pair-of-two-writers", *pair)
        elif known.contract.at_least_once and (known.forgets[front.session] or _stands_twice(known, front, behind)):
            report.may("retries-fill-the-window", *pair)
        else:
            report.may(UNDECIDED, *pair)
            surely.update(pair)
    if surely:
        report.must(*surely)


def _may_be_forgotten(known: Knowledge, front: MessageId, one: View, other: View) -> bool:
    """Whether a forget that has happened removed what one of two reads shows, which is behind."""
    attempt, judged = known.attempts[front], max(one.returned, other.returned)
    if known.contract.staleness != 0:  # then it may wait for the word of the primary, until it is read again
        judged = min((v.returned for v in known.full[one.session] if v.invoked > judged), default=judged)
    return any(
        known.outcome(forget) is Outcome.OK
        and attempt.sent <= (forget.ended or 0)
        and forget.sent <= judged
        and not all(known.is_current(view, forget.ended or 0) for view in (one, other))
        for forget in known.forgets[one.session]
    )


def _was_excused_between(known: Knowledge, front: MessageId, behind: MessageId, one: View, other: View) -> bool:
    """Whether a read between two lacks one of a pair that may rightly be gone: forgotten in doubt, or expired."""
    forgets = [forget for forget in known.forgets[one.session] if known.outcome(forget) is Outcome.UNKNOWN]
    first, second = sorted((one.invoked, other.invoked))
    for view in known.full[one.session]:
        lacked = [known.attempts[message] for message in (front, behind) if message not in view.ids]
        if lacked and first < view.invoked < second:
            is_expired = any(by_expiry(known, attempt, view).legit is not Legit.NO for attempt in lacked)
            if is_expired or any(forget.sent <= view.returned for forget in forgets):
                return True
    return False


def _report_flipped_window(report: _Report, known: Knowledge, view: View) -> None:
    """Hold a participant's read against the full read that judges it: it may not order a pair differently."""
    later = next((full for full in known.full[view.session] if full.invoked >= view.returned), None)
    if view.is_full or later is None:
        return
    place = {message: index for index, message in enumerate(later.order)}
    for front, behind in combinations([message for message in view.order if message in place], 2):
        if place[front] > place[behind]:
            pair = [found(kind, message) for kind in (REORDERED, NON_MONOTONIC) for message in (front, behind)]
            report.may(UNDECIDED, *pair, found(WINDOW, _whole(view)))


def _report_insertions(report: _Report, earlier: View, later: View) -> None:
    new_ones: list[MessageId] = []
    for message in later.order:
        if message not in earlier.ids:
            new_ones.append(message)
        elif new_ones:
            report.may("late-insertion", *(found(NON_MONOTONIC, m) for m in (*new_ones, message)))


# ---------------------------------------------------------------------------------------------------------------------
# Elements of a read taken by themselves: duplicated, corrupted, undecodable, phantom, leaked


def _elements(report: _Report, known: Knowledge) -> None:
    for views in known.views.values():
        for view in views:
            window = () if view.is_full else (found(WINDOW, _whole(view)),)
            if not view.is_full and not any(v.invoked >= view.returned for v in known.full[view.session]):
                continue  # a read of a part is judged by a full one
            for message in view.foreign:
                report.must(found(LEAKED, message), *window)
            if view.has_unreadable:
                report.must(found(UNDECODABLE, _whole(view)), *window)
            for message, count in view.counts.items():
                _element(report, known, view, message, count)


def _element(report: _Report, known: Knowledge, view: View, message: MessageId, count: int) -> None:
    window = () if view.is_full else (found(WINDOW, _whole(view)),)
    attempt = known.attempts.get(message)
    is_phantom = attempt is None or known.is_refused(attempt)
    if attempt is None and message.seq <= known.leased(message):
        report.may("sent-later", found(PHANTOM, message))
        behind = view.order[view.order.index(message) + 1 :] if message in view.order else ()
        # For all the verifier knows it was sent just now, and stands in front of what its writer had said before.
        report.may("sent-later", found(ROLLED_BACK, message), found(NON_MONOTONIC, message))
        report.may("sent-later", *(found(REORDERED, m) for m in behind if m[:2] == message[:2] and m.seq < message.seq))
    elif is_phantom and attempt is not None and _is_told_after_forget(known, attempt):
        report.may("told-after-forget", found(PHANTOM, message), *window)
    elif is_phantom:
        report.must(found(PHANTOM, message), *window)
    elif attempt is not None and attempt.sent > view.returned:
        report.may("sent-later", found(PHANTOM, message))
    if count > 1 and not known.contract.at_least_once:
        if is_phantom:
            report.may("refused-anyway", found(DUPLICATED, message))
        else:
            report.must(found(DUPLICATED, message), *window)
    if message in view.altered:
        if is_phantom:
            report.may("refused-anyway", found(CORRUPTED, message))
        elif view.is_full:
            report.must(found(CORRUPTED, message))
        else:
            report.may("participant-altered", found(CORRUPTED, message), *window)


def _unreadable_session(report: _Report, known: Knowledge) -> None:
    """Find a session whose reading raises again and again while others answer and no fault is active [R3]."""
    for session in known.history.sessions:
        run: list[Read] = []
        for read in known.history.reads:
            if read.session == session and read.last is None:
                run = [*run, read] if read.items is None else []
                if _is_unreadable(known, run):
                    report.must(found(UNDECODABLE, MessageId(session, 0, 0)))


def _is_unreadable(known: Knowledge, run: list[Read]) -> bool:
    if len(run) < RAISED_READS_MIN or run[-1].invoked - run[0].returned < known.history.settle:
        return False
    start, end = run[0].invoked, run[-1].returned
    others_answer = any(
        start <= view.returned <= end
        for session, views in known.full.items()
        for view in views
        if session != run[0].session
    )
    return others_answer and not known.fault_between(start, end)


# ---------------------------------------------------------------------------------------------------------------------
# Retention


def _forgotten(report: _Report, known: Knowledge) -> None:
    """Present after an acknowledged forget [R10]."""
    for forget in known.history.forgets:
        if known.outcome(forget) is not Outcome.OK or forget.ended is None:
            continue
        for attempt in known.by_session[forget.session]:
            if attempt.sent > forget.ended or known.is_refused(attempt):
                continue
            for view in known.shown.get(attempt.id, ()):
                if view.invoked > forget.ended:
                    _report_forgotten(report, known, forget, forget.ended, attempt, view)


def _report_forgotten(
    report: _Report, known: Knowledge, forget: Forget, forgotten: int, attempt: Attempt, view: View
) -> None:
    finding = found(RESURRECTED, attempt.id)
    if not known.is_current(view, forgotten):
        if known.contract.staleness is None and view.source is Source.PRIMARY:
            report.may(UNDECIDED, finding)
        return
    is_before = known.done_by(attempt) < forget.sent
    later = [one for one in known.forgets[forget.session] if one.sent >= forget.sent]
    if any(_may_be_undone(known, one, one.ended or 0, view) for one in later if known.outcome(one) is Outcome.OK):
        report.may("undone-by-fault", finding)
    elif not known.is_current(view, _last_forgotten(known, view)):
        report.may("two-forgets", finding)
    elif _is_told_after_another(known, forget) or _is_dated_after_another(known, attempt, forget, view):
        report.may("told-after-forget", finding)
    elif is_before and not (_is_surely_before(known, attempt, forget) and _is_judged_before(known, view, forget)):
        report.may("gone-before-judged", finding)
    elif is_before and view.is_full:
        report.must(finding)
    elif is_before:
        report.must(finding, found(WINDOW, _whole(view)))
    elif _was_gone_before(known, attempt, forgotten, view):
        report.may(UNDECIDED, finding)


def _last_forgotten(known: Knowledge, view: View) -> int:
    certain = [one for one in known.forgets[view.session] if known.outcome(one) is Outcome.OK]
    return max((one.ended or 0 for one in certain if one.sent <= view.returned), default=0)


def _is_told_after_another(known: Knowledge, forget: Forget) -> bool:
    """Whether its outcome came when a later forget was known to have happened."""
    told = forget.delivered_at or NEVER
    others = [one for one in known.forgets[forget.session] if one.sent > (forget.ended or NEVER)]
    return any(known.outcome(one) is Outcome.OK and (one.delivered_at or NEVER) <= told for one in others)


def _is_dated_after_another(known: Knowledge, attempt: Attempt, forget: Forget, view: View) -> bool:
    """Whether only its outcome dates a message before a forget, and that came when a later one was acknowledged."""
    if any(one.is_full and one.returned < forget.sent for one in known.shown.get(attempt.id, ())):
        return False
    told = attempt.delivered_at or NEVER
    others = [one for one in known.forgets[forget.session] if one.sent > view.invoked]
    return any(known.outcome(one) is Outcome.OK and (one.ended or NEVER) <= told for one in others)


def _is_judged_before(known: Knowledge, view: View, forget: Forget) -> bool:
    """Whether a read of a part is followed by a full one before the session is to be forgotten again."""
    later = next((full for full in known.full[view.session] if full.invoked >= view.returned), None)
    others = [one for one in known.forgets[view.session] if one.sent > forget.sent]
    return view.is_full or (later is not None and not any(one.sent <= later.returned for one in others))


def _is_surely_before(known: Knowledge, attempt: Attempt, forget: Forget) -> bool:
    """Whether its acknowledgement or a full read dates it before a forget: no read of a participant does."""
    if known.is_acknowledged(attempt) and attempt.ended is not None and attempt.ended < forget.sent:
        return True
    return any(view.is_full and view.returned < forget.sent for view in known.shown.get(attempt.id, ()))


def _may_be_undone(known: Knowledge, forget: Forget, forgotten: int, view: View) -> bool:
    """Whether a fault may have taken the forget itself, as part of the tail, by the time the read is judged."""
    later = [full.returned for full in known.full[view.session] if full.invoked >= view.returned]
    told = [at for at in later if at <= (forget.delivered_at or NEVER)]
    judged = max([view.returned, *told]) if view.is_full else min(later, default=NEVER)
    for fault in known.lossy_faults:
        loss = known.contract.loss(fault.excuse)
        in_tail = loss is None or forgotten >= fault.started - loss
        if in_tail and forget.sent <= fault.ended and fault.started <= judged:
            return True
    return False


def _was_gone_before(known: Knowledge, attempt: Attempt, forgotten: int, view: View) -> bool:
    """Whether a read behind the forget lacked it, so that the forget must have taken it."""
    return any(
        v.invoked > forgotten and v.returned < view.invoked and attempt.id not in v.ids
        for v in known.full[attempt.id.session]
    )


def _expired(report: _Report, known: Knowledge) -> None:  # noqa: C901, PLR0912  one case after the other
    """Present after its time to live [R11]."""
    if known.contract.ttl is None:
        return
    for attempt in known.history.attempts:
        if known.is_refused(attempt):
            continue
        surely, if_nothing_prolonged_it = gone_after(known, attempt)
        if known.contract.expiry is Expiry.ABSOLUTE and known.lossy_faults:  # which may have taken what began it
            earlier = [one for one in known.by_session[attempt.id.session] if one.sent <= attempt.sent]
            if_nothing_prolonged_it = min(gone_after(known, one)[1] for one in earlier)
        for view in known.shown.get(attempt.id, ()):
            finding = found(RESURRECTED, attempt.id)
            if known.lossy_faults:
                if view.invoked > if_nothing_prolonged_it:
                    report.may("expired-in-fault", finding)
            elif _races_with_forget(known, attempt):
                report.may("raced-life", finding)
            elif (reason := _why_life_is_open(known, attempt)) is not None:
                report.may(reason, finding)
            elif known.is_current(view, surely) and _may_have_begun_since(known, attempt, view):
                report.may("late-forget", finding)
            elif known.is_current(view, surely) and not _is_told_by(known, attempt, view):
                report.may("under-way", finding)
            elif known.is_current(view, surely):
                report.must(finding, *(() if view.is_full else (found(WINDOW, _whole(view)),)))
            elif view.invoked > if_nothing_prolonged_it:
                report.may(UNDECIDED, finding)


def _may_have_begun_since(known: Knowledge, attempt: Attempt, view: View) -> bool:
    """Whether a forget in doubt may have let a later append begin another absolute life, which is not over."""
    others = known.by_session[attempt.id.session]
    doubtful = [one for one in known.forgets[attempt.id.session] if known.outcome(one) is Outcome.UNKNOWN]
    last = max(one.ended or 0 for one in others)
    is_over = view.invoked > last + (known.contract.ttl or 0) + known.staleness()
    return known.contract.expiry is Expiry.ABSOLUTE and not is_over and any(one.sent <= last for one in doubtful)


def _is_told_by(known: Knowledge, attempt: Attempt, view: View) -> bool:
    others = known.by_session[attempt.id.session]
    return all((one.delivered_at or NEVER) <= view.invoked for one in others)


def _races_with_forget(known: Knowledge, attempt: Attempt) -> bool:
    ended = NEVER if attempt.ended is None else attempt.ended
    forgets = [one for one in known.history.forgets if one.session == attempt.id.session]
    return any(one.sent <= ended and attempt.sent <= (one.ended or NEVER) for one in forgets)


def _why_life_is_open(known: Knowledge, attempt: Attempt) -> str | None:
    """Return why the verifier cannot tell when the life ended in which a message was said."""
    others = known.by_session[attempt.id.session]
    if any(one.outcome is Outcome.UNKNOWN or one.delivered_at is None for one in others):
        return "unknown-in-life"
    if known.contract.expiry is not Expiry.ABSOLUTE:
        return None
    ends = [one.sent + (known.contract.ttl or 0) for one in others]
    return "straddles-lives" if any((one.ended or NEVER) >= min(ends) for one in others) else None


def _retained_too_many(report: _Report, known: Knowledge) -> None:
    retained = known.contract.retained
    if retained is None:
        return
    for views in known.full.values():
        for view in views:
            if len(view.own) > retained:
                report.may("retained-too-many", found(WINDOW, _whole(view)))
                report.may("retained-too-many", *(found(RESURRECTED, message) for message in view.order))


# ---------------------------------------------------------------------------------------------------------------------
# Windows, reads of the last N: R4


def _windows(report: _Report, known: Knowledge) -> None:
    """Too many; or something is missing while there was room for it, or while something older stands."""
    for session, views in known.views.items():
        for view in views:
            if view.read.last is None:
                continue
            window = found(WINDOW, MessageId(session, 0, 0))
            if _is_wrong_anyway(known, view):
                report.may("wrong-anyway", window, *(found(REORDERED, message) for message in view.ids))
                missing = [a.id for a in known.by_session[session] if a.id not in view.ids]
                report.may("wrong-anyway", *(found(kind, m) for m in missing for kind in (STALE, NON_MONOTONIC)))
            if len(view.items) > view.read.last:
                report.must(window)
            for attempt in known.by_session[session]:
                if attempt.id not in view.ids and known.applied_by[attempt.id] < view.invoked:
                    _window_without(report, known, view, view.read.last, attempt)


def _window_without(report: _Report, known: Knowledge, view: View, last: int, attempt: Attempt) -> None:
    older = [message for message in view.ids if is_older(known, message, attempt)]
    has_room = len(view.items) < last
    if not known.is_refused(attempt) and any(_is_within(full, view, attempt.id) for full in known.full[view.session]):
        report.may("hole-by-order", found(WINDOW, _whole(view)))
    if known.is_refused(attempt) or not (older or has_room):
        return
    ruling = absence(known, attempt, view)
    if ruling.legit is Legit.YES:
        return
    window = found(WINDOW, _whole(view))
    is_certain = has_room or any(is_promised(known, other.writer, attempt.id.writer) for other in older)
    if ruling.legit is Legit.PERHAPS or not is_certain:
        reason = ruling.reason if is_certain else "order-not-promised"
        report.may(reason, window, found(STALE, attempt.id), found(NON_MONOTONIC, attempt.id))
        return
    if known.contract.at_least_once and not has_room:
        report.may("retries-fill-the-window", window)
        return
    kinds = [STALE, NON_MONOTONIC]
    if any(v.returned > view.returned and attempt.id not in v.ids for v in known.full[view.session]):
        kinds += [LOST, ROLLED_BACK]
    later = [full for full in known.full[view.session] if full.invoked >= view.returned]
    # What the next full read lacks, too, is a matter of absence, which has to be confirmed.
    if _is_wrong_anyway(known, view):
        report.may("wrong-anyway", window, *(found(kind, attempt.id) for kind in (*kinds, REORDERED)))
    elif _is_judged(known, view) and attempt.id in later[0].ids:
        report.must(window, *(found(kind, attempt.id) for kind in kinds))
    else:
        report.may("gone-before-judged", window, *(found(kind, attempt.id) for kind in kinds))


def _is_within(full: View, view: View, message: MessageId) -> bool:
    """Whether a full read shows a message behind something that a read of the last N had."""
    if message not in full.order:
        return False
    return any(one in view.ids for one in full.order[: full.order.index(message)])


def _whole(view: View) -> MessageId:
    return MessageId(view.session, 0, 0)


_RULES: Iterable[Rule] = (
    _absences,
    _order_in_one_read,
    _order_between_reads,
    _elements,
    _unreadable_session,
    _forgotten,
    _expired,
    _retained_too_many,
    _windows,
)
