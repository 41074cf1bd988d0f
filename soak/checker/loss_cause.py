"""Why an acknowledged message is gone: the rules, from what is certain to what is merely near."""

from __future__ import annotations

from collections.abc import Callable

from soak.checker import facts
from soak.checker.causes import Cause, Explanation
from soak.checker.clues import SILENT_FAULTS, Clues, Restart, neighbours
from soak.checker.facts import Fact
from soak.checker.faults import Excuse, FaultWindow
from soak.checker.trouble import trouble_during

WORKER_SILENT_US = 1_000_000
"""A load process that has not been heard of for so long may have died."""

FRESH_US = 3_000_000
"""How long a server that syncs every second may take until something is on disk."""

REPEATS_MIN = 3
"""So many losses, all of repeated text, are no coincidence."""

RIVALS_NAMED_MAX = 3

_PROMOTIONS = frozenset({"failover", "early_failover"})
_OTHER_VERSIONS = frozenset({"upgrade", "downgrade"})
_SPOILED_FILES = frozenset({"file_corruption", "aof_truncation"})
_UP_MEANWHILE = _PROMOTIONS | {"fsync_error", "clock_step"}
"""Faults during which the server answers, at least for a while: an acknowledgement then is no error swallowed."""


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
    if attempt is not None and window.kind not in _UP_MEANWHILE:
        fault = facts.ref_of(window)
        down = facts.AcknowledgedWhileDown(fault=fault, sent=attempt.sent, acknowledged=attempt.ended)
        if down.holds(clues):
            return Explanation(Cause.SWALLOWED_ERROR, [down])
    found: list[Fact] = [happened(clues, window), *_restarts_within(clues, window)]
    return _by_kind(window, found) or _by_survivors(clues, window, found)


def _by_kind(window: FaultWindow, found: list[Fact]) -> Explanation | None:
    """Name the cause where what was done to the server leaves no other."""
    fault = facts.ref_of(window)
    if window.kind in _PROMOTIONS:
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


def _by_survivors(  # noqa: PLR0911  one answer a line reads better than one variable
    clues: Clues, window: FaultWindow, found: list[Fact]
) -> Explanation:
    """Name the cause by how the server was configured, and by what outlived the fault."""
    fault = facts.ref_of(window)
    folder, nothing = facts.OtherDataFolder(fault=fault), facts.NoSurvivorKnown(fault=fault)
    if nothing.holds(clues) and folder.holds(clues):
        return Explanation(Cause.WIPED_VOLUME, [*found, folder, nothing])
    persistence = _persistence(clues, window.target, window.started)
    if isinstance(persistence, facts.NoPersistence):
        return Explanation(Cause.RESTART_WITHOUT_PERSISTENCE, [*found, persistence])
    kernel = facts.SyncLeftToKernel(server=window.target, at=window.started)
    if window.excuses is Excuse.POWER and kernel.holds(clues):
        return Explanation(Cause.UNSYNCED_TAIL, [*found, kernel])
    if window.survivor_sent:
        survived = facts.EarlierSurvived(fault=fault, sent=window.survivor_sent)
        return Explanation(Cause.UNSYNCED_TAIL, [*found, survived])
    if _is_fresh(clues, window):
        return Explanation(Cause.UNSYNCED_TAIL, found, [nothing])
    if persistence is None:
        unknown = facts.ConfigurationUnknown(server=window.target)
        return Explanation(Cause.RESTART_WITHOUT_PERSISTENCE, [*found, nothing], [unknown])
    return Explanation(Cause.WIPED_VOLUME, [*found, nothing, persistence])


def _restart(clues: Clues) -> Explanation | None:
    """Name the cause where a server restarted by itself: its identity changed, and no fault was recorded."""
    for restart in restarts_since(clues):
        fact = restarted(restart)
        persistence = _persistence(clues, restart.server, restart.since)
        if isinstance(persistence, facts.NoPersistence):
            return Explanation(Cause.RESTART_WITHOUT_PERSISTENCE, [fact, persistence])
        if clues.attempt is not None and restart.since - clues.attempt.ended <= FRESH_US:
            return Explanation(Cause.UNSYNCED_TAIL, [fact, *([persistence] if persistence is not None else [])])
    return None


def restarts_since(clues: Clues) -> list[Restart]:
    """Return the restarts between the last moment at which it was there and the first read that lacked it."""
    missed = clues.first_missed or clues.read_returned
    return [one for one in clues.restarts() if one.until >= clues.stood_since and one.since <= missed]


def restarted(restart: Restart) -> Fact:
    return facts.ServerRestarted(**restart._asdict())


def _restarts_within(clues: Clues, window: FaultWindow) -> list[Fact]:
    of_window = [one for one in restarts_since(clues) if one.server == window.target and one.since == window.started]
    return [restarted(one) for one in of_window]


def _is_rather_expiry(clues: Clues, window: FaultWindow) -> bool:
    """Whether the server's clock was set, and sessions went as a whole while it expired keys."""
    return window.kind == "clock_step" and clues.is_prefix and bool(clues.risen("expired_keys"))


def deadly_window(clues: Clues) -> FaultWindow | None:
    """Return the last fault that may have taken it: begun after it was acknowledged or seen, before it was missed."""
    deadly = [
        window
        for window in clues.faults
        if window.excuses is not Excuse.NOTHING
        and window.started <= clues.first_missed
        and (clues.attempt is None or clues.attempt.sent <= (window.ended or window.started))
        and clues.last_seen <= (window.ended or window.started)
    ]
    return deadly[-1] if deadly else None


def _is_fresh(clues: Clues, window: FaultWindow) -> bool:
    """Whether it was so fresh when the power failed that no server need have synced it, nor anything before it."""
    if window.excuses is not Excuse.POWER or clues.attempt is None:
        return False
    return window.started - clues.attempt.ended <= FRESH_US


def _persistence(clues: Clues, server: str, at: int) -> facts.NoPersistence | facts.Persistence | None:
    """Return how the server was configured to keep what it acknowledges; None: nobody knows."""
    for setting in facts.PERSISTENCE:
        value = clues.configured(server, setting, at)
        if value is None:
            continue
        save = clues.configured(server, "save", at)
        settings = {setting: value, **({"save": save} if save is not None else {})}
        of_kind = facts.NoPersistence if value in facts.OFF else facts.Persistence
        return of_kind(server=server, settings=settings, at=at)
    return None


def happened(clues: Clues, window: FaultWindow) -> Fact:
    acknowledged = clues.attempt.ended if clues.attempt is not None else None
    return facts.FaultHappened(fault=facts.ref_of(window), ended=window.ended, acknowledged=acknowledged)


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
        and facts.overlap(window.started, window.ended, clues.stood_since, clues.read_returned)
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
