"""Real servers and a ready contract suite for a team's own pytest.

Installing soak is enough: pytest finds the plugin by itself, and a project that uses none of it pays for no more
than the import of this small package. Three lines hold a memory to its contract:

    from soak.pytest_plugin import MemoryContract

    class TestMyMemory(MemoryContract):
        store = MyMemory

Fixtures: `soak_redis`, `soak_postgres`, `soak_postgres_replica` (servers with `url`, `restart()`, `kill()` and more),
`soak_namespace` (a name of the test's own; what lies under it is removed afterwards), `soak_servers` (all of them).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from soak.contract_suite.memory import Memory
    from soak.pytest_plugin.pool import ServerPool
    from soak.pytest_plugin.server import SoakServer
    from soak.pytest_plugin.suite import MemoryContract

__all__ = ["Memory", "MemoryContract", "ServerPool", "SoakServer"]

_HOMES = {
    "Memory": "soak.contract_suite.memory",
    "MemoryContract": "soak.pytest_plugin.suite",
    "ServerPool": "soak.pytest_plugin.pool",
    "SoakServer": "soak.pytest_plugin.server",
}


def __getattr__(name: str) -> object:
    # Imported when first asked for: every pytest of every project on this machine imports this package.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
