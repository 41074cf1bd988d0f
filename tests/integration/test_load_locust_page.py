"""Locust's own page, in a real browser: it shows what was verified and what was found, or that nobody knows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from soak.errors import ExitCode
from tests.support.browser.windows import Window, browsing, window
from tests.support.locust_run import LOCUSTFILE, WAIT_SECONDS_MAX, Run, free_port
from tests.support.paths import ROOT

pytestmark = pytest.mark.long

HOSTILE_STORE = "tests.support.stores.flawed:Hostile"


def rows(opened: Window, tab: str) -> list[str]:
    """Choose a tab, and return the rows of its table."""
    opened.page.get_by_role("tab", name=tab).click()
    return opened.page.locator("tbody tr").all_inner_texts()  # type: ignore[no-any-return]


def test_a_master_shows_violations_and_verified_counts_while_its_workers_run(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    port, workers = free_port(), free_port()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--data-dir", str(tmp_path / "data")),
            *("--store", HOSTILE_STORE, "--think-time", "100ms", "--autostart", "-u", "6", "-r", "6"),
            *("--web-port", port, "--processes", "2", "--master-port", workers, "--master-bind-port", workers),
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        with browsing() as browser, window(browser) as opened:
            opened.go(f"http://127.0.0.1:{port}/")
            opened.until(lambda: any(HOSTILE_STORE in row and "violation" in row for row in rows(opened, "Memory")))
            before = rows(opened, "Memory")
            opened.until(lambda: rows(opened, "Memory") != before)  # by itself, as it goes on
            opened.until(lambda: any("leaked" in row and "<img src=x" in row for row in rows(opened, "Violations")))
            assert opened.page.evaluate("() => document.body.dataset.owned") is None
            story = opened.page.locator("td a").first.get_attribute("href")
            assert re.fullmatch(r"/soak/[0-9a-f]+", story or ""), "each violation links to its story"
            rows(opened, "Memory")
            assert opened.page.locator("td a").first.get_attribute("href") == "/soak"
            assert opened.complaints == []
            opened.go(f"http://127.0.0.1:{port}{story}")
            opened.until(lambda: f"#violation={(story or '').rpartition('/')[2]}" in opened.page.url)
            opened.go(f"http://127.0.0.1:{port}/soak")  # leads on to the page of the soak
            opened.until(lambda: opened.text("#headline").startswith("Memory "))
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=WAIT_SECONDS_MAX * 3)
        assert process.returncode == ExitCode.VIOLATION, output
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_without_a_daemon_it_says_so_and_the_load_goes_on(tmp_path: Path, redis_url: str, ledger_url: str) -> None:
    run = Run(tmp_path, redis_url, ledger_url)  # nobody answers over HTTP for it
    port = free_port()
    try:
        process = run.locust("--web-port", port, "--autostart", "-u", "3", "-r", "3")
        with browsing() as browser, window(browser) as opened:
            opened.go(f"http://127.0.0.1:{port}/")
            for tab in ("Memory", "Violations"):
                opened.until(lambda tab=tab: any("the soak does not answer" in row for row in rows(opened, tab)))  # type: ignore[misc]
            assert opened.complaints == []
        run.wait_for_attempts(20)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=WAIT_SECONDS_MAX)
        assert process.returncode == 0, output
    finally:
        run.close()
