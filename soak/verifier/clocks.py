"""The clocks of all hosts that take part, compared through the ledger's.

Every record with a time says how the clock of its host stood to the ledger's, and by how much that may be wrong. The
verifier measures its own against the same one. The difference turns a time of another host into one of the verifier's;
what neither is sure of is the epsilon of every comparison across hosts. On one host nothing is converted, and epsilon
is 0.

When the ledger's clock is set, worker and verifier notice it one after the other. The difference between the two does
not change by that, so what is known of it shows which measurements belong together. A difference that changes all the
same is a host that was suspended or moved: the sessions it has open then are undecided. So are those of a host whose
clock is known worse than `clock.error_max`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec
import structlog

from soak.clock import clock_offset_us, continue_timeline, now_us
from soak.ledger.clock import Bracket, ClockReading, LedgerClock, drift_us
from soak.ledger.reader import Entry, RunRecord, WorkerBatch, milliseconds_of

_log = structlog.get_logger()

HOSTS_MAX = 256
_ANY_US = 2**60
"""Nothing is known of a clock."""
SILENT_US = 60_000_000
"""A host that was not heard of for so long is no longer shown."""


class HostClock(msgspec.Struct):
    """What is known of the clock of one boot of another host."""

    host: str
    bracket: Bracket
    """Bounds of what turns its times into the verifier's, at a time of the ledger."""
    shift_us: int
    """What does so; it stays as it is for as long as it can be right."""
    error_us: int = 0
    worst_us: int = 0
    """The largest error with which times of it were taken in."""
    is_uncertain: bool = False
    was_uncertain: bool = False
    is_undecided: bool = False
    """Something that it wrote was not judged for it."""
    jumps: int = 0
    heard: int = 0
    """When, by the verifier's clock."""

    @property
    def error_seconds(self) -> float:
        """How exactly it is known; infinite if nothing was measured."""
        return float("inf") if self.error_us >= _ANY_US else self.error_us / 1e6


class Stamp(NamedTuple):
    """Whose clock a time is of, and how that stood to the ledger's when it was written."""

    host: str
    boot: str
    offset_us: int
    error_us: int | None
    ledger_us: int
    """When it was written, by the ledger's clock."""


class Placing(enum.Enum):
    """What became of the attempt to place times of another host."""

    CERTAIN = "certain"
    JUMPED = "jumped"
    """They are placed, and what came before was placed by another difference of the clocks."""
    UNCERTAIN = "uncertain"


class Clocks:
    """Turns the times of other hosts into those of this one."""

    def __init__(self, boot: str, own: LedgerClock | None = None, *, error_max_us: int = 250_000) -> None:
        self.boot = boot
        self._own = own
        self.error_max_us = error_max_us
        self._began = now_us()
        self.hosts: dict[str, HostClock] = {}
        """By boot."""
        self.base_error_us = 0
        """By how much the verifier's own timeline may be off since it was continued in another boot."""
        self.epsilon_us = 0
        self.on_wider: Callable[[int], None] = lambda _epsilon_us: None
        """Called when times of two hosts can be compared less exactly than before."""
        self.on_jump: Callable[[str], None] = lambda _boot: None
        """Called with the boot of a host whose clock changed, whoever it was whose word showed that."""

    def restore(self, hosts: dict[str, HostClock], base_error_us: int) -> None:
        """Take up what was known at a checkpoint."""
        self.hosts = hosts
        self.base_error_us += base_error_us
        self._widen()

    def is_foreign(self, boot: str) -> bool:
        return boot not in {"", self.boot}

    @property
    def own(self) -> ClockReading | None:
        """How the verifier's own clock stands to the ledger's; None: it was not measured."""
        return None if self._own is None else self._own.reading()

    @property
    def ledger_offset_us(self) -> int:
        """The ledger's time less that of the verifier; if it was not measured, that of the wall clock here."""
        return clock_offset_us() if self.own is None else self.own.offset_us

    def go_on_in(self, boot: str, ahead_us: int, error_us: int) -> None:
        """Go on in the timeline of another boot; how the clock stands to the ledger's is to be measured anew."""
        continue_timeline(boot, ahead_us)
        self.boot, self._began = boot, now_us()
        self.base_error_us += error_us
        if self._own is not None:
            self._own.forget()

    async def prepare(self, stamps: Iterable[Stamp | None]) -> None:
        """Measure the verifier's own clock anew where times do not fit what is known: a clock may have been set."""
        for stamp in stamps:
            if stamp is not None and self.is_foreign(stamp.boot) and not self._fits(stamp):
                if self._own is not None:
                    await self._own.try_to_measure()
                return

    def place_word(self, stamp: Stamp) -> tuple[int, Placing]:
        """Return what `place` does for what stays written, and is heard again and again: of now it tells nothing."""
        known = self.hosts.get(stamp.boot)
        if known is not None and stamp.ledger_us <= known.bracket.at:
            widened = known.bracket.widened(stamp.ledger_us)
            if not any(widened.meets(one) for one in self._differences(stamp)):
                return known.shift_us, Placing.UNCERTAIN  # it was written before that clock jumped
        return self.place(stamp)

    def place(self, stamp: Stamp, span_us: int = 0) -> tuple[int, Placing]:
        """Return what turns times of another host into the verifier's; from the first to the last they span so much."""
        known = self.hosts.get(stamp.boot)
        candidates = self._differences(stamp)
        if not candidates:
            return self._not_placed(stamp, known)
        newest, placing = candidates[0], Placing.CERTAIN
        if known is None:
            known = self._meet(stamp, newest)
        else:
            widened = known.bracket.widened(stamp.ledger_us)
            fitting = next((one for one in candidates if widened.meets(one)), None)
            if fitting is None:
                placing = Placing.JUMPED
                self._jump(stamp, known, newest)
            else:
                known.bracket = widened.narrowed(fitting)
        known.shift_us = min(max(known.shift_us, known.bracket.low), known.bracket.high)
        known.heard = now_us()
        error = max(known.bracket.high - known.shift_us, known.shift_us - known.bracket.low)
        # It was measured when it was written, which may be long after the first of what it says.
        error += drift_us(span_us)
        return self._judged(known, error, placing)

    def note_undecided(self, boot: str) -> None:
        """Note that something was not judged because of this clock."""
        self.hosts[boot].is_undecided = True

    def _judged(self, known: HostClock, error: int, placing: Placing) -> tuple[int, Placing]:
        known.error_us = error
        if error > self.error_max_us:
            self._doubt(known)
            return known.shift_us, Placing.UNCERTAIN
        if known.is_uncertain:
            known.is_uncertain = False
            _log.info("clock_certain", host=known.host, error_seconds=error / 1e6)
        if error > known.worst_us:
            known.worst_us = error
            self._widen()
        return known.shift_us, placing

    def _differences(self, stamp: Stamp) -> list[Bracket]:
        """Return what the difference may be, by each of the verifier's own measurements, the latest first."""
        if stamp.error_us is None or self._own is None:
            return []
        low, high = stamp.offset_us - stamp.error_us, stamp.offset_us + stamp.error_us
        found = []
        for own in self._own.brackets:
            # What was written while the verifier ran, and is read late, was measured when its own clock stood
            # otherwise. Before it ran, it did nothing that could be compared.
            late = drift_us(min(own.at - (stamp.ledger_us - own.reading.offset_us), own.at - self._began))
            found.append(Bracket(low - own.high - late, high - own.low + late, stamp.ledger_us))
        return found

    def _fits(self, stamp: Stamp) -> bool:
        known = self.hosts.get(stamp.boot)
        newest = self._differences(stamp)[:1]
        return known is not None and bool(newest) and known.bracket.widened(stamp.ledger_us).meets(newest[0])

    def _meet(self, stamp: Stamp, bracket: Bracket) -> HostClock:
        if len(self.hosts) >= HOSTS_MAX:
            del self.hosts[min(self.hosts, key=lambda boot: self.hosts[boot].heard)]
        shift = bracket.reading.offset_us
        known = self.hosts[stamp.boot] = HostClock(stamp.host, bracket, shift)
        _log.info("clock_met", host=stamp.host, error_seconds=bracket.reading.error_us / 1e6)
        return known

    def _jump(self, stamp: Stamp, known: HostClock, bracket: Bracket) -> None:
        seconds = (known.shift_us - bracket.reading.offset_us) / 1e6
        _log.error("clock_jumped", host=known.host, seconds=round(seconds, 6), records_of=stamp.ledger_us)
        known.jumps += 1
        known.bracket, known.shift_us = bracket, bracket.reading.offset_us
        self.on_jump(stamp.boot)

    def _not_placed(self, stamp: Stamp, known: HostClock | None) -> tuple[int, Placing]:
        """Note a host of which nothing was measured."""
        if known is None:
            known = self._meet(stamp, Bracket(-_ANY_US, _ANY_US, stamp.ledger_us))
        known.heard = now_us()
        known.error_us = _ANY_US
        self._doubt(known)
        return known.shift_us, Placing.UNCERTAIN

    def _doubt(self, known: HostClock) -> None:
        if not known.is_uncertain:
            _log.error("clock_uncertain", host=known.host, error_seconds=known.error_us / 1e6)
        known.is_uncertain = known.was_uncertain = True

    def _widen(self) -> None:
        """Two hosts are compared with the errors of both; the verifier's own times have none."""
        worst = sorted((one.worst_us for one in self.hosts.values()), reverse=True)[:2]
        # In whole milliseconds, so that it does not change with every record.
        epsilon = -(-(self.base_error_us + sum(worst)) // 1000) * 1000
        if epsilon > self.epsilon_us:
            self.epsilon_us = epsilon
            self.on_wider(epsilon)

    # -- what is said of it --

    @property
    def shown(self) -> list[HostClock]:
        """The hosts that were heard of lately."""
        now = now_us()
        return [one for one in self.hosts.values() if now - one.heard < SILENT_US]

    @property
    def warnings(self) -> list[str]:
        limit = f"clock.error_max = {self.error_max_us / 1e6:g}s"
        return [
            f"the clock of {one.host} is {_known(one.error_seconds)} ({limit}): "
            "what it writes is not judged; look at its connection to the ledger"
            for one in self.shown
            if one.is_uncertain
        ]

    @property
    def doubts(self) -> list[str]:
        """Why the run cannot pass, in words."""
        hosts = [one for one in self.hosts.values() if one.is_undecided]
        uncertain = sorted({one.host for one in hosts if one.was_uncertain})
        limit = f"clock.error_max = {self.error_max_us / 1e6:g}s"
        doubts = [f"the clock of {host} was uncertain by more than {limit}" for host in uncertain]
        jumped = sorted({one.host for one in hosts if one.jumps})
        return doubts + [f"the clock of {host} jumped: it was suspended, or moved" for host in jumped]


def _known(error_seconds: float) -> str:
    return "not known" if math.isinf(error_seconds) else f"known to within {error_seconds * 1e3:.0f} ms only"


def stamp_of(entry: Entry) -> Stamp | None:
    """Return whose clock the times of a record are of; None: it has none."""
    ledger_us = milliseconds_of(entry.at) * 1000
    if isinstance(entry, WorkerBatch):
        return Stamp(entry.host or entry.boot, entry.boot, entry.clock_offset_us, entry.clock_error_us, ledger_us)
    if isinstance(entry, RunRecord):
        record = entry.record
        return Stamp(record.host or record.boot, record.boot, record.clock_offset_us, record.clock_error_us, ledger_us)
    return None
