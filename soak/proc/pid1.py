"""soak as the first process of a container, which the kernel treats like no other.

Signals that it does not ask for never reach it, and every orphan becomes its child and stays a zombie until it is
waited for. So the first process does only that: it hands signals on and reaps, and the soak is its child.
"""

from __future__ import annotations

import contextlib
import os
import signal

FIRST = 1
_HANDED_ON = frozenset(
    {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH}
)
_BY_SIGNAL = 128


def split() -> int | None:
    """Go on in a child, with None; the first process gets the exit code once that child has ended."""
    waited_for = _HANDED_ON | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)
    child = os.fork()
    if child == 0:
        _take_terminal()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return None
    while True:
        number = signal.sigwait(waited_for)
        if number != signal.SIGCHLD:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
        elif (code := _reap(child)) is not None:
            return code


def _take_terminal() -> None:
    """Be the group that Ctrl-C goes to: from the terminal and once more from our parent it would count twice."""
    os.setpgid(0, 0)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    with contextlib.suppress(OSError):  # there is no terminal
        os.tcsetpgrp(0, os.getpgrp())
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _reap(child: int) -> int | None:
    """Wait for all that have ended; returns the exit code of the child if it is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            ended = os.waitstatus_to_exitcode(status)
            code = ended if ended >= 0 else _BY_SIGNAL - ended
