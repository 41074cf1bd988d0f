"""The one place where a cell gets its servers from."""

from __future__ import annotations

from pathlib import Path

from soak.errors import UsageError
from soak.matrix.configurations import Configuration
from soak.matrix.plan import BedName, CellPlan
from soak.testbed.local import LocalTestbed
from soak.testbed.redis import Flavour
from soak.testbed.server import EventListener

_FLAVOURS: dict[str, Flavour] = {"valkey": "valkey", "6.2": "redis"}


def check_bed(name: BedName) -> None:
    """Raise `UsageError` if servers of this sort cannot be had here at all."""
    if name == "docker":
        raise UsageError("--testbed docker: the matrix cannot run its servers in containers here; use --testbed local")


def make_bed(plan: CellPlan, configuration: Configuration, folder: Path, on_event: EventListener) -> LocalTestbed:
    """Return a testbed for the servers of one cell, not yet started."""
    check_bed(plan.testbed)
    is_redis = configuration.server == "redis"
    return LocalTestbed(
        folder,
        redis_flavour=_FLAVOURS[plan.redis],
        postgres_version=int(plan.postgres),
        redis_options=configuration.options if is_redis else None,
        postgres_options=None if is_redis else configuration.options,
        # Only where it is needed: it costs a compilation.
        power_cuts=plan.fault == "power_cut",
        on_event=on_event,
    )
