"""The Prometheus and Alertmanager of the tests: they scrape, answer, ring, and go."""

from __future__ import annotations

import http.server
import json
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.support.prometheus_servers import alertmanager, prometheus

EXPOSITION = b'# TYPE memories_lost counter\nmemories_lost_total{store="one"} 3\nmemories_lost_total{store="two"} 0\n'


@pytest.fixture
def site() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve a metric, and take what a webhook is told."""
    told: list[dict[str, Any]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(EXPOSITION)

        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self._answer(b"")

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}", told
        server.shutdown()


@pytest.mark.long
def test_what_is_scraped_can_be_asked_for_and_a_rule_rings_the_webhook(
    site: tuple[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    address, told = site
    rules = tmp_path / "rules.yml"
    rule = {"alert": "Lost", "expr": "memories_lost_total > 0", "labels": {"severity": "critical"}}
    rules.write_text(yaml.safe_dump({"groups": [{"name": "lost", "rules": [rule]}]}))
    config = {
        "route": {"receiver": "hook", "group_wait": "0s", "group_interval": "1s"},
        "receivers": [{"name": "hook", "webhook_configs": [{"url": f"http://{address}/"}]}],
    }
    before = set(psutil.Process().children())
    with alertmanager(config) as ringing, prometheus([address], rule_files=[rules], alertmanagers=[ringing]) as server:
        found = server.until("sum by (store) (memories_lost_total)", lambda series: len(series) == 2)
        assert {one.labels["store"]: one.value for one in found} == {"one": 3.0, "two": 0.0}
        assert server.query("scalar(count(memories_lost_total))")[0].value == 2.0
        server.until('ALERTS{alertname="Lost", alertstate="firing"}')
        assert server.firing() == {"Lost"}
        assert [rule["health"] for rule in server.rules()] == ["ok"]
        server.until("count(memories_lost_total)", lambda _series: told)
        assert told[0]["alerts"][0]["labels"] == {
            "alertname": "Lost", "store": "one", "job": "soak", "instance": address, "severity": "critical"
        }  # fmt: skip
        with pytest.raises(AssertionError, match="parse error"):
            server.query("sum by")
    assert set(psutil.Process().children()) == before


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(AssertionError, match=r"does not start: .*no routes provided"), alertmanager({"receivers": []}):
        pass
