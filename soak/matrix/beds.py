"""The one place where a cell gets its servers from."""

from __future__ import annotations

from pathlib import Path

from soak.matrix.configurations import Configuration
from soak.matrix.plan import CellPlan
from soak.testbed import versions
from soak.testbed.bed import Testbed
from soak.testbed.local import LocalTestbed
from soak.testbed.server import EventListener


def make_bed(plan: CellPlan, configuration: Configuration, folder: Path, on_event: EventListener) -> Testbed:
    """Return a testbed for the servers of one cell, not yet started."""
    is_redis = configuration.server == "redis"
    redis_options = configuration.options if is_redis else None
    postgres_options = None if is_redis else configuration.options
    if plan.testbed == "docker":
        # Imported only where it is used: the client of Docker is a heavy one.
        from soak.testbed.docker import DockerTestbed  # noqa: PLC0415

        return DockerTestbed(
            folder,
            redis_version=versions.redis_version(plan.redis),
            postgres_version=versions.postgres_version(plan.postgres),
            redis_image=plan.redis_image,
            postgres_image=plan.postgres_image,
            redis_options=redis_options,
            postgres_options=postgres_options,
            power_cuts=plan.fault == "power_cut",
            power_cut_by=plan.power_cut,
            on_event=on_event,
        )
    return LocalTestbed(
        folder,
        redis_version=versions.redis_version(plan.redis),
        postgres_version=int(plan.postgres),
        redis_options=redis_options,
        postgres_options=postgres_options,
        # Only where it is needed: it costs a compilation, or a file system.
        power_cuts=plan.fault == "power_cut",
        power_cut_by=plan.power_cut,
        on_event=on_event,
    )
