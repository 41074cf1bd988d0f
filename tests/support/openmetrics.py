"""OpenMetrics text, parsed."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.openmetrics import parser


def openmetrics_families(text: str) -> Iterator[Metric]:
    """Parse what a scraper gets that asks for OpenMetrics; the parser itself has no annotations."""
    yield from parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
