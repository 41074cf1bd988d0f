"""A data folder that was damaged: the run goes on, or stops in one line, and hides no violation."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from soak.errors import ExitCode
from soak.verifier.journal import Violation, decode_line
from tests.support.campaigns.kills import WORDS
from tests.support.checking import RunningCheck, new_folder, processes_of, total, wait_until
from tests.support.stores.forgetful import ACCOUNT_VARIABLE

DAMAGED = (
    *("children.json", "run.json", "daemon.json", "heartbeat.json", "series.jsonl", "result.json", "announced.json"),
    *("servers/state.json", "servers/pids.json", "verifier/endpoint.json", "verifier/result.json"),
    *("verifier/history/*.jsonl", "status.json"),
)
"""Those that a killed daemon may leave; whatever is there of them is damaged."""


def killed_with_violations(folder: Path, account: Path) -> str:
    """Run until something was found, and kill the daemon; returns the name of the run."""
    with RunningCheck(folder, *WORDS, **{ACCOUNT_VARIABLE: str(account)}) as check:
        status = check.until(lambda status: total(status, "violations") >= 2)
        kill(check)
    return str(status["run"])


def kill(check: RunningCheck) -> None:
    check.process.kill()
    check.process.wait()
    wait_until(lambda: not processes_of(check.data_dir))


def more_violations(check: RunningCheck, account: Path, known: int) -> int:
    """Wait until more was dropped, and more of that found; returns how much that is."""
    dropped = len(account.read_text().splitlines())
    status = check.until(
        lambda status: len(account.read_text().splitlines()) > dropped and total(status, "violations") > known
    )
    return total(status, "violations")


def flip(path: Path) -> None:
    whole = path.read_bytes()
    at = len(whole) // 2
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x80]) + whole[at + 1 :])


def cut(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def damage_all(data: Path, damage: Callable[[Path], None]) -> set[str]:
    """Damage every file of the list that is there; returns what of the list was."""
    damaged = set()
    for name in DAMAGED:
        for path in data.glob(name):
            damage(path)
            damaged.add(name)
    return damaged


@pytest.mark.long
def test_a_run_goes_on_although_each_of_its_files_was_damaged_in_each_way() -> None:
    with new_folder() as folder:
        account = folder / "account.txt"
        account.touch()
        run = killed_with_violations(folder, account)
        damaged, violations = set[str](), 2
        for damage in (flip, cut, empty, Path.unlink):
            damaged |= damage_all(folder / "data", damage)
            with RunningCheck(folder, *WORDS, **{ACCOUNT_VARIABLE: str(account)}) as check:
                violations = more_violations(check, account, violations)
                if damage is not Path.unlink:
                    kill(check)
                    assert "internal error" not in check.output
                    continue
                flip(check.data_dir / "run.json")
                (check.data_dir / "verifier" / "endpoint.json").unlink()
                told = check.end()
        assert damaged == set(DAMAGED), "each of them was there"
        assert (check.process.returncode, told["run"]) == (ExitCode.VIOLATION, run), check.output
        assert "internal error" not in check.output
        assert "heartbeat.json is gone or damaged" in check.output
        lines = (check.data_dir / "verifier" / "journal.jsonl").read_bytes().splitlines()
        named = {line.message for text in lines if isinstance(line := decode_line(text), Violation)}
        assert named <= set(account.read_text().splitlines())


@pytest.mark.long
@pytest.mark.parametrize("what", ["its data is deleted", "its file is cut"])
def test_a_ledger_that_is_lost_stops_the_run_in_one_line_and_the_violations_stay(what: str) -> None:
    with new_folder() as folder:
        account = folder / "account.txt"
        account.touch()
        killed_with_violations(folder, account)
        data = folder / "data" / "servers" / "ledger" / "data"
        files = [path for path in data.rglob("*.aof") if path.stat().st_size]
        if what == "its data is deleted":
            shutil.rmtree(data / "appendonlydir")
        else:
            for path in files:
                path.write_bytes(b"*3\r\n$garbage" + path.read_bytes()[10:])
        with RunningCheck(folder, *WORDS, **{ACCOUNT_VARIABLE: str(account)}) as check:
            check.process.wait(60)
        assert check.process.returncode == ExitCode.VIOLATION, check.output
        (line,) = [line for line in check.output.splitlines() if line.startswith("soak:")]
        assert "violations are on record" in line
