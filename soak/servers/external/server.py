"""A server that was given: known by its address, and left alone unless its operator allows more."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from pathlib import Path

from soak.errors import ServerUnreachableError, UsageError
from soak.servers.backend import ServerBackend, StillLoadingError
from soak.servers.external.command import OperatorCommand
from soak.servers.external.detour import Detour, detour_to
from soak.servers.inspect import inspect
from soak.servers.postgres import PostgresServer
from soak.servers.power_cut import CutPower
from soak.servers.proxy import Proxy
from soak.servers.proxy_port import start_proxy
from soak.servers.redis import RedisServer
from soak.servers.server import Server
from soak.servers.state import Pinned

ASK_SECONDS_MAX = 5.0
OTHERS = "its address was given, so others may be using it"
RESTART = "restart"
CONFIGURING = frozenset({"eviction"})
"""Faults that change the settings of the server."""
OVER_THE_WIRE = frozenset({"connection_storm", "eviction", "replica_lag", "ttl_change"})
"""Faults that need nothing but a connection."""
IN_THE_WAY = frozenset({"partition", "outage", "connection_reset", "latency", "slow_link", "dropped_reply"})
"""Faults that happen between our clients and the server, in a proxy of ours: its other users notice nothing."""


class Allowance:
    """What the operator of given servers lets happen to them."""

    def __init__(self, faults: frozenset[str], restart: OperatorCommand | None) -> None:
        self.faults = faults
        self.restart = restart

    @property
    def wants_proxies(self) -> bool:
        return bool(self.faults & IN_THE_WAY)

    def refuses(self, fault: str) -> str | None:
        """Return why this fault must not happen; None if it may."""
        if fault not in self.faults:
            return f"{OTHERS}; name {fault} in testbed.allow_faults to allow it"
        if fault == RESTART and self.restart is None:
            return "testbed.restart_command does not say how it is restarted"
        if fault not in {RESTART, *OVER_THE_WIRE, *IN_THE_WAY}:
            possible = ", ".join(sorted({RESTART, *OVER_THE_WIRE, *IN_THE_WAY}))
            return f"{fault} needs its process or its disk, which are not ours; possible are {possible}"
        return None


class NotOurs(ServerBackend):
    """What is the same wherever a given server lives: its data and its power are not ours."""

    @property
    def working_folder(self) -> Path:
        raise UsageError(f"the data of {self.title} is not ours: {OTHERS}")

    @property
    def no_power_cut(self) -> str | None:
        return OTHERS


class ForeignVessel(NotOurs):
    """What a given server lives in is not ours: it can be restarted by its operator's command, and nothing else."""

    def __init__(self, kind: str, folder: Path, allowance: Allowance) -> None:
        # What the operator's command said goes to the log.
        super().__init__(f"the given {kind} server", folder, {}, log_name=f"{kind}.log")
        self._kind = kind
        self._allowance = allowance

    def refuses(self, what: str) -> str | None:
        if what == "stopped":
            return self._allowance.refuses(RESTART)
        return f"{OTHERS}, and its processes and its disk are not ours"

    async def end(self, seconds: float) -> None:
        del seconds
        if self._allowance.restart is not None:
            await self._allowance.restart.run(self._kind, self.log_path)

    async def launch(self) -> None:
        """Do nothing: whoever restarted it starts it."""

    async def how_it_ended(self) -> str | None:
        return None

    async def kill(self) -> None:
        raise self._refusal("killed")

    async def freeze(self) -> None:
        raise self._refusal("paused")

    async def thaw(self) -> None:
        raise self._refusal("resumed")

    async def wipe(self) -> None:
        raise self._refusal("wiped")

    async def cut_power(self) -> CutPower | None:
        raise self._refusal("cut off")

    async def last_words(self, lines_max: int = 3) -> str:
        del lines_max
        return ""

    def _refusal(self, what: str) -> UsageError:
        return UsageError(f"{self.title} cannot be {what}: {self.refuses(what)}")


class GivenServer(Server):
    """What is the same for all given servers: their address, and how one is seen to have been restarted."""

    started_mark: str
    """What the server tells of itself that changes with each start."""

    def __init__(self, kind: str, pinned: Pinned, url: str, folder: Path, allowance: Allowance) -> None:
        super().__init__(kind, pinned, ForeignVessel(kind, folder, allowance), fresh=False)
        self._url = url
        self._allowance = allowance
        self._before: str | None = None
        """The mark of the start that must be over."""
        self._detour: Detour | None = None
        self._limits: Mapping[str, str] = {}
        self.no_proxy: str | None = "none of the faults that need a proxy is allowed"
        """Why none stands before it."""

    @property
    def url(self) -> str:
        """The address for clients: the one that was given, or the way through the proxy."""
        if self.proxy is None or self._detour is None:
            return self._url
        return self._detour.through(self.proxy.host, self.proxy.port)

    async def put_proxy_before(self, host: str) -> None:
        """Let our clients come through a proxy that listens on this address, if there is such a way."""
        try:
            detour = detour_to(self.kind, self._url)
        except UsageError as error:
            self.no_proxy = str(error)
            return
        self.proxy = await start_proxy(
            self.pinned,
            lambda port: Proxy(
                port, detour.port, self.exchange, host=host, server_host=detour.host, is_opaque=detour.is_opaque
            ),
        )
        self._detour, self.no_proxy = detour, None

    def refuses(self, fault: str) -> str | None:
        """Return why its operator does not let this fault happen; None if it may."""
        return self._allowance.refuses(fault)

    def address(self, port: int) -> str:
        del port
        return self._url

    async def read_configuration(self) -> dict[str, str]:
        told = await inspect(self.kind, self._url, timeout_seconds=ASK_SECONDS_MAX)
        return {**told.configuration, **self._limits}

    async def telemetry(self) -> dict[str, str]:
        return dict((await inspect(self.kind, self._url, timeout_seconds=ASK_SECONDS_MAX)).telemetry)

    async def learn_limits(self) -> None:
        """Ask how many connections the server allows; raises `ServerUnreachableError` where it does not tell."""
        self._limits = await self.read_limits()
        self.configuration = {**self.configuration, **self._limits}

    @abc.abstractmethod
    async def read_limits(self) -> dict[str, str]:
        """Ask for the settings that say so."""

    async def stop(self) -> None:
        """Leave it as it is."""

    async def stop_cleanly(self) -> None:
        """Let its operator's command restart it."""
        if self.vessel.refuses("stopped") is None:
            self._before = await self._mark()
        await super().stop_cleanly()

    async def answers(self) -> bool:
        """Tell whether it serves requests: after a restart the new one, for commands return before all is done."""
        if self._before is not None and await self._mark() in (None, self._before):
            raise StillLoadingError
        return await super().answers()  # type: ignore[safe-super]  # the class beside this one has it

    async def _mark(self) -> str | None:
        try:
            return (await self.telemetry()).get(self.started_mark)
        except ServerUnreachableError:
            return None


class GivenRedis(GivenServer, RedisServer):
    """A Redis or Valkey that already runs."""

    started_mark = "run_id"

    async def read_limits(self) -> dict[str, str]:
        return await self.get_settings("maxclients")

    async def change_settings(self, settings: Mapping[str, str]) -> None:
        if not self._allowance.faults & CONFIGURING:
            raise UsageError(f"{self.title} cannot be configured: {OTHERS}; see testbed.allow_faults")
        await super().change_settings(settings)


class GivenPostgres(GivenServer, PostgresServer):
    """A PostgreSQL, primary or replica, that already runs."""

    started_mark = "pg_postmaster_start_time"

    async def read_limits(self) -> dict[str, str]:
        return await self.ask("select current_setting('max_connections') as max_connections")
