"""A small shell that outlives us for a moment and wakes the processes that we have stopped.

The kernel sends a child its death signal when we end. A stopped process does not receive it: a signal other than
SIGKILL waits until the process is continued, and SIGKILL would cost what a server is yet to write. So while a process
is stopped a shell holds the end of a pipe from us, and continues the process when the pipe breaks.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterable

from soak.proc.spawn import DEVNULL, PIPE, start

_END_SECONDS_MAX = 5.0
# The last line names the pids to resume. Pids of processes that have ended since do no harm: SIGCONT changes nothing
# for others.
_SCRIPT = "pids=$*; while read -r line; do pids=$line; done; kill -CONT $pids 2>/dev/null"


class Guardian:
    """Watches over stopped processes until it is dismissed, or we are gone."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._shell = start(
            ["/bin/sh", "-c", _SCRIPT, "sh", *map(str, pids)], stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, cwd="/"
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
