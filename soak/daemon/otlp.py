"""Metrics by OTLP: what /metrics shows, sent as protobuf over HTTP to a collector, again and again.

Every message holds the whole present state, cumulative. So nothing is queued while the collector is away, and nothing
is lost but the points in between. Imported only where an endpoint is set: its protobuf classes are an extra.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

import aiohttp
import structlog
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, HistogramDataPoint, ScopeMetrics
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

import soak
from soak.settings import OtlpSettings

SEND_SECONDS_MAX = 10.0
CONTENT_TYPE = "application/x-protobuf"
_log = structlog.get_logger(__name__)

Labels = tuple[tuple[str, str], ...]


class OtlpExporter:
    """Sends the exposition to one collector until it is cancelled, and once more at the end."""

    def __init__(self, settings: OtlpSettings, run: str, exposition: Callable[[], Awaitable[str]]) -> None:
        assert settings.endpoint is not None  # noqa: S101  asked by the caller
        self._url = settings.endpoint.get_secret_value()
        self._interval_seconds = settings.interval
        self._headers = {"Content-Type": CONTENT_TYPE, "User-Agent": f"soak/{soak.__version__}"}
        if settings.token is not None:
            self._headers["Authorization"] = f"Bearer {settings.token.get_secret_value()}"
        self._run = run
        self._exposition = exposition
        self._began_ns = time.time_ns()
        self.problem: str | None = None

    async def send_forever(self) -> None:
        while True:
            await self.send()
            await asyncio.sleep(self._interval_seconds)

    async def send(self) -> None:
        """Send the present state; a collector that does not take it is logged once, and once more when it does."""
        text = await self._exposition()
        body = request_of(text, self._run, began_ns=self._began_ns, now_ns=time.time_ns()).SerializeToString()
        problem = await self._post(body)
        if problem != self.problem:
            self.problem = problem
            if problem is None:
                _log.info("otlp_export_resumed", endpoint=self._url)
            else:
                _log.warning("otlp_export_failed", endpoint=self._url, error=problem)

    async def _post(self, body: bytes) -> str | None:
        timeout = aiohttp.ClientTimeout(total=SEND_SECONDS_MAX)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(self._url, data=body, headers=self._headers, allow_redirects=False) as response,
            ):
                answer = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return str(error) or type(error).__name__
        if response.status != 200:
            return f"status {response.status}"
        if response.content_type == CONTENT_TYPE:
            rejected = ExportMetricsServiceResponse.FromString(answer).partial_success
            if rejected.rejected_data_points:
                return f"{rejected.rejected_data_points} points were rejected: {rejected.error_message}"
        return None


def request_of(text: str, run: str, *, began_ns: int, now_ns: int) -> ExportMetricsServiceRequest:
    """Return the exposition as OTLP has it; names and labels stay as docs/metrics.md has them."""
    request = ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    own = {"service.name": "soak", "service.version": soak.__version__, "service.instance.id": run}
    for name, value in own.items():
        resource.resource.attributes.add(key=name).value.string_value = value
    scope = resource.scope_metrics.add()
    scope.scope.name = "soak"
    for family in text_string_to_metric_families(text):
        if family.type == "histogram":
            _add_histograms(scope, family, began_ns, now_ns)
        else:
            _add_numbers(scope, family, began_ns, now_ns)
    return request


def _add_numbers(scope: ScopeMetrics, family: Metric, began_ns: int, now_ns: int) -> None:
    """Add counters as sums, and everything else as gauges."""
    for name in dict.fromkeys(sample.name for sample in family.samples):
        metric = scope.metrics.add(name=name, description=family.documentation)
        is_sum = family.type == "counter" and name.endswith("_total")
        if is_sum:
            metric.sum.is_monotonic = True
            metric.sum.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
        points = metric.sum.data_points if is_sum else metric.gauge.data_points
        for sample in family.samples:
            if sample.name != name:
                continue
            point = points.add(time_unix_nano=now_ns, as_double=sample.value)
            if is_sum:
                point.start_time_unix_nano = began_ns
            for key, value in sample.labels.items():
                point.attributes.add(key=key).value.string_value = value


def _add_histograms(scope: ScopeMetrics, family: Metric, began_ns: int, now_ns: int) -> None:
    metric = scope.metrics.add(name=family.name, description=family.documentation)
    metric.histogram.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    for samples in _by_labels(family):
        _fill(metric.histogram.data_points.add(time_unix_nano=now_ns, start_time_unix_nano=began_ns), samples)


def _by_labels(family: Metric) -> Iterable[list[Sample]]:
    """Return the samples of each histogram of a family together."""
    found: dict[Labels, list[Sample]] = {}
    for sample in family.samples:
        labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        found.setdefault(labels, []).append(sample)
    return found.values()


def _fill(point: HistogramDataPoint, samples: list[Sample]) -> None:
    """Fill one histogram: Prometheus counts what is below a bound, OTLP what is between two."""
    buckets = sorted((float(one.labels["le"]), one.value) for one in samples if one.name.endswith("_bucket"))
    below = 0.0
    for bound, count in buckets:
        point.bucket_counts.append(int(count - below))
        below = count
        if bound != float("inf"):
            point.explicit_bounds.append(bound)
    for sample in samples:
        if sample.name.endswith("_sum"):
            point.sum = sample.value
        elif sample.name.endswith("_count"):
            point.count = int(sample.value)
    for key, value in samples[0].labels.items():
        if key != "le":
            point.attributes.add(key=key).value.string_value = value
