"""The daemon's own metrics; those of the verification come from the verifier and are passed on."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

import soak
from soak.api.status import SoakStatus
from soak.daemon.consumption import ProcessUse, Use
from soak.exposition import OPENMETRICS_END, Exposition
from soak.metrics import PHASES, counter_family, gauge_family, one_of
from soak.verifier.result import ThresholdState, VerifierStatus

VERDICTS = ("undecided", "pass", "violation", "inconclusive", "threshold")


class DaemonMetrics(Collector):
    """Tells the present state at every scrape, so that no number can be forgotten or flap."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._snapshot: SoakStatus | None = None
        self._use = Use()
        build = Gauge("soak_build_info", "The soak that runs.", ["version", "python"], registry=self.registry)
        build.labels(soak.__version__, platform.python_version()).set(1)
        self.registry.register(self)

    def text(
        self, snapshot: SoakStatus, verifier_text: str | None, use: Use, exposition: Exposition = Exposition.TEXT
    ) -> str:
        """Return the exposition: ours, then the verifier's, each metric once."""
        self._snapshot = snapshot
        self._use = use
        own = exposition.of(self.registry).decode().removesuffix(OPENMETRICS_END)
        up = "# HELP soak_verifier_up Whether the verifier answers.\n# TYPE soak_verifier_up gauge\nsoak_verifier_up "
        own += f"{up}{0 if verifier_text is None else 1}\n"
        theirs = "" if verifier_text is None else without_families(verifier_text, _families(own))
        return own + theirs + (OPENMETRICS_END if exposition is Exposition.OPENMETRICS else "")

    def collect(self) -> Iterable[Metric]:
        snapshot, use = self._snapshot, self._use
        if snapshot is None:
            return
        info = ((snapshot.run, snapshot.seed, snapshot.namespace, ",".join(snapshot.stores)), 1)
        yield gauge_family("soak_run_info", "The run.", "run seed namespace stores", [info])
        yield one_of("soak_phase", "Phase of the run.", "phase", snapshot.run, PHASES, snapshot.phase)
        yield one_of("soak_verdict", "Verdict of the run.", "verdict", snapshot.run, VERDICTS, snapshot.verdict)
        yield GaugeMetricFamily("soak_daemon_uptime_seconds", "Time since the daemon started.", snapshot.uptime_seconds)
        ready = 0 if snapshot.not_ready else 1
        yield GaugeMetricFamily("soak_ready", "Whether servers, ledger, verifier and load are all up.", ready)
        yield from _processes_up(snapshot)
        if snapshot.verifier is not None:
            yield from _measured(snapshot.verifier)
        for name, text, value in _PROCESS_GAUGES:
            rows = [((process,), value(taken)) for process, taken in use.processes.items()]
            yield gauge_family(name, text, "process", rows)
        cpu = [((process,), taken.cpu_seconds) for process, taken in use.processes.items()]
        yield counter_family("soak_process_cpu_seconds", "CPU time since it started.", "process", cpu)
        sizes = [((part,), size) for part, size in use.folder_bytes.items()]
        yield gauge_family("soak_data_folder_bytes", "Size of each part of the data folder.", "part", sizes)
        if use.disk_free_bytes is not None:
            text = "Free space on the data folder's disk."
            yield GaugeMetricFamily("soak_data_folder_free_bytes", text, use.disk_free_bytes)
        text = "Worst delay of the daemon's event loop in the last 15 seconds."
        yield GaugeMetricFamily("soak_daemon_loop_delay_seconds", text, use.loop_delay_seconds)


def _measured(status: VerifierStatus) -> Iterable[Metric]:
    """Yield what thresholds are held against, as the summary has it: of the whole run, in faults and out of them."""
    # Not `quantile`: that label belongs to summaries.
    percentiles = [
        ((row.store, row.operation, str(row.in_fault).lower(), percentile), value)
        for row in status.latencies
        for percentile, value in (
            ("50", row.p50_seconds),
            ("95", row.p95_seconds),
            ("99", row.p99_seconds),
            ("100", row.max_seconds),
        )
        if value is not None
    ]
    text = "How long participants waited since the run began."
    yield gauge_family("soak_run_latency_seconds", text, "store operation in_fault percentile", percentiles)
    limits = [((one.store, one.name), int(one.state is ThresholdState.MISSED)) for one in status.thresholds]
    yield gauge_family("soak_threshold_missed", "Whether a threshold is missed so far.", "store name", limits)


def _processes_up(snapshot: SoakStatus) -> Iterable[Metric]:
    children = snapshot.children
    restarts = [((one.name,), one.restarts) for one in children]
    yield counter_family("soak_child_restarts", "Restarts of a child that died.", "child", restarts)
    up = [((one.name,), int(one.state == "running")) for one in children]
    yield gauge_family("soak_child_up", "Whether a child runs.", "child", up)
    embedded = [one for one in snapshot.servers if one.embedded]
    restarts = [((one.kind,), one.restarts) for one in embedded]
    yield counter_family("soak_server_restarts", "Restarts of an embedded server.", "server", restarts)
    up = [((one.kind,), int(one.is_up)) for one in embedded]
    yield gauge_family("soak_server_up", "Whether an embedded server runs.", "server", up)


_PROCESS_GAUGES: tuple[tuple[str, str, Callable[[ProcessUse], int]], ...] = (
    ("soak_process_resident_memory_bytes", "Resident memory.", lambda use: use.resident_bytes),
    ("soak_process_open_files", "Open files and sockets.", lambda use: use.open_files),
    ("soak_process_threads", "Threads.", lambda use: use.threads),
    ("soak_processes", "The process and those it started.", lambda use: use.processes),
)


def without_families(text: str, families: set[str]) -> str:
    """Drop the metrics with these names: one exposition must not hold a metric twice."""
    kept = []
    dropping = False
    for line in text.splitlines():
        if line.startswith(("# HELP ", "# TYPE ")):
            dropping = line.split(" ", 3)[2] in families
        elif line.startswith("#"):
            continue
        if line and not dropping:
            kept.append(line)
    return "\n".join(kept) + "\n" if kept else ""


def _families(text: str) -> set[str]:
    return {line.split(" ", 3)[2] for line in text.splitlines() if line.startswith("# TYPE ")}
