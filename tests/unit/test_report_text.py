"""Tables fit the terminal, and are whole where nobody's terminal sets a width."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from soak.report.text import clock, clock_ms, print_table, table_lines

HEADS = ("fault", "what happens")
ROWS = [("connection_refused", "a sentence that goes on " * 8), ("crash", "short")]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_table_is_cut_where_it_is_widest_and_shows_that_it_is(width: int) -> None:
    lines = table_lines(HEADS, ROWS, width)
    assert max(map(len, lines)) <= width
    assert lines[1].startswith("connection_refused  a sentence")
    assert lines[1].endswith("…")
    assert lines[2] == table_lines(HEADS, ROWS)[2]


def test_what_fits_is_left_as_it_is_and_a_line_by_itself_is_never_cut() -> None:
    assert table_lines(HEADS, ROWS[1:], 80) == table_lines(HEADS, ROWS[1:])
    assert table_lines(("x" * 200,), [], 80) == ["x" * 200]


def test_a_pipe_gets_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(HEADS, ROWS)
    assert "…" not in capsys.readouterr().out


@pytest.mark.parametrize(("flags", "is_cut"), [((), True), (("--wide",), False)], ids=["terminal", "wide"])
def test_a_terminal_gets_what_fits_unless_it_asks_for_all(flags: tuple[str, ...], is_cut: bool, tmp_path: Path) -> None:
    shown = on_a_terminal(tmp_path, "faults", "--presets", *flags)
    assert ("…" in shown) is is_cut
    assert ("--wide shows it whole" in shown) is is_cut


def test_contracts_are_whole_on_a_terminal_of_80_columns(tmp_path: Path) -> None:
    shown = on_a_terminal(tmp_path, "stores")
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    contracts = shown.partition("--wide shows it whole)")[2]
    assert "…" not in contracts
    at = lines.index("redis-list, redis-stream, redis-zset")
    assert [line.split()[0] for line in lines[at + 1 : at + 7]] == [
        *("durability", "order", "reads", "duplicates", "retention", "obtained"),
    ]
    assert lines[at + 1].endswith("crash: at most 2s lost; power cut: at most 2s lost")


def on_a_terminal(folder: Path, *words: str) -> str:
    """Return what a command prints on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "soak", *words]
    done = subprocess.run(command, cwd=folder, env={**os.environ, "COLUMNS": "80"}, stdout=theirs, check=False)
    os.close(theirs)
    shown = os.read(ours, 65_536).decode()
    os.close(ours)
    assert done.returncode == 0
    return shown


@pytest.mark.parametrize("moment", [1e300, -1e300, float("inf"), float("nan")])
def test_a_moment_that_no_calendar_has_is_written_as_one_of_1970(moment: float) -> None:
    """A damaged file may name any."""
    assert clock(moment).startswith(("1970-01-01", "1969-12-31"))
    assert clock_ms(moment).count(":") == 2
