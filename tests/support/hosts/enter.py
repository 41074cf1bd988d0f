"""Becomes a process of another host: another name, another monotonic clock, another environment. Run as root.

`python enter.py NAME MONOTONIC_NANOSECONDS {"VARIABLE": "value"} COMMAND...`, in a network namespace already. Since
Linux 6.1 a process enters its new time namespace when it executes another program.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from pathlib import Path

CLONE_NEWTIME = 0x00000080
CLONE_NEWUTS = 0x04000000


def main(name: str, ahead_ns: str, environment: str, *command: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWTIME | CLONE_NEWUTS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    socket.sethostname(name)
    seconds, nanoseconds = divmod(int(ahead_ns), 1_000_000_000)
    Path("/proc/self/timens_offsets").write_text(
        f"monotonic {seconds} {nanoseconds}\nboottime {seconds} {nanoseconds}\n", encoding="ascii"
    )
    os.execvpe(command[0], command, {**os.environ, **json.loads(environment)})  # noqa: S606


if __name__ == "__main__":
    main(*sys.argv[1:])
