"""What is known about one violation when its cause is looked for: values only, gathered by the verifier."""

from __future__ import annotations

import msgspec

from soak.model.attempt import Attempt
from soak.model.faults import FaultWindow
from soak.model.kinds import Kind
from soak.model.telemetry import ServerSample

OVERLAP_US = 250_000
"""Two appends this close may have read the same state before writing it back."""

NEAR_US = 1_500_000
"""An error this close to an append belongs to the same trouble."""

_SILENT_FAULTS = frozenset({"eviction", "replica_lag", "ttl_change"})
"""Faults that let every operation through: no error of an append or a read comes from them."""

SAMPLE_GAP_US = 5_000_000
"""Servers are sampled every two seconds; with no sample for so long, they did not answer."""


class Clues(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that a cause is told from. Times are microseconds of CLOCK_MONOTONIC."""

    kind: Kind
    attempt: Attempt | None = None
    """How the append ended, where its times are still known."""
    others: list[Attempt] = []
    """Appends of the same session whose times are still known."""
    read_invoked: int = 0
    read_returned: int = 0
    """The read that showed the violation, or confirmed it."""
    first_missed: int = 0
    """When the first read that lacked it was invoked; 0: it was not absent."""
    last_seen: int = 0
    """When the last read that showed it was invoked; 0: no read ever did."""
    items: int = 0
    """How many elements that read returned."""
    is_prefix: bool = False
    """Nothing older stands in the session: it is gone from its beginning up to here, or as a whole."""
    is_tail: bool = False
    """Nothing that was acknowledged later stands in the session."""
    repeats_text: bool = False
    """A message with the same role and content stands in the session."""
    reads_replica: bool = False
    worker_silent_us: int = 0
    """For how long the process that wrote it has not been heard of."""
    faults: list[FaultWindow] = []
    """Fault windows of the servers of this store."""
    samples: list[ServerSample] = []
    """What those servers said of themselves, oldest first."""
    troubles: list[int] = []
    """When other operations of this store failed."""
    losses: int = 1
    """Losses of this store so far, this one included."""
    losses_alone: int = 0
    """Those of them with nobody else writing to the session at the time."""
    losses_repeating: int = 0
    """Those of them whose text was said more than once."""

    @property
    def rivals(self) -> list[Attempt]:
        """Appends by other writers that were under way at the same time, or nearly."""
        mine = self.attempt
        if mine is None:
            return []
        return [
            other
            for other in self.others
            if other.writer != mine.writer
            and other.sent < mine.ended + OVERLAP_US
            and mine.sent < other.ended + OVERLAP_US
        ]

    @property
    def stood_since(self) -> int:
        """The last moment at which it was certainly there, or should have been."""
        return max(self.last_seen, self.attempt.ended if self.attempt is not None else 0)

    def risen(self, counter: str) -> int | None:
        """Return by how much a server's counter has risen since then; None where no server has such a counter."""
        total: int | None = None
        for server in {sample.server for sample in self.samples}:
            samples = [s for s in self.samples if s.server == server and counter in s.telemetry]
            if not samples:
                continue
            before = [s for s in samples if s.at <= self.stood_since]
            first = before[-1] if before else samples[0]
            rise = int(samples[-1].telemetry[counter]) - int(first.telemetry[counter])
            # A server that restarted counts from zero again.
            total = (total or 0) + (rise if rise >= 0 else int(samples[-1].telemetry[counter]))
        return total

    def configured(self, server: str, setting: str, before: int) -> str | None:
        """Return what a server was configured to shortly before a moment, None if nobody asked it."""
        known = [s for s in self.samples if s.server == server and setting in s.configuration]
        earlier = [s for s in known if s.at <= before]
        chosen = earlier[-1] if earlier else (known[0] if known else None)
        return None if chosen is None else chosen.configuration[setting]

    def trouble_near(self, start: int, end: int) -> str | None:
        """Say what else went wrong between two moments, or close to them; None: nothing is known of any trouble."""
        for window in self.faults:
            if window.kind in _SILENT_FAULTS:
                continue
            if window.started <= end + NEAR_US and (window.ended is None or window.ended >= start - NEAR_US):
                return f"{window.target} had a fault ({window.kind}) at that time"
        close = [at for at in self.troubles if start - NEAR_US <= at <= end + NEAR_US]
        if close:
            return f"{len(close)} other operations on this store failed at that time"
        for server in sorted({sample.server for sample in self.samples}):
            times = [sample.at for sample in self.samples if sample.server == server]
            for earlier, later in zip(times, [*times[1:], self.read_returned], strict=True):
                if later - earlier > SAMPLE_GAP_US and earlier < end and later > start:
                    return f"{server} did not answer the verifier's own questions at that time"
        return None
