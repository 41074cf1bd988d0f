"""What a verifier tells: its live status, and the result that reports are made of. Values only."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from soak.checker.faults import Replaced
from soak.checker.verdict import FaultsTried, OperationCount
from soak.errors import UsageError
from soak.json_input import decode_json
from soak.proc.files import write_whole
from soak.store_errors import ErrorNature
from soak.verifier.findings import FindingResult

FILE_NAME = "result.json"
SCHEMA = 3
"""Goes up when a reader of an older one could misunderstand a newer one."""
UNDECIDED = "undecided"
"""The verdict of a run that has not ended and in which nothing was found so far: no pass."""


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted over all stores."""

    attempts: dict[str, int]
    acknowledged: int
    verified: int
    released: int
    """Forgotten, or expired, before anyone had looked."""
    never_verified: int = 0
    """Acknowledged, and nobody ever looked or can look: those, and what the ledger's gaps took."""
    never_verified_share: float = 0.0
    """Of what was acknowledged."""
    violations: int
    tolerated: int
    unverifiable: int
    undecided: int = 0
    """Not judged, because times cannot be compared: a clock is uncertain, or was set."""
    indeterminate: int
    reads: int
    messages_read: int
    sessions: int


class StoreResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted for one store."""

    store: str
    acknowledged: int
    verified: int
    released: int
    violations: int
    tolerated: int
    late_reads: int = 0
    """Messages that a replica showed late because a fault kept it back: tolerated, and measured."""
    late_reads_age_seconds_max: float = 0.0
    """How old the oldest of them was when a read did not show it."""
    late_reads_seconds_max: float = 0.0
    """For how long the one that took longest was not shown."""


class KindCount(msgspec.Struct, frozen=True, kw_only=True):
    """How often one kind of violation was found on one store."""

    store: str
    kind: str
    count: int


class CanaryResult(msgspec.Struct, frozen=True, kw_only=True):
    """How the self-check went on one store."""

    store: str
    detected: int
    missed: int
    early: int
    """Reported before anything had been spoiled."""
    last_detected_wall_seconds: float


class RecoveryResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one fault took of one store, against what is promised."""

    fault: str
    kind: str
    server: str
    store: str
    planned: bool
    at_wall_seconds: float
    parameters: dict[str, str] = {}
    """How the fault was set, as people write it."""
    promised_seconds: float | None
    """None: anything may be lost."""
    point_seconds: float
    """Age of the oldest acknowledged message that was gone, at the fault."""
    after_seconds: float = 0.0
    """How long after the fault had begun something was still acknowledged that was gone in the end."""
    span_seconds: float = 0.0
    """The time between the first and the last acknowledgement of what is gone."""
    is_at_least: bool
    """Older ones were gone, too, whose times are no longer known."""
    is_unread: bool = False
    """Not every session could be read after it: more may be gone than is known."""
    tolerated: int
    lost: int
    unacknowledged: int = 0
    """Those of both that nobody had acknowledged: a read had shown them, and they are gone."""
    acknowledged_during: int = 0
    """Appends that were acknowledged while the fault was under way."""
    lost_during: int = 0
    """Those of them that are gone."""
    kept: bool
    lasted_seconds: float | None = None
    """From the fault's beginning until it was healed."""
    read_seconds: float | None = None
    """From the fault's beginning until a read was answered again; None: that was not seen."""
    write_seconds: float | None = None
    """The same for an append."""
    unknown: int = 0
    """Appends in its time of which nobody knows whether they were applied."""
    surfaced: int = 0
    """Those of them that were seen later; the others never were."""
    errors: int = 0
    """Operations of clients without an answer."""
    replaced: Replaced | None = None
    """Who was primary before and after, and who stayed with the old one; None: no primary of a group was replaced."""

    @property
    def gone_seconds(self) -> float:
        """How much acknowledged time is gone, before and after the fault had begun."""
        return self.point_seconds + self.after_seconds

    @property
    def shown_point(self) -> str:
        """The recovery point as people read it; where not all could be read since, it is a lower bound or not known."""
        seconds = self.gone_seconds
        if self.is_unread and not seconds:
            return "not known"
        return f"{'at least ' if self.is_at_least or self.is_unread else ''}{seconds:.3g}s"

    @property
    def shown_lost(self) -> str:
        """How many messages were lost, in the same way."""
        if self.is_unread and not self.lost:
            return "not known"
        return f"{'at least ' if self.is_unread else ''}{self.lost:,}"


class StayedClients(msgspec.Struct, frozen=True, kw_only=True):
    """Clients that went on sending to a primary when the group had named another one: a finding, but no violation."""

    fault: str
    kind: str
    server: str
    at_wall_seconds: float
    primary: str
    """Who was replaced; of a cluster, all that were primaries."""
    connections: int
    seconds_max: float
    """How long after another primary was named the last of them sent something to the old one."""
    clients: list[str]
    """Those that did so longest, each with how long."""
    gone: int
    """Acknowledged messages that this failover took of all stores, tolerated or not."""
    line: str
    """All of it but the time, for people."""


class FaultResult(msgspec.Struct, frozen=True, kw_only=True):
    """When one server was broken, on purpose or by itself."""

    fault: str
    kind: str
    server: str
    planned: bool
    at_wall_seconds: float
    ended_wall_seconds: float | None
    """None: it is under way, or its end was not seen."""
    reason: str = ""
    """What whoever announced it said."""


class ViolationHead(msgspec.Struct, frozen=True, kw_only=True):
    """One violation in few words; `soak explain` tells the rest."""

    id: str
    store: str
    kind: str
    session: str
    message: str
    detail: str
    cause: str
    at_wall_seconds: float


class StoreErrorResult(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of exception that a store raised, and how often."""

    store: str
    operation: str
    type: str
    text: str
    place: str
    """File and line in the store's own code; empty: not known."""
    nature: ErrorNature
    count: int
    first_wall_seconds: float
    last_wall_seconds: float
    line: str
    """All of it but the times, for people."""


class LatencyResult(msgspec.Struct, frozen=True, kw_only=True):
    """How long participants waited for one operation of one store, at most 2 % off."""

    store: str
    operation: str
    """`append`, `read`, `search` or `forget`."""
    in_fault: bool
    """Those inside of faults and recoveries of the store's servers; otherwise those outside."""
    count: int
    """Operations that were answered; the percentiles are theirs."""
    errors: int
    """Operations that were not."""
    p50_seconds: float | None
    """None: there was no answer."""
    p95_seconds: float | None
    p99_seconds: float | None
    max_seconds: float | None
    """Exact, but for operations that ended at the edge of a fault."""


class ThresholdState(enum.Enum):
    """How a threshold stands."""

    MET = "met"
    MISSED = "missed"
    NO_SAMPLES = "no samples"
    """Nothing was measured that could meet it, so it is not met."""


class ThresholdResult(msgspec.Struct, frozen=True, kw_only=True):
    """One threshold on one store."""

    name: str
    """As in the settings: `append_p99`, `errors_in_fault`."""
    store: str
    """Empty: it is for every store, and none has samples."""
    limit: float
    """Seconds; of errors, the share."""
    value: float | None
    """What was measured; None: there are no samples."""
    state: ThresholdState
    line: str
    """All of it for people."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a run, or how it stands."""

    schema: int = SCHEMA
    run: str
    finished: bool = True
    """The verdict is the last word. Otherwise it is `violation` or `undecided`, and never a pass."""
    verdict: str
    reasons: list[str]
    started_wall_seconds: float
    ended_wall_seconds: float
    totals: Totals
    violations_by: list[KindCount]
    by_store: list[StoreResult]
    oldest_unverified_seconds: float
    """How long an acknowledged message that is not verified has been waiting."""
    longest_unverified_seconds: float = 0.0
    """The longest that any ever waited, without the time of faults, in which none could be read."""
    evidence: list[str]
    canaries: list[CanaryResult] | None = None
    """None: the self-check was off, by request."""
    violations_unlisted: int = 0
    """Of all that were counted, how many the journal lists no longer because there were too many."""
    contracts: dict[str, str] = {}
    """By store, how its contract was obtained."""
    recoveries: list[RecoveryResult] = []
    stayed_clients: list[StayedClients] = []
    """Of each failover, the clients that stayed with the old primary."""
    tried: FaultsTried | None = None
    """Which faults the memory went through; None: the run is of an older soak."""
    notes: list[str] = []
    """What happened besides, and is no verdict: a server's configuration that changed while the soak ran."""
    seed: str = ""
    """Digits. JavaScript and others would round a number as large."""
    promises: dict[str, dict[str, str]] = {}
    """By store, each clause of its contract in words."""
    servers: dict[str, list[str]] = {}
    """By store, the servers it is on."""
    configurations: dict[str, dict[str, str]] = {}
    """By server, how it was configured when the run began."""
    faults: list[FaultResult] = []
    """The latest, in the order of their beginning."""
    violations: list[ViolationHead] = []
    """The latest that were found, in that order."""
    findings: list[FindingResult] = []
    """All violations, grouped by store, kind and probable cause: one bug is one finding, the largest first."""
    store_errors: list[StoreErrorResult] = []
    """What the stores raised, one entry for each kind: programming errors first."""
    latencies: list[LatencyResult] = []
    """By store and operation, outside of faults and inside."""
    thresholds: list[ThresholdResult] = []


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted for one store since the run began. Rates and quantiles are the difference of two of them."""

    store: str
    acknowledged: int
    verified: int
    violations: int
    unverified_seconds: float
    """Age of the oldest acknowledgement not yet verified."""
    errors: int
    """Operations of participants without an answer."""
    appends: list[int]
    """How long appends took, counted into `soak.ledger.records.LATENCY_BUCKETS_SECONDS` and one more bucket."""
    reads: list[int]
    """The same for what participants read."""


class ActiveFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that is under way."""

    kind: str
    target: str


class UnfinishedRecovery(msgspec.Struct, frozen=True, kw_only=True):
    """A fault after which something has not been seen to work again on one store."""

    fault: str
    kind: str
    server: str
    store: str
    planned: bool
    awaits: list[str]
    """`read`, `write`, or both."""
    healed_seconds: float | None
    """How long ago the fault ended; None: it is under way."""
    is_failing: bool
    """Operations failed after it ended."""


class ContractStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a store promises, and what its server cannot keep of that."""

    obtained: str
    promises: dict[str, str]
    unmet: list[str]


class ConfigurationStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a server was configured when the run began, and what differs from that now.

    Settings by name; where several nodes act as one server, those of each by name and place, like `save of host:6379`.
    """

    at_the_beginning: dict[str, str]
    drifted: dict[str, str]
    drifts: int
    sampled_seconds_ago: float | None
    identity_checked_us: int | None


class ServerChange(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a server while the soak ran, and was no fault of ours."""

    at_wall_seconds: float
    server: str
    what: str
    text: str


class ClockStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How well the clock of another host is known."""

    host: str
    error_seconds: float | None
    """None: nothing was measured."""
    is_uncertain: bool
    """Worse than `clock.error_max`: what it writes is not judged."""
    jumps: int
    """How often it was suspended or moved."""


class ShardStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How one of several verifiers of a run fares."""

    shard: int
    state: str
    """As in the status; `missing`: it was never heard of."""
    is_heard: bool
    """It was heard of lately, or has come to its end."""
    verified: int = 0
    violations: int = 0
    unread: int = 0
    load_held_back: bool = False
    """It holds back the workers that were dealt to it."""
    ledger_lag_seconds: float = 0.0
    sessions_live: int = 0


class VerifierStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the verification stands: the verifier's `/status`. The keys are part of the interface."""

    run: str
    state: str
    """`following`, `draining` or `done`."""
    at_us: int
    at_wall_seconds: float
    turns: int
    """How often the ledger was looked at."""
    totals: Totals
    by_store: list[StoreResult]
    measured: list[Measured]
    violations_by: list[KindCount]
    ledger_lag_seconds: float
    ledger_reachable: bool
    unread: int
    load_held_back: bool
    oldest_unverified_seconds: float
    longest_unverified_seconds: float
    last_sweep_wall_seconds: float
    sessions_live: int
    sessions_left: int = 0
    """While it drains: sessions still to be read once more."""
    suspicions_open: int
    state_bytes: int
    restarts: int
    findings: list[FindingResult]
    store_errors: list[StoreErrorResult]
    broken_stores: list[str]
    faults_active: list[ActiveFault]
    faults_total: int
    canaries: list[CanaryResult]
    recalls: dict[str, dict[str, int]]
    recovering: list[UnfinishedRecovery]
    fault_failures: list[str]
    tried: FaultsTried
    operations: list[OperationCount]
    recoveries: list[RecoveryResult]
    stayed_clients: list[StayedClients] = []
    contracts: dict[str, ContractStatus]
    configurations: dict[str, ConfigurationStatus]
    events: list[ServerChange]
    warnings: list[str]
    clocks: list[ClockStatus] = []
    """Those of other hosts; none on one machine."""
    clock_epsilon_seconds: float = 0.0
    """How exactly times of different hosts are compared; 0: they are all of one."""
    latencies: list[LatencyResult] = []
    thresholds: list[ThresholdResult] = []
    shards: list[ShardStatus] = []
    """The verifiers that share the run; empty: there is one."""


class NewerResultError(UsageError):
    """A result was written by a newer soak."""


class _Peek(msgspec.Struct):
    schema: int = 1


def write(folder: Path, result: Result) -> None:
    """Replace the result in one step. Raises OSError."""
    write_document(folder / FILE_NAME, result, is_last=result.finished)


def write_document(path: Path, document: msgspec.Struct, *, is_last: bool) -> None:
    """Replace a file by what a value holds, in one step. Raises OSError.

    Only the last word is brought onto the disk: what is written every few seconds has to survive our death, not the
    machine's.
    """
    content = msgspec.json.format(msgspec.json.encode(document), indent=2)
    write_whole(path, content, mode=0o644, is_synced=is_last)


def read(folder: Path) -> Result | None:
    """Return the result of the run that has ended here, if one has."""
    found = read_so_far(folder)
    return found if found is not None and found.finished else None


def read_so_far(folder: Path) -> Result | None:
    """Return the result as it stood when it was last written."""
    return decode_file(folder / FILE_NAME, Result, SCHEMA)


_T = TypeVar("_T")


def _seeds_as_text(document: dict[str, Any]) -> dict[str, Any]:
    """Bring an older document into today's form: its seeds were numbers."""
    for part in (document, document.get("result"), document.get("setup")):
        if isinstance(part, dict) and isinstance(part.get("seed"), int):
            part["seed"] = str(part["seed"])
    return document


def decode_file(path: Path, kind: type[_T], schema_max: int) -> _T | None:
    """Read a document with a schema number; None if there is none, or it is damaged."""
    try:
        content = path.read_bytes()
        schema = decode_json(content, type=_Peek).schema
        if schema > schema_max:
            raise NewerResultError(
                f"{path} was written by a newer soak (schema {schema}, this one reads up to {schema_max}); "
                "read it with that one"
            )
        if schema == schema_max:
            return decode_json(content, type=kind)
        return msgspec.convert(_seeds_as_text(decode_json(content, type=dict[str, Any])), kind)
    except (OSError, msgspec.MsgspecError):
        return None
