"""Whatever is killed, and whenever: each message that was dropped and acknowledged is reported by name."""

from __future__ import annotations

import os
import random
import signal

import pytest

from soak.errors import ExitCode
from soak.verifier.journal import Violation, decode_line
from tests.support.campaigns.kills import EVERY, TARGETS, WORDS, draw, run_rounds
from tests.support.checking import RunningCheck, new_folder, processes_of, total, wait_until
from tests.support.stores.forgetful import ACCOUNT_VARIABLE

QUICK_SEEDS = [431, 1084, 2815, 437, 839, 2223, 2121, 1243, 1939, 2780]
"""Each process is killed, and each but the daemon is stopped, in the start, in the run and in the drain."""
QUICK_TOGETHER = 4
ROUNDS = int(os.environ.get("SOAK_CAMPAIGN_ROUNDS", "30"))
FIRST_SEED = int(os.environ.get("SOAK_CAMPAIGN_SEED", "0")) or random.SystemRandom().randrange(10**6)


@pytest.mark.long
def test_a_daemon_that_is_killed_while_it_drains_comes_to_its_verdict_and_no_load_is_started_again() -> None:
    with new_folder() as folder:
        account = folder / "account.txt"
        account.touch()
        with RunningCheck(folder, *WORDS, **{ACCOUNT_VARIABLE: str(account)}) as first:
            status = first.until(lambda status: total(status, "violations") >= 2)
            verifier = next(child["pid"] for child in status["children"] if child["name"] == "verifier")
            os.kill(verifier, signal.SIGSTOP)  # so that it does not give its verdict before the kill
            first.process.send_signal(signal.SIGTERM)
            wait_until(lambda: "load ended; verifying" in first.output)
            first.process.kill()
            first.process.wait()
            wait_until(lambda: not processes_of(first.data_dir))
        dropped = account.read_text().splitlines()
        with RunningCheck(folder, *WORDS, **{ACCOUNT_VARIABLE: str(account)}) as second:
            told = second.wait()
        assert (second.process.returncode, told["run"]) == (ExitCode.VIOLATION, status["run"]), second.output
        lines = (second.data_dir / "verifier" / "journal.jsonl").read_bytes().splitlines()
        named = [line.message for text in lines if isinstance(line := decode_line(text), Violation)]
        assert account.read_text().splitlines() == dropped, "a load was started again"
        assert sorted(named) == sorted(dropped)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_ten_rounds_of_kills_lose_no_report() -> None:
    runs = run_rounds(QUICK_SEEDS, together=QUICK_TOGETHER, at_once=3)
    assert all(one.is_right for one in runs), "\n".join(one.told() for one in runs if not one.is_right)


def test_ten_rounds_do_everything_to_everybody_at_any_time() -> None:
    done = {(deed.phase, deed.target, deed.stopped_seconds is None) for seed in QUICK_SEEDS for deed in draw(seed)}
    assert len(QUICK_SEEDS) == 10
    assert done == {
        (phase, target, is_killed)
        for phase in ("start", "run", "drain")
        for target in TARGETS
        for is_killed in (True, False)
        if is_killed or target != "daemon"
    }


@pytest.mark.extra
@pytest.mark.timeout(600)
def test_rounds_of_kills_lose_no_report_where_two_verifiers_share_the_run() -> None:
    runs = run_rounds(QUICK_SEEDS[:4], together=2, verifiers=2)
    assert all(one.is_right for one in runs), "\n".join(one.told() for one in runs if not one.is_right)


@pytest.mark.extra
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("verifiers", [1, 2])
def test_a_campaign_of_kills_loses_no_report(verifiers: int) -> None:
    print(f"SOAK_CAMPAIGN_SEED={FIRST_SEED}")
    runs = run_rounds([FIRST_SEED + number for number in range(ROUNDS)], verifiers=verifiers, rates=(EVERY, 0))
    assert all(one.is_right for one in runs), "\n".join(one.told() for one in runs if not one.is_right)
