"""One of several verifiers of a run: what it has to know of the others, and they of it. It goes through the ledger.

Nothing that a fault may have taken is judged before all verifiers have read their sessions since, for what survived in
the share of one proves a hole in that of another. So each writes down what it knows of the faults: the latest survivor,
and the stores that it has read through. It takes a fault for swept once all others say so, too. One that is missing
holds that up; in the end it makes the run inconclusive.

Each also writes down what it has counted. The first adds that up, for the status, the metrics and the verdict.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import psutil
import structlog
from redis.exceptions import RedisError

import soak
from soak.checker.faults import FaultHistory, FaultWindow
from soak.clock import boot_identity, now_us
from soak.errors import ServerUnreachableError, UsageError
from soak.ledger.connection import LedgerConnection, keys_of, unreachable
from soak.ledger.records import this_host
from soak.ledger.shards import Shard, count_verifiers
from soak.metrics import Gauges
from soak.verifier.clocks import Clocks, Placing, Stamp
from soak.verifier.journal import Violation
from soak.verifier.merging import merged_tally, shift_times, slim
from soak.verifier.result import ClockStatus, ShardStatus, UnfinishedRecovery
from soak.verifier.state import State
from soak.verifier.tally import Tally

EXCHANGE_SECONDS = 0.5
CLAIM_SECONDS = 5.0
PREDECESSOR_SECONDS = CLAIM_SECONDS + 1.0
"""For so long the claim of one that was killed may still stand."""
CLAIM_POLL_SECONDS = 0.1
SILENT_SECONDS = 10.0
"""A verifier that was not heard of for so long is missing."""
OFFSET_US_MAX = 10_000
"""What is known of the faults is said anew when the clock stands so much otherwise."""
VIEW_SECONDS = 0.25
LAST_WORD_SECONDS_MAX = 15.0
"""Beyond the time for the last sweep: so long the first waits for the others, and they for the ledger."""

_PROCESS_NAMESPACE = Path("/proc/self/ns/pid")

_log = structlog.get_logger()


class Claim(msgspec.Struct, frozen=True):
    """Who verifies a shard now. Clones of a machine have the same name and folders, and differ in the rest."""

    owner: str
    version: str
    boot: str = ""
    namespace: int = 0
    """In which its process has its number: containers on one host have the same numbers."""
    process: int = 0

    @classmethod
    def of(cls, folder: Path) -> Claim:
        try:
            namespace = _PROCESS_NAMESPACE.stat().st_ino
        except OSError:
            namespace = 0
        owner = f"{this_host().name}:{folder.resolve()}"
        return cls(owner, soak.__version__, boot_identity(), namespace, os.getpid())

    @property
    def is_of_the_dead(self) -> bool:
        """Whether its process is known to be no more; of one elsewhere only its silence tells."""
        here = Claim.of(Path())
        is_here = (self.boot, self.namespace) == (here.boot, here.namespace)
        return is_here and not psutil.pid_exists(self.process)


class KnownFaults(msgspec.Struct, kw_only=True):
    """What one verifier knows of the faults, in times of its own clock."""

    shard: int
    stamp: Stamp
    windows: list[FaultWindow]


class LeftOver(msgspec.Struct, frozen=True, kw_only=True):
    """What is unclear at the end, and is not counted in the tally."""

    unverified: int
    suspicions_open: int
    observations_unjudged: int
    unread: int
    clock_doubts: list[str]


class ShardReport(msgspec.Struct, kw_only=True):
    """What one verifier has counted."""

    shard: int
    stamp: Stamp
    at_wall_seconds: float
    """The same time by the wall clock of its host."""
    phase: str
    tally: Tally
    gauges: Gauges
    recent: list[Violation]
    recovering: list[UnfinishedRecovery]
    warnings: list[str]
    sessions_left: int
    violations_unlisted: int
    faults: list[str]
    """The faults that it has heard of."""
    clocks: list[ClockStatus]
    clock_epsilon_seconds: float
    left: LeftOver | None = None
    """None: it has not come to its end."""


_encoder = msgspec.msgpack.Encoder()
_faults_decoder = msgspec.msgpack.Decoder(KnownFaults)
_report_decoder = msgspec.msgpack.Decoder(ShardReport)


class Sharing:
    """The share of one verifier, and what is known of the others."""

    def __init__(self, url: str, run: str, shard: Shard, folder: Path) -> None:
        self.shard = shard
        self._run = run
        self._connection = LedgerConnection(url, run, shard=shard.number)
        self._keys = self._connection.keys
        self._claim = Claim.of(folder)
        self._read_through: dict[str, set[str]] = {}
        """By fault: the stores of which every session of this share was read since it ended."""
        self._published = b""
        self._published_offset_us = 0
        self._reports: dict[int, ShardReport] = {}
        self._heard: dict[int, float] = {}
        self._began = time.monotonic()
        self._view: tuple[float, State] | None = None

    # -- who is who --

    async def claim(self) -> None:
        """Make sure that nobody else verifies this shard, and that all are of the same version."""
        try:
            for index in range(1, self.shard.of + 1):
                other = _decoded(await self._connection.redis.get(keys_of(self._run, index).claim))
                if other is not None and other.version != self._claim.version:
                    raise UsageError(
                        f"shard {index}/{self.shard.of} of run {self._run} is verified by soak {other.version}, this "
                        f"is soak {self._claim.version}; use the same version for all shards"
                    )
            await self._outlive_predecessor()
            await self._renew()
        except (RedisError, OSError) as error:
            raise unreachable(self._connection.url, error) from error

    async def _outlive_predecessor(self) -> None:
        """Give a claim from the same place the time to expire: a verifier that was killed does not take it back."""
        deadline = time.monotonic() + PREDECESSOR_SECONDS
        while time.monotonic() < deadline:
            known = _decoded(await self._connection.redis.get(self._keys.claim))
            if known is None or known == self._claim or known.owner != self._claim.owner or known.is_of_the_dead:
                return
            await asyncio.sleep(CLAIM_POLL_SECONDS)

    def _check_owner(self, claim: Claim) -> None:
        if claim != self._claim and not (claim.owner == self._claim.owner and claim.is_of_the_dead):
            raise UsageError(
                f"shard {self.shard} of run {self._run} is verified already, by {claim.owner} (process "
                f"{claim.process}, boot {claim.boot}); give each verifier a shard of its own"
            )

    async def _renew(self) -> None:
        redis, value = self._connection.redis, msgspec.json.encode(self._claim)
        if not await redis.set(self._keys.claim, value, px=int(CLAIM_SECONDS * 1000), nx=True):
            if (known := _decoded(await redis.get(self._keys.claim))) is not None:
                self._check_owner(known)
            await redis.set(self._keys.claim, value, px=int(CLAIM_SECONDS * 1000))

    async def close(self) -> None:
        """Let go of the shard."""
        with contextlib.suppress(RedisError, OSError):
            known = _decoded(await self._connection.redis.get(self._keys.claim))
            if known == self._claim:
                await self._connection.redis.delete(self._keys.claim)
        await self._connection.close()

    # -- faults --

    async def take_up_faults(self, state: State, told: set[str]) -> None:
        """Take in what others know of the faults that began before this share, whose own stream tells of these."""
        try:
            others = await self._others(state.clocks)
        except (RedisError, OSError) as error:
            raise unreachable(self._connection.url, error) from error
        for window in (window for other in others.values() for window in other.values()):
            if window.fault not in told and window.fault not in state.faults:
                state.faults.begin(msgspec.structs.replace(window, swept=[]))

    def mark_read_through(self, window: FaultWindow, store: str) -> None:
        self._read_through.setdefault(window.fault, set()).add(store)

    def is_read_through(self, window: FaultWindow, store: str) -> bool:
        return store in self._read_through.get(window.fault, ())

    def _own_windows(self, state: State) -> list[FaultWindow]:
        """Return the faults with what this verifier alone has read through."""
        return [
            msgspec.structs.replace(
                window,
                swept=sorted({*window.swept, *self._read_through.get(window.fault, ())}),
                known={},
                telemetry={},
                telemetry_after={},
            )
            for window in state.faults.values()
        ]

    async def _others(self, clocks: Clocks) -> dict[int, dict[str, FaultWindow]]:
        """Return what each other verifier knows of the faults, in times of this one."""
        heard: list[KnownFaults] = []
        for raw in (await self._connection.redis.hgetall(self._keys.faults)).values():
            with contextlib.suppress(msgspec.MsgspecError):  # it counts as missing
                heard.append(_faults_decoder.decode(raw))
        await clocks.prepare(said.stamp for said in heard)
        found = {}
        for said in heard:
            if said.shard == self.shard.number:
                continue
            shift = 0
            if clocks.is_foreign(said.stamp.boot):
                shift, placing = clocks.place_word(said.stamp)
                if placing is not Placing.CERTAIN:
                    continue
            found[said.shard] = {window.fault: _shifted(window, shift) for window in said.windows}
        return found

    async def exchange_faults(self, state: State) -> None:
        """Say what is known of the faults, and take in what the others know."""
        windows = self._own_windows(state)
        encoded, stamp = _encoder.encode(windows), self._stamp(state.clocks)
        # Also after a jump of this host's clock: what was said before it cannot be placed any more.
        if encoded != self._published or abs(stamp.offset_us - self._published_offset_us) >= OFFSET_US_MAX:
            known = KnownFaults(shard=self.shard.number, stamp=stamp, windows=windows)
            await self._connection.redis.hset(self._keys.faults, str(self.shard.number), _encoder.encode(known))
            self._published, self._published_offset_us = encoded, stamp.offset_us
        waiting = [window for window in state.faults.values() if not state.faults.is_swept(window)]
        if not any(window.ended is not None for window in waiting):
            return
        others = await self._others(state.clocks)
        if len(others) < self.shard.of - 1:
            return  # one that is missing may know of a survivor
        agreed = FaultHistory(state.targets)
        for window in windows:
            agreed.begin(window)
        for other in others.values():
            history = FaultHistory(state.targets)
            history.windows = other
            agreed.merge(history)
        for window in waiting:
            if (whole := agreed.get(window.fault)) is None or window.ended is None:
                continue
            window.survivor_sent = max(window.survivor_sent, whole.survivor_sent)
            window.swept = sorted({*window.swept, *whole.swept})

    def _stamp(self, clocks: Clocks) -> Stamp:
        host, own = this_host(), clocks.own
        ledger_us = now_us() + clocks.ledger_offset_us
        return Stamp(host.name, host.boot, 0 if own is None else own.offset_us, own and own.error_us, ledger_us)

    # -- counts --

    async def run(self, state: State, report: Callable[[], ShardReport]) -> None:
        """Exchange what is known until cancelled."""
        while True:
            await self.exchange(state, report)
            await asyncio.sleep(EXCHANGE_SECONDS)

    async def exchange(self, state: State, report: Callable[[], ShardReport]) -> bool:
        """Say what is known, and take in what the others say; False if the ledger is away."""
        try:
            await self._renew()
            # There may be more of us since the run was resumed elsewhere.
            self.shard = self.shard._replace(
                of=max(self.shard.of, await count_verifiers(self._connection.redis, self._run))
            )
            await self.exchange_faults(state)
            if self.shard.is_first:
                await self._take_reports(state)
            else:
                said = _encoder.encode(report())
                await self._connection.redis.hset(self._keys.reports, str(self.shard.number), said)
        except (RedisError, OSError, ServerUnreachableError):
            return False
        return True

    async def _take_reports(self, state: State) -> None:
        news: list[ShardReport] = []
        for raw in (await self._connection.redis.hgetall(self._keys.reports)).values():
            with contextlib.suppress(msgspec.MsgspecError):
                said = _report_decoder.decode(raw)
                before = self._reports.get(said.shard)
                if before is None or before.stamp != said.stamp:
                    news.append(said)
        await state.clocks.prepare(said.stamp for said in news)
        for said in news:
            if state.clocks.is_foreign(said.stamp.boot):
                shift_times(said.tally, state.clocks.place_word(said.stamp)[0])
            self._date_sweeps(said, state.clocks)
            self._reports[said.shard] = said
            self._heard[said.shard] = time.monotonic()

    @staticmethod
    def _date_sweeps(said: ShardReport, clocks: Clocks) -> None:
        """Date its last sweeps by the wall clock here: the one there may be set otherwise."""
        age_seconds = (now_us() + clocks.ledger_offset_us - said.stamp.ledger_us) / 1e6
        ahead_seconds = said.at_wall_seconds - (time.time() - age_seconds)
        swept = said.gauges.last_sweep_timestamp_seconds
        placed = {store: at and at - ahead_seconds for store, at in swept.items()}
        said.gauges = msgspec.structs.replace(said.gauges, last_sweep_timestamp_seconds=placed)

    def report(
        self,
        state: State,
        *,
        phase: str,
        gauges: Gauges,
        recent: list[Violation],
        warnings: list[str],
        sessions_left: int,
        violations_unlisted: int,
        clocks: list[ClockStatus],
        left: LeftOver | None,
    ) -> ShardReport:
        """Put together what this one has to say."""
        # What every verifier knows need not be said.
        alike: dict[str, Any] = {
            "contracts": {},
            "origins": {},
            "servers": {},
            "configuration_drift": {},
            "unmet_clauses": {},
        }
        return ShardReport(
            shard=self.shard.number,
            stamp=self._stamp(state.clocks),
            at_wall_seconds=time.time(),
            phase=phase,
            tally=slim(state.tally),
            gauges=msgspec.structs.replace(gauges, **alike),
            recent=recent,
            recovering=state.recovery_times.unfinished(now_us()),
            warnings=warnings,
            sessions_left=sessions_left,
            violations_unlisted=violations_unlisted,
            faults=list(state.faults.windows),
            clocks=clocks,
            clock_epsilon_seconds=state.clocks.epsilon_us / 1e6,
            left=left,
        )

    @property
    def others(self) -> list[ShardReport]:
        """What the other verifiers have said last."""
        return [self._reports[shard] for shard in sorted(self._reports)]

    def whole(self, state: State) -> State:
        """Return the state with what all verifiers have counted; nothing else in it is of all."""
        now = time.monotonic()
        if self._view is None or now - self._view[0] > VIEW_SECONDS:
            view = copy.copy(state)
            view.tally = merged_tally(state.tally, (one.tally for one in self.others), state.faults)
            self._view = (now, view)
        return self._view[1]

    def forget_view(self) -> None:
        """Add up anew when it is asked for next."""
        self._view = None

    def has_ended(self, shard: int, state: State) -> bool:
        """Whether a verifier has come to its end, and knows of every fault."""
        said = self._reports.get(shard)
        return said is not None and said.left is not None and set(state.faults.windows) <= set(said.faults)

    def not_ended(self, state: State) -> list[int]:
        return [shard for shard in range(2, self.shard.of + 1) if not self.has_ended(shard, state)]

    def silent(self) -> list[int]:
        """Name the verifiers that were not heard of for a while, and have not come to their end."""
        now = time.monotonic()
        return [
            shard
            for shard in range(2, self.shard.of + 1)
            if now - self._heard.get(shard, self._began) > SILENT_SECONDS
            and ((said := self._reports.get(shard)) is None or said.left is None)
        ]

    def line_of(self, shard: int) -> str:
        """Say that a verifier is missing."""
        heard = self._heard.get(shard)
        if heard is None:
            return f"verifier {shard} of {self.shard.of} was never heard of"
        return f"verifier {shard} of {self.shard.of} was last heard of {time.monotonic() - heard:.0f} s ago"

    def warnings(self, known: list[str]) -> list[str]:
        """Return what a person should know of the others, beyond what is known of all."""
        missing = [f"{self.line_of(shard)}; no loss after a fault is confirmed without it" for shard in self.silent()]
        return missing + [
            f"verifier {one.shard}: {line}" for one in self.others for line in one.warnings if line not in known
        ]

    def statuses(self, own: Gauges, state: State) -> list[ShardStatus]:
        """Return how each verifier fares."""
        silent = self.silent()
        mine = _status_of(1, own.phase, own, state.tally, is_heard=True)
        return [
            mine,
            *(
                ShardStatus(shard=shard, state="missing", is_heard=False)
                if (said := self._reports.get(shard)) is None
                else _status_of(shard, said.phase, said.gauges, said.tally, is_heard=shard not in silent)
                for shard in range(2, self.shard.of + 1)
            ),
        ]


def _status_of(shard: int, phase: str, gauges: Gauges, tally: Tally, *, is_heard: bool) -> ShardStatus:
    return ShardStatus(
        shard=shard,
        state=phase,
        is_heard=is_heard,
        verified=tally.verified,
        violations=tally.violations,
        unread=gauges.unread_messages,
        load_held_back=gauges.load_held_back,
        ledger_lag_seconds=gauges.ledger_lag_seconds,
        sessions_live=sum(gauges.sessions_live.values()),
    )


def _decoded(raw: bytes | None) -> Claim | None:
    try:
        return None if raw is None else msgspec.json.decode(raw, type=Claim)
    except msgspec.MsgspecError:
        return None


def _shifted(window: FaultWindow, shift: int) -> FaultWindow:
    """Turn the times of another host into this one's."""
    if not shift:
        return window

    def at(moment: int | None) -> int | None:
        return None if moment is None else moment + shift

    return msgspec.structs.replace(
        window,
        started=window.started + shift,
        injected=at(window.injected),
        ended=at(window.ended),
        caught_up=at(window.caught_up),
        deaths=[(died + shift, back + shift) for died, back in window.deaths],
        survivor_sent=window.survivor_sent + shift if window.survivor_sent else 0,
    )
