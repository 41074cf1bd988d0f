"""The run's verdict: pass, violation or inconclusive, and never a pass by doing nothing."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from soak.errors import ExitCode

_NAMES = {
    "crash": ("crash", "crashes"),
    "container_oom": ("out-of-memory kill", "out-of-memory kills"),
    "power_cut": ("power cut", "power cuts"),
    "restart": ("clean restart", "clean restarts"),
    "restart_from_aof": ("restart from AOF", "restarts from AOF"),
    "restart_from_rdb": ("restart from RDB", "restarts from RDB"),
    "shutdown_nosave": ("shutdown without a save", "shutdowns without a save"),
    "failover": ("failover", "failovers"),
    "early_failover": ("early failover", "early failovers"),
    "sentinel_failover": ("Sentinel failover", "Sentinel failovers"),
    "coordinated_failover": ("coordinated failover", "coordinated failovers"),
    "cluster_failover": ("Cluster failover", "Cluster failovers"),
    "cluster_takeover": ("Cluster takeover", "Cluster takeovers"),
    "cluster_failover_force": ("forced Cluster failover", "forced Cluster failovers"),
    "failover_command": ("failover past the sentinels", "failovers past the sentinels"),
    "slot_migration": ("slot migration", "slot migrations"),
    "rolling_restart": ("rolling restart", "rolling restarts"),
    "rolling_upgrade": ("rolling upgrade", "rolling upgrades"),
    "slow_replication": ("time of slow replication", "times of slow replication"),
    "sentinel_away": ("loss of sentinels", "losses of sentinels"),
    "primary_restart": ("quick restart of the primary", "quick restarts of the primary"),
    "primary_crash": ("crash of the primary", "crashes of the primary"),
    "primary_partition": ("partition of the primary", "partitions of the primary"),
    "partial_partition": ("partial partition", "partial partitions"),
    "machine_crash": ("death of the primary's machine", "deaths of the primary's machine"),
    "patroni_switchover": ("Patroni switchover", "Patroni switchovers"),
    "patroni_failover": ("Patroni failover", "Patroni failovers"),
    "dcs_outage": ("outage of etcd", "outages of etcd"),
    "cancelled_commits": ("cancellation of commits", "cancellations of commits"),
    "standby_outage": ("outage of the standby", "outages of the standby"),
    "standby_lag": ("lag of the standby", "lags of the standby"),
    "standby_switchover": ("switchover to the standby", "switchovers to the standby"),
    "link_cut": ("cut of a link", "cuts of a link"),
    "upgrade": ("upgrade", "upgrades"),
    "pause": ("pause", "pauses"),
    "partition": ("partition", "partitions"),
    "connection_refused": ("time without connections", "times without connections"),
    "announced": ("announced fault", "announced faults"),
}
UNTRIED = "no fault was injected, so durability was not tested"


class FaultsTried(msgspec.Struct, frozen=True, kw_only=True):
    """The faults of a run that are over."""

    recoveries: dict[str, int] = {}
    """By kind: faults that a server had to recover its data from."""
    others: dict[str, int] = {}
    """By kind: faults that leave a server its data."""
    unexpected_restarts: int = 0
    """Of the crashes, those that no fault of this soak explains."""
    text: str
    """The same in one line."""


def what_was_tried(
    recoveries: Mapping[str, int], others: Mapping[str, int], unexpected_restarts: int, *, violations: int
) -> FaultsTried:
    """Say what a run has tried so far."""
    counted = {**recoveries, **others}
    tried = "was tried" if sum(counted.values()) == 1 else "were tried"
    outcome = tried if violations else "survived"
    text = f"{', '.join(_named(kind, count) for kind, count in counted.items())} {outcome}" if counted else UNTRIED
    if unexpected_restarts:
        text += f" ({unexpected_restarts} not caused by soak)"
    if counted and not recoveries:
        text += "; nothing was restarted, so durability was not tested"
    return FaultsTried(
        recoveries=dict(recoveries), others=dict(others), unexpected_restarts=unexpected_restarts, text=text
    )


def _named(kind: str, count: int) -> str:
    if kind not in _NAMES:
        return f"{count} x {kind.replace('_', ' ')}"
    one, many = _NAMES[kind]
    return f"{count} {one if count == 1 else many}"


RELEASED_SHARE_MAX = 0.02
"""More of what was acknowledged must not go unread because it was forgotten or had expired."""
RELEASED_MIN = 50
"""As few as this say nothing, however short the run was."""


class Verdict(enum.Enum):
    """What a run has shown."""

    PASS = "pass"  # noqa: S105  a verdict
    VIOLATION = "violation"
    INCONCLUSIVE = "inconclusive"
    THRESHOLD = "threshold"
    """The memory kept its contract, and the run missed a threshold of the settings."""

    @property
    def exit_code(self) -> ExitCode:
        return {
            Verdict.PASS: ExitCode.PASS,
            Verdict.VIOLATION: ExitCode.VIOLATION,
            Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
            Verdict.THRESHOLD: ExitCode.THRESHOLD,
        }[self]


TRIES_MIN = 5
SUCCESS_SHARE_MIN = 0.01
"""An operation that was tried so often and succeeded less than this share of the time was not tested."""
_OPERATIONS = {
    "append": "appends",
    "history": "context reads (history with last=N)",
    "recall": "recalls (whole history)",
    "search": "searches",
    "forget": "forgets",
}


class OperationCount(msgspec.Struct, frozen=True, kw_only=True):
    """How often participants asked one thing of one store, and were answered."""

    store: str
    operation: str
    tries: int
    successes: int

    @property
    def nearly_never_succeeds(self) -> bool:
        return self.tries >= TRIES_MIN and self.successes < SUCCESS_SHARE_MIN * self.tries

    @property
    def words(self) -> str:
        return f"{_OPERATIONS.get(self.operation, self.operation)} on {self.store}: {self.successes} of {self.tries}"


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What a verdict rests on."""

    violations: int
    verified: int
    minimum_verified: int
    unverifiable: int
    unverified: int
    """Acknowledged messages nobody has seen or explained by the end."""
    acknowledged: int = 0
    released: int = 0
    """Acknowledged messages that were forgotten or had expired before anyone had looked."""
    oldest_unverified_seconds: float
    longest_unverified_seconds: float = 0.0
    """The longest that any acknowledged message ever waited, without the time in which none could be read."""
    oldest_unverified_seconds_max: float
    suspicions_open: int
    stores_without_verified: list[str]
    stores_without_search: list[str] = []
    """Stores that can search, and have found less than a search has to (`soak.checker.partial.is_blind`)."""
    browsers_silent: bool = False
    """There were to be participants with a browser, and nothing that they said was acknowledged."""
    operations: list[OperationCount] = []
    """What participants asked of the stores, and how often they were answered."""
    observations_dropped: int = 0
    """Reads that looked odd to a participant and were not recorded, because there were too many of them."""
    observations_unjudged: int = 0
    """Those that were recorded and not judged by the end."""
    undecided: int = 0
    """Acknowledged messages whose times cannot be compared with those of other hosts, or of their server."""
    clock_doubts: list[str] = []
    """Which clocks were uncertain or set, one line for each."""
    reads_failed_at_end: int = 0
    faults_not_injected: int = 0
    canaries_missed: dict[str, int] = {}
    """By store: sessions spoiled on purpose that nobody reported."""
    canaries_early: dict[str, int] = {}
    """By store: canaries that were reported before anybody had spoiled them."""
    stores_without_canary: list[str] = []
    """Stores on which no canary was ever reported, although the self-check was on."""
    verifiers_missing: list[str] = []
    """Which of several verifiers have not come to their end, one line for each."""
    thresholds_missed: list[str] = []
    """What was measured above its threshold, one line for each."""
    thresholds_without_samples: list[str] = []
    """Thresholds of which nothing was measured."""


def reach_verdict(facts: Facts) -> tuple[Verdict, list[str]]:
    """Return the verdict and, in words, why it is not a pass.

    A violation outweighs everything. Numbers of a run that proves nothing prove nothing either, so a doubt outweighs a
    missed threshold. A threshold that was missed outweighs one of which nothing was measured.
    """
    missed = [f"threshold missed: {line}" for line in facts.thresholds_missed]
    unmeasured = [f"threshold not measured: {line}" for line in facts.thresholds_without_samples]
    if facts.violations:
        return Verdict.VIOLATION, [f"{facts.violations} violations of the contract", *missed]
    if doubts := _doubts(facts):
        return Verdict.INCONCLUSIVE, [*doubts, *missed, *unmeasured]
    if missed:
        return Verdict.THRESHOLD, [*missed, *unmeasured]
    return (Verdict.INCONCLUSIVE, unmeasured) if unmeasured else (Verdict.PASS, [])


def _doubts(facts: Facts) -> list[str]:
    """Say why finding nothing wrong is no pass."""
    doubts = [f"{line}: what its workers wrote is not verified" for line in facts.verifiers_missing]
    if facts.verified < max(1, facts.minimum_verified):
        doubts.append(
            f"only {facts.verified} messages were verified, at least {max(1, facts.minimum_verified)} are needed"
        )
    doubts.extend(f"nothing was verified on {store}" for store in facts.stores_without_verified)
    doubts.extend(
        f"searches on {store} found less than half of what is stored there, or nothing was searched for"
        for store in facts.stores_without_search
    )
    if facts.browsers_silent:
        doubts.append("nothing was acknowledged that a browser user said; the log of the load tells why")
    doubts += _doubts_of_waiting(facts)
    doubts += _doubts_of_coverage(facts)
    if facts.unverifiable:
        doubts.append(f"the ledger has gaps: {facts.unverifiable} records cannot be verified")
    doubts += facts.clock_doubts
    if facts.undecided:
        doubts.append(f"{facts.undecided} acknowledged messages were not judged: their times cannot be compared")
    if facts.suspicions_open:
        doubts.append(f"{facts.suspicions_open} suspicions could not be confirmed or dismissed")
    doubts += _doubts_of_participants(facts)
    if facts.reads_failed_at_end:
        doubts.append(f"{facts.reads_failed_at_end} sessions could not be read in the last sweep")
    if facts.faults_not_injected:
        doubts.append(f"{facts.faults_not_injected} scheduled faults could not be injected, or not be healed")
    return doubts + _doubts_of_alarm(facts)


def _doubts_of_waiting(facts: Facts) -> list[str]:
    """Say why what was acknowledged was not verified, or not in time."""
    allowed = f"allowed are {facts.oldest_unverified_seconds_max:g} s"
    if facts.oldest_unverified_seconds > facts.oldest_unverified_seconds_max:
        waits = f"an acknowledged message has been waiting for {facts.oldest_unverified_seconds:.1f} s to be verified"
        return [f"{waits}, {allowed}"]
    if facts.longest_unverified_seconds > facts.oldest_unverified_seconds_max:
        waited = f"an acknowledged message had to wait for {facts.longest_unverified_seconds:.1f} s to be verified"
        return [f"{waited}, {allowed}: the verifier was too far behind"]
    return [f"{facts.unverified} acknowledged messages were not verified by the end"] if facts.unverified else []


def _doubts_of_coverage(facts: Facts) -> list[str]:
    """Say why too little was read of what was there to be read."""
    if facts.released <= max(RELEASED_MIN, RELEASED_SHARE_MAX * facts.acknowledged):
        return []
    unread = f"{facts.released} of {facts.acknowledged} acknowledged messages were forgotten or had expired unread"
    return [f"{unread}, allowed are {RELEASED_SHARE_MAX:.0%}: the verifier was too far behind"]


def _doubts_of_participants(facts: Facts) -> list[str]:
    """Say what participants asked for and did not get, and what they saw and nobody judged."""
    doubts = [f"nearly never succeeded: {one.words}" for one in facts.operations if one.nearly_never_succeeds]
    odd = "reads that looked odd to participants were"
    if facts.observations_dropped:
        doubts.append(f"{facts.observations_dropped} {odd} dropped, not judged")
    if facts.observations_unjudged:
        doubts.append(f"{facts.observations_unjudged} {odd} not judged by the end")
    return doubts


def _doubts_of_alarm(facts: Facts) -> list[str]:
    """Say why finding nothing proves nothing: the self-check failed, or never came to its end."""
    doubts = [
        f"the self-check failed on {store}: {count} planted errors were not detected"
        for store, count in facts.canaries_missed.items()
        if count
    ]
    doubts += [
        f"{count} canaries on {store} were reported before they were spoiled: "
        "the store is wrong where the load did not see it, or the verifier is"
        for store, count in facts.canaries_early.items()
        if count
    ]
    doubts += [
        f"the self-check did not run on {store}: no canary came to its end"
        for store in facts.stores_without_canary
        if not facts.canaries_missed.get(store) and not facts.canaries_early.get(store)
    ]
    return doubts
