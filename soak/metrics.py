"""The verifier's metrics for Prometheus. Every label set is there from the start, at zero."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

import msgspec
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, Exemplar, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

import soak
from soak.checker.causes import Cause
from soak.checker.contract import Contract
from soak.checker.faults import Promotion
from soak.checker.telemetry import ServerSample
from soak.exposition import Exposition
from soak.ledger.records import LATENCY_BUCKETS_SECONDS
from soak.server_metrics import server_metrics
from soak.verifier.tally import (
    OPERATIONS,
    RECOVERY_POINT_BUCKETS_SECONDS,
    RECOVERY_TIME_BUCKETS_SECONDS,
    STALE_LAG_BUCKETS_SECONDS,
    Histogram,
    StoreTally,
    Tally,
)

PHASES = ("starting", "running", "draining", "done")

Latest = dict[str, dict[str, Exemplar]]
"""By store and kind, the violation that was found last."""


class Gauges(msgspec.Struct, frozen=True, kw_only=True):
    """What is true at the moment of a scrape and is not counted."""

    oldest_unverified_seconds: dict[str, float]
    last_sweep_timestamp_seconds: dict[str, float]
    sessions_live: dict[str, int]
    suspicions_open: dict[str, int]
    faults_active: int
    ledger_lag_seconds: float
    ledger_reachable: bool
    unread_messages: int = 0
    load_held_back: bool = False
    state_bytes: int
    loop_delay_seconds: float
    contracts: dict[str, Contract] = {}
    origins: dict[str, str] = {}
    configuration_drift: dict[str, dict[str, int]] = {}
    """By server and setting."""
    unmet_clauses: dict[str, dict[str, int]] = {}
    """By store and clause."""
    targets: tuple[str, ...] = ()
    """Servers that faults can happen to, those that tell nothing of their configuration included."""
    faults_by_server: dict[str, dict[str, int]] = {}
    """By server and kind: faults under way."""
    servers: dict[str, ServerSample | None] = {}
    """What each server said of itself last; None: it does not answer."""
    run_start_time_seconds: float = 0.0
    evidence_files: int = 0
    evidence_bytes: int = 0
    phase: str = "running"
    coverage_age_seconds: dict[str, float] = {}
    recovering_seconds: dict[str, float] = {}
    planned_faults_active: int = 0
    planned_faults_by_store: dict[str, int] = {}
    """Those that soak itself brought about on a server of the store."""
    settings_seconds: dict[str, float] = {}
    clocks: dict[str, tuple[float, int]] = {}
    """By host: how exactly its clock is known, in seconds, and how often it jumped."""
    shards: dict[str, tuple[bool, int, int]] = {}
    """By verifier: whether it is heard of, what it has not read yet, and what it has verified."""


class VerifierMetrics(Collector):
    """Makes the exposition from the tally, so that what survives a restart there survives it here."""

    def __init__(
        self,
        tally: Callable[[], Tally],
        gauges: Callable[[], Gauges],
        run: tuple[str, int, str, Sequence[str]],
        latest: Callable[[], Latest] = dict,
    ) -> None:
        self._tally = tally
        self._gauges = gauges
        self._run = run
        self._latest = latest
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(namespace="soak_verifier", registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def text(self, exposition: Exposition = Exposition.TEXT) -> bytes:
        return exposition.of(self._registry)

    def collect(self) -> Iterator[Metric]:
        tally = self._tally()
        gauges = self._gauges()
        yield from self._infos(gauges)
        yield from _of_stores(tally.stores, gauges, self._latest())
        yield from _of_run(tally, gauges)
        yield from _contracts(gauges)
        yield from _configurations(gauges, tally)
        yield from _recoveries(gauges, tally)
        yield from _replacements(gauges, tally)
        yield from _faults(gauges, tally)
        yield from server_metrics(gauges.servers)
        yield from _clocks(gauges)
        yield from _shards(gauges)

    def _infos(self, gauges: Gauges) -> Iterator[Metric]:
        run, seed, namespace, stores = self._run
        build = [((soak.__version__, platform.python_version()), 1)]
        yield gauge_family("soak_build_info", "The soak that runs.", "version python", build)
        info = [((run, str(seed), namespace, ",".join(stores)), 1)]
        yield gauge_family("soak_run_info", "The run.", "run seed namespace stores", info)
        yield one_of("soak_phase", "Phase of the run.", "phase", run, PHASES, gauges.phase)


Labels = tuple[str, ...]


def gauge_family(name: str, text: str, labels: str, rows: Iterable[tuple[Labels, float]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels.split())
    for values, value in rows:
        family.add_metric(values, value)
    return family


def counter_family(
    name: str, text: str, labels: str, rows: Iterable[tuple[Labels, float]], exemplars: Latest | None = None
) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels.split())
    for values, value in rows:
        exemplar = exemplars.get(values[0], {}).get(values[1]) if exemplars is not None else None
        family.add_metric(values, value, exemplar=exemplar)
    return family


def histogram_family(
    name: str, text: str, labels: str, bounds: tuple[float, ...], rows: Iterable[tuple[Labels, Histogram | None]]
) -> Metric:
    family = HistogramMetricFamily(name, text, labels=labels.split())
    for values, known in rows:
        histogram = known or Histogram.over(bounds)
        totals = accumulate(histogram.counts)
        buckets = zip((*map(str, bounds), "+Inf"), map(float, totals), strict=True)
        family.add_metric(values, list(buckets), histogram.sum)
    return family


def one_of(name: str, text: str, label: str, run: str, values: Sequence[str], now: str) -> Metric:
    """Return a gauge that is 1 for what holds now, and 0 for everything else that could."""
    return gauge_family(name, text, f"run {label}", [((run, value), int(value == now)) for value in values])


_LABELLED: tuple[tuple[str, str, str, Callable[[StoreTally], Mapping[str, int]]], ...] = (
    ("soak_attempts", "Appends by outcome.", "outcome", lambda t: t.attempts),
    ("soak_forgets", "Forgets by outcome.", "outcome", lambda t: t.forgets),
    ("soak_healed_violations", "Violations that healed later.", "kind", lambda t: t.healed),
    (
        "soak_canaries",
        "Self-check: planted errors by result (early: reported before they were planted).",
        "result",
        lambda t: t.canaries,
    ),
    ("soak_searches", "Searches for a message by its own words, by result.", "result", lambda t: t.searches),
    ("soak_recalls", "Closed sessions read back, by their age.", "age", lambda t: t.recalls),
    (
        "soak_operation_errors",
        "Operations without an answer: unavailability, not loss.",
        "operation",
        lambda t: t.errors,
    ),
)
_COUNTERS: tuple[tuple[str, str, Callable[[StoreTally], int]], ...] = (
    ("soak_acknowledged_messages", "Messages a store acknowledged.", lambda t: t.acknowledged),
    ("soak_verified_messages", "Acknowledged messages read back as they were written.", lambda t: t.verified),
    ("soak_surfaced_messages", "Unknown writes that were seen later.", lambda t: t.surfaced),
    ("soak_released_messages", "Acknowledged messages forgotten or expired unread.", lambda t: t.released),
    ("soak_tolerated_losses", "Losses inside the contract.", lambda t: t.tolerated),
    ("soak_tolerated_late_reads", "Messages a replica showed late because of a fault.", lambda t: t.shadowed_reads),
    ("soak_unverifiable_messages", "Messages that cannot be verified: the ledger has gaps.", lambda t: t.unverifiable),
    ("soak_undecided_messages", "Messages not judged: a clock is uncertain, or was set.", lambda t: t.undecided),
    ("soak_observations", "Suspicious reads of participants.", lambda t: t.observations),
    ("soak_read_messages", "Messages the verifier read back.", lambda t: t.messages_read),
    ("soak_sessions_opened", "Sessions begun.", lambda t: t.sessions_opened),
    ("soak_sessions_retired", "Sessions no longer tracked after their last recall.", lambda t: t.sessions_retired),
)
_TALLY_GAUGES: tuple[tuple[str, str, Callable[[StoreTally], float]], ...] = (
    ("soak_open_violations", "Violations that have not healed.", lambda t: sum(t.open.values())),
    (
        "soak_indeterminate_messages",
        "Unknown writes never seen.",
        lambda t: max(0, t.attempts["unknown"] - t.surfaced),
    ),
    (
        "soak_canary_last_detected_timestamp_seconds",
        "When the self-check last detected a planted error.",
        lambda t: t.canary_detected_wall_seconds,
    ),
    (
        "soak_oldest_recall_seconds",
        "Greatest age, since its end, at which a session was read back.",
        lambda t: t.oldest_recall_seconds,
    ),
    (
        "soak_last_acknowledged_timestamp_seconds",
        "When a message was last acknowledged, as far as the ledger was read; 0: never.",
        lambda t: t.acknowledged_wall_seconds,
    ),
)


def _of_stores(stores: Mapping[str, StoreTally], gauges: Gauges, latest: Latest) -> Iterator[Metric]:
    violations = [((s, kind), count) for s, t in stores.items() for kind, count in t.violations.items()]
    text = "Violations of the contract, each counted once."
    yield counter_family("soak_consistency_violations", text, "store kind", violations, latest)
    for name, text, label, counts in _LABELLED:
        rows = [((s, key), count) for s, t in stores.items() for key, count in counts(t).items()]
        yield counter_family(name, text, f"store {label}", rows)
    for name, text, count_of in _COUNTERS:
        yield counter_family(name, text, "store", [((s,), count_of(t)) for s, t in stores.items()])
    for name, text, value_of in _TALLY_GAUGES:
        yield gauge_family(name, text, "store", [((s,), value_of(t)) for s, t in stores.items()])
    now: tuple[tuple[str, str, Mapping[str, float]], ...] = (
        (
            "soak_oldest_unverified_seconds",
            "Age of the oldest acknowledgement not yet verified.",
            gauges.oldest_unverified_seconds,
        ),
        (
            "soak_last_sweep_timestamp_seconds",
            "When a session was last read back.",
            gauges.last_sweep_timestamp_seconds,
        ),
        ("soak_sessions_live", "Sessions tracked.", gauges.sessions_live),
        ("soak_suspicions_open", "Sessions with something missing that is not yet confirmed.", gauges.suspicions_open),
        ("soak_coverage_age_seconds", "Age of the oldest full read among live sessions.", gauges.coverage_age_seconds),
        (
            "soak_recovering_seconds",
            "Time since a planned fault was healed while the store still fails; 0: it serves.",
            gauges.recovering_seconds,
        ),
        (
            "soak_store_planned_faults_active",
            "Active faults that soak injected on servers of this store.",
            gauges.planned_faults_by_store,
        ),
    )
    for name, text, values in now:
        yield gauge_family(name, text, "store", [((s,), values.get(s, 0.0)) for s in stores])
    yield histogram_family(
        "soak_operation_duration_seconds",
        "Latency of the store's operations.",
        "store operation",
        LATENCY_BUCKETS_SECONDS,
        [((s, operation), t.latency[operation]) for s, t in stores.items() for operation in OPERATIONS],
    )
    yield histogram_family(
        "soak_stale_lag_seconds",
        "How far behind a stale read was.",
        "store",
        STALE_LAG_BUCKETS_SECONDS,
        [((s,), t.stale_lag) for s, t in stores.items()],
    )


def _of_run(tally: Tally, gauges: Gauges) -> Iterator[Metric]:
    # Of each kind one series is there from the beginning; those of all causes would be too many.
    found = {(s, kind, Cause.UNKNOWN.value): 0 for s, t in tally.stores.items() for kind in t.violations}
    found |= {(one.store, one.kind, one.cause): one.count for one in tally.findings.groups.values()}
    text = "Violations by finding: of one store, kind and probable cause, which is one bug."
    yield counter_family("soak_finding_violations", text, "store kind cause", list(found.items()))
    for name, text, count in (
        ("soak_ledger_batches", "Ledger batches read.", tally.batches),
        ("soak_ledger_repeated_batches", "Ledger batches sent twice.", tally.batches_repeated),
        ("soak_ledger_missing_batches", "Ledger batches lost or damaged.", tally.batches_missing),
        ("soak_unverifiable_records", "Ledger records that cannot be verified.", tally.unverifiable),
        ("soak_suppressed_observations", "Observations dropped in a flood.", tally.observations_suppressed),
        ("soak_evidence_write_failures", "Violations whose evidence could not be written.", tally.evidence_failures),
        ("soak_verifier_restarts", "Times the verifier resumed this run.", tally.restarts),
    ):
        yield CounterMetricFamily(name, text, count)
    for name, text, value in (
        ("soak_faults_active", "Active faults.", gauges.faults_active),
        ("soak_planned_faults_active", "Active faults that soak injected.", gauges.planned_faults_active),
        ("soak_ledger_lag_seconds", "How far the verifier is behind the ledger.", gauges.ledger_lag_seconds),
        ("soak_unread_messages", "Acknowledged messages that the verifier has not read yet.", gauges.unread_messages),
        (
            "soak_load_held_back",
            "Whether the load is held back because too many acknowledged messages wait to be read.",
            int(gauges.load_held_back),
        ),
        ("soak_ledger_up", "Whether the verifier reaches the ledger.", int(gauges.ledger_reachable)),
        ("soak_run_start_time_seconds", "When the run began, before any restart.", gauges.run_start_time_seconds),
        ("soak_evidence_files", "Evidence files.", gauges.evidence_files),
        ("soak_evidence_bytes", "Size of all evidence files.", gauges.evidence_bytes),
        ("soak_verifier_state_bytes", "Size of the verifier's saved state.", gauges.state_bytes),
        ("soak_verifier_loop_delay_seconds", "Delay of the verifier's event loop.", gauges.loop_delay_seconds),
    ):
        yield GaugeMetricFamily(name, text, value)
    settings = [((name,), seconds) for name, seconds in gauges.settings_seconds.items()]
    yield gauge_family("soak_setting_seconds", "Settings that alerts use; 0: off, +Inf: no limit.", "name", settings)


def _contracts(gauges: Gauges) -> Iterator[Metric]:
    contracts = gauges.contracts.items()
    yield gauge_family(
        "soak_contract_info",
        "The contract of each store, and its origin.",
        "store obtained durability order reads duplicates retention",
        [((s, gauges.origins.get(s, "the store's own"), *c.clauses().values()), 1) for s, c in contracts],
    )
    losses = [
        ((store, after), float("inf") if seconds is None else seconds)
        for store, contract in contracts
        for after, seconds in (
            ("crash", contract.crash_loss_seconds),
            ("power_cut", contract.power_loss_seconds),
            ("failover", contract.failover_loss_seconds),
        )
    ]
    text = "Data loss (RPO) that the contract allows after a fault; +Inf: anything."
    yield gauge_family("soak_contract_loss_seconds", text, "store after", losses)
    text = "Whether the server, as configured now, cannot keep this clause of the contract."
    unmet = [((s, clause), value) for s, clauses in gauges.unmet_clauses.items() for clause, value in clauses.items()]
    yield gauge_family("soak_contract_unmet", text, "store clause", unmet)


def _configurations(gauges: Gauges, tally: Tally) -> Iterator[Metric]:
    drifted = gauges.configuration_drift
    text = "Whether a server's setting differs from what it was when the run began."
    rows = [((server, setting), value) for server, settings in drifted.items() for setting, value in settings.items()]
    yield gauge_family("soak_configuration_drift", text, "server setting", rows)
    text = "Changes of a server's settings while the soak ran."
    drifts = [((server,), tally.servers[server].drifts if server in tally.servers else 0) for server in drifted]
    yield counter_family("soak_configuration_drifts", text, "server", drifts)
    text = "Restarts of a server that no fault of this soak explains."
    restarts = [((server,), tally.unexpected_restarts.get(server, 0)) for server in _servers(gauges)]
    yield counter_family("soak_unexpected_restarts", text, "server", restarts)


def _recoveries(gauges: Gauges, tally: Tally) -> Iterator[Metric]:
    from soak.faults.catalogue import RECOVERY_KINDS  # noqa: PLC0415  see `_kinds_on`

    pairs = [(server, kind) for server in _servers(gauges) for kind in RECOVERY_KINDS]
    yield histogram_family(
        "soak_recovery_point_seconds",
        "Data lost (RPO): age of the oldest acknowledged message missing after a fault; 0: none.",
        "server kind",
        RECOVERY_POINT_BUCKETS_SECONDS,
        [((server, kind), tally.recovery_points.get(server, {}).get(kind)) for server, kind in pairs],
    )
    text = "Faults after which more was lost than is promised."
    beyond = [((server, kind), tally.recoveries_beyond.get(server, {}).get(kind, 0)) for server, kind in pairs]
    yield counter_family("soak_recovery_point_exceeded", text, "server kind", beyond)
    yield histogram_family(
        "soak_recovery_time_seconds",
        "Recovery time (RTO): from the beginning of a fault until the operation succeeded again.",
        "server kind operation",
        RECOVERY_TIME_BUCKETS_SECONDS,
        [
            ((server, kind, operation), tally.recovery_times.get(server, {}).get(kind, {}).get(operation))
            for server in _servers(gauges)
            for kind in _kinds_on(server)
            for operation in ("read", "write")
        ],
    )


def _replacements(gauges: Gauges, tally: Tally) -> Iterator[Metric]:
    from soak.faults.catalogue import ALL  # noqa: PLC0415  see `_kinds_on`

    servers = _servers(gauges)
    pairs = [(s, kind) for s in servers for kind in _kinds_on(s) if ALL[kind].promotes is not Promotion.NONE]
    for name, text, counts in (
        ("soak_replacements", "How often the primary of a group was replaced.", tally.replacements),
        (
            "soak_stayed_clients",
            "Client connections that went on sending to a primary that had been replaced.",
            tally.stayed_clients,
        ),
    ):
        rows = [((server, kind), counts.get(server, {}).get(kind, 0)) for server, kind in pairs]
        yield counter_family(name, text, "server kind", rows)
    for name, text, longest in (
        (
            "soak_replacement_seconds_max",
            "Longest time from a fault until the group named another primary.",
            tally.replacement_seconds_max,
        ),
        (
            "soak_stayed_clients_seconds_max",
            "Longest time that a client went on sending to a primary that had been replaced.",
            tally.stayed_seconds_max,
        ),
    ):
        yield gauge_family(name, text, "server", [((server,), longest.get(server, 0.0)) for server in servers])


def _faults(gauges: Gauges, tally: Tally) -> Iterator[Metric]:
    active = [
        ((server, kind), now.get(kind, 0))
        for server in _servers(gauges)
        for now in [gauges.faults_by_server.get(server, {})]
        for kind in dict.fromkeys((*_kinds_on(server), *now))
    ]
    yield gauge_family("soak_fault_active", "Whether this fault of this server is active.", "server kind", active)
    for name, text, counts in (
        ("soak_faults_injected", "Planned faults that happened.", tally.faults_injected),
        ("soak_fault_failures", "Planned faults that could not be injected, or not be healed.", tally.fault_failures),
    ):
        rows = [((s, kind), counts.get(s, {}).get(kind, 0)) for s in _servers(gauges) for kind in _kinds_on(s)]
        yield counter_family(name, text, "server kind", rows)


def _clocks(gauges: Gauges) -> Iterator[Metric]:
    errors = [((host,), error) for host, (error, _) in gauges.clocks.items()]
    yield gauge_family("soak_clock_error_seconds", "How exactly the clock of another host is known.", "host", errors)
    jumps = [((host,), jumps) for host, (_, jumps) in gauges.clocks.items()]
    yield counter_family("soak_clock_jumps", "How often the clock of another host jumped.", "host", jumps)


def _shards(gauges: Gauges) -> Iterator[Metric]:
    shards = gauges.shards.items()
    up = [((shard,), int(is_heard)) for shard, (is_heard, _, _) in shards]
    yield gauge_family("soak_shard_up", "Whether a verifier of the run reported in the last 10 s.", "shard", up)
    text = "Acknowledged messages that a verifier has not read yet."
    yield gauge_family("soak_shard_unread_messages", text, "shard", [((shard,), n) for shard, (_, n, _) in shards])
    text = "Acknowledged messages that a verifier has read back as they were written."
    yield counter_family("soak_shard_verified_messages", text, "shard", [((shard,), n) for shard, (_, _, n) in shards])


def _servers(gauges: Gauges) -> list[str]:
    return list(dict.fromkeys((*gauges.configuration_drift, *gauges.targets)))


def _kinds_on(server: str) -> list[str]:
    # Faults bring all servers with them: a verifier that starts judges before it imports them.
    from soak.faults.catalogue import ALL  # noqa: PLC0415

    return list(dict.fromkeys(fault.kind for fault in ALL.values() if server in fault.targets))
