"""Flaws to plant into a simulated store, in motion: each picks a victim whose fate a reader can prove.

A flaw returns the store as it then is, or None where this run gives it no occasion. What it picks is decided from the
simulation alone, not with the judge's own rules, so that what the judge misses stays visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace

from tests.reference.failover import Failover
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
    UNDECODABLE,
    WINDOW,
)
from tests.reference.history import (
    SECOND,
    VERIFIER,
    Attempt,
    Contract,
    Expiry,
    Fault,
    MessageId,
    Micros,
    Order,
    Outcome,
    Source,
)
from tests.reference.simulation import Simulation, Slot
from tests.reference.store import NEVER, Op, Store

Plant = Callable[[Simulation], Store | None]

ABSENT = frozenset({LOST, ROLLED_BACK})
HIDDEN = frozenset({STALE, NON_MONOTONIC, LOST, ROLLED_BACK})


def _broken(run: Simulation) -> Store:
    """Return a copy of the store to spoil."""
    return Store(run.contract, [copy(op) for op in run.ops], run.contract.ttl)


def _acknowledged(run: Simulation) -> list[Attempt]:
    found = [a for a in run.attempts if a.outcome is Outcome.OK and a.delivered_at is not None]
    run.random.shuffle(found)
    return found


def _op(store: Store, message: MessageId) -> Op | None:
    return next((op for op in store.ops if op.message == message and op.session == message.session), None)


def _ops(store: Store, message: MessageId) -> list[Op]:
    """Return all copies: a store that retries may have several."""
    return [op for op in store.ops if op.message == message and op.session == message.session]


def _showing(run: Simulation, message: MessageId, *, source: Source | None = Source.PRIMARY) -> list[Slot]:
    """Return the verifier's reads that would show a message if nothing went wrong."""
    store = run.correct_store()
    return [
        slot
        for slot in run.slots
        if slot.session == message.session
        and slot.reader == VERIFIER
        and not slot.raises
        and (source is None or slot.source is source)
        and any(op.message == message for op in run.standing(store, slot))
    ]


def _fresh_from(contract: Contract, since: Micros) -> Micros:
    return NEVER if contract.staleness is None else since + contract.staleness


def _has_excuse(run: Simulation, attempt: Attempt, until: Micros, seen: Micros = 0) -> bool:
    """Whether something in the run might explain why the message, shown when it was, is gone before that time."""
    if run.contract.eviction:
        return True
    ended = attempt.ended or NEVER
    for forget in run.forgets:
        is_harmless = forget.delivered_at is not None and (
            forget.outcome is Outcome.FAILED
            or (forget.outcome is Outcome.OK and (forget.ended or 0) < max(attempt.sent, seen))
        )
        if forget.session == attempt.id.session and not is_harmless and forget.sent < until:
            return True
    for fault in run.faults:
        loss = run.contract.loss(fault.excuse)
        if fault.ended >= attempt.sent and loss != 0 and (loss is None or ended >= fault.started - loss):
            return True
    return _may_be_trimmed(run, attempt) or until > _may_expire_from(run, attempt)


def _may_be_trimmed(run: Simulation, attempt: Attempt) -> bool:
    if run.contract.retained is None:
        return False
    behind = [
        a
        for a in run.attempts
        if a.id.session == attempt.id.session
        and a.id != attempt.id
        and not (a.outcome is Outcome.OK and a.delivered_at is not None and (a.ended or NEVER) < attempt.sent)
    ]
    return len(behind) >= run.contract.retained


def _may_expire_from(run: Simulation, attempt: Attempt) -> Micros:
    if run.contract.ttl is None:
        return NEVER
    if run.contract.expiry is Expiry.SLIDING:
        return attempt.sent + run.contract.ttl
    return min(a.sent for a in run.attempts if a.id.session == attempt.id.session) + run.contract.ttl


def _two_looks(run: Simulation, slots: Iterable[Slot], after: Micros) -> tuple[Slot, Slot] | None:
    """Return two reads that would show it and that confirm each other, with no fault in between."""
    later = [slot for slot in slots if slot.invoked > after]
    for first in later:
        for second in later:
            is_quiet = not any(
                f.started <= second.returned and second.invoked - run.settle <= f.ended for f in run.faults
            )
            if second.invoked >= first.returned + run.settle and is_quiet:
                return first, second
    return None


# ---------------------------------------------------------------------------------------------------------------------
# Loss


def drop(run: Simulation) -> Store | None:
    """Lose an acknowledged message, at once or later."""
    return _drop(run, _acknowledged(run))


def _drop(run: Simulation, victims: Iterable[Attempt], *, after_seen: bool = False) -> Store | None:
    for attempt in victims:
        showing = _showing(run, attempt.id)
        since = _fresh_from(replace(run.contract, staleness=run.contract.staleness or 0), attempt.ended or 0)
        since = max(since, attempt.delivered_at or 0)
        seen = [slot for slot in showing if slot.returned > attempt.sent]
        if after_seen and not seen:
            continue
        gone = seen[0].taken + 1 if after_seen else run.random.choice((attempt.sent, attempt.ended or 0, since))
        looks = _two_looks(run, showing, max(gone, since))
        shown = seen[0].invoked if after_seen and run.contract.staleness == 0 else 0
        if looks and not _has_excuse(run, attempt, looks[1].returned, shown):
            store = _broken(run)
            for op in _ops(store, attempt.id):
                op.lost_at = max(gone, op.at)
            return store
    return None


def drop_after_seen(run: Simulation) -> Store | None:
    """Lose a message that a read has shown."""
    return _drop(run, _acknowledged(run), after_seen=True)


def newest_lost(run: Simulation) -> Store | None:
    """Lose the newest of the last N, with an older one in its place."""
    if run.contract.retained is None:
        return None
    return _drop(run, sorted(_acknowledged(run), key=lambda attempt: -attempt.sent)[:2])


def dirty_read(run: Simulation) -> Store | None:
    """Show a message and take it back; its outcome is unknown or never arrives."""
    for attempt in _acknowledged(run):
        showing = _showing(run, attempt.id)
        for seen in showing:
            looks = _two_looks(run, showing, seen.returned)
            if not looks or _has_excuse(run, attempt, looks[1].returned):
                continue
            if any(run.contract.loss(f.excuse) != 0 and f.ended >= attempt.sent for f in run.faults):
                continue
            store = _broken(run)
            for op in _ops(store, attempt.id):
                op.lost_at = max(seen.taken + 1, op.at)
            delivered = run.random.choice((None, attempt.delivered_at))
            _change(run, attempt, replace(attempt, outcome=Outcome.UNKNOWN, delivered_at=delivered))
            return store
    return None


def _change(run: Simulation, attempt: Attempt, changed: Attempt) -> None:
    run.attempts[run.attempts.index(attempt)] = changed


def refused_but_visible(run: Simulation) -> Store | None:
    """Refuse a message and show it, for ever or for a while."""
    for attempt in _acknowledged(run):
        showing = _showing(run, attempt.id, source=None)
        if showing:
            store = _broken(run)
            if run.random.random() < 0.5:
                for op in _ops(store, attempt.id):
                    op.lost_at = max(showing[0].taken + 1, op.at)
            _change(run, attempt, replace(attempt, outcome=Outcome.FAILED))
            return store
    return None


def hole_in_tail(run: Simulation) -> Store | None:
    """Lose one message of the tail that a crash may take, and keep later ones."""
    for fault in _lossy(run):
        after = [slot for slot in run.slots if slot.invoked >= fault.ended]
        for victim in _acknowledged(run):
            if not fault.injected - (run.contract.loss(fault.excuse) or 0) < (victim.ended or 0) <= fault.injected:
                continue
            store = _spared(run, fault)
            survivors = [
                a
                for a in _acknowledged(run)
                if a.sent > (victim.ended or NEVER)
                and (a.ended or NEVER) <= fault.injected
                and _stands(run, store, a.id, after)
            ]
            forgotten = any(f.session == victim.id.session and f.ended for f in run.forgets)
            if (
                survivors
                and not forgotten
                and _stands(run, store, victim.id, after)
                and not _may_be_trimmed(run, victim)
            ):
                for op in _ops(store, victim.id):
                    op.lost_at = fault.injected
                return store
    return None


def tail_too_long(run: Simulation) -> Store | None:
    """Lose more of the tail in a crash than was promised."""
    for fault in run.faults:
        loss = run.contract.loss(fault.excuse)
        if loss is None or fault.target is Source.REPLICA or len(run.faults) > 1 or fault.leaves_old:
            continue
        limit = fault.started - loss
        store = _spared(run, fault)
        after = [slot for slot in run.slots if slot.invoked >= fault.ended]
        for victim in _acknowledged(run):
            forgotten = any(f.session == victim.id.session for f in run.forgets)
            if (victim.ended or 0) >= limit or forgotten or run.contract.eviction or _may_be_trimmed(run, victim):
                continue
            looks = _two_looks(run, _showing(run, victim.id), fault.ended)
            op = _op(store, victim.id)
            if (
                op
                and _stands(run, store, victim.id, after)
                and looks
                and looks[1].returned < _may_expire_from(run, victim)
            ):
                for other in store.ops:
                    if op.at <= other.at <= fault.injected:
                        other.lost_at = fault.injected
                return store
    return None


def _lossy(run: Simulation) -> list[Fault]:
    if len(run.faults) > 1:
        return []  # the other one might explain it
    return [f for f in run.faults if f.target is Source.PRIMARY and run.contract.loss(f.excuse) and not f.leaves_old]


def _spared(run: Simulation, fault: Fault) -> Store:
    """Return the store as if this fault had taken nothing."""
    store = _broken(run)
    for op in store.ops:
        if op.lost_at == fault.injected:
            op.lost_at = NEVER
    return store


def _stands(run: Simulation, store: Store, message: MessageId, slots: Iterable[Slot]) -> bool:
    """Whether at least two full reads of the primary would show it."""
    shows = [
        slot
        for slot in slots
        if slot.session == message.session
        and slot.reader == VERIFIER
        and slot.source is Source.PRIMARY
        and not slot.raises
        and any(op.message == message for op in run.standing(store, slot))
    ]
    return len(shows) > 1


# ---------------------------------------------------------------------------------------------------------------------
# Reads


def hide_then_show(run: Simulation) -> Store | None:
    """Show an acknowledged message late."""
    return _hide(run, seen_before=False)


def hide_what_was_seen(run: Simulation) -> Store | None:
    """Hide a message that was shown, for a while."""
    return _hide(run, seen_before=True)


def _hide(run: Simulation, *, seen_before: bool) -> Store | None:
    for attempt in _acknowledged(run):
        showing = _showing(run, attempt.id)
        fresh = _fresh_from(run.contract, attempt.ended or 0)
        for index, slot in enumerate(showing[:-1]):
            if slot.invoked <= fresh or (seen_before and index == 0) or _has_excuse(run, attempt, slot.returned):
                continue
            store = _broken(run)
            start = showing[index - 1].taken + 1 if seen_before else 0
            for op in _ops(store, attempt.id):
                op.hidden = (start, run.random.randint(slot.taken + 1, showing[index + 1].taken))
            return store
    return None


def hole_in_window(run: Simulation) -> Store | None:
    """Leave one out of a participant's read of the last N."""
    if run.contract.order is not Order.REALTIME or run.contract.at_least_once:
        return None
    for slot in run.slots:
        if slot.last is None or slot.source is not Source.PRIMARY:
            continue
        standing = run.standing(run.correct_store(), slot)[-slot.last :]
        for op in standing[1:]:
            attempt = next(a for a in run.attempts if a.id == op.message)
            is_fresh = slot.invoked > _fresh_from(run.contract, attempt.ended or NEVER)
            is_known = attempt.outcome is Outcome.OK and attempt.delivered_at is not None
            first = next(a for a in run.attempts if a.id == standing[0].message)
            is_newer = first.outcome is Outcome.OK and first.delivered_at and (first.ended or 0) < attempt.sent
            if is_fresh and is_known and is_newer and not _has_excuse(run, attempt, slot.returned):
                store = _broken(run)
                for each in _ops(store, attempt.id):
                    each.hidden = (slot.taken, slot.taken + 1)
                return store
    return None


# ---------------------------------------------------------------------------------------------------------------------
# What stands there


def _pairs(run: Simulation) -> Iterable[tuple[Attempt, Attempt]]:
    """Return pairs of which one was acknowledged before the other was sent, in an order the contract promises."""
    for one in _acknowledged(run):
        for other in _acknowledged(run):
            same_writer = one.id.writer == other.id.writer
            is_promised = run.contract.order is Order.REALTIME or (
                run.contract.order is Order.PER_WRITER and same_writer
            )
            is_pair = one.id.session == other.id.session and (one.ended or NEVER) < other.sent
            if is_pair and is_promised:
                yield one, other


def swap(run: Simulation) -> Store | None:
    """Let two messages change places."""
    if run.contract.at_least_once:
        return None
    for one, other in _pairs(run):
        known = max(one.delivered_at or 0, other.delivered_at or 0)
        of_other = _showing(run, other.id, source=None)
        both = [s for s in _showing(run, one.id, source=None) if s in of_other and s.invoked > known]
        store = _broken(run)
        first, second = _op(store, one.id), _op(store, other.id)
        if both and first and second:
            when = run.random.choice((0, both[-1].taken, both[0].taken))
            first.moved, second.moved = (when, second.rank), (when, first.rank)
            return store
    return None


def flip(run: Simulation) -> Store | None:
    """Order two messages differently in two reads, whatever became of them and whether they were in flight."""
    if run.contract.at_least_once or run.contract.order is Order.NONE:
        return None
    attempts = [a for a in run.attempts if a.outcome is not Outcome.FAILED or a.delivered_at is None]
    run.random.shuffle(attempts)
    for one in attempts:
        of_one = _showing(run, one.id, source=None)
        for other in attempts:
            is_pair = one.id.session == other.id.session and one.sent < other.sent
            if not is_pair or (run.contract.order is Order.PER_WRITER and one.id.writer != other.id.writer):
                continue
            of_other = _showing(run, other.id, source=None) if len(of_one) > 1 else []
            both = [slot for slot in of_one if slot in of_other]
            store = _broken(run)
            first, second = _op(store, one.id), _op(store, other.id)
            if len(both) > 1 and first and second:
                when = run.random.choice(both[1:]).taken
                first.moved, second.moved = (when, second.rank), (when, first.rank)
                return store
    return None


def unknown_in_front(run: Simulation) -> Store | None:
    """Put a write of unknown outcome in front of what was acknowledged before it was sent."""
    if run.contract.at_least_once:
        return None
    for one, other in _pairs(run):
        known = max(one.delivered_at or 0, other.delivered_at or 0)
        of_other = _showing(run, other.id, source=None)
        both = [s for s in _showing(run, one.id, source=None) if s in of_other and s.invoked > known]
        store = _broken(run)
        first, second = _op(store, one.id), _op(store, other.id)
        if both and first and second:
            second.rank = first.rank - 1
            _change(run, other, replace(other, outcome=Outcome.UNKNOWN))
            return store
    return None


def _again(run: Simulation, victims: Iterable[Attempt]) -> tuple[Store, Op, Slot] | None:
    """Return a store, a write in it and a read that shows it."""
    for attempt in victims:
        showing = _showing(run, attempt.id, source=None)
        store = _broken(run)
        op = _op(store, attempt.id)
        if showing and op:
            return store, op, run.random.choice(showing)
    return None


def duplicate(run: Simulation) -> Store | None:
    """Write a message twice."""
    picked = None if run.contract.at_least_once else _again(run, _acknowledged(run))
    if picked is None:
        return None
    store, op, slot = picked
    at = run.random.choice((op.at, max(op.at, slot.position)))
    store.ops.append(replace(op, at=at, rank=op.rank + run.random.randint(0, SECOND)))
    store.ops.sort(key=lambda each: each.at)
    return store


def alter(run: Simulation) -> Store | None:
    """Change the content of a message, at once or later."""
    picked = _again(run, _acknowledged(run))
    if picked is None:
        return None
    store, op, slot = picked
    assert op.message is not None
    for each in _ops(store, op.message):
        each.altered_at = run.random.choice((0, slot.taken))
    return store


def garble(run: Simulation) -> Store | None:
    """Put something in place of a message that is none."""
    picked = _again(run, _acknowledged(run))
    if picked is None:
        return None
    store, op, slot = picked
    assert op.message is not None
    for each in _ops(store, op.message):
        each.unreadable_at = run.random.choice((0, slot.taken))
    return store


def leak(run: Simulation) -> Store | None:
    """Write a message of one session into the other as well."""
    for attempt in run.attempts:
        op = _op(_broken(run), attempt.id)
        if len(run.sessions) == 2 and op is not None:
            store = _broken(run)
            at = op.at + run.random.choice((0, run.random.randint(0, SECOND)))
            store.ops.append(replace(op, session=3 - op.session, at=at, lost_at=NEVER))
            store.ops.sort(key=lambda each: each.at)
            return store
    return None


def phantom(run: Simulation) -> Store | None:
    """Show a message that nobody sent."""
    attempt = run.random.choice(run.attempts)
    slots = [s for s in run.slots if s.session == attempt.id.session and s.reader == VERIFIER and not s.raises]
    if not slots:
        return None
    store = _broken(run)
    last = max(a.id.seq for a in run.attempts if a.id[:2] == attempt.id[:2])
    message = attempt.id._replace(seq=last + run.random.choice((1, 100)))
    at = run.random.choice(slots).position
    store.ops.append(Op(at, attempt.id.session, message, at + SECOND))
    store.ops.sort(key=lambda each: each.at)
    return store


# ---------------------------------------------------------------------------------------------------------------------
# Retention


def resurrect(run: Simulation) -> Store | None:
    """Let a forgotten message stand again."""
    for forget in run.forgets:
        if forget.outcome is not Outcome.OK or forget.delivered_at is None or forget.ended is None:
            continue
        for attempt in _acknowledged(run):
            if attempt.id.session != forget.session or (attempt.ended or NEVER) >= forget.sent:
                continue
            fresh = forget.ended + (run.contract.staleness or 0)
            slots = [
                s
                for s in run.slots
                if s.session == forget.session and s.invoked > fresh and s.source is Source.PRIMARY and not s.raises
            ]
            store = _broken(run)
            op = _op(store, attempt.id)
            if slots and op:
                at = run.random.choice(slots).taken
                store.ops.append(replace(op, at=max(at, forget.ended + 1), lost_at=NEVER))
                store.ops.sort(key=lambda each: each.at)
                return store
    return None


def expire_early(run: Simulation) -> Store | None:
    """Let sessions expire before their time."""
    if run.contract.ttl is None:
        return None
    for attempt in _acknowledged(run):
        looks = _two_looks(run, _showing(run, attempt.id), max(attempt.delivered_at or 0, attempt.ended or 0))
        if looks and not _has_excuse(run, attempt, looks[1].returned):
            store = _broken(run)
            store.ttl = run.contract.ttl // 20
            shown = any(op.message == attempt.id for op in run.standing(store, looks[0]))
            return None if shown else store
    return None


def expire_never(run: Simulation) -> Store | None:
    """Let nothing expire."""
    if run.contract.ttl is None or any(run.contract.loss(f.excuse) != 0 for f in run.faults):
        return None
    if any(a.outcome is Outcome.UNKNOWN or a.delivered_at is None for a in run.attempts) or not _ends_late(run):
        return None
    store = _broken(run)
    store.ttl = None
    return store


def _ends_late(run: Simulation) -> bool:
    last = max(a.ended or 0 for a in run.attempts)
    return run.slots[-1].invoked > last + (run.contract.ttl or 0) + (run.contract.staleness or 0)


FLAWS: dict[str, tuple[Plant, frozenset[str], str | None]] = {
    "drop": (drop, ABSENT, None),
    "drop_after_seen": (drop_after_seen, ABSENT, None),
    "dirty_read": (dirty_read, frozenset({ROLLED_BACK}), None),
    "refused_but_visible": (refused_but_visible, frozenset({PHANTOM}), None),
    "swap": (swap, frozenset({REORDERED, NON_MONOTONIC}), None),
    "flip": (flip, frozenset({REORDERED, NON_MONOTONIC}), None),
    "unknown_in_front": (unknown_in_front, frozenset({REORDERED}), None),
    "duplicate": (duplicate, frozenset({DUPLICATED}), None),
    "alter": (alter, frozenset({CORRUPTED}), None),
    "garble": (garble, frozenset({UNDECODABLE}), None),
    "leak": (leak, frozenset({LEAKED}), None),
    "resurrect": (resurrect, frozenset({RESURRECTED}), None),
    "hide_then_show": (hide_then_show, HIDDEN, None),
    "hide_what_was_seen": (hide_what_was_seen, HIDDEN, None),
    "hole_in_tail": (hole_in_tail, ABSENT, "crash_tail"),
    "tail_too_long": (tail_too_long, ABSENT, "crash_tail"),
    "newest_lost": (newest_lost, ABSENT | {WINDOW}, "retained"),
    "phantom": (phantom, frozenset({PHANTOM}), None),
    "expire_early": (expire_early, ABSENT, "ttl_sliding"),
    "expire_never": (expire_never, frozenset({RESURRECTED}), "ttl_absolute"),
    "hole_in_window": (hole_in_window, frozenset({WINDOW}), None),
}
"""By name: how it is planted, the kinds of which one is expected, and the contract it needs, if any."""


# ---------------------------------------------------------------------------------------------------------------------
# Failovers


def _replacements(run: Simulation) -> list[Failover]:
    """Return the failover of a run, if nothing else might explain what it takes."""
    return run.failovers if len(run.faults) == 1 and not run.forgets and run.contract.failover_loss is not None else []


def _taken_by(run: Simulation, failover: Failover, victims: Iterable[Attempt]) -> Store | None:
    """Let a failover take a message that reached the new primary, and that would stand after it."""
    if run.contract.eviction:
        return None
    store = _broken(run)
    for victim in victims:
        ops = _ops(store, victim.id)
        if not ops or any(op.abandoned for op in ops) or _may_be_trimmed(run, victim):
            continue
        looks = _two_looks(run, _showing(run, victim.id), failover.fault.ended)
        if looks and looks[1].returned < _may_expire_from(run, victim):
            for op in ops:
                op.lost_at = max(failover.promoted, op.at)
            return store
    return None


def failover_too_long(run: Simulation) -> Store | None:
    """Lose something in a failover that was acknowledged longer before it than the tail that may go."""
    for failover in _replacements(run):
        since = failover.fault.started - (run.contract.failover_loss or 0)
        return _taken_by(run, failover, [a for a in _acknowledged(run) if (a.ended or NEVER) < since])
    return None


def failover_hole(run: Simulation) -> Store | None:
    """Lose one message of the tail that a failover may take, and keep what was sent after it."""
    for failover in _replacements(run):
        started = failover.fault.started
        kept = {op.message for op in run.ops if op.abandoned is None}
        survivors = [a.sent for a in _acknowledged(run) if (a.ended or NEVER) <= started and a.id in kept]
        since = started - (run.contract.failover_loss or 0)
        tail = [a for a in _acknowledged(run) if since <= (a.ended or 0) < max(survivors, default=0)]
        return _taken_by(run, failover, tail)
    return None


def lost_by_new_primary(run: Simulation) -> Store | None:
    """Lose what the new primary has acknowledged, and a read has shown, and keep what it acknowledged after that."""
    if run.contract.at_least_once or run.contract.staleness is None:
        return None
    for failover in _replacements(run):
        new = {op.message for op in run.ops if op.at >= failover.promoted and op.abandoned is None}
        acknowledged = [a for a in _acknowledged(run) if a.id in new]
        for victim in (a for a in acknowledged if (a.ended or NEVER) <= failover.fault.ended):
            later = [a.id for a in acknowledged if a.id[:1] == victim.id[:1] and a.sent > (victim.ended or NEVER)]
            store = _taken_by(run, failover, [victim]) if later else None
            both = [slot for slot in _showing(run, victim.id) if any(s in later for s in _names(run, slot))]
            if store is not None and both:
                for op in _ops(store, victim.id):
                    op.lost_at = both[0].taken + 1
                return store
    return None


def _names(run: Simulation, slot: Slot) -> list[MessageId]:
    return [op.message for op in run.standing(run.correct_store(), slot) if op.message is not None]


FAILOVER_FLAWS: dict[str, tuple[Plant, frozenset[str], str | None]] = {
    "failover_too_long": (failover_too_long, ABSENT, None),
    "failover_hole": (failover_hole, ABSENT, None),
    "lost_by_new_primary": (lost_by_new_primary, ABSENT, None),
}
"""Those of a group of nodes whose primary is replaced."""
