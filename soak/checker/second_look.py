"""From suspicion to verdict: what a later read says about what an earlier one lacked.

It goes by what is expected, the faults and the contract. Pure: the verifier decides with this while it runs, and a
replay decides with it again from the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from soak.checker.absorb import thinned_out
from soak.checker.expected_session import IN_FLIGHT_GRACE_US, NOTHING, ExpectedSession, runs_in
from soak.checker.faults import FaultWindow, allowed_loss_seconds, is_excused
from soak.checker.incidents import Suspicion
from soak.checker.intervals import Intervals
from soak.checker.kinds import Kind
from soak.checker.message import Message, Stored, is_well_made
from soak.checker.outcome import Attempt, Outcome
from soak.checker.read import Finding, Judgement, MessageId, Read, Rules

Seqs = dict[int, Intervals]
"""Messages of one session, by writer."""


class Resolution(NamedTuple):
    """What became of a suspicion by a later read."""

    lost: Seqs
    rolled_back: Seqs
    stale: Seqs
    non_monotonic: Seqs


def suspect(expected: ExpectedSession, absent: Seqs, read: Read, known: list[Suspicion]) -> list[Suspicion]:
    """Suspect what is not suspected yet. The book is as it was before this read was taken into it.

    What reads before the last one lacked already, and nobody could decide, was seen longer ago than the rest.
    """
    new: Seqs = {}
    for number, seqs in absent.items():
        rest = seqs
        for suspicion in known:
            rest = rest.minus(Intervals(suspicion.absent.get(number, [])))
        if rest:
            new[number] = rest
    if not new:
        return []
    shown = {number: expected.writers[number].standing.copy() for number in new}
    for number, seq in (*expected.unsettled_names(), *expected.veiled_names()):
        if number in shown:
            shown[number].add(seq)
    seen = {number: seqs.both(shown[number]) for number, seqs in new.items()}
    latest: dict[MessageId, int] = {}
    for number, seq, at in expected.veiled or ():
        if seq in new.get(number, NOTHING):
            latest[number, seq] = max(at, latest.get((number, seq), at))
    newer, older = dict(new), dict[int, Seqs]()
    for (number, seq), at in latest.items():
        newer[number] = newer[number].minus(Intervals([seq, seq]))
        older.setdefault(at, {}).setdefault(number, Intervals()).add(seq)
    return [
        Suspicion(
            invoked=read.invoked,
            returned=read.returned,
            last_seen=last_seen,
            items=len(read.items),
            absent={number: seqs.bounds for number, seqs in part.items() if seqs},
            seen={number: bounds for number, seqs in part.items() if (bounds := seen[number].both(seqs).bounds)},
        )
        for last_seen, part in ((expected.last_read, newer), *older.items())
        if any(part.values())
    ]


def resolve(suspicion: Suspicion, absent: Seqs, present: Seqs, *, is_final: bool) -> Resolution:
    """Split a suspicion by a later read, and leave in it what is still open.

    `absent` and `present` are what that read lacked and showed; what is in neither is no longer expected. Presence is
    believed at once; absence only when `is_final`: after the settle time, from the primary, with no fault active.
    """
    resolution = Resolution({}, {}, {}, {})
    for number, bounds in list(suspicion.absent.items()):
        was = Intervals(bounds)
        seen = Intervals(suspicion.seen.get(number, []))
        back = was.both(present.get(number, NOTHING))
        still = was.both(absent.get(number, NOTHING))
        _put(resolution.non_monotonic, number, back.both(seen))
        _put(resolution.stale, number, back.minus(seen))
        if is_final:
            _put(resolution.rolled_back, number, still.both(seen))
            _put(resolution.lost, number, still.minus(seen))
        suspicion.absent[number] = [] if is_final else still.bounds
    return resolution


def _put(into: Seqs, number: int, seqs: Intervals) -> None:
    if seqs:
        into[number] = seqs


class Look(NamedTuple):
    """All that a second look goes by."""

    book: ExpectedSession
    """As it stood before this read was taken into it."""
    read: Read
    judgement: Judgement
    primary: Read | None
    """What the primary says, where the store's reads may be behind it and something is still missing."""
    run: str
    rules: Rules
    faults: Sequence[FaultWindow]
    """Those of the servers that the store depends on."""
    is_calm: bool
    """No fault is active there, and after each that was everything has been read once."""
    final_us: int | None
    """How long after a read that lacked something another one is the last word; None: it never is."""
    asks_primary: bool
    sampled_since: int | None = None
    """When the server was last asked whether it is still the one it was; None: nobody can ask it."""
    keeps_one_log: bool = False
    """What one read shows stands in one log, each message once: if the later of two survives, the earlier does."""
    primary_judged: Judgement | None = None
    """What the primary lacks when it is asked: by then a message may have expired, or made room for newer ones."""


class Lost(NamedTuple):
    """A message that is confirmed as gone."""

    kind: Kind
    place: MessageId
    attempt: Attempt | None
    excused_by: FaultWindow | None
    """The fault that may have taken it by the contract; None: a violation."""


class Late(NamedTuple):
    """A message that one read lacked and a later one, or the primary, shows."""

    kind: Kind
    place: MessageId
    lag_seconds: float
    detail: str
    is_broken_promise: bool


class Looked(NamedTuple):
    """What a second look has shown."""

    lost: list[Lost]
    late: list[Late]


def look_again(look: Look, suspicion: Suspicion) -> Looked:
    """Hold a later read against a suspicion, and leave in the suspicion what is still open."""
    _drop_shown(suspicion)
    is_final = is_last_word(look, suspicion)
    absent = look.judgement.absent
    late: list[Late] = []
    if is_final and look.primary is not None and look.primary_judged is not None:
        there = _shown_places(look.primary.items, look.book.session, look.run)
        overdue = {
            number: Intervals(bounds).both(absent.get(number, NOTHING)).both(there.get(number, NOTHING))
            for number, bounds in suspicion.absent.items()
        }
        seen = {number: Intervals(bounds) for number, bounds in suspicion.seen.items()}
        was_seen = {number: seqs.both(seen.get(number, NOTHING)) for number, seqs in overdue.items()}
        unseen = {number: seqs.minus(was_seen[number]) for number, seqs in overdue.items()}
        late += _late(look, unseen, look.read.invoked, Kind.STALE)
        late += _returned(look, suspicion, was_seen, look.read.invoked)
        absent = {n: seqs.both(look.primary_judged.absent.get(n, NOTHING)) for n, seqs in absent.items()}
    present = _shown_places(look.read.items, look.book.session, look.run)
    resolution = resolve(suspicion, absent, present, is_final=is_final)
    missed_at = suspicion.last_lacked or suspicion.invoked
    stale = _late(look, resolution.stale, missed_at, Kind.STALE)
    if suspicion.is_lacked_by_primary and look.rules.contract.staleness_us is not None:
        stale = [one._replace(is_broken_promise=True) for one in stale]
    late += stale
    late += _returned(look, suspicion, resolution.non_monotonic, missed_at)
    times = times_of(look.book) if resolution.lost or resolution.rolled_back else {}
    hole_before = _hole_before(look, suspicion, times, present)
    lost = [
        _lost(look, suspicion, kind, (number, seq), times.get((number, seq)), hole_before)
        for kind, seqs_by in ((Kind.LOST, resolution.lost), (Kind.ROLLED_BACK, resolution.rolled_back))
        for number, seqs in seqs_by.items()
        for seq in seqs
    ]
    lost = [one._replace(kind=Kind.ROLLED_BACK) if _is_unacknowledged(look, one) else one for one in lost]
    awaited = [one for one in lost if _is_outcome_awaited(look, suspicion, one)]
    for number, seq in (one.place for one in awaited):
        still = Intervals(suspicion.absent[number])
        still.add(seq)
        suspicion.absent[number] = still.bounds
    return Looked([one for one in lost if one not in awaited], late)


def _returned(look: Look, suspicion: Suspicion, seqs_by: Seqs, missed_at: int) -> list[Late]:
    """Return what is shown again after it was missed. What another reader saw may be late within the bound."""
    if not (suspicion.by_other and look.rules.contract.staleness_us):
        return _late(look, seqs_by, missed_at, Kind.NON_MONOTONIC)
    lag = max(0, missed_at - suspicion.last_seen) / 1e6
    detail = f"absent from a read {lag:.3f} s after another reader had seen it, present in a later one"
    is_broken = breaks_freshness(lag, Kind.STALE, look.rules)
    return [Late(Kind.STALE, (number, seq), lag, detail, is_broken) for number, seqs in seqs_by.items() for seq in seqs]


def _is_unacknowledged(look: Look, lost: Lost) -> bool:
    """Whether nobody ever acknowledged it, so that it is missed only because a read had shown it."""
    return lost.place[1] in look.book.writers[lost.place[0]].unknown


def _is_outcome_awaited(look: Look, suspicion: Suspicion, lost: Lost) -> bool:
    """Whether a message is excused by when it was seen, and its acknowledgement, which dates it, may be on its way."""
    if lost.excused_by is None or lost.attempt is not None:
        return False
    return _is_unacknowledged(look, lost) and look.read.invoked - suspicion.last_seen <= IN_FLIGHT_GRACE_US


def is_last_word(look: Look, suspicion: Suspicion) -> bool:
    """Whether absence may be believed now: late enough, with no fault about, and with the primary's word for it."""
    if look.final_us is None or not look.is_calm or look.read.invoked - suspicion.returned < look.final_us:
        return False
    if look.sampled_since is not None and look.sampled_since < suspicion.returned:
        return False  # it may have restarted by itself, which nobody has noticed yet
    if look.primary_judged is not None and look.primary_judged.is_undecided:
        return False
    return not look.asks_primary or look.primary is not None or not lacks_still(suspicion, look.judgement)


def lacks_still(suspicion: Suspicion, judgement: Judgement) -> bool:
    """Whether this read lacks something that was suspected before."""
    absent = judgement.absent
    return any(Intervals(bounds).both(absent.get(number, NOTHING)) for number, bounds in suspicion.absent.items())


def lacks_all(suspicion: Suspicion, judgement: Judgement) -> bool:
    """Whether this read lacks all that is suspected."""
    absent, suspected = judgement.absent, suspicion.absent.items()
    return not any(Intervals(bounds).minus(absent.get(number, NOTHING)) for number, bounds in suspected)


def breaks_freshness(lag_seconds: float, kind: Kind, rules: Rules) -> bool:
    """Whether the contract promises that a read shows what was acknowledged so long before it."""
    allowed = rules.contract.staleness_us
    if allowed is None:
        return False
    return lag_seconds * 1e6 > allowed + rules.clock_epsilon_us or kind is not Kind.STALE or allowed == 0


def proven_by(judgement: Judgement) -> list[Finding]:
    """Return what a read of the primary proves by itself.

    It was asked about what is missing, and a replica that is behind it says nothing about what has appeared in it.
    """
    return [one for one in judgement.findings if one.at >= 0 and one.kind is not Kind.NON_MONOTONIC]


def without_missed(findings: list[Finding], missed: Seqs) -> list[Finding]:
    """Leave out that something appeared which had been missed before: the suspicion, or the loss, tells that story."""
    return [
        finding
        for finding in findings
        if finding.kind is not Kind.NON_MONOTONIC
        or finding.place is None
        or finding.place[1] not in missed.get(finding.place[0], NOTHING)
    ]


def times_of(expected: ExpectedSession) -> dict[MessageId, Attempt]:
    """Return the attempts whose times are still known."""
    return {(attempt.writer, attempt.seq): attempt for attempt in (*expected.recent, *expected.pending)}


def _drop_shown(suspicion: Suspicion) -> None:
    """Suspect nothing that the first read does show."""
    if suspicion.shown is None:
        return
    for item in suspicion.shown.items:
        if isinstance(item, tuple) and item[0] in suspicion.absent:
            writer, first, last = item
            left = Intervals(suspicion.absent[writer]).minus(Intervals([first, last]))
            suspicion.absent[writer] = left.bounds


def _shown_places(items: Sequence[Stored], session: str, run: str) -> Seqs:
    """Return the messages of this session that a read shows, whatever else is wrong with them."""
    shown: Seqs = {}
    for item in items:
        if isinstance(item, Message) and is_well_made(item) and item.session == session and item.run == run:
            shown.setdefault(item.writer, Intervals()).add(item.seq)
    return shown


def late_detail(lag_seconds: float) -> str:
    return f"absent from a read {lag_seconds:.3f} s after its acknowledgement, present in a later one"


def _late(look: Look, seqs_by: Seqs, missed_at: int, kind: Kind) -> list[Late]:
    times = times_of(look.book) if any(seqs_by.values()) else {}
    found = []
    for number, seqs in seqs_by.items():
        for seq in seqs:
            attempt = times.get((number, seq))
            lag = max(0, missed_at - attempt.ended) / 1e6 if attempt is not None else 0.0
            is_broken = breaks_freshness(lag, kind, look.rules)
            found.append(Late(kind, (number, seq), lag, late_detail(lag), is_broken))
    return found


class _HoleBefore(NamedTuple):
    """What the last full read had shown together with something that survived."""

    together: Seqs
    sent: int
    """When the latest of what survived was sent: of the others, what was acknowledged before that is a hole."""


def _hole_before(look: Look, suspicion: Suspicion, times: dict[MessageId, Attempt], present: Seqs) -> _HoleBefore:
    """Find what has to be there because it stood in one log with something that was sent after it, and that is there.

    That holds whichever primary had the log when one is replaced by another, and whenever the two were acknowledged.
    """
    together: Seqs = {}
    if not look.keeps_one_log or not suspicion.is_before_whole or not times:
        return _HoleBefore(together, 0)
    for number, first, last in runs_in(suspicion.before):
        together.setdefault(number, Intervals()).add_run(first, last)
    left = {number: seqs.both(present.get(number, NOTHING)) for number, seqs in together.items()}
    # Whatever its outcome: it had been shown, so it was applied by then, and once.
    sent = [one.sent for one in times.values() if one.seq in left.get(one.writer, NOTHING)]
    return _HoleBefore(together, max(sent, default=0))


def _is_hole(place: MessageId, attempt: Attempt | None, before: _HoleBefore, rules: Rules) -> bool:
    if attempt is None or attempt.outcome != Outcome.OK or place[1] not in before.together.get(place[0], NOTHING):
        return False
    return attempt.ended + rules.clock_epsilon_us < before.sent


def _lost(
    look: Look, suspicion: Suspicion, kind: Kind, place: MessageId, attempt: Attempt | None, before: _HoleBefore
) -> Lost:
    # A read that may be behind shows what was: it may have been before the fault, although the read came after it.
    behind = 0 if suspicion.by_primary else look.rules.contract.staleness_us
    last_seen = 0
    if kind is Kind.ROLLED_BACK:
        is_any_time = behind is None or suspicion.seen_in_shadow
        last_seen = suspicion.seen_since if is_any_time else max(0, suspicion.last_seen - (behind or 0))
    witnessed = max((at for *one, at in suspicion.witnessed if tuple(one) == place), default=0)
    applied = _applied_by(look.book, suspicion, kind, place, attempt)
    # What is dated by such a read may be of any time since the one it may be behind to.
    earliest = last_seen if applied == suspicion.last_seen else applied
    is_hole, epsilon = _is_hole(place, attempt, before, look.rules), look.rules.clock_epsilon_us
    if earliest is not None and attempt is not None:
        earliest = max(earliest, attempt.sent - epsilon)  # nothing is applied before it is sent
    for window in look.faults:
        if is_hole and allowed_loss_seconds(window, look.rules.contract) is not None:
            continue  # only a cache may lose anything
        if attempt is not None and attempt.outcome == Outcome.OK and window.came_back_before(attempt.sent - epsilon):
            continue  # the server that was started again acknowledged it, and has not died since
        # It may have taken it if it had begun before it was missed, and was not survived by it.
        begun = window.started - epsilon <= suspicion.returned or not _was_due(attempt, suspicion, look.rules)
        survived = window.ended is not None and max(last_seen, witnessed) > window.ended + epsilon
        dated = applied
        if applied is not None and earliest is not None and window.ended is not None:
            dated = max(earliest, min(applied, window.ended))
        if begun and not survived and _excuses(window, dated, look):
            return Lost(kind, place, attempt, window)
    return Lost(kind, place, attempt, None)


def _applied_by(
    expected: ExpectedSession, suspicion: Suspicion, kind: Kind, place: MessageId, attempt: Attempt | None
) -> int | None:
    """Return by when a message had certainly been applied; None: longer ago than any time that is remembered."""
    if attempt is not None and attempt.outcome == Outcome.OK:
        return attempt.ended
    if place[1] in expected.writers[place[0]].unknown or attempt is not None:
        # Nobody knows when it was applied, but a read has shown it.
        return suspicion.last_seen if kind is Kind.ROLLED_BACK or attempt is None else attempt.ended
    # Of what is so old, only some times are remembered.
    later = thinned_out((*expected.recent, *expected.pending), place)
    return None if later is None else later.ended


def _was_due(attempt: Attempt | None, suspicion: Suspicion, rules: Rules) -> bool:
    """Whether the first read that lacked it had to show it, or was only behind, as reads may be."""
    staleness = rules.contract.staleness_us
    if staleness is None:
        return False
    return attempt is None or attempt.ended + staleness + rules.clock_epsilon_us <= suspicion.invoked


def _excuses(window: FaultWindow, applied: int | None, look: Look) -> bool:
    """Whether this fault may have taken it, by the contract."""
    contract, epsilon = look.rules.contract, look.rules.clock_epsilon_us
    if applied is None:
        return window.ended is not None and allowed_loss_seconds(window, contract) is None
    return is_excused(applied, window, contract, clock_epsilon_us=epsilon)
