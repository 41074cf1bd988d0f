"""Faults of the disk under a server, which need the shim of power cuts between the two."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from soak.errors import ServerUnreachableError
from soak.faults.fault import Fault, FaultUnavailableError
from soak.faults.healing import until_serving
from soak.servers.bed import Testbed
from soak.servers.postgres import PostgresServer
from soak.servers.power_cut import FsyncShim, LoopbackVolume
from soak.servers.redis import RedisServer

RELENT_SECONDS_MAX = 2.5
RELENT_RECOVERY_SECONDS_MAX = 10.0
_POLL_SECONDS = 0.05


class DiskFault(Fault):
    """The disk misbehaves while the server runs. A server that ends because of it is started again as usual."""

    trouble: Mapping[str, int]
    """What the disk does wrong, as fields of `DiskTrouble`."""
    targets = ("redis", "postgres", "postgres-replica")

    def hindrance(self, bed: Testbed, target: str) -> str | None:
        power = bed.servers[target].power
        if isinstance(power, LoopbackVolume):
            return "it needs the shim, and power is cut by file system here; set testbed.power_cut = shim"
        if not isinstance(power, FsyncShim):
            why = bed.no_power_cuts or "there is none in front of this server"
            return f"it needs the same shim as power cuts: {why}"
        return None

    async def inject(self, bed: Testbed, target: str) -> None:
        supply = bed.servers[target].power
        if not isinstance(supply, FsyncShim):
            raise FaultUnavailableError(f"{self.name} cannot be injected: {self.unavailable(bed, target)}")
        supply.inject_io_errors(supply.trouble._replace(**self.trouble))

    async def heal(self, bed: Testbed, target: str) -> None:
        supply = bed.servers[target].power
        if not isinstance(supply, FsyncShim):
            return
        # Also where the disk is well already: the try that mended it may have failed after that.
        mended = supply.trouble._replace(**dict.fromkeys(self.trouble, 0))
        if supply.trouble != mended:
            supply.inject_io_errors(mended)
        server = bed.servers[target]
        if isinstance(server, PostgresServer):
            await _out_of_recovery(bed, server)
        await until_serving(bed, target)
        if isinstance(server, RedisServer):
            await _until_writable(server)


async def _out_of_recovery(bed: Testbed, server: PostgresServer) -> None:
    """Restart a server that has not come back by itself, as an operator does.

    PostgreSQL 18 hangs where its recovery fails by the same fault that made it crash: its first process has lost the
    one that recovers, starts no other, does not end, and answers for ever that the system is in recovery mode.
    """
    try:
        await until_serving(bed, server.kind, RELENT_RECOVERY_SECONDS_MAX)
    except ServerUnreachableError:
        await server.kill()
        await server.start_again()


async def _until_writable(server: RedisServer) -> None:
    """Wait until the server has noticed that it can write its files again; until then it refuses writes.

    One that could not sync never notices: it syncs what is new, and takes nothing new. An operator restarts it.
    """
    deadline = time.monotonic() + RELENT_SECONDS_MAX
    while (await server.information("persistence")).get("aof_last_write_status", "ok") != "ok":
        if time.monotonic() >= deadline:
            await server.stop_cleanly()
            await server.start_again()
            return
        await asyncio.sleep(_POLL_SECONDS)
