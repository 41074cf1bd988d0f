"""Faults of the disk under a server, which need the shim of power cuts between the two."""

from __future__ import annotations

import abc

from soak.errors import ServerUnreachableError
from soak.faults.fault import Fault
from soak.faults.healing import until_serving
from soak.servers.kinds import Protocol, names_of
from soak.servers.postgres import PostgresServer
from soak.servers.power_cut import FsyncShim
from soak.servers.redis import RedisServer
from soak.servers.servers import Servers
from soak.tasks import until

RELENT_SECONDS_MAX = 2.5
RELENT_RECOVERY_SECONDS_MAX = 10.0
_POLL_SECONDS = 0.05


class DiskFault(Fault):
    """The disk misbehaves while the server runs. A server that ends because of it is started again as usual."""

    targets = names_of(Protocol.REDIS, Protocol.POSTGRES)
    needs = "the shim of power cuts under the server"

    @property
    @abc.abstractmethod
    def trouble(self) -> dict[str, int]:
        """What the disk does wrong, as fields of `DiskTrouble`."""

    def hindrance(self, servers: Servers, target: str) -> str | None:
        power = servers.nodes[target].power
        if power is not None and power.no_io_errors is not None:
            return f"it needs the shim, and {power.no_io_errors}"
        if power is None:
            why = servers.no_power_cuts or "there is none in front of this server"
            return f"it needs the same shim as power cuts: {why}"
        return None

    async def inject(self, servers: Servers, target: str) -> None:
        supply = servers.nodes[target].power
        if not isinstance(supply, FsyncShim):
            raise self.refusal(servers, target)
        supply.inject_io_errors(supply.trouble._replace(**self.trouble))

    async def heal(self, servers: Servers, target: str) -> None:
        supply = servers.nodes[target].power
        if not isinstance(supply, FsyncShim):
            return
        # Also where the disk is well already: the try that mended it may have failed after that.
        mended = supply.trouble._replace(**dict.fromkeys(self.trouble, 0))
        if supply.trouble != mended:
            supply.inject_io_errors(mended)
        server = servers.nodes[target]
        if isinstance(server, PostgresServer):
            await _out_of_recovery(servers, server)
        await until_serving(servers, target)
        if isinstance(server, RedisServer):
            await _until_writable(server)


async def _out_of_recovery(servers: Servers, server: PostgresServer) -> None:
    """Restart a server that has not come back by itself, as an operator does.

    PostgreSQL 18 hangs where its recovery fails by the same fault that made it crash: its first process has lost the
    one that recovers, starts no other, does not end, and answers for ever that the system is in recovery mode.
    """
    try:
        await until_serving(servers, server.name, RELENT_RECOVERY_SECONDS_MAX)
    except ServerUnreachableError:
        await server.kill()
        await server.start_again()


async def _until_writable(server: RedisServer) -> None:
    """Wait until the server has noticed that it can write its files again; until then it refuses writes.

    One that could not sync never notices: it syncs what is new, and takes nothing new. An operator restarts it.
    """

    async def writes() -> bool:
        return (await server.information("persistence")).get("aof_last_write_status", "ok") == "ok"

    if not await until(writes, RELENT_SECONDS_MAX, _POLL_SECONDS):
        await server.stop_cleanly()
        await server.start_again()
