"""What a later read says about what an earlier one lacked, by the book, the faults and the contract.

Pure: the verifier decides with this while it runs, and a replay decides with it again from the evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from soak.model.absence import Seqs, Suspicion, resolve
from soak.model.attempt import Attempt
from soak.model.book import NOTHING, SessionBook
from soak.model.faults import FaultWindow, allowed_loss_seconds, is_excused
from soak.model.identity import is_well_made
from soak.model.intervals import Intervals
from soak.model.kinds import Kind
from soak.model.message import Message, Stored
from soak.model.read import Finding, Judgement, Place, Read, Rules
from soak.model.remembered import EXACT_SECONDS, thinned_out


class Look(NamedTuple):
    """All that a second look goes by."""

    book: SessionBook
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


class Lost(NamedTuple):
    """A message that is confirmed as gone."""

    kind: Kind
    place: Place
    attempt: Attempt | None
    excused_by: FaultWindow | None
    """The fault that may have taken it by the contract; None: a violation."""


class Late(NamedTuple):
    """A message that one read lacked and a later one, or the primary, shows."""

    kind: Kind
    place: Place
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
    if is_final and look.primary is not None:
        there = _shown_places(look.primary.items, look.book.session, look.run)
        missing_there = {n: Intervals(b).minus(there.get(n, NOTHING)) for n, b in suspicion.absent.items()}
        overdue = {
            number: Intervals(bounds).both(absent.get(number, NOTHING)).minus(missing_there.get(number, NOTHING))
            for number, bounds in suspicion.absent.items()
        }
        late += _late(look, overdue, look.read.invoked, Kind.STALE)
        absent = {number: seqs.both(missing_there.get(number, NOTHING)) for number, seqs in absent.items()}
    present = _shown_places(look.read.items, look.book.session, look.run)
    resolution = resolve(suspicion, absent, present, is_final=is_final)
    late += _late(look, resolution.stale, suspicion.invoked, Kind.STALE)
    late += _late(look, resolution.non_monotonic, suspicion.invoked, Kind.NON_MONOTONIC)
    times = times_of(look.book) if resolution.lost or resolution.rolled_back else {}
    lost = [
        _lost(look, suspicion, kind, (number, seq), times.get((number, seq)))
        for kind, seqs_by in ((Kind.LOST, resolution.lost), (Kind.ROLLED_BACK, resolution.rolled_back))
        for number, seqs in seqs_by.items()
        for seq in seqs
    ]
    return Looked(lost, late)


def is_last_word(look: Look, suspicion: Suspicion) -> bool:
    """Whether absence may be believed now: late enough, with no fault about, and with the primary's word for it."""
    if look.final_us is None or not look.is_calm or look.read.invoked - suspicion.returned < look.final_us:
        return False
    return not look.asks_primary or look.primary is not None or not lacks_still(suspicion, look.judgement)


def lacks_still(suspicion: Suspicion, judgement: Judgement) -> bool:
    """Whether this read lacks something that was suspected before."""
    absent = judgement.absent
    return any(Intervals(bounds).both(absent.get(number, NOTHING)) for number, bounds in suspicion.absent.items())


def is_calm(faults: Sequence[FaultWindow], stores_on: Mapping[str, Sequence[str]]) -> bool:
    """Whether no fault is active, and what one may have taken has been looked for in every store on that server."""
    return all(
        not window.is_active and all(store in window.swept for store in stores_on.get(window.target, ()))
        for window in faults
    )


def breaks_freshness(lag_seconds: float, kind: Kind, rules: Rules) -> bool:
    """Whether the contract promises that a read shows what was acknowledged so long before it."""
    allowed = rules.contract.staleness_us
    if allowed is None:
        return False
    return lag_seconds * 1e6 > allowed + rules.clock_epsilon_us or kind is not Kind.STALE or allowed == 0


def untold(findings: list[Finding], told: Seqs) -> list[Finding]:
    """Leave out that something appeared which had been missed before: the suspicion, or the loss, tells that story."""
    return [
        finding
        for finding in findings
        if finding.kind is not Kind.NON_MONOTONIC
        or finding.place is None
        or finding.place[1] not in told.get(finding.place[0], NOTHING)
    ]


def times_of(book: SessionBook) -> dict[Place, Attempt]:
    """Return the attempts whose times are still known."""
    return {(attempt.writer, attempt.seq): attempt for attempt in (*book.recent, *book.pending)}


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


def _late(look: Look, seqs_by: Seqs, missed_at: int, kind: Kind) -> list[Late]:
    times = times_of(look.book) if any(seqs_by.values()) else {}
    found = []
    for number, seqs in seqs_by.items():
        for seq in seqs:
            attempt = times.get((number, seq))
            lag = max(0, missed_at - attempt.ended) / 1e6 if attempt is not None else 0.0
            detail = f"absent from a read {lag:.3f} s after its acknowledgement, present in a later one"
            is_broken = breaks_freshness(lag, kind, look.rules)
            found.append(Late(kind, (number, seq), lag, detail, is_broken))
    return found


def _lost(look: Look, suspicion: Suspicion, kind: Kind, place: Place, attempt: Attempt | None) -> Lost:
    # A read that may be behind shows what was: it may have been before the fault, although the read came after it.
    behind = look.rules.contract.staleness_us or 0
    last_seen = suspicion.last_seen - behind if kind is Kind.ROLLED_BACK else 0
    is_unknown = place[1] in look.book.writers[place[0]].unknown
    for window in look.faults:
        # It may have taken it if it had begun before it was missed, and was not survived by it.
        begun = window.started <= suspicion.returned or not _was_due(attempt, suspicion, look.rules)
        survived = window.ended is not None and last_seen > window.ended
        if begun and not survived and _excuses(window, attempt, look, place, is_unknown=is_unknown):
            return Lost(kind, place, attempt, window)
    return Lost(kind, place, attempt, None)


def _was_due(attempt: Attempt | None, suspicion: Suspicion, rules: Rules) -> bool:
    """Whether the first read that lacked it had to show it, or was only behind, as reads may be."""
    staleness = rules.contract.staleness_us
    if staleness is None:
        return False
    return attempt is None or attempt.ended + staleness + rules.clock_epsilon_us <= suspicion.invoked


def _excuses(window: FaultWindow, attempt: Attempt | None, look: Look, place: Place, *, is_unknown: bool) -> bool:
    """Whether this fault may have taken it, by the contract."""
    contract, epsilon = look.rules.contract, look.rules.clock_epsilon_us
    if attempt is not None:
        return is_excused(attempt, window, contract, clock_epsilon_us=epsilon)
    # Without times: an unknown write may have been applied a moment before a fault; anything else lies further back
    # than the tail a contract may allow, unless that is everything.
    loss = allowed_loss_seconds(window, contract)
    if loss is not None and loss > EXACT_SECONDS and not is_unknown:
        # Of what is so old, only some times are remembered.
        later = thinned_out((*look.book.recent, *look.book.pending), place)
        return later is not None and is_excused(later, window, contract, clock_epsilon_us=epsilon)
    return loss is None or (loss > 0 and is_unknown)
