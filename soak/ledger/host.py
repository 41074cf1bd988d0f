"""Which machine a time was measured on, and since which boot: only times of one boot can be compared as they are."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import NamedTuple

BOOT_CHARACTERS = 13


class Host(NamedTuple):
    """A machine and a boot of it. Containers on one machine have names of their own and share its boot."""

    name: str
    boot: str


def this_host() -> Host:
    return Host(socket.gethostname(), boot_identity())


def boot_identity() -> str:
    """Name this boot of this machine: two processes with the same one share a monotonic clock."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:BOOT_CHARACTERS]
