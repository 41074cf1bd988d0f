"""Servers on an event loop of their own."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from soak.errors import ServerUnreachableError
from soak.servers.local import LocalServers
from tests.support.needs import missing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from soak.servers.server import Server

STARTING_SECONDS_MAX = 120.0


class TestbedThread:
    """A testbed on an event loop of its own, so that plain and async tests alike can use its servers.

    The thread starts the servers and lives as long as they do, because the kernel ends them with it.
    """

    __test__ = False

    def __init__(self, data_dir: Path, **options: object) -> None:
        self._testbed = LocalServers(data_dir, **options)  # type: ignore[arg-type]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="testbed", daemon=True)
        self._thread.start()

    def url(self, kind: str) -> str:
        starting = asyncio.run_coroutine_threadsafe(self._testbed.start([kind]), self._loop)
        try:
            return starting.result(STARTING_SECONDS_MAX)[kind]
        except ServerUnreachableError as error:
            missing(error)

    @property
    def nodes(self) -> Mapping[str, Server]:
        return self._testbed.nodes

    def telemetry(self, kind: str) -> dict[str, str]:
        sampling = asyncio.run_coroutine_threadsafe(self._testbed.telemetry(kind), self._loop)
        return sampling.result(STARTING_SECONDS_MAX)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._testbed.stop(), self._loop).result(STARTING_SECONDS_MAX)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STARTING_SECONDS_MAX)
        self._loop.close()
