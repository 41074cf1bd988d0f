"""A service that a soak starts itself: what its death, and that of its server, may take, and what they may not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import soak
from tests.support.needs import all_required
from tests.support.paths import SUBJECTS

pytestmark = pytest.mark.long

SECONDS_MAX = 120.0
RESTARTED = "restart without persistence"
BUSY = ("--users", "20", "--think", "100ms", "--spawn-rate", "100", "--json")


def check(folder: Path, subject: str, fault: str, target: str) -> dict[str, Any]:
    named = subject if "-" in subject else str(SUBJECTS / f"{subject}.py")
    return soaked(folder, fault, target, "--store", "http", "--subject", named)


def soaked(folder: Path, fault: str, target: str, *words: str) -> dict[str, Any]:
    rule = f'[[faults.rules]]\nfault = "{fault}"\ntarget = "{target}"\nevery = "3s"\nhold = "300ms"\n'
    (folder / "soak.toml").write_text(f'{rule}[faults]\nhealthy_min = "500ms"\n')
    # What is kept after a violation goes with the test.
    words = ("check", *words, "--duration", "5s", "--set", "verifier.settle=1s", *BUSY)
    done = soak(*words, cwd=folder, TMPDIR=str(folder))
    if "cannot be installed" in done.stderr and not all_required():
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.stdout, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def causes(told: dict[str, Any]) -> set[tuple[str, str]]:
    return {(one["kind"], one["cause"]) for one in told["result"]["violations"]}


@pytest.mark.parametrize("target", ["http", "redis"])
def test_a_correct_service_passes_although_it_or_its_server_is_killed(tmp_path: Path, target: str) -> None:
    told = check(tmp_path, "remembering", "crash", target)
    assert told["verdict"] == "pass", told["reasons"]
    assert told["result"]["totals"]["verified"] > 100
    recovery = told["result"]["recoveries"][0]
    assert (recovery["server"], recovery["store"]) == (target, "http")
    # What Redis may lose when it dies does not excuse the death of the service in front of it.
    assert recovery["promised_seconds"] == (0.0 if target == "http" else 2.0)


# These two are also planted flaws of the selftest, `ack_before_flush` and `wiped_volume`, which CI runs.
@pytest.mark.extra
def test_a_service_that_writes_behind_is_found_out_when_it_is_killed(tmp_path: Path) -> None:
    told = check(tmp_path, "writing_behind", "crash", "http")
    assert told["verdict"] == "violation", told["reasons"]
    assert causes(told) <= {("lost", "unsynced tail"), ("rolled_back", "unsynced tail")}


@pytest.mark.extra
def test_a_service_whose_folder_is_wiped_has_lost_everything_and_the_cause_is_told(tmp_path: Path) -> None:
    told = check(tmp_path, "filing", "wiped_volume", "http")
    assert told["verdict"] == "violation", told["reasons"]
    assert causes(told) <= {("lost", "wiped volume"), ("rolled_back", "wiped volume")}


def test_a_chroma_server_is_killed_and_passes(tmp_path: Path) -> None:
    told = soaked(tmp_path, "crash", "chroma", "--store", "chroma")
    assert told["verdict"] == "pass", told["reasons"]
    assert told["result"]["recoveries"][0]["server"] == "chroma"


def test_a_chroma_server_whose_volume_is_wiped_has_lost_everything_and_the_cause_is_told(tmp_path: Path) -> None:
    told = soaked(tmp_path, "wiped_volume", "chroma", "--store", "chroma")
    assert told["verdict"] == "violation", told["reasons"]
    assert causes(told) <= {("lost", "wiped volume"), ("rolled_back", "wiped volume")}


@pytest.mark.extra
def test_the_release_of_chromadb_that_wrote_only_at_the_end_is_found_out_when_it_is_killed(tmp_path: Path) -> None:
    told = check(tmp_path, "chromadb-duckdb", "crash", "http")
    assert told["verdict"] == "violation", told["reasons"]
    assert causes(told) <= {("lost", RESTARTED), ("rolled_back", RESTARTED)}


@pytest.mark.extra
@pytest.mark.parametrize("subject", ["chromadb-persistent", "chromadb-server"])
def test_the_releases_of_today_pass_under_the_same_fault(tmp_path: Path, subject: str) -> None:
    told = check(tmp_path, subject, "crash", "http")
    assert told["verdict"] == "pass", told["reasons"]
    assert told["result"]["recoveries"]


@pytest.mark.extra
@pytest.mark.parametrize(("subject", "verdict"), [("agno-redis@2.6.4", "violation")])
def test_an_old_release_that_writes_whole_sessions_back_is_found_out(
    tmp_path: Path, subject: str, verdict: str
) -> None:
    told = check(tmp_path, subject, "pause", "redis")
    assert told["verdict"] == verdict, told["reasons"]
    assert {"lost", "rolled_back"} & {kind for kind, _ in causes(told)}
