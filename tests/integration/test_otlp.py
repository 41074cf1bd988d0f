"""Metrics by OTLP, sent by a real run to a receiver that decodes the protobuf of OpenTelemetry's own definitions."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service
from pydantic import SecretStr
from structlog.testing import capture_logs

from soak.daemon.otlp import OtlpExporter, request_of
from soak.settings import OtlpSettings
from tests.support.checking import BUSY, checking
from tests.support.paths import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

TEXT = """\
# HELP soak_lost_total Lost.
# TYPE soak_lost_total counter
soak_lost_total{store="redis-list"} 3.0
# HELP soak_ready Ready.
# TYPE soak_ready gauge
soak_ready 1.0
# HELP soak_took_seconds Took.
# TYPE soak_took_seconds histogram
soak_took_seconds_bucket{le="0.1",store="a"} 2.0
soak_took_seconds_bucket{le="1.0",store="a"} 5.0
soak_took_seconds_bucket{le="+Inf",store="a"} 6.0
soak_took_seconds_sum{store="a"} 4.5
soak_took_seconds_count{store="a"} 6.0
"""


class Receiver:
    """Takes what an OTLP receiver takes, and answers as one does."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.tokens: set[str] = set()
        self.status = 200
        self.rejected = 0
        self.url = ""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Receiver]:
        app = web.Application(client_max_size=2**24)
        app.add_routes([web.post("/v1/metrics", self._take)])
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/metrics"
        yield self
        await runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        assert request.content_type == "application/x-protobuf"
        self.tokens.add(request.headers.get("Authorization", ""))
        self.requests.append(service.ExportMetricsServiceRequest.FromString(await request.read()))
        answer = service.ExportMetricsServiceResponse()
        answer.partial_success.rejected_data_points = self.rejected
        body = answer.SerializeToString()
        return web.Response(body=body, status=self.status, content_type="application/x-protobuf")

    def values(self, name: str) -> dict[str, float]:
        """Return the points of a metric in the last message, by their labels."""
        (metric,) = (one for one in metrics(self.requests[-1]) if one.name == name)
        points = metric.sum.data_points or metric.gauge.data_points
        return {",".join(one.value.string_value for one in point.attributes): point.as_double for point in points}


def metrics(request: Any) -> list[Any]:
    return list(request.resource_metrics[0].scope_metrics[0].metrics)


def test_counters_gauges_and_histograms_are_what_they_are_in_otlp() -> None:
    request = request_of(TEXT, "r1", began_ns=1, now_ns=2)
    attributes = {one.key: one.value.string_value for one in request.resource_metrics[0].resource.attributes}
    assert (attributes["service.name"], attributes["service.instance.id"]) == ("soak", "r1")
    lost, ready, took = metrics(request)
    assert (lost.name, lost.sum.is_monotonic, lost.sum.aggregation_temporality) == ("soak_lost_total", True, 2)
    (point,) = lost.sum.data_points
    assert (point.as_double, point.start_time_unix_nano, point.time_unix_nano) == (3.0, 1, 2)
    assert [(one.key, one.value.string_value) for one in point.attributes] == [("store", "redis-list")]
    assert ready.gauge.data_points[0].as_double == 1.0
    (point,) = took.histogram.data_points
    assert list(point.explicit_bounds) == [0.1, 1.0]
    assert list(point.bucket_counts) == [2, 3, 1]
    assert (point.sum, point.count) == (4.5, 6)


async def test_a_collector_that_is_away_or_rejects_is_logged_once_and_ends_nothing() -> None:
    async def text() -> str:
        return TEXT

    with capture_logs() as logged:
        async with Receiver().serving() as receiver:
            exporter = OtlpExporter(
                OtlpSettings(endpoint=SecretStr(receiver.url), token=SecretStr("a-secret")), "r1", text
            )
            await exporter.send()
            assert exporter.problem is None
            assert receiver.tokens == {"Bearer a-secret"}
            receiver.rejected = 2
            await exporter.send()
            assert str(exporter.problem).startswith("2 points were rejected")
            receiver.rejected, receiver.status = 0, 503
            await exporter.send()
            await exporter.send()
            assert exporter.problem == "status 503"
        await exporter.send()
        assert exporter.problem not in {None, "status 503"}
    assert [one["event"] for one in logged] == ["otlp_export_failed"] * 3
    assert "a-secret" not in str(logged)


@pytest.mark.long
async def test_a_run_sends_what_it_counts_and_at_the_end_its_verdict() -> None:
    words = ("--store", "redis-list", "--duration", "3s", *BUSY, "--set", "otlp.interval=1s")
    async with Receiver().serving() as receiver:
        with checking(*words, SOAK_OTLP__ENDPOINT=receiver.url) as check:
            told = await asyncio.to_thread(check.wait)
        assert told["verdict"] == "pass", told
        assert len(receiver.requests) >= 2
        assert receiver.values("soak_verified_messages_total")["redis-list"] > 0
        (verdict,) = (labels for labels, value in receiver.values("soak_verdict").items() if value)
        assert "pass" in verdict.split(",")


def test_without_the_extra_it_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['opentelemetry'] = None\n")
    command = [sys.executable, "-m", "soak", "check", "--set", "otlp.endpoint=http://127.0.0.1:1/v1/metrics"]
    environment = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "soak: otlp.endpoint needs opentelemetry-proto; install soak[otlp]"
