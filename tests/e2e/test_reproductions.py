"""Published results are shown again: one that loses without a fault, its cure, and one that needs no group."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

NAMES = ("sentinel-failover", "sentinel-coordinated-failover", "redis-rdb-window")


@pytest.mark.long
def test_three_published_results_come_out_as_published() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "soak", "reproduce", "--json", "--jobs", "3", *NAMES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["results"]}
    assert {name: row["as_published"] for name, row in rows.items()} == dict.fromkeys(NAMES, True)
    assert rows["sentinel-failover"]["lost"] > 0
    assert rows["sentinel-coordinated-failover"]["lost"] == 0
    assert rows["redis-rdb-window"]["lost"] > 0
