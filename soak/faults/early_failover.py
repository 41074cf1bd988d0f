"""The replica takes its primary's place, although it has not received everything."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from soak.checker.faults import Excuse, Promotion
from soak.faults.failover import Failover
from soak.faults.parameters import Time
from soak.servers.postgres import PostgresServer


class EarlyFailover(Failover):
    """An unplanned change, too soon: the replica had stopped receiving, and nobody looked before promoting it."""

    name = "early_failover"
    excuses = Excuse.FAILOVER
    promotes = Promotion.AT_ONE_ADDRESS
    description = (
        "The replica stops receiving, the primary goes on for a while and crashes, the replica is promoted and takes "
        "over the address; what it had not received is lost and its row numbers are given out again; allowed only "
        "if the contract permits that much loss in a failover."
    )

    behind = Time(1.0, "how long the primary goes on acknowledging what the replica misses", least=0.0, most=60.0)

    async def fence(self, primary: PostgresServer, replica: PostgresServer) -> None:  # noqa: ARG002  nobody asks it
        await _stop_sending(primary)
        # Where nobody writes meanwhile there is nothing to lose, and this is as good as a planned failover.
        await asyncio.sleep(self.behind)
        await primary.kill()


async def _stop_sending(primary: PostgresServer) -> None:
    """Freeze what sends the log to the replica: it dies with the primary, so nothing is left to heal."""
    row = await primary.ask("select min(pid)::text as sender from pg_stat_replication")
    with contextlib.suppress(KeyError, ProcessLookupError):
        os.kill(int(row["sender"]), signal.SIGSTOP)
