"""The two formats of metrics: text, and OpenMetrics, which Prometheus prefers and which has exemplars."""

from __future__ import annotations

import enum

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

_OPENMETRICS = "application/openmetrics-text"
OPENMETRICS_END = "# EOF\n"


class Exposition(enum.Enum):
    """How the metrics are written, and the content type that says so."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = f"{_OPENMETRICS}; version=1.0.0; charset=utf-8"

    def of(self, registry: CollectorRegistry) -> bytes:
        if self is Exposition.TEXT:
            return generate_latest(registry)
        text: bytes = generate_openmetrics(registry)  # type: ignore[no-untyped-call]
        return text


def asked_for(accept: str) -> Exposition:
    """Return what a scraper wants, by its Accept header; who names no OpenMetrics, such as a person, gets text."""
    wants = any(word.split(";")[0].strip().lower() == _OPENMETRICS for word in accept.split(","))
    return Exposition.OPENMETRICS if wants else Exposition.TEXT
