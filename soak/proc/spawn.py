"""Starting a program: one way for all of them, so that none outlives the process that started it.

Every program gets a session of its own. Ctrl-C at the terminal then reaches us alone, and we end our children in order.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple, Protocol, TypeAlias

DEVNULL, PIPE, STDOUT = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
Process: TypeAlias = "subprocess.Popen[bytes]"
AsyncProcess: TypeAlias = asyncio.subprocess.Process
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class Running(Protocol):
    """A program that was started: a process of ours, or one in a container."""

    @property
    def pid(self) -> int: ...

    @property
    def stdin(self) -> IO[bytes] | None: ...

    def poll(self) -> int | None:
        """Return its exit status, or the negative number of the signal that ended it; None while it lives."""

    def send_signal(self, sig: int, /) -> None: ...


def start(
    argv: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    stdin: int = DEVNULL,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
    cwd: Path | str | None = None,
    death_signal: signal.Signals | None = None,
    account: tuple[int, int] | None = None,
) -> Process:
    """Start a program, as this user and group if an account is given.

    With a death signal the kernel sends it when the calling thread ends: call this from a thread that lives as long
    as the program should, best the main thread.
    """
    return subprocess.Popen(  # noqa: S603  every caller says where its program comes from
        [str(word) for word in argv],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        env=environment,
        start_new_session=True,
        preexec_fn=_die_with(os.getpid(), death_signal),  # noqa: PLW1509  one system call, nothing that locks
        user=account[0] if account else None,
        group=account[1] if account else None,
        extra_groups=[] if account else None,
    )


async def start_async(
    argv: Sequence[str | Path],
    *,
    environment: Mapping[str, str] | None = None,
    stdin: int = DEVNULL,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
    cwd: Path | str | None = None,
    death_signal: signal.Signals | None = None,
) -> AsyncProcess:
    """Start a program that the event loop waits for; otherwise the same as `start`."""
    return await asyncio.create_subprocess_exec(
        *map(str, argv),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        env=environment,
        start_new_session=True,
        preexec_fn=_die_with(os.getpid(), death_signal),
    )


class Finished(NamedTuple):
    """A program that has ended."""

    code: int
    output: str
    errors: str

    @property
    def complaint(self) -> str:
        """What it said about its failure in one line; empty if it succeeded."""
        if self.code == 0:
            return ""
        return " ".join(self.errors.split()) or f"exit status {self.code}"


def run(
    argv: Sequence[str | Path],
    *,
    seconds_max: float,
    environment: Mapping[str, str] | None = None,
    text: bytes = b"",
) -> Finished:
    """Run a program to its end with this text as its input; raises `OSError`, and `TimeoutError` if it takes longer."""
    try:
        done = subprocess.run(  # noqa: S603  every caller says where its program comes from
            [str(word) for word in argv],
            input=text,
            capture_output=True,
            timeout=seconds_max,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"not done after {seconds_max:.0f} s") from error
    return Finished(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


def own_package_environment() -> dict[str, str]:
    """Return the environment in which a child Python imports this very soak, wherever it was started from."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def die_with_parent(number: signal.Signals) -> None:
    """Ask the kernel for this signal when the parent of this process ends, however it ends."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def _die_with(parent: int, death_signal: signal.Signals | None) -> Callable[[], None] | None:
    if death_signal is None:
        return None

    def before_exec() -> None:
        # Runs after the change of user, which would have cleared it.
        die_with_parent(death_signal)
        if os.getppid() != parent:  # it died before we asked for the signal
            os._exit(1)

    return before_exec
