"""A data folder that was damaged: the run goes on, or stops in one line, and hides no violation."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from soak.errors import ExitCode
from soak.verifier.journal import Violation, decode_line
from tests.support.campaigns.kills import WORDS
from tests.support.checking import RunningCheck, new_folder, processes_of, total, wait_until
from tests.support.stores.forgetful import ACCOUNT_VARIABLE

DAMAGED = (
    *("children.json", "run.json", "daemon.json", "heartbeat.json", "series.jsonl", "result.json"),
    *("servers/state.json", "servers/pids.json", "verifier/endpoint.json", "verifier/result.json"),
)


def killed_with_violations(folder: Path, account: Path) -> str:
    """Run until something was found, and kill the daemon; returns the name of the run."""
    check = RunningCheck(folder, *WORDS, **{ACCOUNT_VARIABLE: str(account)})
    try:
        status = check.until(lambda status: total(status, "violations") >= 2)
        check.process.kill()
        check.process.wait()
        wait_until(lambda: not processes_of(check.data_dir))
    finally:
        check.close()
    return str(status["run"])


def flip(path: Path) -> None:
    whole = path.read_bytes()
    at = len(whole) // 2
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x80]) + whole[at + 1 :])


@pytest.mark.long
def test_a_run_goes_on_although_a_byte_of_each_of_its_files_was_changed() -> None:
    with new_folder() as folder:
        account = folder / "account.txt"
        account.touch()
        run = killed_with_violations(folder, account)
        for name in DAMAGED:
            flip(folder / "data" / name)
        check = RunningCheck(folder, *WORDS, **{ACCOUNT_VARIABLE: str(account)})
        try:
            before = len(account.read_text().splitlines())
            check.until(
                lambda status: len(account.read_text().splitlines()) > before and total(status, "violations") > 2
            )
            flip(check.data_dir / "run.json")
            (check.data_dir / "verifier" / "endpoint.json").unlink()
            told = check.end()
        finally:
            check.close()
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
        check = RunningCheck(folder, *WORDS, **{ACCOUNT_VARIABLE: str(account)})
        try:
            check.process.wait(60)
        finally:
            check.close()
        assert check.process.returncode == ExitCode.VIOLATION, check.output
        (line,) = [line for line in check.output.splitlines() if line.startswith("soak:")]
        assert "violations are on record" in line
