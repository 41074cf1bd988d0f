"""Why a message that existed may be absent from a read. One function per clause of the contract.

Each returns NO (this clause does not explain the absence), YES (it does, and reporting would be a false alarm) or
PERHAPS, with a reason. A PERHAPS never has to be reported and always may be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.reference.findings import NO, YES, Legit, Ruling, perhaps
from tests.reference.history import Attempt, Expiry, Fault, Forget, MessageId, Order, Outcome, Source
from tests.reference.knowledge import NEVER, Knowledge, View

Clause = Callable[[Knowledge, Attempt, View], Ruling]


def absence(known: Knowledge, attempt: Attempt, view: View) -> Ruling:
    """Rule on one message that was applied and that this read does not show."""
    key = (attempt.id, id(view))
    ruling = known.rulings.get(key)
    if ruling is None:
        ruling = known.rulings[key] = _absence(known, attempt, view)
    return ruling


def _absence(known: Knowledge, attempt: Attempt, view: View) -> Ruling:
    required = _required(known, attempt, view)
    if required.legit is Legit.YES:
        return YES
    best = required
    for is_relevant, clause in _CLAUSES:
        if not is_relevant(known):
            continue
        ruling = clause(known, attempt, view)
        if ruling.legit is Legit.YES:
            return _removed_for_good(known, attempt, view)
        if ruling.legit > best.legit:
            best = ruling
    return best


def _required(known: Knowledge, attempt: Attempt, view: View) -> Ruling:
    """Rule on freshness: shown from its acknowledgement or first sight on, plus the staleness bound; monotonically."""
    applied_by = known.applied_by[attempt.id]
    if view.invoked <= applied_by or known.is_tolerated(view):
        return YES
    if known.is_current(view, applied_by):
        return NO
    if known.contract.staleness is not None and view.is_full and view.source is Source.PRIMARY:
        return NO  # reads may be behind the primary, and the primary is behind nothing
    if known.contract.staleness is None and view.is_full:
        return _required_eventually(known, attempt, view)
    return _required_again(known, attempt, view)


def _required_again(known: Knowledge, attempt: Attempt, view: View) -> Ruling:
    """Rule on what a read that may be behind need not show, unless an earlier one of the same source had shown it."""
    earlier = [v for v in known.shown.get(attempt.id, ()) if v.returned < view.invoked and v.source is view.source]
    if not earlier:
        return YES
    full = [v for v in earlier if v.is_full]
    if full and all(_may_be_of_before_a_forget(known, attempt, v) for v in full):
        return perhaps("eventual-monotonic")
    return NO if view.is_full and full else YES


def _may_be_of_before_a_forget(known: Knowledge, attempt: Attempt, view: View) -> bool:
    """Whether a read that may be behind a forget showed it in flight: that is not remembered as seen."""
    in_flight = (attempt.delivered_at or NEVER) > view.returned
    forgets = [one for one in known.forgets[view.session] if known.outcome(one) is Outcome.OK]
    return in_flight and any(
        one.sent <= view.returned and not known.is_current(view, one.ended or NEVER) for one in forgets
    )


def _required_eventually(known: Knowledge, attempt: Attempt, view: View) -> Ruling:
    shown = known.shown.get(attempt.id, ())
    if not any(v.returned > view.returned for v in shown):
        return NO  # eventually is over when the history is
    if view.source is Source.PRIMARY:
        return perhaps("eventual-late")
    earlier = [v for v in shown if v.returned < view.invoked and v.source is view.source]
    if any(v.is_full for v in earlier):
        return perhaps("eventual-monotonic")
    return perhaps("other-reader") if earlier else YES


def _removed_for_good(known: Knowledge, attempt: Attempt, view: View) -> Ruling:
    """Nothing that was removed within the contract comes back: if it does, the clause did not explain the absence."""
    for later in known.shown.get(attempt.id, ()):
        if later.invoked > view.returned and known.is_current(later, view.returned):
            if _is_forgotten(known, attempt, view):
                return YES  # what came back was resurrected, its absence was right
            return perhaps("undone-by-fault") if known.lossy_faults else perhaps()
    return YES


def by_eviction(known: Knowledge, attempt: Attempt, view: View) -> Ruling:
    return YES if known.contract.eviction else NO


def by_unreadable_item(known: Knowledge, attempt: Attempt, view: View) -> Ruling:
    return perhaps("unreadable-in-its-place") if view.has_unreadable else NO


# ---------------------------------------------------------------------------------------------------------------------
# Forgets, by rule R10


def by_forget(known: Knowledge, attempt: Attempt, view: View) -> Ruling:
    """Rule by the best excuse that any forget of the session gives."""
    rulings = [_by_one_forget(known, attempt, view, forget) for forget in known.forgets[attempt.id.session]]
    return max(rulings, default=NO, key=lambda ruling: ruling.legit)


def _certainly_forgotten(known: Knowledge, attempt: Attempt, forget: Forget, view: View) -> bool:
    is_done = known.outcome(forget) is Outcome.OK and forget.ended is not None and forget.ended < view.returned
    return is_done and known.applied_by[attempt.id] < forget.sent


def _by_one_forget(  # noqa: PLR0911  one ruling a line
    known: Knowledge, attempt: Attempt, view: View, forget: Forget
) -> Ruling:
    outcome = known.outcome(forget)
    if view.returned < forget.sent:
        return NO
    if outcome is Outcome.FAILED:
        told = NEVER if forget.delivered_at is None else forget.delivered_at
        return perhaps("during-open-forget") if view.invoked <= told else NO
    if outcome is Outcome.UNKNOWN or forget.ended is None:
        return _by_unknown_forget(known, attempt, view, forget)
    if known.applied_by[attempt.id] < forget.sent:
        return YES
    if attempt.sent > forget.ended and _may_be_undone(known, forget, view):
        return perhaps("undone-by-fault")
    if attempt.sent > forget.ended and view.invoked <= (forget.delivered_at or NEVER):
        return perhaps("during-open-forget")
    if attempt.sent > forget.ended:
        return NO if attempt.delivered_at is not None else perhaps()
    ruling = _by_race(known, attempt, view, forget, forget.ended)
    is_open = view.invoked <= (forget.delivered_at or NEVER)
    return perhaps("during-open-forget") if ruling.legit is Legit.NO and is_open else ruling


def _may_be_undone(known: Knowledge, forget: Forget, view: View) -> bool:
    """Whether a fault may have undone the forget: then it is in doubt, and so is what it has to do with."""
    for fault in known.history.faults:
        loss = known.contract.loss(fault.excuse)
        reach = fault.started - loss if loss is not None else 0
        if loss != 0 and reach <= (forget.ended or 0) <= fault.ended and fault.started <= view.returned:
            return True
    return False


def _by_race(known: Knowledge, attempt: Attempt, view: View, forget: Forget, forgotten: int) -> Ruling:
    """Rule on what was in flight together with an acknowledged forget."""
    behind = [v for v in known.shown.get(attempt.id, ()) if v.invoked > forgotten]
    firm = [v for v in behind if known.is_current(v, forgotten)]
    if any(v.returned < view.invoked for v in firm):
        return perhaps() if _excuse_stays(known) else NO
    if behind or _follows_one_shown_behind(known, attempt, forgotten):
        return perhaps()
    return YES


def _excuse_stays(known: Knowledge) -> bool:
    """Whether what raced with a forget stays excused although a read has shown it behind the forget."""
    contract = known.contract
    drops_by_itself = contract.ttl is not None or contract.retained is not None or contract.eviction
    return drops_by_itself or contract.staleness is None


def _follows_one_shown_behind(known: Knowledge, attempt: Attempt, forgotten: int) -> bool:
    """Whether a message that was acknowledged before this one was sent has survived the forget."""
    return any(
        view.invoked > forgotten
        for other in known.by_session[attempt.id.session]
        if known.is_before(other.id, attempt)
        for view in known.shown.get(other.id, ())
    )


def _by_unknown_forget(known: Knowledge, attempt: Attempt, view: View, forget: Forget) -> Ruling:
    """Rule on a forget that may take effect late; the page says so of appends only."""
    ended = NEVER if forget.ended is None or forget.delivered_at is None else forget.ended
    if attempt.sent > ended or any(v.invoked > ended for v in known.shown.get(attempt.id, ())):
        return perhaps("late-forget")
    return YES


# ---------------------------------------------------------------------------------------------------------------------
# Faults: R7, R8, R9


def by_fault(known: Knowledge, attempt: Attempt, view: View) -> Ruling:
    """Rule by the best excuse that any fault gives."""
    best = NO
    for fault in known.lossy_faults:
        ruling = _by_one_fault(known, attempt, view, fault)
        if ruling.legit > best.legit:
            best = ruling
    return best


def _by_one_fault(  # noqa: PLR0911  one ruling a line
    known: Knowledge, attempt: Attempt, view: View, fault: Fault
) -> Ruling:
    if view.returned < fault.started:
        return NO
    acknowledged = known.is_acknowledged(attempt)
    if acknowledged and attempt.ended is not None and attempt.ended > fault.ended:
        return NO  # acknowledged after recovery
    if acknowledged and attempt.sent > fault.injected + known.history.clock_epsilon and not fault.leaves_old:
        return NO  # sent when the server was down, so the one that came back acknowledged it
    shown_after = [v for v in known.shown.get(attempt.id, ()) if v.invoked >= fault.ended]
    if any(v.source is Source.PRIMARY for v in shown_after):
        return perhaps("during-fault") if view.invoked < fault.ended else NO
    if attempt.sent > fault.ended:
        return NO if attempt.delivered_at is not None else perhaps()
    if _was_missed_before(known, attempt, fault):
        return perhaps()
    loss = known.contract.loss(fault.excuse)
    if loss is None:
        return perhaps() if shown_after else YES
    ruling, sight = _by_tail(known, attempt, fault, loss), _by_sight(known, attempt, view)
    if ruling.legit is Legit.NO or sight.legit is Legit.NO:
        return NO
    if sight.legit is Legit.PERHAPS:
        return sight
    return perhaps() if shown_after and ruling.legit is Legit.YES else ruling


def _was_missed_before(known: Knowledge, attempt: Attempt, fault: Fault) -> bool:
    """Whether the last full read before a fault lacked it already."""
    applied = known.applied_by[attempt.id]
    before = [v for v in known.full[attempt.id.session] if v.returned < fault.started and v.invoked > applied]
    return bool(before) and attempt.id not in before[-1].ids and known.is_current(before[-1], applied)


def dates(known: Knowledge, attempt: Attempt, fault: Fault) -> tuple[int, int]:
    """Return the earliest and the latest time to date a message by [R8].

    The law's date is the later one: the acknowledgement, or the last read that showed an unknown write.
    """
    shown = [v for v in known.shown.get(attempt.id, ()) if v.invoked < fault.ended]
    first = min((v.invoked for v in shown), default=NEVER)
    if known.is_acknowledged(attempt) and attempt.ended is not None:
        return min(first, attempt.ended), attempt.ended
    return first, max((v.returned for v in shown), default=0)


def _by_tail(known: Knowledge, attempt: Attempt, fault: Fault, loss: int) -> Ruling:
    """Only a contiguous tail before the fault is excused, no longer than promised."""
    first, last = dates(known, attempt, fault)
    if first == NEVER:
        return perhaps()  # an unknown write that only a replica has shown, after the fault
    if last < fault.started - loss:
        return NO
    hole = _hole(known, fault, first, last)
    if hole.legit is Legit.NO:
        return NO
    # Death came between the announcement and the injection: what is too old for one of the two only is undecided.
    if first <= fault.survived_until - loss:
        return perhaps()
    # What an old primary acknowledges until it is demoted is part of the tail.
    if last > fault.injected and not fault.leaves_old:
        return perhaps("acknowledged-during-fault")
    return hole


def _hole(known: Knowledge, fault: Fault, first: int, last: int) -> Ruling:
    """Rule by survivors, of any session: applied after this one, before the fault took effect, and still there."""
    best = YES
    for other in known.history.attempts:
        if other.sent <= first or known.is_refused(other) or not _is_known_applied(known, other, fault):
            continue
        after = [v for v in known.shown.get(other.id, ()) if v.invoked >= fault.ended]
        if not after:
            continue
        told = NEVER if other.delivered_at is None else other.delivered_at
        is_proof = other.sent > last and told <= _swept_by(known, fault)
        swept_at = _swept_at(known, fault)
        if is_proof and any(v.source is Source.PRIMARY and v.is_full and v.invoked <= swept_at for v in after):
            return NO
        best = perhaps()
    return best


def _by_sight(known: Knowledge, attempt: Attempt, view: View) -> Ruling:
    """Rule by what one read showed together with it: a log that keeps the later of two keeps the earlier, too [R7]."""
    if known.contract.at_least_once or known.contract.staleness is None or not known.is_acknowledged(attempt):
        return YES
    together = [v for v in known.shown.get(attempt.id, ()) if v.returned < view.invoked]
    later = [
        other.id
        for other in known.by_session[attempt.id.session]
        if not known.is_refused(other) and other.sent > (attempt.ended or NEVER) and other.id in known.shown
    ]
    if not any(other in v.ids for v in together for other in later):
        return YES
    left = [other for other in later if other in view.ids]
    full = [v for v in known.full[view.session] if v.returned < view.invoked]
    last = max((n for n, v in enumerate(full) if attempt.id in v.ids), default=None)
    if last is None or not _is_simple(known, view):
        return perhaps("new-primary")
    seen = full[last]
    settled = [m for n, m in enumerate(seen.order) if _are_told(known, seen.order[: n + 1], seen.invoked)]
    if attempt.id in settled and any(other in settled for other in left):
        return NO
    return perhaps("new-primary")


def _is_simple(known: Knowledge, view: View) -> bool:
    """Whether one source was read of a session that keeps everything."""
    contract = known.contract
    drops = contract.retained is not None or contract.ttl is not None or bool(known.forgets[view.session])
    return contract.staleness == 0 and not drops


def _are_told(known: Knowledge, messages: Sequence[MessageId], by: int) -> bool:
    """Whether the outcomes of messages had come by then."""
    attempts = [known.attempts.get(message) for message in messages]
    return all(one is not None and (one.delivered_at or NEVER) <= by for one in attempts)


def _swept_by(known: Knowledge, fault: Fault) -> int:
    """Return when the first session had been read after a fault: who survived has to be known by then."""
    after = [v.invoked for views in known.full.values() for v in views if v.invoked > fault.ended]
    return min(after, default=NEVER)


def _swept_at(known: Knowledge, fault: Fault) -> int:
    """Return when the last session was read for the first time after a fault: who survived is collected until then."""
    behind = fault.ended + (known.contract.staleness or 0)
    return max(
        (min((v.invoked for v in views if v.invoked > behind), default=NEVER) for views in known.full.values()),
        default=NEVER,
    )


def _is_known_applied(known: Knowledge, attempt: Attempt, fault: Fault) -> bool:
    """Whether it was known to be applied by the moment the fault took effect [R7]."""
    return known.done_by(attempt) <= fault.survived_until


# ---------------------------------------------------------------------------------------------------------------------
# Retention, the last N: R4


def _may_stand_behind(known: Knowledge, attempt: Attempt, view: View) -> list[Attempt]:
    return [
        other
        for other in known.by_session[attempt.id.session]
        if other is not attempt
        and other.sent <= view.returned
        and not known.is_refused(other)
        and not known.is_before(other.id, attempt)
    ]


def _own(known: Knowledge, view: View) -> int:
    """Count the messages of the session that a read shows, without those that have no business there."""
    attempts = [known.attempts[message] for message in view.ids if message in known.attempts]
    return sum(not known.is_refused(attempt) and not _is_forgotten(known, attempt, view) for attempt in attempts)


def _is_forgotten(known: Knowledge, attempt: Attempt, view: View) -> bool:
    return any(_certainly_forgotten(known, attempt, forget, view) for forget in known.forgets[attempt.id.session])


def by_trimming(  # noqa: C901, PLR0911  one ruling a line
    known: Knowledge, attempt: Attempt, view: View
) -> Ruling:
    """Trimmed if so many may stand behind it, and nothing older stands while it does not."""
    retained = known.contract.retained
    if retained is None:
        return NO
    behind = _may_stand_behind(known, attempt, view)
    newer = len(behind)
    if _own(known, view) < retained <= newer:
        return perhaps()  # there is room for it, but something else may have been lost since
    later = (v for v in known.full[attempt.id.session] if v.invoked > attempt.sent)
    first = next((v for v in later if attempt.id not in v.ids), view)
    if is_something_untold(known, attempt, first):
        return perhaps("may-be-in-flight")  # it may have been taken for trimmed when it was first missed
    vanished = sum(other.id not in view.ids for other in _shown_unknown(known, attempt))
    if newer < retained <= newer + vanished:
        return perhaps("may-be-in-flight")
    unsent = sum(message not in known.attempts for message in view.ids)
    if newer < retained <= newer + unsent:
        return perhaps("sent-later")
    writers = {other.id.writer for other in known.by_session[attempt.id.session]}
    if newer < retained <= newer + len(writers) and is_something_untold(known, attempt, view):
        return perhaps("may-be-in-flight")
    has_repeats = any(count > 1 for full in known.full[attempt.id.session] for count in full.counts.values())
    if has_repeats and _own(known, view) >= retained:
        return perhaps("order-not-promised")  # the second copy of an older one may stand there
    if newer < retained:
        return perhaps("retries-fill-the-window") if newer and known.contract.at_least_once else NO
    older = [other for other in view.ids if is_older(known, other, attempt)]
    if not older:
        return YES
    if _was_shown_in_front(known, attempt, older):
        return perhaps("order-not-promised")  # of an order that is wrong which are the last?
    if any((known.attempts[other].delivered_at or NEVER) > view.returned for other in older):
        return perhaps("may-be-in-flight")
    if any(is_promised(known, other.writer, attempt.id.writer) for other in older):
        return NO if attempt.delivered_at is not None and not known.contract.at_least_once else perhaps()
    return perhaps("order-not-promised")


def _was_shown_in_front(known: Knowledge, attempt: Attempt, older: list[MessageId]) -> bool:
    """Whether a full read had shown a message in front of all that is older than it."""
    return any(
        attempt.id in full.ids and not any(one in full.order[: full.order.index(attempt.id)] for one in older)
        for full in known.full[attempt.id.session]
        if any(one in full.ids for one in older)
    )


def _shown_unknown(known: Knowledge, attempt: Attempt) -> list[Attempt]:
    """Return the unknown appends of the session that a read has shown."""
    others = known.by_session[attempt.id.session]
    return [other for other in others if not known.is_acknowledged(other) and other.id in known.shown]


def is_something_untold(known: Knowledge, attempt: Attempt, view: View) -> bool:
    """Whether some outcome of the session had not reached the verifier when this read returned."""
    others = known.by_session[attempt.id.session]
    return any(other.delivered_at is None or other.delivered_at > view.returned for other in others)


def is_older(known: Knowledge, message: object, attempt: Attempt) -> bool:
    """Whether that message was certainly applied, and before this one was sent."""
    other = known.attempts.get(message)  # type: ignore[call-overload]
    if other is None or other is attempt or known.is_refused(other):
        return False
    return known.is_before(other.id, attempt)


def is_promised(known: Knowledge, one_writer: int, other_writer: int) -> bool:
    """Whether the contract promises an order between messages of these writers."""
    order = known.contract.order
    return order is Order.REALTIME or (order is Order.PER_WRITER and one_writer == other_writer)


# ---------------------------------------------------------------------------------------------------------------------
# Retention, time to live: R11


def by_expiry(  # noqa: PLR0911  one ruling a line
    known: Knowledge, attempt: Attempt, view: View
) -> Ruling:
    """Expired if its life may have ended by the time the read returned."""
    if known.contract.ttl is None:
        return NO
    surely, if_unknown_writes_are_late = exist_until(known, attempt)
    if (
        known.contract.expiry is Expiry.SLIDING
        and _sliding_until(known, attempt, view.invoked) <= view.returned < surely
    ):
        return perhaps()  # what prolonged its life was not known yet
    if known.contract.expiry is Expiry.SLIDING and surely <= view.returned < _sliding_until(known, attempt, lossy=True):
        return perhaps()  # unless a fault took what had prolonged it
    if view.returned < surely:
        if known.contract.expiry is Expiry.ABSOLUTE and _begun_as_told(known, attempt) <= view.returned:
            return perhaps("late-life")
        if known.contract.expiry is Expiry.ABSOLUTE and is_something_untold(known, attempt, view):
            return perhaps("begun-untold")
        return NO if attempt.delivered_at is not None else perhaps()
    if view.returned < attempt.sent + known.contract.ttl and _is_shown_behind_a_forget(known, attempt):
        return perhaps()  # then its life has begun behind that, too
    return perhaps("late-life") if view.returned < if_unknown_writes_are_late else YES


def _is_shown_behind_a_forget(known: Knowledge, attempt: Attempt) -> bool:
    done = [one for one in known.forgets[attempt.id.session] if known.outcome(one) is Outcome.OK]
    return any(view.invoked > (one.ended or NEVER) for one in done for view in known.shown.get(attempt.id, ()))


def _begun_as_told(known: Knowledge, attempt: Attempt) -> int:
    """Return when a life may end that an unknown append began, as it seems if that is told after a forget."""
    told = [
        other.sent + (known.contract.ttl or 0)
        for other in known.by_session[attempt.id.session]
        for forget in known.forgets[attempt.id.session]
        if other.outcome is Outcome.UNKNOWN and forget.sent <= (other.delivered_at or 0)
    ]
    return min(told, default=NEVER)


def exist_until(known: Knowledge, attempt: Attempt) -> tuple[int, int]:
    """Return until when it must exist, surely and if no unknown write began its life late."""
    cached = known.exist_until.get(attempt.id)
    if cached is None:
        is_sliding = known.contract.expiry is Expiry.SLIDING
        cached = (_sliding_until(known, attempt),) * 2 if is_sliding else _absolute_until(known, attempt)
        known.exist_until[attempt.id] = cached
    return cached


def _sliding_until(known: Knowledge, attempt: Attempt, told_by: int = NEVER, *, lossy: bool = False) -> int:
    """Each append that certainly came while the session lived, and was known by then, gives it another life."""
    ttl = known.contract.ttl or 0
    until = attempt.sent + ttl
    for other in sorted(known.by_session[attempt.id.session], key=lambda a: a.sent):
        is_certain = known.applied_by[other.id] < until and not known.is_refused(other)
        is_told = other.delivered_at is not None and other.delivered_at <= told_by
        if is_certain and is_told and (lossy or not may_be_undone(known, other)):
            until = max(until, other.sent + ttl)
    return until


def may_be_undone(known: Knowledge, attempt: Attempt, by: int = NEVER) -> bool:
    """Whether a fault that had begun by then may have taken an append, with the tail before it."""
    for fault in known.lossy_faults:
        loss = known.contract.loss(fault.excuse)
        is_older = (
            known.is_acknowledged(attempt) and loss is not None and (attempt.ended or NEVER) < fault.started - loss
        )
        if fault.started <= by and attempt.sent <= fault.ended and not is_older:
            return True
    return False


def _absolute_until(known: Knowledge, attempt: Attempt) -> tuple[int, int]:
    """Find the earliest of the attempts with which its life may have begun."""
    ttl = known.contract.ttl or 0
    own = attempt.sent + ttl
    starters = [other for other in known.by_session[attempt.id.session] if _may_begin_life_of(known, other, attempt)]
    certain = [other for other in starters if known.applied_by[other.id] < NEVER]
    unknown = [other for other in starters if known.applied_by[other.id] == NEVER]
    until = min([own, *(other.sent + ttl for other in certain)])
    first = [other for other in unknown if not _joins_a_life(known, other)]
    return (
        min([until, *(other.sent + ttl for other in unknown)]),
        min([until, *(other.sent + ttl for other in first)]),
    )


def _joins_a_life(known: Knowledge, attempt: Attempt) -> bool:
    """Whether something certainly stood before this attempt was sent, in a life that may have gone on."""
    return any(
        known.is_before(other.id, attempt) and not known.is_refused(other) and not _is_over(known, other, attempt)
        for other in known.by_session[attempt.id.session]
    )


def _may_begin_life_of(known: Knowledge, other: Attempt, attempt: Attempt) -> bool:
    if other is attempt or known.is_refused(other) or other.sent > known.applied_by[attempt.id]:
        return False
    if _is_over(known, other, attempt):
        return False
    return not any(is_same_life(known, earlier, other) for earlier in known.by_session[attempt.id.session])


def _is_over(known: Knowledge, earlier: Attempt, later: Attempt) -> bool:
    """Whether an absolute life in which the earlier one stood was certainly over when the later one was sent."""
    applied = known.applied_by[earlier.id]
    if not known.is_acknowledged(earlier):  # of which no read of a participant tells when it was applied
        full = (view.returned for view in known.shown.get(earlier.id, ()) if view.is_full)
        applied = NEVER if known.contract.at_least_once else min(full, default=NEVER)  # a copy may come at any time
    if applied + (known.contract.ttl or 0) < later.sent:
        return True
    return not known.lossy_faults and any(  # a fault that takes the forget brings the old life back
        known.outcome(forget) is Outcome.OK
        and forget.ended is not None
        and applied < forget.sent
        and forget.ended < later.sent
        for forget in known.forgets[later.id.session]
    )


def is_same_life(known: Knowledge, earlier: Attempt, later: Attempt) -> bool:
    """Whether the later one certainly joined a life in which the earlier one stood already."""
    if not known.is_before(earlier.id, later) or known.is_refused(earlier) or known.lossy_faults:
        return False
    applied = known.done_by(later)
    if applied == NEVER or applied >= exist_until(known, earlier)[0]:
        return False
    return not any(
        known.outcome(forget) is not Outcome.FAILED
        and forget.sent <= applied
        and (forget.ended is None or known.outcome(forget) is Outcome.UNKNOWN or forget.ended >= earlier.sent)
        for forget in known.forgets[later.id.session]
    )


def gone_after(known: Knowledge, attempt: Attempt) -> tuple[int, int]:
    """Return when it must certainly be gone, and when it must be if no unknown write prolonged its life."""
    lives_from = _lives_from(known, attempt)
    ttl = known.contract.ttl
    if ttl is None or lives_from == NEVER:
        return NEVER, NEVER
    if known.contract.expiry is Expiry.SLIDING:
        return _sliding_gone_after(known, attempt, ttl)
    joined = [other for other in known.by_session[attempt.id.session] if is_same_life(known, other, attempt)]
    gone = min([lives_from, *(_lives_from(known, other) for other in joined)]) + ttl
    return gone, gone


def _lives_from(known: Knowledge, attempt: Attempt) -> int:
    """Return when its time to live has begun for certain: with its acknowledgement, also if a read showed it before."""
    is_acknowledged = known.is_acknowledged(attempt) and attempt.ended is not None
    return attempt.ended if is_acknowledged and attempt.ended is not None else known.done_by(attempt)


def _sliding_gone_after(known: Knowledge, attempt: Attempt, ttl: int) -> tuple[int, int]:
    gone = _lives_from(known, attempt) + ttl
    is_certain = True
    for other in sorted(known.by_session[attempt.id.session], key=lambda a: a.sent):
        if other.sent > gone or known.is_refused(other):
            continue
        lives_from = _lives_from(known, other)
        if lives_from == NEVER:
            is_certain = False
        else:
            gone = max(gone, lives_from + ttl)
    return (gone if is_certain else NEVER), gone


_CLAUSES: tuple[tuple[Callable[[Knowledge], object], Clause], ...] = (
    (lambda known: known.contract.eviction, by_eviction),
    (lambda known: known.history.forgets, by_forget),
    (lambda known: known.contract.ttl, by_expiry),
    (lambda known: known.contract.retained, by_trimming),
    (lambda known: known.lossy_faults, by_fault),
    (bool, by_unreadable_item),
)
"""Each with the quick question whether it can matter in this history."""
