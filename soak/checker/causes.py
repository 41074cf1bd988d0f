"""The probable cause of a violation, from a fixed list, with the facts for and against it. A fact never excuses."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from soak.checker import facts
from soak.checker.clues import SILENT_FAULTS, Clues, ProcessChange, acknowledged_before, neighbours
from soak.checker.facts import AnyFact
from soak.checker.facts.appends import During, appends_during_read, spans
from soak.checker.facts.contents import encoded, text_difference
from soak.checker.facts.fact import Fact, overlap, ref_of
from soak.checker.facts.reads import next_to
from soak.checker.facts.servers import OFF, PERSISTENCE
from soak.checker.faults import Excuse, FaultWindow, Promotion
from soak.checker.kinds import Kind


class Cause(enum.Enum):
    """The fixed list of causes a violation is put down to."""

    EVICTION = "eviction"
    EXPIRY = "expiry"
    RESTART_WITHOUT_PERSISTENCE = "restart without persistence"
    UNSYNCED_TAIL = "unsynced tail"
    REPLICA_LAG = "replica lag"
    CONCURRENT_OVERWRITE = "concurrent overwrite"
    CLIENT_CLOCK = "client clock"
    RETRY = "retry"
    WIPED_VOLUME = "wiped volume"
    SERIALIZATION_CHANGE = "serialization change"
    SWALLOWED_ERROR = "swallowed error"
    UNKNOWN = "unknown"


class Explanation(NamedTuple):
    """A cause, the facts for it and against it, and what else is known."""

    cause: Cause
    facts: Sequence[Fact] = ()
    against: Sequence[Fact] = ()
    observed: Sequence[Fact] = ()
    """Facts about the message that speak for no cause."""
    clues: Clues | None = None
    """The evidence by which they hold."""

    @property
    def all_facts(self) -> list[Fact]:
        return [*self.facts, *self.against, *self.observed]


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of an explanation with their evidence, as a story keeps them."""

    facts: list[AnyFact]
    against: list[AnyFact]
    observed: list[AnyFact]
    clues: Clues


def trouble_during(clues: Clues, during: During) -> Fact | None:
    """Return a fault, failed operations or a silent server at the very time of the append or of the reads."""
    when = spans(clues, during)
    for window in clues.faults:
        if window.kind not in SILENT_FAULTS and any(overlap(window.started, window.ended, *span) for span in when):
            return facts.FaultDuring(fault=ref_of(window), ended=window.ended, during=during)
    for spell in clues.spells():
        if any(overlap(spell.since, spell.until, *span) for span in when):
            return facts.OperationsFailed(count=spell.failed, since=spell.since, until=spell.until, during=during)
    for server, since, until in clues.silences():
        if any(overlap(since, until, *span) for span in when):
            return facts.ServerSilent(server=server, since=since, until=until, during=during)
    return None


WORKER_SILENT_US = 1_000_000
"""A load process that has not been heard of for so long may have died."""

FRESH_US = 3_000_000
"""How long a server that syncs every second may take until something is on disk."""

REPEATS_MIN = 3
"""So many losses, all of repeated text, are no coincidence."""

RIVALS_NAMED_MAX = 3

_OTHER_VERSIONS = frozenset({"upgrade", "downgrade"})
_SPOILED_FILES = frozenset({"file_corruption", "aof_truncation"})


def explain_loss(clues: Clues) -> Explanation:
    rules: tuple[Callable[[Clues], Explanation | None], ...] = (
        _elsewhere,
        _fault,
        _restart,
        _dead_writer,
        _repeated_text,
        _overwrite,
        _eviction,
        _expiry,
        _trouble,
        _empty,
        _never_written,
    )
    for rule in rules:
        explanation = rule(clues)
        if explanation is not None:
            return explanation
    nothing: tuple[Fact, ...] = (facts.NothingElseKnown(), facts.NoRival())
    return Explanation(Cause.UNKNOWN, against=[fact for fact in nothing if fact.holds(clues)])


def _elsewhere(clues: Clues) -> Explanation | None:
    if not clues.elsewhere:
        return None
    # It was stored, under the wrong name: no cause of the list does that.
    return Explanation(Cause.UNKNOWN, [facts.StandsElsewhere(session=session) for session in clues.elsewhere])


# -- the server died --


def _fault(clues: Clues) -> Explanation | None:
    window = deadly_window(clues)
    if window is None or _is_rather_expiry(clues, window):
        return None
    attempt = clues.attempt
    if attempt is not None and not _is_up_meanwhile(window):
        fault = ref_of(window)
        down = facts.AcknowledgedWhileDown(fault=fault, sent=attempt.sent, acknowledged=attempt.ended)
        if down.holds(clues):
            return Explanation(Cause.SWALLOWED_ERROR, [down])
    found: list[Fact] = [happened(clues, window), *_restarts_within(clues, window)]
    return _by_kind(window, found) or _by_survivors(clues, window, found)


def _is_up_meanwhile(window: FaultWindow) -> bool:
    """Whether the server answers in a fault, at least for a while: an acknowledgement is no error swallowed then."""
    return window.serves or window.promotes is not Promotion.NONE or window.kind == "clock_step"


def _by_kind(window: FaultWindow, found: list[Fact]) -> Explanation | None:
    """Name the cause where what was done to the server leaves no other."""
    fault = ref_of(window)
    if window.has_promoted:
        # Not an unsynced tail, though it is one that is gone: the old primary had synced it, and whoever reads
        # "unsynced" would look at the disk. It had not reached the replica that took its place.
        promoted = facts.ReplicaPromoted(fault=fault, lag_bytes=window.telemetry.get("replication_lag_bytes"))
        return Explanation(Cause.REPLICA_LAG, [*found, promoted])
    if window.kind in _OTHER_VERSIONS and window.survivor_sent == 0:
        other = facts.OtherVersionStarted(fault=fault, keys_after=window.telemetry_after.get("keys"))
        if other.keys_after == "0":
            return Explanation(Cause.RESTART_WITHOUT_PERSISTENCE, [*found, other])
        return Explanation(Cause.RESTART_WITHOUT_PERSISTENCE, found, [other])
    if window.kind in _SPOILED_FILES:
        # The list of causes has none for a file that somebody else wrote to.
        return Explanation(Cause.UNKNOWN, [*found, facts.FilesChanged(fault=fault)])
    return None


def leaves_a_hole(clues: Clues, window: FaultWindow) -> bool:
    """Whether something of the same session outlived the fault that was sent after this was acknowledged.

    Then no tail was lost. Other sessions prove nothing: a service may keep back what it writes for each by itself.
    """
    mine = clues.attempt
    return mine is not None and any(acknowledged_before(mine, other) for other in clues.survivors(window))


def _by_survivors(  # noqa: PLR0911  one answer a line reads better than one variable
    clues: Clues, window: FaultWindow, found: list[Fact]
) -> Explanation | None:
    """Name the cause by how the server was configured, and by what outlived the fault; None: it was not the fault."""
    fault = ref_of(window)
    folder, nothing = facts.OtherDataFolder(fault=fault), facts.NoSurvivorKnown(fault=fault)
    if nothing.holds(clues) and folder.holds(clues):
        return Explanation(Cause.WIPED_VOLUME, [*found, folder, nothing])
    persistence = _persistence(clues, window.target, window.started)
    if isinstance(persistence, facts.NoPersistence):
        return Explanation(Cause.RESTART_WITHOUT_PERSISTENCE, [*found, persistence])
    kernel = facts.SyncLeftToKernel(server=window.target, at=window.started)
    if window.excuses is Excuse.POWER and kernel.holds(clues):
        return Explanation(Cause.UNSYNCED_TAIL, [*found, kernel])
    if leaves_a_hole(clues, window):
        return None
    hole = _hole_in_tail(clues, window)
    if hole:
        # What others wrote later is there: who wrote to the session at the same time is nearer than the crash.
        return _overwrite(clues) or Explanation(Cause.UNSYNCED_TAIL, found, hole)
    survivor_sent = clues.outlived(window)
    if survivor_sent:
        survived = facts.EarlierSurvived(fault=fault, sent=survivor_sent)
        return Explanation(Cause.UNSYNCED_TAIL, [*found, survived])
    if _is_fresh(clues, window):
        return Explanation(Cause.UNSYNCED_TAIL, found, [nothing])
    if persistence is None:
        unknown = facts.ConfigurationUnknown(server=window.target)
        return Explanation(Cause.RESTART_WITHOUT_PERSISTENCE, [*found, nothing], [unknown])
    return Explanation(Cause.WIPED_VOLUME, [*found, nothing, persistence])


def _hole_in_tail(clues: Clues, window: FaultWindow) -> list[Fact]:
    """Return that something later outlived a fault, where it did: no contract excuses that as a lost tail."""
    at = clues.acknowledged or 0
    hole = facts.HoleInTail(fault=ref_of(window), acknowledged=at, sent=clues.outlived(window))
    return [hole] if hole.holds(clues) else []


def _restart(clues: Clues) -> Explanation | None:
    """Name the cause where a server restarted by itself: its identity changed, and no fault was recorded."""
    for restart in restarts_since(clues):
        fact = restarted(restart)
        persistence = _persistence(clues, restart.server, restart.since)
        if isinstance(persistence, facts.NoPersistence):
            return Explanation(Cause.RESTART_WITHOUT_PERSISTENCE, [fact, persistence])
        if any(_explains(window, restart) for window in clues.faults):
            continue  # `_fault` has weighed it, with times that are exact
        if clues.attempt is not None and restart.since - clues.attempt.ended <= FRESH_US:
            return Explanation(Cause.UNSYNCED_TAIL, [fact, *([persistence] if persistence is not None else [])])
    return None


def _explains(window: FaultWindow, restart: ProcessChange) -> bool:
    is_during = overlap(window.started, window.ended, restart.since, restart.until)
    return window.target == restart.server and window.excuses is not Excuse.NOTHING and is_during


def restarts_since(clues: Clues) -> list[ProcessChange]:
    """Return the restarts between the last moment at which it was there and the first read that lacked it."""
    missed = clues.first_missed or clues.read_returned
    return [one for one in clues.restarts() if one.until >= clues.stood_since and one.since <= missed]


def restarted(restart: ProcessChange) -> Fact:
    return facts.ServerRestarted(**restart._asdict())


def _restarts_within(clues: Clues, window: FaultWindow) -> list[Fact]:
    of_window = [one for one in restarts_since(clues) if one.server == window.target and one.since == window.started]
    return [restarted(one) for one in of_window]


def _is_rather_expiry(clues: Clues, window: FaultWindow) -> bool:
    """Whether the server's clock was set, and sessions went as a whole while it expired keys."""
    return window.kind == "clock_step" and clues.is_prefix and bool(clues.risen("expired_keys"))


def deadly_window(clues: Clues) -> FaultWindow | None:
    """Return the last fault that may have taken it: begun after it was acknowledged or seen, before it was missed.

    If something that was sent later outlived that one, the message may have been gone already: then an earlier one is
    to blame, if there is one that leaves no hole.
    """
    deadly = _deadly_windows(clues)
    tails = [window for window in deadly if not leaves_a_hole(clues, window)]
    return next(reversed(tails or deadly), None)


def _deadly_windows(clues: Clues) -> list[FaultWindow]:
    return [
        window
        for window in clues.faults
        if (window.excuses is not Excuse.NOTHING or window.has_promoted)
        and window.started <= clues.first_missed
        and (clues.attempt is None or clues.attempt.sent <= (window.ended or window.started))
        and clues.last_seen <= (window.ended or window.started)
        and not _began_after(clues, window)
    ]


def _began_after(clues: Clues, window: FaultWindow) -> bool:
    """Whether it was sent when the server was dead already, and acknowledged once it was back: by the new process."""
    if not window.down or window.injected is None or window.ended is None or clues.attempt is None:
        return False
    acknowledged = clues.acknowledged
    return clues.attempt.sent > window.injected and acknowledged is not None and acknowledged > window.ended


def _is_fresh(clues: Clues, window: FaultWindow) -> bool:
    """Whether it was so fresh when the power failed that no server need have synced it, nor anything before it."""
    if window.excuses is not Excuse.POWER or clues.attempt is None:
        return False
    return window.started - clues.attempt.ended <= FRESH_US


def _persistence(clues: Clues, server: str, at: int) -> facts.NoPersistence | facts.Persistence | None:
    """Return how the server was configured to keep what it acknowledges; None: nobody knows."""
    for setting in PERSISTENCE:
        value = clues.configured(server, setting, at)
        if value is None:
            continue
        save = clues.configured(server, "save", at)
        settings = {setting: value, **({"save": save} if save is not None else {})}
        of_kind = facts.NoPersistence if value in OFF else facts.Persistence
        return of_kind(server=server, settings=settings, at=at)
    return None


def happened(clues: Clues, window: FaultWindow) -> Fact:
    return facts.FaultHappened(fault=ref_of(window), ended=window.ended, acknowledged=clues.acknowledged)


# -- the server removed it --


def _eviction(clues: Clues) -> Explanation | None:
    if not clues.is_prefix or not clues.risen("evicted_keys"):
        return None
    return Explanation(Cause.EVICTION, [*_rises(clues, "evicted_keys"), _from_the_beginning(clues)])


def _expiry(clues: Clues) -> Explanation | None:
    expired = clues.risen("expired_keys")
    if not clues.is_prefix or expired == 0:
        return None
    if expired is None:
        if clues.items == 0:
            return None
        return Explanation(Cause.EXPIRY, [_from_the_beginning(clues)], [facts.NotCounted(counter="expired_keys")])
    changed: list[Fact] = [
        fact
        for window in clues.faults
        if window.kind == "ttl_change"
        and (fact := facts.TimeToLiveChanged(server=window.target, started=window.started)).holds(clues)
    ]
    return Explanation(Cause.EXPIRY, [*_rises(clues, "expired_keys"), _from_the_beginning(clues), *changed])


def _rises(clues: Clues, counter: str) -> list[Fact]:
    return [facts.CounterRose(**rise._asdict()) for rise in clues.rises(counter) or [] if rise.by]


def _from_the_beginning(clues: Clues) -> Fact:
    return facts.GoneFromTheBeginning(count=len(clues.gone))


# -- it was never written, or not to the disk --


def _trouble(clues: Clues) -> Explanation | None:
    """Name an error that was swallowed: of the append, or of the reads that found nothing."""
    trouble = trouble_during(clues, "append")
    if trouble is not None and not clues.was_seen:
        return Explanation(Cause.SWALLOWED_ERROR, [trouble, facts.NeverSeen()])
    empty = empty_answers(clues)
    if not empty:
        return None
    trouble = trouble_during(clues, "read") or _fault_since(clues)
    return None if trouble is None else Explanation(Cause.SWALLOWED_ERROR, [*empty, trouble])


def _empty(clues: Clues) -> Explanation | None:
    """Name an error that was swallowed, of the append or of both reads: nothing else is known, and they were empty."""
    empty, nothing = empty_answers(clues), facts.NothingElseKnown()
    if clues.was_seen or clues.items or clues.first_items or not nothing.holds(clues):
        return None
    return Explanation(Cause.SWALLOWED_ERROR, [facts.NeverSeen(), *empty, nothing])


def _fault_since(clues: Clues) -> Fact | None:
    """Return a fault between the last moment at which it was there and the read that returned nothing."""
    since = [
        window
        for window in clues.faults
        if window.kind not in SILENT_FAULTS
        and overlap(window.started, window.ended, clues.stood_since, clues.read_returned)
    ]
    return happened(clues, since[-1]) if since else None


def empty_answers(clues: Clues) -> list[Fact]:
    """Return which of the reads that lacked it returned nothing at all."""
    answers = (facts.AnswerWasEmpty(invoked=invoked) for invoked in (clues.first_missed, clues.read_invoked))
    return [answer for answer in dict.fromkeys(answers) if answer.holds(clues)]


def _dead_writer(clues: Clues) -> Explanation | None:
    if clues.worker_silent_us < WORKER_SILENT_US or not clues.is_tail or clues.was_seen:
        return None
    silent = facts.WriterSilent(silent_us=clues.worker_silent_us)
    return Explanation(Cause.UNSYNCED_TAIL, [silent, facts.LastAcknowledged(), facts.NeverSeen()])


def _repeated_text(clues: Clues) -> Explanation | None:
    if not clues.same_text or clues.was_seen or clues.losses_repeating < clues.losses:
        return None
    if clues.losses < REPEATS_MIN and clues.rivals and not clues.losses_alone:
        return None
    same: list[Fact] = [facts.SameText(count=len(clues.same_text))]
    every: list[Fact] = [facts.EveryLossRepeats(losses=clues.losses)] if clues.losses > 1 else []
    return Explanation(Cause.SWALLOWED_ERROR, [*same, *every, facts.NeverSeen()])


def _overwrite(clues: Clues) -> Explanation | None:
    # Who overwrites leaves something: a session that is empty was not overwritten.
    if not clues.rivals or not clues.items:
        return None
    # Overwriting takes two: a store that loses messages of lonely writers too has another fault.
    if clues.losses_alone * 5 > clues.losses:
        return None
    alone: list[Fact] = [facts.LossesAlone(alone=clues.losses_alone, losses=clues.losses)] if clues.losses_alone else []
    return Explanation(Cause.CONCURRENT_OVERWRITE, overlapping(clues), alone)


def overlapping(clues: Clues) -> list[Fact]:
    """Name the appends of other writers that ran at the same time, those first that did so for longest."""
    mine = clues.attempt
    if mine is None:
        return []
    rivals = sorted(clues.rivals, key=lambda other: max(mine.sent, other.sent) - min(mine.ended, other.ended))
    return [
        facts.OverlappingAppend(writer=other.writer, seq=other.seq, sent=other.sent, ended=other.ended)
        for other in rivals[:RIVALS_NAMED_MAX]
    ]


def _never_written(clues: Clues) -> Explanation | None:
    if clues.was_seen or clues.is_prefix or clues.attempt is None:
        return None
    # With nothing younger than it in the read, the read may have stopped short of it.
    if clues.is_tail or not clues.items:
        return None
    beside = beside_it(clues)
    quiet: list[Fact] = [fact for fact in (facts.NothingElseKnown(),) if fact.holds(clues)]
    return Explanation(Cause.SWALLOWED_ERROR, [facts.NeverSeen(), *beside, *quiet], overlapping(clues)[:1])


def beside_it(clues: Clues) -> list[Fact]:
    """Return that what was said right before and after it stands, or else something older and something younger."""
    near: tuple[Fact, ...] = tuple(facts.NeighboursPresent(before=one, after=two) for one, two in [clues.beside()])
    if clues.place is not None:
        before, after = neighbours(clues.places(), clues.times(), clues.place)
        near += tuple(facts.GapAround(before=one, after=two) for one, two in [(before, after)] if one and two)
    return [fact for fact in near if fact.holds(clues)][:1]


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
        for one in next_to(list(clues.places()), place)
        if one in times and one != place
    }
    close = [one for one in apart if apart[one] <= CLOCK_APART_US]
    return [facts.SentClose(writer=one[0], seq=one[1], apart_us=apart[one]) for one in close[:1]]


def _explain_duplicate(clues: Clues) -> Explanation:
    if clues.is_search:
        # The index has it twice. What was appended twice, a read of the session would show twice.
        return Explanation(Cause.UNKNOWN)
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
            return Explanation(Cause.UNKNOWN, [facts.FilesChanged(fault=ref_of(window))])
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
    cut = facts.TextCut(characters=len(have), bytes=len(encoded(have)), of_characters=len(want))
    difference = text_difference(clues)
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
        known = [*_sightings(clues), *empty_answers(clues), *_holes(clues), *beside_it(clues)]
        return [*known, *map(restarted, restarts_since(clues))]
    if kind in {Kind.STALE, Kind.NON_MONOTONIC}:
        return _shown_later(clues)
    if kind is Kind.CORRUPTED:
        return _changed(clues)
    if kind is Kind.DUPLICATED:
        during = len(appends_during_read(clues))
        several = facts.RepeatedInSearch(count=list(clues.places()).count(clues.place or (-1, 0)))
        known = [*([several] if clues.is_search else []), *_sent_once(clues)]
        return [*known, *([facts.AppendsDuringRead(count=during)] if during else [])]
    return []


def _holes(clues: Clues) -> list[Fact]:
    """Return why it can be no tail that a fault took, and that it was never acknowledged, if it is so."""
    mine, survivor = clues.attempt, clues.survivor
    found = [fact for window in reversed(_deadly_windows(clues)) for fact in _hole_in_tail(clues, window)][:1]
    possible: list[Fact] = [] if survivor is None else [facts.HoleInLog(writer=survivor[0], seq=survivor[1])]
    possible += [] if mine is None else [facts.NotAcknowledged(sent=mine.sent, ended=mine.ended)]
    return [*found, *(fact for fact in possible if fact.holds(clues))]


def _sightings(clues: Clues) -> list[Fact]:
    if clues.last_seen:
        return [facts.SeenThenGone(last_seen=clues.last_seen, first_missed=clues.first_missed)]
    if clues.was_seen:
        return [facts.SeenBefore(first_missed=clues.first_missed)]
    return [facts.NeverSeen()]


__all__ = ["Cause", "Clues", "Explanation", "candidates", "explain"]
