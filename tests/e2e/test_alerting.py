"""From a forgotten message to the person who is called: real soaks, a real Prometheus, a real Alertmanager.

The rules are those that are shipped, unchanged; Alertmanager's configuration too, but for the addresses.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from soak.checker.causes import Cause
from tests.support.alert_files import ALERTMANAGER, ALERTS, RECORDING, metrics_in_rules
from tests.support.checking import RunningCheck, checking, total
from tests.support.openmetrics import openmetrics_families
from tests.support.prometheus_servers import Prometheus, alertmanager, program, prometheus
from tests.support.webhook import Webhook, webhook

pytestmark = pytest.mark.long

SECONDS_MAX = 90.0
QUICK = (
    *("--users", "8", "--set", "load.think=100ms", "--set", "verifier.hot_interval=300ms"),
    *("--set", "verifier.settle=500ms", "--duration", "10m"),
)
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@contextlib.contextmanager
def watched(check: RunningCheck) -> Iterator[tuple[Prometheus, Webhook]]:
    """Scrape a soak as soon as it has an address, and let alerts come to a webhook."""
    check.until(lambda status: status["http_address"])
    config: dict[str, Any] = yaml.safe_load(ALERTMANAGER.read_text())
    with webhook() as hook:
        for receiver in config["receivers"]:
            for one in receiver["webhook_configs"]:
                one["url"] = one["url"].replace("127.0.0.1:9095", hook.address)
        with (
            alertmanager(config) as ringing,
            prometheus([address_of(check)], rule_files=[RECORDING, ALERTS], alertmanagers=[ringing]) as server,
        ):
            yield server, hook


def address_of(check: RunningCheck) -> str:
    return str(check.status()["http_address"]).removeprefix("http://")


def metrics(check: RunningCheck, accept: str = "") -> str:
    request = urllib.request.Request(f"http://{address_of(check)}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310  our own
        return str(answer.read().decode())


def until(condition: Callable[[], object], otherwise: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.05)


def ever_active(server: Prometheus, since_seconds: float) -> dict[str, set[str]]:
    """Return the alerts that were pending or firing at any evaluation, with those states."""
    found: dict[str, set[str]] = {}
    for labels, _ in server.query_range("ALERTS", since_seconds, time.time()):
        found.setdefault(labels["alertname"], set()).add(labels["alertstate"])
    return found


def test_a_forgotten_message_reaches_the_person_on_call_within_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    store = "examples.overwriting_memory:OverwritingMemory"
    words = ("--set", "load.shared_share=1", "--set", "stores.timeout=1s")
    with checking("--store", store, *QUICK, *words) as check, watched(check) as (server, hook):
        check.until(lambda status: total(status, "violations") >= 1)
        counted_at = time.time()
        until(lambda: hook.first("ConsistencyViolation"), lambda: (hook.rings, server.alerts()))
        ring = hook.first("ConsistencyViolation")
        assert ring is not None
        with capsys.disabled():
            print(f"\n  counter to webhook: {max(0.0, ring.at_seconds - counted_at):.1f} s at intervals of 1 s")
        assert ring.path == "/now"
        assert ring.labels["store"] == store
        assert ring.labels["severity"] == "critical"
        assert ring.labels["kind"] in ring.annotations["summary"]
        address, _, anchor = ring.annotations["runbook_url"].partition("#")
        with urllib.request.urlopen(address) as answer:  # noqa: S310  the soak of this test
            assert f'id="{anchor}"' in answer.read().decode(), "the link leads to the alert's section"
        assert ring.labels["cause"] in {cause.value for cause in Cause}
        until(lambda: hook.first("Watchdog"), lambda: hook.rings)
        assert {one["health"] for one in server.rules()} == {"ok"}

        exemplars = server.get(
            "query_exemplars", query="soak_consistency_violations_total", start=counted_at - 60, end=time.time() + 60
        )
        named = {one["labels"]["violation"] for series in exemplars for one in series["exemplars"]}
        recent = [json.loads(line) for line in (check.data_dir / "verifier/journal.jsonl").read_text().splitlines()]
        assert named
        assert named <= {line["id"] for line in recent}

        # A server that hangs though nobody asked it to is no planned fault.
        server_pid = next(one["pid"] for one in check.status()["servers"] if one["kind"] == "redis")
        os.kill(server_pid, signal.SIGSTOP)
        try:
            server.until('ALERTS{alertname="StoreUnavailable"}', seconds=SECONDS_MAX)
        finally:
            os.kill(server_pid, signal.SIGCONT)

        # A daemon that is killed is missed as soon as nobody answers; it rings after the minute that its rule waits.
        os.kill(check.process.pid, signal.SIGKILL)
        check.process.wait()
        server.until('ALERTS{alertname="DaemonDown"}', seconds=SECONDS_MAX)


def test_a_clean_run_with_restarts_calls_nobody_and_ends_without_being_missed() -> None:
    began = time.time()
    words = ("--store", "redis-list", "--set", "faults.preset=recovery", "--set", "faults.every=6s")
    with (
        checking(*QUICK, *words, "--set", "faults.healthy_min=2s") as check,
        watched(check) as (server, hook),
    ):
        server.until("sum(soak_faults_injected_total) >= 2", seconds=SECONDS_MAX)
        server.until("sum(soak_canaries_total{result='detected'}) >= 1", seconds=SECONDS_MAX)
        every_rule_finds_its_metrics(check)
        the_exposition_is_clean(check)
        # Nothing waits for its time to ring, either.
        server.until("ALERTS{alertstate='pending'}", lambda series: not series, seconds=SECONDS_MAX)
        told = check.end()
        assert told["verdict"] == "pass", check.output
        assert "for a Prometheus scrape" in check.output
        server.until("last_over_time(soak_phase{phase='done'}[5m]) == 1", seconds=SECONDS_MAX)
        server.until("last_over_time(soak_verdict{verdict='pass'}[5m]) == 1", seconds=SECONDS_MAX)
        server.until("count_over_time((up == 0)[30s:1s]) >= 5", seconds=SECONDS_MAX)
        assert not server.query('ALERTS{alertname="DaemonDown"}')
        until(lambda: hook.first("Watchdog"), lambda: hook.rings)
        active = ever_active(server, began)
        assert {name for name, states in active.items() if "firing" in states} == {"Watchdog"}
        assert hook.firing() == {"Watchdog"}


def every_rule_finds_its_metrics(check: RunningCheck) -> None:
    text = metrics(check, OPENMETRICS)
    there = {sample.name for family in openmetrics_families(text) for sample in family.samples}
    asked = metrics_in_rules()
    assert len(asked) > 20
    assert asked <= there, f"rules ask for what is not there: {asked - there}"


def the_exposition_is_clean(check: RunningCheck) -> None:
    command = [program("promtool"), "check", "metrics"]
    said = subprocess.run(command, input=metrics(check), capture_output=True, text=True, timeout=60, check=False)
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
    spoiled = metrics(check) + "soakBadly 1\n"
    assert subprocess.run(command, input=spoiled, capture_output=True, text=True, timeout=60, check=False).returncode
