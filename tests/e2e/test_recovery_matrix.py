"""The recovery matrix as a command: its verdicts and its exit codes.

That a list of scenarios leaves nothing behind when it is broken off is shown for the selftest: the runner is the same.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from soak.errors import ExitCode
from soak.servers.power_cut.fsync_shim import COMPILERS
from tests.support.checking import processes_of
from tests.support.needs import missing
from tests.support.paths import ROOT

pytestmark = pytest.mark.long  # each starts, breaks and restarts servers of its own

SECONDS_MAX = 120.0


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Give a short folder for everything temporary, so that what is left behind is seen."""
    folder = Path(tempfile.mkdtemp(prefix="rm-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def compiler() -> None:
    """Skip where the power of a server cannot be cut."""
    if not any(shutil.which(name) for name in COMPILERS):
        missing("no C compiler, which a power cut needs")


def start(temporary: Path, *words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "soak", "recovery-matrix", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT), **environment},
        start_new_session=True,
    )


def test_cells_inside_their_contract_give_exit_code_0_and_leave_nothing(temporary: Path) -> None:
    process = start(temporary, "--config", "none", "aof-always", "--fault", "crash", "--seconds", "1s", "--json")
    said, progress = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == ExitCode.PASS, progress
    told = json.loads(said)
    assert told["passed"]
    always, none = told["cells"]
    assert (always["configuration"], always["verdict"], always["measured"]["lost"]) == ("aof-always", "inside", 0)
    assert none["measured"]["lost"] == none["measured"]["acknowledged"] > 0
    assert "2 of 2  " in progress
    assert list(temporary.iterdir()) == []
    assert processes_of(temporary) == []


@pytest.mark.usefixtures("compiler")
def test_a_promise_the_server_cannot_keep_is_beyond_and_gives_exit_code_1(temporary: Path) -> None:
    process = start(
        temporary, *("--config", "aof-no", "--fault", "power_cut", "--seconds", "1s", "--contract", "redis-always")
    )
    said, progress = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == ExitCode.VIOLATION, progress
    row = said.splitlines()[1]
    assert row.startswith("aof-no")
    assert row.endswith("nothing lost  BEYOND")
    assert "aof-no, power_cut: " in said
    assert list(temporary.iterdir()) == []


def test_a_cell_that_cannot_be_made_is_shown_with_its_reason_and_gives_exit_code_4(temporary: Path) -> None:
    empty = temporary / "path"
    empty.mkdir()
    words = ("--config", "none", "--fault", "crash", "power_cut", "--seconds", "1s", "--markdown")
    process = start(temporary, *words, PATH=str(empty))
    said, progress = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == ExitCode.INCONCLUSIVE, progress
    assert "| none | power_cut | - | - | - | - | - | - | not made |" in said
    assert "- none, power_cut: no power cuts: no C compiler" in said
    assert "1 of 2 cells inside their contract, 1 not made" in said
