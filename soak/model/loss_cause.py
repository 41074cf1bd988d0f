"""Why an acknowledged message is gone: the rules, from what leaves the surest trace to what is left in the end."""

from __future__ import annotations

from collections.abc import Callable

from soak.model.causes import Cause, Explanation
from soak.model.clues import Clues
from soak.model.faults import FaultClass, FaultWindow
from soak.model.telemetry import FOLDER_MARK

WORKER_SILENT_US = 1_000_000
"""A load process that has not been heard of for so long may have died."""

FRESH_US = 3_000_000
"""How long a server that syncs every second may take until something is on disk."""

REPEATS_MIN = 3
"""So many losses, all of repeated text, are no coincidence."""

_OFF = frozenset({"no", "off", "0", ""})
_PROMOTIONS = frozenset({"failover", "early_failover"})
_OTHER_VERSIONS = frozenset({"upgrade", "downgrade"})
_SPOILED_FILES = frozenset({"file_corruption", "aof_truncation"})
_UP_MEANWHILE = _PROMOTIONS | {"fsync_error", "clock_step"}
"""Faults during which the server answers, at least for a while: an acknowledgement then is no error swallowed."""


def explain_loss(clues: Clues) -> Explanation:
    rules: tuple[Callable[[Clues], Explanation | None], ...] = (
        _restart,
        _eviction,
        _expiry,
        _trouble,
        _dead_writer,
        _repeated_text,
        _overwrite,
        _never_written,
    )
    for rule in rules:
        explanation = rule(clues)
        if explanation is not None:
            return explanation
    return Explanation(Cause.UNKNOWN, [], ["no fault, no eviction, no expiry, and nobody else wrote at that time"])


# -- the server died --


def _restart(clues: Clues) -> Explanation | None:  # noqa: PLR0911  one answer a line reads better than one variable
    window = _deadly_window(clues)
    if window is None or _is_rather_expiry(clues, window):
        return None
    attempt = clues.attempt
    is_down = window.kind not in _UP_MEANWHILE
    # It goes on answering until the fault has taken effect.
    since = window.started if window.injected is None else window.injected
    if is_down and attempt is not None and since <= attempt.sent and attempt.ended <= (window.ended or 0):
        fact = f"{window.target} was down ({window.kind}) when the append was sent, and when it was acknowledged"
        return Explanation(Cause.SWALLOWED_ERROR, [fact], [])
    facts = [_when(clues, window)]
    special = _by_kind(window, facts)
    if special is not None:
        return special
    if window.survivor_sent == 0 and _is_another_folder(window):
        facts.append(f"{window.target} came back with another data folder than it had before, and nothing survived")
        return Explanation(Cause.WIPED_VOLUME, facts, [])
    persists = _persists(clues, window)
    if persists is False:
        facts.append(f"{window.target} was configured not to write down what it is told as it goes")
        return Explanation(Cause.RESTART_WITHOUT_PERSISTENCE, facts, [])
    if window.fault_class is FaultClass.POWER and _leaves_syncing_to_the_kernel(clues, window):
        facts.append(f"{window.target} was configured to leave to the kernel when to write to the disk")
        return Explanation(Cause.UNSYNCED_TAIL, facts, [])
    if window.survivor_sent == 0 and not _is_fresh(clues, window):
        facts.append("nothing that was acknowledged shortly before it survived")
        if persists is None:
            against = [f"nobody could ask {window.target} how it is configured"]
            return Explanation(Cause.RESTART_WITHOUT_PERSISTENCE, facts, against)
        facts.append(f"{window.target} was configured to write down what it is told")
        return Explanation(Cause.WIPED_VOLUME, facts, [])
    if window.survivor_sent:
        facts.append("what was acknowledged earlier survived: only the tail is gone")
        return Explanation(Cause.UNSYNCED_TAIL, facts, [])
    return Explanation(Cause.UNSYNCED_TAIL, facts, ["nothing older is known to have survived"])


def _by_kind(window: FaultWindow, facts: list[str]) -> Explanation | None:
    """Tell the cause where what was done to the server leaves no other."""
    if window.kind in _PROMOTIONS:
        # Not an unsynced tail, though it is one that is gone: the old primary had synced it, and whoever reads
        # "unsynced" would look at the disk. It had not reached the replica that took its place.
        behind = window.telemetry.get("replication_lag_bytes")
        facts.append("its replica was promoted, and had not received it")
        return Explanation(
            Cause.REPLICA_LAG, [*facts, *([f"the replica was {behind} bytes behind before"] if behind else [])], []
        )
    if window.kind in _OTHER_VERSIONS and window.survivor_sent == 0:
        keys = window.telemetry_after.get("keys")
        facts.append("another version of the server was started on its data, and what it had written was not read")
        if keys is None:
            return Explanation(Cause.RESTART_WITHOUT_PERSISTENCE, facts, ["nobody counted what was there afterwards"])
        against = [] if keys == "0" else [f"it had {keys} keys when the fault was over"]
        return Explanation(Cause.RESTART_WITHOUT_PERSISTENCE, [*facts, f"it came back with {keys} keys"], against)
    if window.kind in _SPOILED_FILES:
        # The list of causes has none for a file that somebody else wrote to.
        return Explanation(Cause.UNKNOWN, [*facts, "its files were changed while it was stopped"], [])
    return None


def _is_another_folder(window: FaultWindow) -> bool:
    marks = window.telemetry.get(FOLDER_MARK), window.telemetry_after.get(FOLDER_MARK)
    return None not in marks and marks[0] != marks[1]


def _is_rather_expiry(clues: Clues, window: FaultWindow) -> bool:
    """Whether the server's clock was set, and sessions went as a whole while it expired keys."""
    return window.kind == "clock_step" and clues.is_prefix and bool(clues.risen("expired_keys"))


def _deadly_window(clues: Clues) -> FaultWindow | None:
    """Return the last fault that may have taken it: begun after it was acknowledged or seen, before it was missed."""
    deadly = [
        window
        for window in clues.faults
        if window.fault_class is not FaultClass.HARMLESS
        and window.started <= clues.first_missed
        and (clues.attempt is None or clues.attempt.sent <= (window.ended or window.started))
        and clues.last_seen <= (window.ended or window.started)
    ]
    return deadly[-1] if deadly else None


def _is_fresh(clues: Clues, window: FaultWindow) -> bool:
    """Whether it was so fresh when the power failed that no server need have synced it, nor anything before it."""
    if window.fault_class is not FaultClass.POWER or clues.attempt is None:
        return False
    return window.started - clues.attempt.ended <= FRESH_US


def _persists(clues: Clues, window: FaultWindow) -> bool | None:
    """Whether the server was configured to write down what it is told as it goes; None: nobody knows."""
    for setting in ("appendonly", "fsync"):
        value = clues.configured(window.target, setting, window.started)
        if value is not None:
            return value not in _OFF
    return None


def _leaves_syncing_to_the_kernel(clues: Clues, window: FaultWindow) -> bool:
    return clues.configured(window.target, "appendfsync", window.started) == "no"


def _when(clues: Clues, window: FaultWindow) -> str:
    if clues.attempt is None:
        return f"{window.target} had a {window.kind} after it was acknowledged"
    after = (window.started - clues.attempt.ended) / 1e6
    return f"{window.target} had a {window.kind} {max(0.0, after):.1f} s after the acknowledgement"


# -- the server removed it --


def _eviction(clues: Clues) -> Explanation | None:
    evicted = clues.risen("evicted_keys")
    if not evicted or not clues.is_prefix:
        return None
    facts = [
        f"the server evicted {evicted} keys between the last time it should have been there and now",
        "the session is gone as a whole, up to a moment",
    ]
    return Explanation(Cause.EVICTION, facts, [])


def _expiry(clues: Clues) -> Explanation | None:
    expired = clues.risen("expired_keys")
    if not clues.is_prefix or expired == 0:
        return None
    facts = ["the session is gone as a whole, up to a moment"]
    if expired is None:
        if clues.items == 0:
            return None
        return Explanation(Cause.EXPIRY, facts, ["the server does not count what expires"])
    facts += [
        f"the time to live of its keys was changed on {window.target}"
        for window in clues.faults
        if window.kind == "ttl_change" and clues.stood_since <= (window.ended or window.started) <= clues.read_returned
    ]
    facts.append(f"the server expired {expired} keys between the last time it should have been there and now")
    return Explanation(Cause.EXPIRY, facts, [])


# -- it was never written, or not to the disk --


def _trouble(clues: Clues) -> Explanation | None:
    """Tell an error that was swallowed: of the append, or of the reads that found nothing."""
    attempt = clues.attempt
    trouble = clues.trouble_near(attempt.sent, attempt.ended) if attempt is not None and not clues.last_seen else None
    if trouble is not None:
        return Explanation(Cause.SWALLOWED_ERROR, [trouble, "the append was acknowledged all the same"], [])
    if clues.items == 0:
        trouble = clues.trouble_near(clues.first_missed, clues.read_returned)
        facts = ["the reads answered that nothing is remembered", *([trouble] if trouble else [])]
        if trouble or (clues.last_seen and clues.risen("evicted_keys") == 0):
            return Explanation(Cause.SWALLOWED_ERROR, facts, [])
    return None


def _dead_writer(clues: Clues) -> Explanation | None:
    if clues.worker_silent_us < WORKER_SILENT_US or not clues.is_tail or clues.last_seen:
        return None
    facts = [
        f"the process that wrote it has been silent for {clues.worker_silent_us / 1e6:.1f} s",
        "it was among the last that process had acknowledged, and no read ever showed it",
    ]
    return Explanation(Cause.UNSYNCED_TAIL, facts, [])


def _repeated_text(clues: Clues) -> Explanation | None:
    if not clues.repeats_text or clues.last_seen:
        return None
    if clues.losses < REPEATS_MIN and clues.rivals and not clues.losses_alone:
        return None
    if clues.losses_repeating < clues.losses:
        return None
    fact = "the same words stand in the session already, and so it was with every loss of this store"
    return Explanation(Cause.SWALLOWED_ERROR, [fact, "no read ever showed it"], [])


def _overwrite(clues: Clues) -> Explanation | None:
    rivals = clues.rivals
    if not rivals:
        return None
    # Overwriting takes two: a store that loses messages of lonely writers too has another fault.
    if clues.losses_alone * 5 > clues.losses:
        return None
    names = ", ".join(f"writer {other.writer} seq {other.seq}" for other in rivals[:3])
    facts = [f"another writer appended to the session at the same time: {names}"]
    against = [f"{clues.losses_alone} of {clues.losses} losses had no rival"] if clues.losses_alone else []
    return Explanation(Cause.CONCURRENT_OVERWRITE, facts, against)


def _never_written(clues: Clues) -> Explanation | None:
    if clues.last_seen or clues.is_prefix or clues.attempt is None:
        return None
    facts = [
        "no read ever showed it, while its neighbours stand: it never reached the store",
        "no fault, no eviction and no expiry is known that could have taken it",
    ]
    against = ["others wrote to the session at that time"] if clues.rivals else []
    return Explanation(Cause.SWALLOWED_ERROR, facts, against)
