"""Somebody who outlives us for a moment, to let servers go on that we have stopped in their tracks.

The kernel sends a server its death signal when we are gone, however we went. One that stands still does not hear of
it: a signal other than SIGKILL waits until the process goes on, and SIGKILL would cost what the server is yet to write.
So while a server is paused a small shell holds the end of a pipe from us, and wakes the server when the pipe breaks.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterable

_END_SECONDS_MAX = 5.0
# The last line that came names whom to wake. Pids of processes that have ended since are no harm: nobody else minds
# being told to go on.
_SCRIPT = "pids=$*; while read -r line; do pids=$line; done; kill -CONT $pids 2>/dev/null"


class Guardian:
    """Watches over stopped processes until it is dismissed, or we are gone."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._shell = subprocess.Popen(  # noqa: S603  a script of ours, and numbers
            ["/bin/sh", "-c", _SCRIPT, "sh", *map(str, pids)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            # What ends us by our group, as Ctrl-C does, must not end it as well.
            start_new_session=True,
        )

    def watch_over(self, pids: Iterable[int]) -> None:
        """Wake these, and no others."""
        line = " ".join(map(str, pids)) + "\n"
        if self._shell.stdin is not None:
            with contextlib.suppress(OSError):  # it was killed by somebody; nobody is woken then
                self._shell.stdin.write(line.encode())
                self._shell.stdin.flush()

    def dismiss(self) -> None:
        """End it; nobody is woken."""
        self._shell.send_signal(signal.SIGKILL)
        with contextlib.suppress(OSError):
            if self._shell.stdin is not None:
                self._shell.stdin.close()
        self._shell.wait(_END_SECONDS_MAX)
