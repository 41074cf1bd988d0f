"""What faults may take: which acknowledged loss each excuses, and who survived it, over all sessions of a server.

Only a contiguous tail can be excused, no longer than the contract allows. A message that was sent after another had
been applied, and is still there, proves that the other is a hole. Survivors are collected over all sessions and all
stores of a server, so a fault is not judged before everything has been read once since.

`Recovery` is what one fault took of one store: the recovery point that was measured, against the one that is promised.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from soak.checker.contract import Contract
from soak.checker.outcome import Attempt, Outcome

DEATHS_MAX = 64
WINDOWS_MAX = 256
CATCH_UP_US = 60_000_000
BY_ITSELF = frozenset({"crash", "failover"})
"""What an unplanned window says of a server that restarted, or was replaced, by itself. One that went down with its
daemon did not."""
_NEVER = 2**62


class Excuse(enum.Enum):
    """What a fault excuses: how it ends the server, and so which promise of the contract it is measured by."""

    NOTHING = "nothing"
    """The server keeps all it acknowledged: a pause, a slow link, a full disk. What it throws away, by eviction or
    expiry, is for the contract's clauses on those. Where it dies of it, that is a crash with a window of its own."""
    CLEAN = "clean"
    """The process ends in good order, or its data is spoiled or taken away: only what keeps nothing anyway may lose
    anything."""
    CRASH = "crash"
    """The process dies; what it had handed to the kernel survives."""
    POWER = "power"
    """The machine dies; only what was synced survives."""
    FAILOVER = "failover"
    """A replica takes over too soon; only what it had received survives."""


class Promotion(enum.Enum):
    """Whether a replica becomes the primary in a fault, and what clients may still read from the old one."""

    NONE = "none"
    """No replica becomes the primary."""
    AT_ONE_ADDRESS = "at one address"
    """The new primary takes over the address of the old one, which is down."""
    BESIDE_THE_OLD = "beside the old"
    """The old primary does not know that it has been replaced, and clients may go on reading from it."""


class FaultWindow(msgspec.Struct, kw_only=True):
    """One fault on one server, from its ledger records."""

    fault: str
    kind: str
    target: str
    excuses: Excuse
    promotes: Promotion
    serves: bool = False
    """The server goes on serving during it, so it takes nothing by itself: what the server had is lost when it dies,
    or at the end of the fault."""
    down: bool = False
    """The server does not answer from `injected` until it is healed: what was applied by then was applied before."""
    started: int
    injected: int | None = None
    """When it had taken effect, if that is known: what is asked of the server later shows how it copes."""
    ended: int | None = None
    caught_up: int | None = None
    """When the replica was seen to have caught up again, by position in the log; None: that was not seen yet."""
    planned: bool = True
    keeps_data: bool = True
    """False: the server it happened to rests on another one, which keeps the data. Whatever that one may lose, the
    death of this one excuses nothing."""
    parameters: dict[str, str] = {}
    """How it was set, as people write it; it decides nothing."""
    telemetry: dict[str, str] = {}
    telemetry_after: dict[str, str] = {}
    deaths: list[tuple[int, int]] = []
    """When the server died by itself meanwhile, and when it was back; the first of them, if there were many."""
    survivor_sent: int = 0
    """The latest time at which something that was applied before it took effect, and survived it, had been sent."""
    known: dict[str, int] = {}
    """The last session each worker had opened when it ended: later ones it cannot have touched."""
    swept: list[str] = []
    """The stores whose every session has been read since it ended."""

    @property
    def in_effect(self) -> int | None:
        """Since when it has certainly been in effect; None while nobody can tell."""
        if self.injected is not None:
            return self.injected
        if not self.planned and self.kind == "crash":
            return self.started  # it was found dead; one that was replaced may have gone on for a while
        return self.ended

    @property
    def is_active(self) -> bool:
        return self.ended is None

    @property
    def has_promoted(self) -> bool:
        """Whether a replica took the place of its primary, also where that was not asked for."""
        before, after = self.telemetry.get("primary"), self.telemetry_after.get("primary")
        return self.promotes is not Promotion.NONE or (None not in {before, after} and before != after)

    @property
    def leaves_old_primary(self) -> bool:
        """Whether clients may go on reading from a primary that has been replaced and does not know it."""
        return self.promotes is Promotion.BESIDE_THE_OLD

    @property
    def moments(self) -> list[tuple[int, int]]:
        """The times at which it can have taken something: since when the server was gone, and until when."""
        if self.ended is None:
            return []
        if self.serves and len(self.deaths) < DEATHS_MAX:
            return [*self.deaths, (self.ended, self.ended)]
        return [(self.started, self.ended)]

    @property
    def survivors_until(self) -> int:
        """What was applied by then, and is still there, has survived it; later it may have been written anew."""
        if self.serves:
            return self.deaths[0][0] if self.deaths else self.ended or self.started
        if self.down and self.injected is not None:
            return self.injected
        return self.started

    def came_back_before(self, sent: int) -> bool:
        """Whether what was sent then, and acknowledged, was acknowledged by the server that came back."""
        is_over = self.down and self.promotes is Promotion.NONE and not self.deaths
        return is_over and self.injected is not None and sent > self.injected

    def note_death(self, died: int, back: int) -> None:
        """Note that the server died by itself while this fault was under way."""
        if len(self.deaths) < DEATHS_MAX:
            self.deaths.append((died, back))

    def undoes(self, contract: Contract) -> tuple[int, int] | None:
        """Return since when and until when the contract lets this fault undo what was done; None: it may not."""
        allowed = allowed_loss_seconds(self, contract)
        if allowed == 0.0:
            return None
        since = 0 if allowed is None else self.started - int(allowed * 1e6)
        return since, _NEVER if self.ended is None else self.ended


def in_brackets(parameters: Mapping[str, str]) -> str:
    """Write how a fault was set behind its name; nothing where there is nothing to set."""
    return f" ({', '.join(f'{name} {value}' for name, value in parameters.items())})" if parameters else ""


class Survivor(NamedTuple):
    """A message that is there after a fault."""

    sent: int
    applied: int
    """By when it had been applied: when it was acknowledged, or, if it never was, when a read showed it."""
    place: tuple[int, int]


def allowed_loss_seconds(window: FaultWindow, contract: Contract) -> float | None:
    """Return how much acknowledged tail the contract lets this fault take; None: anything."""
    if not window.keeps_data:
        return 0.0
    if window.excuses is Excuse.CLEAN:
        return None if contract.crash_loss_seconds is None else 0.0
    return {
        Excuse.NOTHING: 0.0,
        Excuse.CRASH: contract.crash_loss_seconds,
        Excuse.POWER: contract.power_loss_seconds,
        Excuse.FAILOVER: contract.failover_loss_seconds,
    }[window.excuses]


def is_excused(applied: int, window: FaultWindow, contract: Contract, *, clock_epsilon_us: int = 0) -> bool:
    """Whether the contract lets this fault take a message that had been applied by this time.

    Not if it was acknowledged after recovery, not if it lies further back than the allowed tail, and not if
    something that was sent later survived: that is a hole, and no tail. What a server acknowledges through a fault has
    to be there, too, but for the tail before it died. An acknowledgement dates a message; a write whose outcome is
    unknown is dated by the last read that showed it. The times of the fault and of the message may come from hosts
    whose clocks are apart by epsilon.
    """
    allowed = allowed_loss_seconds(window, contract)
    if allowed == 0.0 or window.ended is None or applied > window.ended + clock_epsilon_us:
        return False
    if allowed is None:
        return True
    reach = int(allowed * 1e6) + clock_epsilon_us
    if not any(gone - reach <= applied <= back + clock_epsilon_us for gone, back in window.moments):
        return False
    return window.survivor_sent <= applied + clock_epsilon_us


class FaultHistory:
    """All faults of a run, and what is known of each: one object for all sessions, which several can merge."""

    def __init__(self, targets: Mapping[str, Sequence[str]], *, catch_up_us: int = CATCH_UP_US) -> None:
        """Take the servers that each store depends on; a replica has so long to catch up after a fault."""
        self.windows: dict[str, FaultWindow] = {}
        self._targets = {store: tuple(needs) for store, needs in targets.items()}
        self.catch_up_us = catch_up_us
        self._sampled: dict[str, int] = {}
        self._failovers: list[FaultWindow] = []
        """The windows in which a primary is replaced: asked for at every read, and mostly there is none."""

    def targets_of(self, store: str) -> tuple[str, ...]:
        return self._targets[store]

    # -- what the ledger says --

    def begin(self, window: FaultWindow) -> None:
        if len(self.windows) >= WINDOWS_MAX:
            self.windows.pop(next(iter(self.windows)))
        self.windows[window.fault] = window
        self._failovers = [one for one in self.windows.values() if one.leaves_old_primary]

    def end(self, fault: str, at: int, telemetry: dict[str, str], known: dict[str, int]) -> list[FaultWindow]:
        """Take in that a fault is over; returns the windows that end with it."""
        ended = self.windows[fault]
        ended.telemetry_after = telemetry
        # A server that went down with its daemon did so some time after that one's last sign of life, and with it
        # went every fault that was under way, also one that had begun since.
        latest = at if ended.kind == "restart" and not ended.planned else ended.started
        # A server that died by itself in the middle of a fault, of a full disk say, or was replaced, is back in the
        # same fault.
        is_within = ended.kind in BY_ITSELF and not ended.planned
        over: list[FaultWindow] = []
        for window in self.windows.values():
            # A daemon killed in between could not note the end of an earlier one; the server is up again now.
            is_over = window is ended or not (is_within and window.planned)
            if window.target == ended.target and window.is_active and window.planned and not ended.planned:
                window.note_death(ended.started, at)
            if window.target == ended.target and window.is_active and window.started <= latest and is_over:
                window.ended, window.known = at, known
                over.append(window)
        return over

    # -- what is asked of it --

    def values(self) -> list[FaultWindow]:
        """Return all faults, in the order of their beginning."""
        return list(self.windows.values())

    def get(self, fault: str) -> FaultWindow | None:
        return self.windows.get(fault)

    def __len__(self) -> int:
        return len(self.windows)

    def __contains__(self, fault: object) -> bool:
        return fault in self.windows

    def of(self, targets: Sequence[str]) -> list[FaultWindow]:
        return [window for window in self.windows.values() if window.target in targets]

    def is_active(self, targets: Sequence[str]) -> bool:
        return any(window.is_active for window in self.windows.values() if window.target in targets)

    def happened(self, targets: Sequence[str], since: int, until: int) -> bool:
        """Whether a fault was active at any time in between."""
        return any(one.started <= until and since <= (one.ended or _NEVER) for one in self.of(targets))

    def is_calm(self, targets: Sequence[str]) -> bool:
        """Whether no fault is active, and what one may have taken has been looked for in every store on that server."""
        if not self.windows:
            return True
        return all(not window.is_active and self.is_swept(window) for window in self.of(targets))

    def is_swept(self, window: FaultWindow) -> bool:
        """Whether every session that a fault may have touched has been read since it ended."""
        return all(store in window.swept for store, needs in self._targets.items() if window.target in needs)

    def casts_shadow(self, targets: Sequence[str], since: int, until: int) -> bool:
        """Whether a fault of the replica, its primary or the link between them may keep back a read of that time."""
        return any(window.started <= until and since <= self._shadow_end(window) for window in self.of(targets))

    def failing_over_since(self, targets: Sequence[str], since: int, until: int) -> int:
        """Return since when a primary was being replaced that a read of that time may be of; 0: none was."""
        if not self._failovers:
            return 0
        begun = (
            window.started
            for window in self._failovers
            if window.target in targets and window.started <= until and (window.ended is None or since <= window.ended)
        )
        return min(begun, default=0)

    def _shadow_end(self, window: FaultWindow) -> int:
        if window.ended is None:
            return _NEVER
        latest = window.ended + self.catch_up_us
        return latest if window.caught_up is None else min(window.caught_up, latest)

    def not_caught_up(self, targets: Sequence[str], now: int) -> list[FaultWindow]:
        """Return the faults that are over, and after which the replica was not seen to have caught up yet."""
        over = [window for window in self.of(targets) if window.ended is not None and window.caught_up is None]
        return [window for window in over if now <= self._shadow_end(window)]

    def mark_swept(self, store: str) -> None:
        """Note that every session of a store has been read since each fault that is over."""
        for window in self.windows.values():
            if window.ended is not None and store not in window.swept:
                window.swept.append(store)

    # -- who survived --

    def collects_survivors(self, targets: Sequence[str]) -> bool:
        """Whether there is a fault after which not everything has been read yet."""
        return any(window.ended is not None and not self.is_swept(window) for window in self.of(targets))

    def note_survivors(self, targets: Sequence[str], seen: int, survivors: Iterable[Survivor]) -> None:
        """Remember how late something was sent that survived a fault, shown by a read of what was there at `seen`."""
        standing = list(survivors)
        for window in self.of(targets):
            if window.ended is None or seen < window.ended:
                continue
            until = window.survivors_until
            sent = (one.sent for one in standing if one.applied <= until)
            window.survivor_sent = max((window.survivor_sent, *sent))

    # -- servers that are asked who they are --

    def note_sample(self, target: str, asked: int) -> None:
        """Note that a server was asked who it is, and that a window is there if it is another one than before."""
        self._sampled[target] = max(asked, self._sampled.get(target, 0))

    def sampled_since(self, targets: Sequence[str]) -> int | None:
        """Return since when each of these servers is known to be the same; None: none of them can be asked."""
        asked = [self._sampled[target] for target in targets if target in self._sampled]
        return min(asked, default=None)

    def samples(self, targets: Sequence[str]) -> dict[str, int]:
        return {target: self._sampled[target] for target in targets if target in self._sampled}

    # -- several verifiers --

    def merge(self, other: FaultHistory) -> None:
        """Take in what another verifier knows of the same faults: nothing is excused before all have looked."""
        for fault in self.windows.keys() - other.windows.keys():
            self.windows[fault].swept = []
        for fault, theirs in other.windows.items():
            mine = self.windows.get(fault)
            if mine is None:
                self.begin(theirs)
                continue
            mine.survivor_sent = max(mine.survivor_sent, theirs.survivor_sent)
            mine.swept = [store for store in mine.swept if store in theirs.swept]
            mine.injected = mine.injected if mine.injected is not None else theirs.injected
            mine.ended = mine.ended if mine.ended is not None else theirs.ended
            mine.caught_up = mine.caught_up if mine.caught_up is not None else theirs.caught_up
            mine.known = {**theirs.known, **mine.known}


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """How the primary of a group was replaced in the time of a fault."""

    before: str
    """Who was primary; of a cluster, all of them."""
    after: str
    seconds: float
    """From the fault until the group named another one; of several, the longest."""
    times: int = 1
    """How often one was: of a cluster several can be, and in a long fault the same one again."""
    stayed: int = 0
    """Connections of clients that went on sending to the old one after that."""
    stayed_seconds: float = 0.0
    """How long the last of them did."""
    clients: list[str] = []
    """Those that did so longest, each with how long."""

    @property
    def sentence(self) -> str:
        words = f"primary {self.before} before, {self.after} after; another one was named"
        words += f"{f' {self.times} times, each' if self.times > 1 else ''} within {self.seconds:.1f} s"
        if not self.stayed:
            return f"{words}; no client stayed with the old one"
        return f"{words}; {self.stayed_words}: {', '.join(self.clients)}"

    @property
    def stayed_words(self) -> str:
        clients = "1 client connection" if self.stayed == 1 else f"{self.stayed} client connections"
        return f"{clients} stayed with the old one for up to {self.stayed_seconds:.1f} s"


def replaced_in(window: FaultWindow) -> Replaced | None:
    """Return how a primary was replaced in this window, as far as its group has told."""
    before, after = window.telemetry, window.telemetry_after
    if window.promotes is Promotion.NONE or "replaced" not in after:
        return None
    return Replaced(
        before=before.get("primary", "unknown"),
        after=after.get("primary", "unknown"),
        seconds=float(after.get("replaced_after_seconds", "0")),
        times=len(after["replaced"].split(", ")),
        stayed=int(after.get("stayed_clients", "0")),
        stayed_seconds=float(after.get("stayed_seconds", "0")),
        clients=[one for one in after.get("stayed", "").split(", ") if one],
    )


class Recovery(msgspec.Struct, kw_only=True):
    """One fault on one store's server. The point is the age of the oldest acknowledged message that was gone after."""

    fault: str
    kind: str
    target: str
    store: str
    planned: bool
    at_wall_seconds: float
    parameters: dict[str, str] = {}
    promised_seconds: float | None
    """None: anything may be lost."""
    tolerated: int = 0
    """Messages lost inside the contract."""
    lost: int = 0
    """Messages lost outside of it."""
    unacknowledged: int = 0
    """Those of both that nobody had acknowledged: a read had shown them, and they are gone."""
    acknowledged_during: int = 0
    """Appends that were acknowledged while it was under way."""
    lost_during: int = 0
    """Those of them that are gone."""
    point_seconds: float = 0.0
    after_seconds: float = 0.0
    """How long after the fault had begun something was still acknowledged that is gone: by a primary that was replaced
    and did not know it."""
    oldest_us: int | None = None
    """The age of the oldest acknowledged message that was gone, at the fault; negative: acknowledged after that."""
    newest_us: int | None = None
    """The same of the newest."""
    is_at_least: bool = False
    """Something so old was lost that its time is no longer known."""
    is_unread: bool = False
    """Not every session could be read since: more may be gone than is known."""
    is_settled: bool = False
    """Everything has been read since, and what was missing is confirmed."""
    lasted_seconds: float | None = None
    """From its beginning until it was healed; None: it is not."""
    read_seconds: float | None = None
    """From the fault's beginning to the first answer to a read that was asked while it was in effect, or later."""
    write_seconds: float | None = None
    """The same for an append."""
    unknown: int = 0
    """Appends under way in its time of which nobody knows whether they were applied."""
    surfaced: int = 0
    """Those of them that were seen later."""
    errors: int = 0
    """Operations of clients that got no answer, or a refusal, until it was over for them."""
    last_failed: int = 0
    """When something was last asked of the server in vain, in microseconds."""
    replaced: Replaced | None = None
    """Who became primary, where it is a group whose primary was replaced."""
    counted: list[str] = []
    """What of it is in the counts of the run, which only grow: its account is let go one day."""

    @property
    def is_kept(self) -> bool:
        """Whether the server gave back what is promised."""
        if self.lost:
            return False
        return self.promised_seconds is None or self.point_seconds <= self.promised_seconds

    @property
    def awaits(self) -> list[str]:
        """What has not been seen to work again."""
        times = {"read": self.read_seconds, "write": self.write_seconds}
        return [operation for operation, seconds in times.items() if seconds is None]

    @property
    def span_seconds(self) -> float:
        """The time between the first and the last acknowledgement of what is gone."""
        return 0.0 if self.oldest_us is None or self.newest_us is None else (self.oldest_us - self.newest_us) / 1e6

    def note(self, age_us: int, *, is_exact: bool, is_tolerated: bool, is_acknowledged: bool = True) -> None:
        """Count a lost message that was acknowledged so long before the fault, or, if not exact, even longer.

        One that was acknowledged in its time has a negative age.
        """
        if is_tolerated:
            self.tolerated += 1
        else:
            self.lost += 1
        self.is_at_least = self.is_at_least or not is_exact
        if not is_acknowledged:
            self.unacknowledged += 1
            return
        self.lost_during += age_us < 0
        self.oldest_us = age_us if self.oldest_us is None else max(self.oldest_us, age_us)
        self.newest_us = age_us if self.newest_us is None else min(self.newest_us, age_us)
        self.point_seconds = max(self.point_seconds, age_us / 1e6)
        self.after_seconds = max(self.after_seconds, -age_us / 1e6)


def begin_recovery(window: FaultWindow, store: str, contract: Contract, at_wall_seconds: float) -> Recovery:
    return Recovery(
        fault=window.fault,
        kind=window.kind,
        target=window.target,
        store=store,
        planned=window.planned,
        at_wall_seconds=at_wall_seconds,
        parameters=window.parameters,
        promised_seconds=allowed_loss_seconds(window, contract),
    )


def blamed_window(
    attempt: Attempt | None, windows: Iterable[FaultWindow], *, last_seen: int, missed: int
) -> FaultWindow | None:
    """Return the first fault that may have taken a message, whatever the contract says to that.

    It must have begun before the message was missed, and neither an acknowledgement nor a read may have come since.
    """
    for window in sorted(windows, key=lambda window: window.started):
        if window.excuses is Excuse.NOTHING or window.ended is None or window.started > missed:
            continue
        if last_seen <= window.ended and (attempt is None or attempt.ended <= window.ended):
            return window
    return None


def age_at(window: FaultWindow, attempt: Attempt | None) -> int:
    """Return how long before a fault a message was acknowledged, by its own attempt or by one that came after it.

    Negative: it was acknowledged while the fault was under way.
    """
    if attempt is None or attempt.outcome != Outcome.OK:
        return 0  # when it was applied nobody knows; it may have been a moment before
    return window.started - attempt.ended
