"""The table every benchmark prints: what was measured, against which baseline of the same run, and the ratio."""

from __future__ import annotations

import os
from typing import NamedTuple

import psutil


class Row(NamedTuple):
    """One measurement."""

    what: str
    value: float
    baseline: float
    against: str
    target: str


class Neighbours:
    """How busy everything else on the machine was since this was made: the less, the more a measurement is worth."""

    def __init__(self) -> None:
        self._busy = busy_seconds()

    def cores(self, seconds: float, own_seconds: float) -> float:
        """Return how many cores others used, of what was used in so many seconds of the wall clock."""
        return max(0.0, busy_seconds() - self._busy - own_seconds) / seconds


def busy_seconds() -> float:
    """Return the CPU time that all processes of the machine have used since it was started."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


def machine() -> str:
    """Say how busy the machine is: a busy one makes every number worse, and some more than others."""
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def print_rows(title: str, rows: list[Row]) -> None:
    width = max(len(row.what) for row in rows)
    print(f"\n{title} ({machine()})", flush=True)
    for row in rows:
        ratio = row.value / row.baseline if row.baseline else float("nan")
        print(
            f"  {row.what:<{width}}  {row.value:>14,.1f}  {ratio:>8.2f} x  "
            f"of {row.against} ({row.baseline:,.1f})" + (f"   target {row.target}" if row.target else "")
        )
