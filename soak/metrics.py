"""The verifier's metrics: the tally, told to Prometheus. Every label set is there from the start, at zero."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, Exemplar, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

import soak
from soak.checker.contract import Contract
from soak.checker.telemetry import ServerSample
from soak.exposition import Exposition
from soak.faults.catalogue import ALL as FAULTS
from soak.faults.catalogue import RECOVERY_KINDS
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
        yield from self._infos()
        yield from _by_store(tally.stores, self._latest())
        yield from _of_run(tally)
        gauges = self._gauges()
        yield from _gauges(gauges)
        yield from _of_run_now(gauges, self._run[0])
        yield from _of_stores_now(gauges, tally.stores)
        yield from _contracts(gauges)
        yield from _configurations(gauges, tally)
        yield from _recoveries(gauges, tally)
        yield from _recovery_times(gauges, tally)
        yield from _faults(gauges, tally)
        yield from server_metrics(gauges.servers)

    def _infos(self) -> Iterator[Metric]:
        build = GaugeMetricFamily("soak_build_info", "The soak that runs.", labels=["version", "python"])
        build.add_metric([soak.__version__, platform.python_version()], 1)
        yield build
        run, seed, namespace, stores = self._run
        info = GaugeMetricFamily("soak_run_info", "The run.", labels=["run", "seed", "namespace", "stores"])
        info.add_metric([run, str(seed), namespace, ",".join(stores)], 1)
        yield info


def _by_store(stores: dict[str, StoreTally], latest: Latest) -> Iterator[Metric]:
    yield _labelled(
        "soak_attempts", "Appends by how they ended.", "outcome", {s: t.attempts for s, t in stores.items()}
    )
    yield _labelled("soak_forgets", "Forgets by how they ended.", "outcome", {s: t.forgets for s, t in stores.items()})
    yield _labelled(
        "soak_consistency_violations",
        "Violations of the contract, each counted once.",
        "kind",
        {s: t.violations for s, t in stores.items()},
        latest,
    )
    yield _labelled(
        "soak_healed_violations", "Violations that healed later.", "kind", {s: t.healed for s, t in stores.items()}
    )
    yield _labelled(
        "soak_canaries",
        "Self-check: planted errors by result (early: reported before they were planted).",
        "result",
        {s: t.canaries for s, t in stores.items()},
    )
    yield _labelled(
        "soak_searches",
        "Messages asked for by their own words, by whether a search showed them.",
        "result",
        {s: t.searches for s, t in stores.items()},
    )
    yield _labelled(
        "soak_recalls", "Closed sessions read back, by their age.", "age", {s: t.recalls for s, t in stores.items()}
    )
    yield _labelled(
        "soak_operation_errors",
        "Operations without an answer: unavailability, not loss.",
        "operation",
        {s: t.errors for s, t in stores.items()},
    )
    yield from _counters(stores)
    open_violations = GaugeMetricFamily("soak_open_violations", "Violations that still stand.", labels=["store"])
    indeterminate = GaugeMetricFamily(
        "soak_indeterminate_messages", "Unknown writes that nobody has seen.", labels=["store"]
    )
    rang = GaugeMetricFamily(
        "soak_canary_last_detected_timestamp_seconds", "When a spoiled session was last reported.", labels=["store"]
    )
    oldest = GaugeMetricFamily(
        "soak_oldest_recall_seconds", "Greatest age, since its end, at which a session was read back.", labels=["store"]
    )
    for store, tally in stores.items():
        rang.add_metric([store], tally.canary_detected_wall_seconds)
        oldest.add_metric([store], tally.oldest_recall_seconds)
        open_violations.add_metric([store], sum(tally.open.values()))
        indeterminate.add_metric([store], max(0, tally.attempts["unknown"] - tally.surfaced))
    yield open_violations
    yield indeterminate
    yield rang
    yield oldest
    yield from _histograms(stores)


_COUNTERS: tuple[tuple[str, str, Callable[[StoreTally], int]], ...] = (
    ("soak_acknowledged_messages", "Messages a store acknowledged.", lambda t: t.acknowledged),
    ("soak_verified_messages", "Acknowledged messages read back as they were written.", lambda t: t.verified),
    ("soak_surfaced_messages", "Unknown writes that turned out to be there.", lambda t: t.surfaced),
    ("soak_released_messages", "Acknowledged messages forgotten or expired unread.", lambda t: t.released),
    ("soak_tolerated_losses", "Lost inside the contract.", lambda t: t.tolerated),
    ("soak_tolerated_late_reads", "Messages a replica showed late because of a fault.", lambda t: t.shadowed_reads),
    (
        "soak_unverifiable_messages",
        "Messages that cannot be verified: the ledger has gaps.",
        lambda t: t.unverifiable,
    ),
    ("soak_observations", "Reads of participants that did not look right.", lambda t: t.observations),
    ("soak_read_messages", "Messages the verifier read back.", lambda t: t.messages_read),
    ("soak_sessions_opened", "Sessions begun.", lambda t: t.sessions_opened),
    ("soak_sessions_retired", "Sessions let go after their last recall.", lambda t: t.sessions_retired),
)


def _counters(stores: dict[str, StoreTally]) -> Iterator[Metric]:
    for name, text, value in _COUNTERS:
        family = CounterMetricFamily(name, text, labels=["store"])
        for store, tally in stores.items():
            family.add_metric([store], value(tally))
        yield family


def _labelled(
    name: str, text: str, label: str, values: dict[str, dict[str, int]], exemplars: Latest | None = None
) -> Metric:
    family = CounterMetricFamily(name, text, labels=["store", label])
    for store, counts in values.items():
        for key, count in counts.items():
            family.add_metric([store, key], count, exemplar=(exemplars or {}).get(store, {}).get(key))
    return family


def _histograms(stores: dict[str, StoreTally]) -> Iterator[Metric]:
    durations = HistogramMetricFamily(
        "soak_operation_duration_seconds", "Time of a store's answers.", labels=["store", "operation"]
    )
    lags = HistogramMetricFamily("soak_stale_lag_seconds", "How far behind a read was found.", labels=["store"])
    for store, tally in stores.items():
        for operation in OPERATIONS:
            histogram = tally.latency[operation]
            durations.add_metric([store, operation], _buckets(histogram, LATENCY_BUCKETS_SECONDS), histogram.sum)
        lags.add_metric([store], _buckets(tally.stale_lag, STALE_LAG_BUCKETS_SECONDS), tally.stale_lag.sum)
    yield durations
    yield lags


def _buckets(histogram: Histogram, bounds: Iterable[float]) -> list[tuple[str, float]]:
    total = 0
    buckets = []
    for bound, count in zip((*(str(bound) for bound in bounds), "+Inf"), histogram.counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets


def _of_run(tally: Tally) -> Iterator[Metric]:
    yield CounterMetricFamily("soak_ledger_batches", "Ledger batches taken in.", tally.batches)
    yield CounterMetricFamily("soak_ledger_repeated_batches", "Ledger batches sent twice.", tally.batches_repeated)
    yield CounterMetricFamily("soak_ledger_missing_batches", "Ledger batches lost or damaged.", tally.batches_missing)
    yield CounterMetricFamily(
        "soak_unverifiable_records", "Ledger records nothing can be said about.", tally.unverifiable
    )
    yield CounterMetricFamily(
        "soak_suppressed_observations", "Observations cut short in a flood.", tally.observations_suppressed
    )
    yield CounterMetricFamily(
        "soak_evidence_write_failures", "Violations whose evidence could not be written.", tally.evidence_failures
    )
    yield CounterMetricFamily("soak_verifier_restarts", "Times the verifier resumed this run.", tally.restarts)


def _gauges(gauges: Gauges) -> Iterator[Metric]:
    for name, text, values in (
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
        ("soak_sessions_live", "Sessions under watch.", gauges.sessions_live),
        ("soak_suspicions_open", "Sessions with something missing that is not yet confirmed.", gauges.suspicions_open),
    ):
        family = GaugeMetricFamily(name, text, labels=["store"])
        for store, value in values.items():
            family.add_metric([store], value)
        yield family
    yield GaugeMetricFamily("soak_faults_active", "Faults under way.", gauges.faults_active)
    yield GaugeMetricFamily(
        "soak_ledger_lag_seconds", "How far the verifier is behind the ledger.", gauges.ledger_lag_seconds
    )
    yield GaugeMetricFamily(
        "soak_unread_messages", "Acknowledged messages that the verifier has not read yet.", gauges.unread_messages
    )
    yield GaugeMetricFamily(
        "soak_load_held_back",
        "Whether the load is held back because too many acknowledged messages wait to be read.",
        int(gauges.load_held_back),
    )
    yield GaugeMetricFamily("soak_ledger_up", "Whether the verifier reaches the ledger.", int(gauges.ledger_reachable))
    yield GaugeMetricFamily(
        "soak_run_start_time_seconds", "When the run began, before any restart.", gauges.run_start_time_seconds
    )
    yield GaugeMetricFamily("soak_evidence_files", "Files of evidence.", gauges.evidence_files)
    yield GaugeMetricFamily("soak_evidence_bytes", "Size of all files of evidence.", gauges.evidence_bytes)
    yield GaugeMetricFamily("soak_verifier_state_bytes", "Size of the verifier's saved state.", gauges.state_bytes)
    yield GaugeMetricFamily(
        "soak_verifier_loop_delay_seconds", "How late the verifier's event loop runs.", gauges.loop_delay_seconds
    )


def one_of(name: str, text: str, label: str, run: str, values: Sequence[str], now: str) -> Metric:
    """Return a gauge that is 1 for what holds now, and 0 for everything else that could."""
    family = GaugeMetricFamily(name, text, labels=["run", label])
    for value in values:
        family.add_metric([run, value], int(value == now))
    return family


def _of_run_now(gauges: Gauges, run: str) -> Iterator[Metric]:
    yield one_of("soak_phase", "Where the run is, from starting to done.", "phase", run, PHASES, gauges.phase)
    yield GaugeMetricFamily(
        "soak_planned_faults_active", "Faults under way that soak itself brought about.", gauges.planned_faults_active
    )
    settings = GaugeMetricFamily(
        "soak_setting_seconds", "Settings that alerts are measured by; 0: off, +Inf: no limit.", labels=["name"]
    )
    for name, seconds in gauges.settings_seconds.items():
        settings.add_metric([name], seconds)
    yield settings


def _of_stores_now(gauges: Gauges, stores: dict[str, StoreTally]) -> Iterator[Metric]:
    for name, text, values in (
        (
            "soak_coverage_age_seconds",
            "Age of the oldest full read among live sessions.",
            gauges.coverage_age_seconds,
        ),
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
        (
            "soak_last_acknowledged_timestamp_seconds",
            "When a message was last acknowledged, as far as the ledger was read; 0: never.",
            {store: tally.acknowledged_wall_seconds for store, tally in stores.items()},
        ),
    ):
        family = GaugeMetricFamily(name, text, labels=["store"])
        for store in stores:
            family.add_metric([store], values.get(store, 0.0))
        yield family


def _contracts(gauges: Gauges) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        "soak_contract_info",
        "The contract of each store, and its origin.",
        labels=["store", "obtained", "durability", "order", "reads", "duplicates", "retention"],
    )
    allowed = GaugeMetricFamily(
        "soak_contract_loss_seconds",
        "Data loss (RPO) that the contract allows after a fault; +Inf: anything.",
        labels=["store", "after"],
    )
    unmet = GaugeMetricFamily(
        "soak_contract_unmet",
        "Whether the server, as configured now, cannot keep this clause of the contract.",
        labels=["store", "clause"],
    )
    for store, contract in gauges.contracts.items():
        info.add_metric([store, gauges.origins.get(store, "the store's own"), *contract.clauses().values()], 1)
        losses = {
            "crash": contract.crash_loss_seconds,
            "power_cut": contract.power_loss_seconds,
            "failover": contract.failover_loss_seconds,
        }
        for after, seconds in losses.items():
            allowed.add_metric([store, after], float("inf") if seconds is None else seconds)
    for store, clauses in gauges.unmet_clauses.items():
        for clause, value in clauses.items():
            unmet.add_metric([store, clause], value)
    yield info
    yield allowed
    yield unmet


def _configurations(gauges: Gauges, tally: Tally) -> Iterator[Metric]:
    drift = GaugeMetricFamily(
        "soak_configuration_drift",
        "Whether a server's setting differs from what it was when the run began.",
        labels=["server", "setting"],
    )
    drifts = CounterMetricFamily(
        "soak_configuration_drifts", "Changes of a server's settings while the soak ran.", labels=["server"]
    )
    restarts = CounterMetricFamily(
        "soak_unexpected_restarts",
        "Restarts of a server that no fault of this soak explains.",
        labels=["server"],
    )
    for server, settings in gauges.configuration_drift.items():
        for setting, value in settings.items():
            drift.add_metric([server, setting], value)
        drifts.add_metric([server], tally.servers[server].drifts if server in tally.servers else 0)
    for server in _servers(gauges):
        restarts.add_metric([server], tally.unexpected_restarts.get(server, 0))
    yield drift
    yield drifts
    yield restarts


def _recoveries(gauges: Gauges, tally: Tally) -> Iterator[Metric]:
    points = HistogramMetricFamily(
        "soak_recovery_point_seconds",
        "Data lost (RPO): age of the oldest acknowledged message missing after a fault; 0: none.",
        labels=["server", "kind"],
    )
    beyond = CounterMetricFamily(
        "soak_recovery_point_exceeded", "Faults after which more was gone than is promised.", labels=["server", "kind"]
    )
    bounds = RECOVERY_POINT_BUCKETS_SECONDS
    for server in _servers(gauges):
        for kind in RECOVERY_KINDS:
            histogram = tally.recovery_points.get(server, {}).get(kind) or Histogram.over(bounds)
            points.add_metric([server, kind], _buckets(histogram, bounds), histogram.sum)
            beyond.add_metric([server, kind], tally.recoveries_beyond.get(server, {}).get(kind, 0))
    yield points
    yield beyond


def _servers(gauges: Gauges) -> list[str]:
    return list(dict.fromkeys((*gauges.configuration_drift, *gauges.targets)))


def _kinds_on(server: str) -> list[str]:
    return list(dict.fromkeys(fault.kind for fault in FAULTS.values() if server in fault.targets))


def _recovery_times(gauges: Gauges, tally: Tally) -> Iterator[Metric]:
    times = HistogramMetricFamily(
        "soak_recovery_time_seconds",
        "Recovery time (RTO): from the beginning of a fault until the operation succeeded again.",
        labels=["server", "kind", "operation"],
    )
    bounds = RECOVERY_TIME_BUCKETS_SECONDS
    for server in _servers(gauges):
        for kind in _kinds_on(server):
            for operation in ("read", "write"):
                known = tally.recovery_times.get(server, {}).get(kind, {}).get(operation)
                histogram = known or Histogram.over(bounds)
                times.add_metric([server, kind, operation], _buckets(histogram, bounds), histogram.sum)
    yield times


def _faults(gauges: Gauges, tally: Tally) -> Iterator[Metric]:
    injected = CounterMetricFamily("soak_faults_injected", "Planned faults that happened.", labels=["server", "kind"])
    failures = CounterMetricFamily(
        "soak_fault_failures", "Planned faults that could not be injected, or not be healed.", labels=["server", "kind"]
    )
    active = GaugeMetricFamily(
        "soak_fault_active", "Whether this fault of this server is under way.", labels=["server", "kind"]
    )
    for server in _servers(gauges):
        under_way = gauges.faults_by_server.get(server, {})
        for kind in dict.fromkeys((*_kinds_on(server), *under_way)):
            active.add_metric([server, kind], under_way.get(kind, 0))
        for kind in _kinds_on(server):
            injected.add_metric([server, kind], tally.faults_injected.get(server, {}).get(kind, 0))
            failures.add_metric([server, kind], tally.fault_failures.get(server, {}).get(kind, 0))
    yield active
    yield injected
    yield failures
