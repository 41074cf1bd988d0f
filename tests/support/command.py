"""Runs a `soak` command to its end, as a person would: a process of its own, with nothing but the given environment.

Importing soak takes longer than most commands that end with one line. So one process imports it, and forks for each.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

from soak.errors import ExitCode
from tests.support.paths import ROOT

_IMPORTED = """
import json, os, sys, tempfile
import soak.cli, soak.daemon.run
for line in sys.stdin:
    order = json.loads(line)
    if (child := os.fork()) == 0:
        os.environ.clear()
        os.environ.update(order["environment"])
        os.chdir(order["cwd"])
        for number, path in enumerate([os.devnull, order["out"], order["err"]]):
            os.dup2(os.open(path, os.O_RDWR), number)
        tempfile.tempdir, sys.argv, sys.path[0] = None, ["soak", *order["words"]], order["cwd"]
        try:
            code = soak.cli.main()
        except SystemExit as ended:
            code = ended.code or 0
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def plain_environment(**more: str) -> dict[str, str]:
    """Return our environment without settings of soak, and with these variables."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SOAK_")}
    return {**plain, "PYTHONPATH": str(ROOT), **more}


@functools.cache
def _imported() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _IMPORTED],
        cwd=ROOT,
        env=plain_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    atexit.register(process.communicate)
    return process


def soak(*words: str, cwd: Path, seconds_max: float = 120.0, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one command in this folder, and return how it ended and what it said."""
    process = _imported()
    assert process.stdin is not None
    assert process.stdout is not None
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        order = {"words": words, "cwd": str(cwd), "environment": plain_environment(**environment)}
        process.stdin.write(json.dumps({**order, "out": out.name, "err": err.name}) + "\n")
        process.stdin.flush()
        code = _answer(process, process.stdout, seconds_max)
        return subprocess.CompletedProcess(["soak", *words], code, out.read(), err.read())


def _answer(process: subprocess.Popen[str], replies: IO[str], seconds_max: float) -> int:
    if not select.select([replies], [], [], seconds_max)[0]:
        os.killpg(process.pid, signal.SIGKILL)
        _imported.cache_clear()
        raise TimeoutError(f"the command did not end within {seconds_max:g} s")
    return int(replies.readline())


def the_one_line(done: subprocess.CompletedProcess[str], code: ExitCode) -> str:
    """Check that a command was refused with this code and one line, and return the line."""
    assert done.returncode == code, done.stderr + done.stdout
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("soak: ")
    assert "Traceback" not in done.stdout
    return done.stderr
