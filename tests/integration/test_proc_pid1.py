"""soak as the first process of a container: signals reach it once, and no zombie is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.needs import missing
from tests.support.paths import ROOT

PATIENCE_SECONDS = 60.0

# Its child leaves an orphan behind, which ends at once; then it waits to be asked to end, and counts how often it is.
WORK = """
import os, signal, subprocess, sys, time
from soak.proc import pid1
assert os.getpid() == pid1.FIRST
code = pid1.split()
if code is not None:
    sys.exit(code)
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
subprocess.run(["sh", "-c", "sh -c 'sleep 0.2; exit 7' &"], check=True)
def parent_of(pid):
    try:
        return open(f"/proc/{pid}/stat").read().split()[3]
    except OSError:  # it ended since it was listed
        return ""
def children_of_the_first():
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and parent_of(pid) == "1"]
deadline = time.monotonic() + 50
while children_of_the_first() != [str(os.getpid())] and time.monotonic() < deadline:
    time.sleep(0.05)
print("children", len(children_of_the_first()), flush=True)
while not asked and time.monotonic() < deadline:
    time.sleep(0.05)
time.sleep(0.5)
print("asked", len(asked), flush=True)
%s
"""


def started(ending: str) -> subprocess.Popen[str]:
    if shutil.which("unshare") is None or os.geteuid() != 0:
        missing("a new space of process numbers needs root and unshare")
    words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", WORK % ending]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


def first_below(process: subprocess.Popen[str]) -> int:
    """Return the process that is number one in there."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not children.read_text().split():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(children.read_text().split()[0])


@pytest.mark.parametrize(
    ("ending", "code"), [("sys.exit(4)", 4), ("os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL)]
)
def test_the_first_process_reaps_orphans_hands_signals_on_once_and_ends_as_its_child_does(
    ending: str, code: int
) -> None:
    process = started(ending)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "children 1\n"
        os.kill(first_below(process), signal.SIGTERM)
        assert process.stdout.readline() == "asked 1\n"
        assert process.wait(PATIENCE_SECONDS) == code
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
