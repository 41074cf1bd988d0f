"""One session under judgement: what the ledger says goes in, what reads show goes in, what is wrong comes out.

`SessionChecker.apply` takes a record of the ledger, `observe` and its siblings take a read and return events, `wants`
says which read is needed next. There is no clock here, no socket and no log: the verifier, the analyses, the recovery
matrix and every replay drive the same object. All that it knows is in the book, so a book that is saved and a read that
is saved give the same verdict again.

From suspicion to verdict: what a read lacks is suspected; a later read confirms it, after the settle time, from the
primary, with no fault active and everything read once since the last one; or it shows it, and the first one was stale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from soak.checker.absorb import EXACT_SECONDS, EXACT_US, SLOT_SECONDS, absorb, in_front_of_tail
from soak.checker.contract import Contract, Duplicates, Reads, ReplicaReads
from soak.checker.events import (
    Event,
    Observed,
    Suspected,
    Verified,
    Want,
    WantedRead,
    confirm,
    heal,
    heal_after,
    missed_before,
    report_late,
    report_losses,
    unreadable_name,
)
from soak.checker.expected_session import ExpectedSession
from soak.checker.faults import FaultHistory, FaultWindow, Survivor
from soak.checker.incidents import Failing, Missed, Suspicion
from soak.checker.intervals import Intervals
from soak.checker.judge import judge, judge_tail
from soak.checker.kinds import Kind
from soak.checker.message import Message
from soak.checker.outcome import Attempt, Closed, ForgetBegun, ForgetEnded, Leased, LedgerEvent, Outcome
from soak.checker.partial import (
    AckedTimes,
    Again,
    PartialJudgement,
    SearchFate,
    WideSearch,
    is_due,
    is_missed,
    is_promised,
    judge_glance,
    judge_search,
    judge_seen,
    places_in,
    search_again,
    seen_in_flight,
    vanished_from,
)
from soak.checker.read import Finding, Judgement, MessageId, Read, Rules, save
from soak.checker.retention import Undone, begin_no_later, end_forget, expiry_of, may_have_expired, prolong, undo
from soak.checker.second_look import (
    Late,
    Look,
    Seqs,
    breaks_freshness,
    is_last_word,
    lacks_all,
    lacks_still,
    late_detail,
    look_again,
    proven_by,
    suspect,
    times_of,
    without_missed,
)
from soak.checker.text import MessageGenerator

REMEMBER_SECONDS_MIN = 10.0
MISSED_MAX = 16
"""Messages of a session that are looked for again at the same time; it is wrong all over if there are more."""


class StoreJudging:
    """What all sessions of one store are judged by."""

    def __init__(
        self,
        *,
        rules: Rules,
        author: MessageGenerator,
        faults: FaultHistory,
        targets: Sequence[str],
        settle_us: int,
        asks_primary: bool = False,
        reads_replica: bool = False,
    ) -> None:
        self.rules = rules
        self.author = author
        self.faults = faults
        self.targets = tuple(targets)
        self.settle_us = settle_us
        self.asks_primary = asks_primary
        """Reads may be behind, and the primary can be asked."""
        self.reads_replica = reads_replica
        contract = rules.contract
        staleness = contract.staleness_us
        self.final_us = settle_us if asks_primary else None if staleness is None else settle_us + staleness
        """How long after a read that lacked something a second one is the last word; None: it never is."""
        self.keeps_one_log = staleness is not None and contract.duplicates is Duplicates.EXACTLY_ONCE
        """What one read shows stands in one log, each message once."""
        self.search_final_us = None if staleness is None else settle_us + staleness
        self._shadowed = msgspec.structs.replace(rules, contract=_eventual(contract))
        loss = max(contract.loss_seconds_max, 0.0)
        # Where times are thinned out, the first of a slot is needed for as long as any in it may be taken.
        slot = SLOT_SECONDS if loss > EXACT_SECONDS else 0.0
        self.remember_us = int((loss + slot + REMEMBER_SECONDS_MIN) * 1e6)

    def widen(self, clock_epsilon_us: int) -> None:
        """Compare times across hosts less exactly from now on."""
        self.rules = msgspec.structs.replace(self.rules, clock_epsilon_us=clock_epsilon_us)
        self._shadowed = msgspec.structs.replace(self._shadowed, clock_epsilon_us=clock_epsilon_us)

    def windows(self) -> list[FaultWindow]:
        """Return the faults of the servers that the store depends on."""
        return self.faults.of(self.targets)

    def is_calm(self) -> bool:
        """Whether no fault is active, and what each one took has been looked for everywhere."""
        return self.faults.is_calm(self.targets)

    def is_shadowed(self, invoked: int, returned: int) -> bool:
        """Whether a read was of a replica in the shadow of a fault, so that it may have been behind for any time.

        A primary that is being replaced is such a replica, though it does not know it yet.
        """
        if self.rules.contract.replica_reads is ReplicaReads.STRICT:
            return False
        invoked, returned = invoked - self.rules.clock_epsilon_us, returned + self.rules.clock_epsilon_us
        if self.faults.failing_over_since(self.targets, invoked, returned):
            return True
        return self.reads_replica and self.faults.casts_shadow(self.targets, invoked, returned)

    def is_of_primary(self, read: Read) -> bool:
        """Whether what the primary answered is behind nothing: it was not about to be replaced."""
        epsilon = self.rules.clock_epsilon_us
        return not self.faults.failing_over_since(self.targets, read.invoked - epsilon, read.returned + epsilon)

    def shadowed_since(self, invoked: int, returned: int) -> int:
        """Return since when a read may have been behind, if that is because the primary was being replaced; else 0."""
        epsilon = self.rules.clock_epsilon_us
        if self.reads_replica or self.rules.contract.staleness_us is None:
            return 0
        return self.faults.failing_over_since(self.targets, invoked - epsilon, returned + epsilon)

    def rules_at(self, invoked: int, returned: int) -> Rules:
        """Return what a read of that time is held to."""
        return self._shadowed if self.is_shadowed(invoked, returned) else self.rules


def _eventual(contract: Contract) -> Contract:
    return msgspec.structs.replace(contract, reads=Reads.EVENTUAL)


TAIL_OVERLAP = 4
TAIL_OVERLAP_SHARE = 6
"""A read of the end asks for a sixth more, too: for what is stored already, and whose outcome is still to be heard of.
Without a verified message in front of all that is new, a full read would be due."""
REMEMBER_IN_DOUBT_US = 86_400_000_000
FAILURES_MIN = 3
"""So many reads of one session have to raise, one after the other, before it is called unreadable."""


class SessionChecker:
    """Judges one session."""

    __slots__ = ("book", "store")

    def __init__(self, store: StoreJudging, expected: ExpectedSession) -> None:
        self.store = store
        self.book = expected

    # -- what the ledger says --

    def apply(self, event: LedgerEvent) -> None:
        """Take in a record of the ledger."""
        expected = self.book
        if isinstance(event, Attempt):
            self.attempted(event)
        elif isinstance(event, Leased):
            expected.lease(event.writer, event.upto)
        elif isinstance(event, ForgetBegun):
            expected.intend_forget(event.sent)
        elif isinstance(event, ForgetEnded):
            self._end_forget(event)
            self._doubt_what_faults_undo()
        elif isinstance(event, Closed):
            expected.closed = event.is_certain

    def _end_forget(self, event: ForgetEnded) -> None:
        expected, rules = self.book, self.store.rules_at(self.book.last_whole, self.book.last_returned)
        drops = rules.contract.drops_by_itself
        if expected.veiled is not None and event.outcome is Outcome.OK:
            # What was seen in the shadow of a fault may have been of long before.
            expected.veiled = [one for one in expected.veiled if not self.store.is_shadowed(one[2], one[2])] or None
        end_forget(
            expected,
            event.outcome,
            event.sent,
            event.ended,
            behind_us=rules.contract.staleness_us,
            clock_epsilon_us=rules.clock_epsilon_us,
            ends_excuses=not drops,
            is_applied_once=rules.contract.duplicates is Duplicates.EXACTLY_ONCE,
        )

    def attempted(self, attempt: Attempt) -> bool:
        """Take in how an append ended; returns whether it has to be verified."""
        expected = self.book
        # What a read had shown before a forget erased it begins or prolongs no life behind that.
        is_erased = attempt.seq in expected.writer(attempt.writer).gone
        is_expiring = self.store.rules.contract.ttl_seconds is not None and not is_erased
        if attempt.outcome == Outcome.OK:
            if is_expiring:
                prolong(expected, attempt, self.store.rules)
                self._doubt_what_faults_undo()
            return expected.acknowledge(attempt)
        if attempt.outcome == Outcome.FAILED:
            expected.fail(attempt.writer, attempt.seq)
        else:
            is_past = expected.is_of_earlier_life(attempt)
            expected.doubt(attempt)
            if is_expiring and not is_past:
                begin_no_later(expected, attempt)
                self._doubt_what_faults_undo()
        return False

    def _doubt_what_faults_undo(self) -> None:
        for window in self.store.windows():
            self.doubt(window)

    def doubt(self, window: FaultWindow) -> None:
        """Claim no longer what the contract lets a fault undo: not only an append may be in the tail it takes."""
        undone = self._undone_by(window)
        if undone is not None:
            undo(self.book, undone, self._undone)

    def _undone(self) -> list[Undone]:
        return [one for window in self.store.windows() if (one := self._undone_by(window)) is not None]

    def _undone_by(self, window: FaultWindow) -> Undone | None:
        undone, epsilon = window.undoes(self.store.rules.contract), self.store.rules.clock_epsilon_us
        if undone is None:
            return None
        since, until = undone
        # When a forget had ended is known at the latest: see `Forgets`.
        return Undone(since - epsilon, until + 2 * epsilon, window.started - epsilon)

    # -- which read is needed next --

    def wants(self, now: int) -> WantedRead | None:
        """Return the next read that the judgement waits for; None: nothing is open."""
        expected = self.book
        if expected.incidents is not None:
            self._sift_overlooked()
            if expected.is_in_doubt:
                is_searched = bool(expected.missed) and not (expected.suspicions or expected.failing)
                return WantedRead(Want.SEARCH if is_searched else Want.CONFIRM, now + self.store.settle_us)
        expiry = expiry_of(expected, self.store.rules)
        if expected.pending:
            if not expected.length or expected.forgets is not None:
                return WantedRead(Want.FULL, now)
            waiting = len(expected.pending)
            last = waiting + waiting // TAIL_OVERLAP_SHARE + len(expected.writers) + TAIL_OVERLAP
            return WantedRead(Want.TAIL, now, last)
        if expiry is not None and expected.closed and expected.last_whole <= expiry[1]:
            return WantedRead(Want.FULL, expiry[1])
        return None

    def _sift_overlooked(self) -> None:
        """Forget what a read overlooked where that was allowed to be so late."""
        expected = self.book
        if expected.overlooked is None:
            return
        rules = self.store.rules_at(expected.last_read, expected.last_returned)
        contract, staleness, epsilon = rules.contract, rules.contract.staleness_us, rules.clock_epsilon_us
        if staleness is None or contract.eviction_allowed or may_have_expired(expected, expected.last_returned, rules):
            expected.overlooked = None
            return
        late = [one for one in expected.overlooked if one.ended + epsilon + staleness < expected.last_read]
        if contract.retained_messages is not None:
            known = (*expected.recent, *expected.pending)
            room = contract.retained_messages
            late = [one for one in late if sum(o.ended + epsilon >= one.sent for o in known) <= room]
        late = [one for one in late if expected.was_overlooked(one)]  # and is not missed in another way since
        expected.overlooked = late or None

    # -- a read of the end --

    def observe_tail(self, read: Read, last: int) -> Observed | None:
        """Judge a read of the last so many; None: anything is odd, so a full read is due."""
        rules = self.store.rules_at(read.invoked, read.returned)
        judgement = judge_tail(self.book, read, last, rules, self.store.author)
        if judgement is None:
            return None
        events: list[Event] = [self._absorb(judgement, read, rules, whole=False)]
        heal(self.book, Kind.WINDOW, lambda _: True, events)
        return Observed(events, None)

    def observe_tail_by_full(self, read: Read, last: int) -> Observed:
        """Judge an odd read of the last so many by the full read that has been taken in since."""
        rules = self.store.rules_at(read.invoked, read.returned)
        return self._report_seen(judge_glance(self.book, read, last, rules), self._packed())

    # -- a full read --

    def judge_clean(self, read: Read) -> Judgement | None:
        """Judge a full read; None: it shows something odd, and the ledger has to be known up to its return."""
        judgement = judge(self.book, read, self.store.rules_at(read.invoked, read.returned), self.store.author)
        return judgement if judgement.is_clean else None

    def needs_primary(self, read: Read) -> bool:
        """Whether this read would confirm a loss, so that the primary has to say so, too."""
        if not self.store.asks_primary:
            return False
        rules = self.store.rules_at(read.invoked, read.returned)
        look = self._look(self.book, read, judge(self.book, read, rules, self.store.author), rules)
        look = look._replace(asks_primary=False)
        suspicions = self.book.suspicions or ()
        return any(lacks_still(one, look.judgement) and is_last_word(look, one) for one in suspicions)

    def observe(self, read: Read, primary: Read | None = None, judged: Judgement | None = None) -> Observed:
        """Judge a full read, take it in, and hold it against what earlier ones lacked.

        `judged` is what `judge_clean` said of the same read, if nothing has been taken in since.
        """
        expected, store = self.book, self.store
        rules = store.rules_at(read.invoked, read.returned)
        self._sift_overlooked()
        if expected.revived is not None and store.is_shadowed(expected.last_whole, expected.last_returned):
            expected.revived = None  # what showed it may have been behind
        judgement = judge(expected, read, rules, store.author) if judged is None else judged
        primary_judged = None if primary is None else judge(expected, primary, rules, store.author)
        if judgement.is_clean and not expected.is_in_doubt and expected.counted is None:
            return Observed([self._take_in(judgement, read, rules)], None)
        before = self._packed()
        if expected.overlooked is not None:
            unasked = in_front_of_tail(expected, judgement)
            expected.overlooked = [one for one in expected.overlooked if (one.writer, one.seq) not in unasked] or None
        known = self._known_suspicions()
        opened = self._suspect(read, judgement, known)
        events: list[Event] = []
        findings = [*judgement.findings, *(() if primary_judged is None else proven_by(primary_judged))]
        confirm(self.book, without_missed(findings, missed_before(self.book, known)) if findings else [], events)
        report_late(self.book, self._shown_late(), None, events)
        earlier = unpacked(before) if known else expected
        events.append(self._take_in(judgement, read, rules))
        events.extend(map(Suspected, opened))
        for suspicion in known if not judgement.is_undecided else ():
            look = self._look(earlier, read, judgement, rules)
            look = look._replace(primary=primary, primary_judged=primary_judged)
            self._resolve(suspicion, look, events)
        if primary is not None and primary_judged is not None:
            self._glimpse(primary)
            self._note_survivors_in(primary)
            self._note_answered(primary)
            if store.is_calm() and store.is_of_primary(primary):
                for suspicion in (*known, *opened):
                    suspicion.is_lacked_by_primary = lacks_all(suspicion, primary_judged)
        if known:
            expected.drop_excused()
        expected.suspicions = [one for one in (*known, *opened) if not one.is_over] or None
        if primary is not None:
            seen = seen_in_flight(expected, primary, store.author)
            self._suspect_vanished(primary, seen, events, by_primary=True)
        heal_after(self.book, [read] if primary is None else [read, primary], events, is_clean=judgement.is_clean)
        return Observed(events, before)

    def _glimpse(self, read: Read) -> None:
        """Remember what a read of the primary, or of a participant, shows in flight: it may yet be refused."""
        in_flight = [(*one, read.invoked) for one in seen_in_flight(self.book, read, self.store.author)]
        if in_flight:
            self.book.glimpsed = [*(self.book.glimpsed or ()), *in_flight]

    def _known_suspicions(self) -> list[Suspicion]:
        """Return what is suspected, with what the last read overlooked."""
        expected, known = self.book, self.book.suspicions or []
        if expected.overlooked is None:
            return known
        absent: Seqs = {}
        for attempt in expected.overlooked:
            absent.setdefault(attempt.writer, Intervals()).add(attempt.seq)
        late = Suspicion(
            invoked=expected.last_read,
            returned=expected.last_returned,
            items=expected.last_items,
            absent={number: seqs.bounds for number, seqs in absent.items()},
            seen={},
        )
        return [*known, late]

    def _shown_late(self) -> list[Late]:
        """Return what one read lacked and the next one showed, where the acknowledgement was known only after both."""
        shown: list[Late] = []
        for attempt, invoked, returned, was_seen in self.book.shown_late or ():
            rules = self.store.rules_at(invoked, returned)
            lag = (invoked - attempt.ended) / 1e6
            if lag * 1e6 <= rules.clock_epsilon_us:
                continue  # it may have been acknowledged after that read was invoked
            if not may_have_expired(self.book, returned, rules) and not rules.contract.eviction_allowed:
                kind = Kind.NON_MONOTONIC if was_seen else Kind.STALE
                is_broken = breaks_freshness(lag, kind, rules)
                shown.append(Late(kind, (attempt.writer, attempt.seq), lag, late_detail(lag), is_broken))
        return shown

    def _suspect(self, read: Read, judgement: Judgement, known: list[Suspicion]) -> list[Suspicion]:
        """Suspect what is missing, with the read that lacked it."""
        expected = self.book
        opened = suspect(expected, judgement.absent, read, known)
        for one in opened:
            one.shown, one.before = save(read, expected.session, self.store.author), expected.shown_order
            one.is_before_whole = expected.last_read == expected.last_whole
            one.is_shadowed = self.store.is_shadowed(read.invoked, read.returned)
            # What was missing before, while nobody knew whether it had to be there, was shown by an earlier read.
            until = expected.last_returned if one.last_seen == expected.last_read else one.last_seen
            one.seen_in_shadow = self.store.is_shadowed(one.last_seen, until)
            one.seen_since = self.store.shadowed_since(one.last_seen, until)
            answered = expected.answered or ()
            one.witnessed = [of for of in answered if of[1] in Intervals(one.absent.get(of[0], []))]
        return opened

    def _take_in(self, judgement: Judgement, read: Read, rules: Rules) -> Verified:
        expected, faults = self.book, self.store.faults
        earlier = self._seen_unknown() if faults.collects_survivors(self.store.targets) else []
        verified = self._absorb(judgement, read, rules, whole=True)
        if faults.collects_survivors(self.store.targets) or expected.suspicions:
            # Also after a sweep: an outcome that came late may show that something had survived.
            self._note_survivors(self._survivors(earlier))
        if expected.failing is not None:
            expected.failing = None
        return verified

    def _note_survivors(self, survivors: list[Survivor]) -> None:
        """Note what the last full read shows, unless that may be behind."""
        expected, store, staleness = self.book, self.store, self.store.rules.contract.staleness_us
        if survivors and staleness is not None and not store.is_shadowed(expected.last_whole, expected.last_returned):
            epsilon = store.rules.clock_epsilon_us
            if epsilon:
                survivors = [one._replace(applied=one.applied + epsilon) for one in survivors]
            store.faults.note_survivors(store.targets, expected.last_whole - staleness - epsilon, survivors)

    def _note_survivors_in(self, primary: Read) -> None:
        """Note what the primary shows: that is behind nothing, whatever the contract says of other reads."""
        expected, store, epsilon = self.book, self.store, self.store.rules.clock_epsilon_us
        if not store.is_of_primary(primary):
            return
        shown = {(one.writer, one.seq) for one in primary.items if isinstance(one, Message)}
        survivors = [
            Survivor(one.sent, one.ended + epsilon, (one.writer, one.seq))
            for one in (*expected.recent, *expected.pending)
            if one.outcome == Outcome.OK and (one.writer, one.seq) in shown
        ]
        store.faults.note_survivors(store.targets, primary.invoked - epsilon, survivors)

    def _seen_unknown(self, seen: Read | None = None) -> list[Survivor]:
        """Return the unknown writes that a read has shown, and the last one shows: each was applied by its time."""
        expected = self.book
        shown = None if seen is None else {(one.writer, one.seq) for one in seen.items if isinstance(one, Message)}
        return [
            Survivor(one.sent, expected.last_returned if seen is None else seen.returned, (one.writer, one.seq))
            for one in expected.recent
            if one.outcome == Outcome.UNKNOWN
            and (shown is None or (one.writer, one.seq) in shown)
            and expected.shows(one.writer, one.seq)
        ]

    def _survivors(self, earlier: list[Survivor]) -> list[Survivor]:
        """Return what stands now, with when each was sent and by when it was applied."""
        expected = self.book
        standing = [
            Survivor(one.sent, one.ended, (one.writer, one.seq))
            for one in (*expected.recent, *expected.pending)
            if one.outcome == Outcome.OK and expected.shows(one.writer, one.seq)
        ]
        return standing + [one for one in earlier if expected.shows(*one.place)]

    def _absorb(self, judgement: Judgement, read: Read, rules: Rules, *, whole: bool) -> Verified:
        expected = self.book
        surfaced = [
            (number, seq)
            for number, first, last in judgement.fresh
            if not expected.writers[number].acked.covers(first, last)
            for seq in range(first, last + 1)
            if seq not in expected.writers[number].acked
        ]
        # As long as a fault may have taken something that is not confirmed yet, its times are needed. So are those of
        # what may have been said behind a forget whose outcome is on its way.
        is_forgotten = expected.forgets is not None and bool(expected.forgets.open)
        is_in_doubt = is_forgotten or expected.is_in_doubt or not self.store.is_calm()
        absorbed = absorb(
            expected,
            judgement,
            read,
            rules,
            remember_us=REMEMBER_IN_DOUBT_US if is_in_doubt else self.store.remember_us,
            exact_us=None if is_in_doubt else EXACT_US,
            whole=whole,
        )
        return Verified(absorbed.verified, absorbed.released, surfaced)

    def _look(self, expected: ExpectedSession, read: Read, judgement: Judgement, rules: Rules) -> Look:
        store = self.store
        return Look(
            book=expected,
            read=read,
            judgement=judgement,
            primary=None,
            run=store.author.run,
            rules=rules,
            faults=store.windows(),
            is_calm=store.is_calm(),
            final_us=store.final_us,
            asks_primary=store.asks_primary,
            sampled_since=store.faults.sampled_since(store.targets),
            keeps_one_log=store.keeps_one_log,
        )

    def _resolve(self, suspicion: Suspicion, look: Look, events: list[Event]) -> None:
        """Hold a later read against what an earlier one lacked."""
        asked = copied(suspicion)
        # What a read may lack is decided by when it was made, and not by the one that shows it.
        is_first = not suspicion.last_lacked
        rules = self.store.rules_at(suspicion.invoked, suspicion.returned) if is_first else self.store.rules
        looked = look_again(look._replace(rules=rules), suspicion)
        report_losses(self.book, looked.lost, asked, events)
        report_late(self.book, looked.late, asked, events, (look.read.invoked - asked.invoked) / 1e6)
        if not self.store.is_shadowed(look.read.invoked, look.read.returned):
            suspicion.last_lacked = look.read.invoked

    # -- what others saw --

    def observe_participant(self, read: Read, last: int | None, acked: AckedTimes) -> Observed:
        """Judge what a participant saw by the full read that has been taken in since."""
        rules = self.store.rules_at(read.invoked, read.returned)
        before = self._packed()
        seen = judge_seen(self.book, read, last, acked, rules, self.store.author)
        observed = self._report_seen(seen, before)
        self._note_survivors(self._seen_unknown(read))
        self._glimpse(read)
        self._witness(read)
        self._suspect_vanished(read, seen.places, observed.events)
        return observed

    def _witness(self, read: Read) -> None:
        """Note what a participant saw of what is suspected: no fault that was over by then has taken it."""
        expected, store, staleness = self.book, self.store, self.store.rules.contract.staleness_us
        if not expected.suspicions or staleness is None or store.is_shadowed(read.invoked, read.returned):
            return
        shown = places_in(read, expected.session, store.author.run)
        for one in expected.suspicions:
            seen = [place for place in shown if place[1] in Intervals(one.absent.get(place[0], []))]
            one.witnessed = [*one.witnessed, *((*place, read.invoked - staleness) for place in seen)]

    def _note_answered(self, primary: Read) -> None:
        """Remember what the primary shows and nobody acknowledged: if it is missed later, its answer dates it."""
        expected, store = self.book, self.store
        shown = places_in(primary, expected.session, store.author.run) if store.is_of_primary(primary) else ()
        writers = {place: expected.find_writer(place[0]) for place in shown}
        expected.answered = [
            (*place, primary.invoked)
            for place, writer in writers.items()
            if writer is not None and not writer.bears_order(place[1])
        ] or None

    def _suspect_vanished(
        self, read: Read, seen: list[MessageId], events: list[Event], *, by_primary: bool = False
    ) -> None:
        """Suspect what others saw before its outcome was known, and the last full read does not show."""
        expected, store = self.book, self.store
        is_asked = store.asks_primary and not store.is_shadowed(read.invoked, read.returned)
        rules = store.rules if is_asked else store.rules_at(read.invoked, read.returned)
        vanished = vanished_from(expected, seen, read, rules, asks_primary=is_asked)
        if not vanished:
            return
        absent: Seqs = {}
        for number, seq in vanished:
            absent.setdefault(number, Intervals()).add(seq)
            writer = expected.writers[number]
            writer.unknown = _with(writer.unknown, seq)
            writer.acked.add(seq)
        bounds = {number: list(seqs.bounds) for number, seqs in absent.items()}
        opened = Suspicion(
            invoked=expected.last_read,
            returned=expected.last_returned,
            last_seen=read.invoked,
            items=expected.last_items,
            absent=bounds,
            seen={number: list(one) for number, one in bounds.items()},
            by_other=True,
            by_primary=by_primary,
        )
        expected.suspicions = [*(expected.suspicions or ()), opened]
        events.append(Suspected(opened))

    def _report_seen(self, seen: PartialJudgement, before: bytes) -> Observed:
        events: list[Event] = []
        confirm(self.book, seen.findings, events)
        report_late(self.book, seen.late, None, events)
        return Observed(events, before)

    # -- searches --

    def observe_search(self, read: Read, asked: MessageId, limit: int) -> Observed:
        """Judge what stands in the answer to a search."""
        before = self._packed()
        rules = self.store.rules_at(read.invoked, read.returned)
        events: list[Event] = []
        confirm(self.book, judge_search(self.book, read, asked, limit, rules, self.store.author), events)
        return Observed(events, before)

    def observe_wide_search(self, place: MessageId, near: Read, wide: Read, limit: int) -> WideSearch:
        """Judge the answers to two searches for a message that a full read shows, and the narrow one lacked."""
        expected, rules = self.book, self.store.rules
        if not is_due(expected, place, near, rules) or not is_due(expected, place, wide, rules):
            return WideSearch.NOT_EXPECTED
        if not is_missed(wide, self.store.author.write(expected.session, *place), limit):
            return WideSearch.FOUND
        counted = {} if expected.counted is None else expected.counted.open_places(Kind.UNFINDABLE)
        if not is_promised(rules) or place[1] in counted.get(place[0], ()):
            return WideSearch.NOT_FOUND
        known = expected.missed or []
        if len(known) < MISSED_MAX:
            missed = Missed(
                place=place,
                invoked=wide.invoked,
                returned=wide.returned,
                limit=limit,
                acknowledged=self.acknowledged_at(place),
                answer=save(wide, expected.session, self.store.author),
            )
            expected.missed = [*known, missed]
        return WideSearch.SUSPECTED

    def observe_search_again(
        self, missed: Missed, search: Read, limit: int, whole: Read
    ) -> tuple[SearchFate, Observed]:
        """Hold a later search, and the full read behind it, against what an earlier search missed."""
        expected, before = self.book, self._packed()
        again = Again(
            book=expected,
            missed=missed,
            search=search,
            limit=limit,
            whole=whole,
            rules=self.store.rules_at(missed.invoked, missed.returned),
            faults=self.store.windows(),
            is_calm=self.store.is_calm(),
            final_us=self.store.search_final_us,
        )
        fate, result = search_again(again, self.store.author)
        events: list[Event] = []
        if fate is not SearchFate.OPEN:
            expected.missed = [one for one in expected.missed or () if one != missed] or None
        if isinstance(result, Late):
            report_late(self.book, [result], missed.suspicion(), events)
        elif result is not None:
            confirm(self.book, [result], events, missed.suspicion())
        return fate, Observed(events, before)

    def found_by_search(self, is_over: Callable[[MessageId], bool]) -> Observed:
        """Notice that what could not be found is found, or is not there any more."""
        events: list[Event] = []
        heal(self.book, Kind.UNFINDABLE, is_over, events)
        return Observed(events, None)

    # -- reads that raise --

    def observe_failure(self, invoked: int, returned: int, error: str, *, others_answered: int) -> Observed:
        """Take in that a read of this session raised; `others_answered` is when another session was last answered.

        It is unavailability, and no violation, unless others are answered all the while and no fault is active.
        """
        expected, faults = self.book, self.store.faults
        known = expected.failing
        if faults.is_active(self.store.targets):
            expected.failing = None
            return Observed([], None)
        if known is not None and faults.happened(self.store.targets, known.last, returned):
            known = None
        if others_answered == 0 or (known is not None and others_answered < known.last):
            return Observed([], None)  # nobody else was answered since: it is the store
        before = self._packed()
        first, count = (invoked, 0) if known is None else (known.first, known.count)
        failing = expected.failing = Failing(first=first, last=returned, count=count + 1, error=error)
        if failing.count < FAILURES_MIN or returned - first < self.store.settle_us or others_answered < first:
            return Observed([], None)
        detail = (
            f"reading this session raised {failing.count} times in {(returned - first) / 1e6:.1f} s, "
            f"while other sessions were answered: {error}"
        )
        events: list[Event] = []
        confirm(self.book, [Finding(Kind.UNDECODABLE, unreadable_name(expected), None, detail, -1)], events)
        return Observed(events, before)

    @property
    def is_unreadable(self) -> bool:
        """Whether reading this session has been reported as a violation, and still raises."""
        counted = self.book.counted
        return counted is not None and counted.is_open_name(Kind.UNDECODABLE, unreadable_name(self.book))

    def _packed(self) -> bytes:
        return packed(self.book)

    # -- what is known of a message --

    def acknowledged_at(self, place: MessageId) -> int:
        """Return when a message was acknowledged; 0: nobody knows any more."""
        attempt = times_of(self.book).get(place)
        return 0 if attempt is None else attempt.ended


def _with(seqs: Intervals, seq: int) -> Intervals:
    made = seqs.copy()
    made.add(seq)
    return made


def packed(expected: ExpectedSession) -> bytes:
    return msgspec.msgpack.encode(expected)


def unpacked(blob: bytes) -> ExpectedSession:
    return msgspec.msgpack.decode(blob, type=ExpectedSession)


def copied(suspicion: Suspicion) -> Suspicion:
    """Return a suspicion that can be resolved without touching this one."""
    return msgspec.structs.replace(suspicion, absent={n: list(bounds) for n, bounds in suspicion.absent.items()})
