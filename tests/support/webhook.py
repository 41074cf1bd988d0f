"""A small server that takes what an Alertmanager tells, and remembers when it came."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Ring:
    """One alert that arrived: by which path, and when."""

    path: str
    name: str
    status: str
    labels: dict[str, str]
    annotations: dict[str, str]
    at_seconds: float


@dataclass
class Webhook:
    """Where alerts arrive."""

    address: str
    rings: list[Ring] = field(default_factory=list)

    def firing(self) -> set[str]:
        """Return the names of all alerts that ever arrived as firing."""
        return {ring.name for ring in list(self.rings) if ring.status == "firing"}

    def first(self, name: str) -> Ring | None:
        return next((ring for ring in list(self.rings) if ring.name == name and ring.status == "firing"), None)

    def take(self, path: str, told: dict[str, Any]) -> None:
        now = time.time()
        for alert in told["alerts"]:
            labels, annotations = alert["labels"], alert["annotations"]
            self.rings.append(Ring(path, labels["alertname"], alert["status"], labels, annotations, now))


@contextlib.contextmanager
def webhook() -> Iterator[Webhook]:
    """Listen on a free loopback port while the context lasts."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            hook.take(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hook = Webhook(f"127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, name="webhook", daemon=True)
        thread.start()
        try:
            yield hook
        finally:
            server.shutdown()
            thread.join()
