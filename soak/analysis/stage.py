"""What a trial needs around it: how the server is set, and what is put upon the processes of the library."""

from __future__ import annotations

import enum

REDIS_SHIPPED = {"appendonly": "no", "save": "3600 1 300 100 60 10000"}
"""What a Redis or Valkey does that nobody has configured."""


class Stage(enum.Enum):
    """Trials of one stage share servers and processes, one after the other."""

    PLAIN = "plain"
    """Durable servers behind a proxy."""
    SHIPPED = "shipped"
    """Servers with the durability they are shipped with."""
    POWER = "power"
    """Durable servers on a disk whose power can be cut."""
    SKEWED = "skewed"
    """The clock of every second process of the library is behind."""
    EXPIRING = "expiring"
    """The library is asked for a time to live."""

    @property
    def redis_options(self) -> dict[str, str]:
        return REDIS_SHIPPED if self is Stage.SHIPPED else {}
