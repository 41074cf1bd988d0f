"""What can stop a soak, each with the exit code scripts may rely on.

The text of such an error is one line: what happened, to what, and what to do next.
"""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """What the process answers with when it ends."""

    PASS = 0
    VIOLATION = 1
    USAGE = 2
    UNREACHABLE = 3
    INCONCLUSIVE = 4
    INTERNAL = 5
    THRESHOLD = 6


class SoakError(Exception):
    """Something the person at the terminal can act on; shown as one line, never as a traceback."""

    exit_code = ExitCode.INTERNAL


class UsageError(SoakError):
    """The command line, environment, soak.toml or declared contract is wrong."""

    exit_code = ExitCode.USAGE


class DamagedRecordError(UsageError):
    """A file that soak itself keeps in the data folder is damaged, so that it cannot go on."""


class ViolationsOnRecordError(SoakError):
    """A run cannot go on, and violations were found before."""

    exit_code = ExitCode.VIOLATION


class ServerUnreachableError(SoakError):
    """A server cannot be reached, logged in to, or started."""

    exit_code = ExitCode.UNREACHABLE
