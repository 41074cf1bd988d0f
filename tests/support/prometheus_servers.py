"""A Prometheus and an Alertmanager for tests: real ones, on free loopback ports, in a folder that goes with them.

    with prometheus(["127.0.0.1:9464"], rule_files=[ROOT / "deploy/prometheus/alerts.yml"]) as server:
        series = server.until("sum by (store) (soak_acknowledged_messages_total) > 0")

They scrape and evaluate every second, so what takes minutes in production takes seconds here.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from soak.proc.spawn import STDOUT, start
from soak.proc.tree import last_words
from soak.servers.ports import HOST, free_port
from tests.support.needs import installed

READY_SECONDS_MAX = 60.0
ANSWER_SECONDS_MAX = 60.0
END_SECONDS_MAX = 15.0
STARTS_MAX = 3
POLL_SECONDS = 0.1
INTERVAL = "1s"
JOB = "soak"


@dataclass(frozen=True)
class Series:
    """One element of a query's answer: its labels, and its value at that time."""

    labels: dict[str, str]
    value: float


class Prometheus:
    """One that runs, and what it can be asked."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.url = f"http://{address}"

    def query(self, expression: str, at_seconds: float | None = None) -> list[Series]:
        """Return the instant vector of an expression, now or at a time; a scalar is one series without labels."""
        told = self.get("query", query=expression, **({} if at_seconds is None else {"time": f"{at_seconds:.3f}"}))
        if told["resultType"] in {"scalar", "string"}:
            return [Series({}, float(told["result"][1]))]
        return [Series(one["metric"], float(one["value"][1])) for one in told["result"]]

    def query_range(
        self, expression: str, start_seconds: float, end_seconds: float, step_seconds: float = 1.0
    ) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
        """Return labels and (time, value) points of each series of an expression."""
        told = self.get("query_range", query=expression, start=start_seconds, end=end_seconds, step=step_seconds)
        return [
            (one["metric"], [(float(when), float(value)) for when, value in one["values"]]) for one in told["result"]
        ]

    def until(
        self,
        expression: str,
        condition: Callable[[list[Series]], object] = bool,
        seconds: float = ANSWER_SECONDS_MAX,
    ) -> list[Series]:
        """Ask again and again until there is data, or until the condition holds, and return the answer."""
        deadline = time.monotonic() + seconds
        while not condition(found := self.query(expression)):
            assert time.monotonic() < deadline, f"{expression} did not come to that within {seconds:g} s: {found}"
            time.sleep(POLL_SECONDS)
        return found

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire now."""
        return {alert["labels"]["alertname"] for alert in self.alerts() if alert["state"] == "firing"}

    def alerts(self) -> list[dict[str, Any]]:
        """Return all alerts that are pending or firing, as the API has them."""
        found: list[dict[str, Any]] = self.get("alerts")["alerts"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        """Return all rules of all groups, with their health and last error."""
        return [rule for group in self.get("rules")["groups"] for rule in group["rules"]]

    def get(self, path: str, **words: object) -> Any:
        """Return the data that a path under /api/v1/ answers with; an error fails with what it says."""
        address = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(words)}"
        try:
            return _json(address)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {words}: {error.read().decode()}") from None


class Alertmanager:
    """One that runs."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.url = f"http://{address}"

    def alerts(self) -> list[dict[str, Any]]:
        """Return all alerts it holds, with their status: active, or suppressed and by what."""
        found: list[dict[str, Any]] = _json(f"{self.url}/api/v2/alerts")
        return found


def program(name: str) -> str:
    """Return the path of a program; a test that needs it is skipped without, or fails where nothing may be missing."""
    return installed(name, " (Debian: apt install prometheus prometheus-alertmanager)")


@contextlib.contextmanager
def prometheus(
    targets: Sequence[str],
    *,
    rule_files: Sequence[Path] = (),
    alertmanagers: Sequence[Alertmanager] = (),
    job: str = JOB,
) -> Iterator[Prometheus]:
    """Run a Prometheus that scrapes these addresses (host:port) and evaluates these rule files, unchanged."""
    config = {
        "global": {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL, "evaluation_interval": INTERVAL},
        "rule_files": [str(path.resolve(strict=True)) for path in rule_files],
        "scrape_configs": [{"job_name": job, "static_configs": [{"targets": list(targets)}]}],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [one.address for one in alertmanagers]}]}]},
    }
    with configured_prometheus(config) as server:
        yield server


@contextlib.contextmanager
def configured_prometheus(config: dict[str, Any]) -> Iterator[Prometheus]:
    """Run a Prometheus with a configuration of the test's own."""
    binary = program("prometheus")

    def command(folder: Path, port: int) -> list[str]:
        return [
            binary,
            f"--config.file={folder / 'config.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={HOST}:{port}",
            "--enable-feature=exemplar-storage",
            "--rules.alert.resend-delay=1s",
            "--log.level=warn",
        ]

    with _running("prometheus", config, command) as address:
        yield Prometheus(address)


@contextlib.contextmanager
def alertmanager(config: dict[str, Any]) -> Iterator[Alertmanager]:
    """Run an Alertmanager with this configuration."""
    binary = program("prometheus-alertmanager")

    def command(folder: Path, port: int) -> list[str]:
        return [
            binary,
            f"--config.file={folder / 'config.yml'}",
            f"--storage.path={folder / 'data'}",
            f"--web.listen-address={HOST}:{port}",
            "--cluster.listen-address=",  # alone
            "--log.level=warn",
        ]

    with _running("alertmanager", config, command) as address:
        yield Alertmanager(address)


@contextlib.contextmanager
def _running(name: str, config: dict[str, Any], command: Callable[[Path, int], list[str]]) -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix=f"soak-{name}-"))
    try:
        (folder / "config.yml").write_text(yaml.safe_dump(config, sort_keys=False))
        process, address = _start(folder, command)
        try:
            yield address
        finally:
            _end(process)
    finally:
        shutil.rmtree(folder)


def _start(folder: Path, command: Callable[[Path, int], list[str]]) -> tuple[subprocess.Popen[bytes], str]:
    log = folder / "log.txt"
    for _ in range(STARTS_MAX):
        port = free_port()
        with log.open("ab") as output:
            process = start(
                command(folder, port), stdout=output, stderr=STDOUT, cwd=folder, death_signal=signal.SIGKILL
            )
        if _is_ready(process, f"http://{HOST}:{port}/-/ready"):
            return process, f"{HOST}:{port}"
        _end(process)
        if "address already in use" not in log.read_text():
            break  # another port would not help
    raise AssertionError(f"{command(folder, 0)[0]} does not start: {last_words(log)}")


def _is_ready(process: subprocess.Popen[bytes], address: str) -> bool:
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310  our own
            if answer.status == 200:
                return True
        time.sleep(POLL_SECONDS)
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _json(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=30) as answer:  # noqa: S310  our own
        return json.loads(answer.read())
