"""All servers of one data folder, as local processes that end with us and are resumed by the next start."""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from soak.errors import ServerUnreachableError, UsageError
from soak.testbed import account, binaries, options, power_cut, process, state
from soak.testbed.away import Away
from soak.testbed.exchange import PostgresExchange, RedisExchange
from soak.testbed.ports import free_port
from soak.testbed.postgres import OURS as POSTGRES_OURS
from soak.testbed.postgres import PostgresReplica, PostgresServer
from soak.testbed.proxy import Proxy
from soak.testbed.redis import OURS as REDIS_OURS
from soak.testbed.redis import Flavour, RedisServer
from soak.testbed.server import FRESH_PORTS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from soak.testbed.server import EventListener, Server, ServerEvent

LEDGER = "ledger"
KINDS = (LEDGER, "redis", "postgres", "postgres-replica")
FOLDER_NAME = "servers"
PIDS_NAME = "pids.json"
_PASSWORD_BYTES = 24


class _Running(msgspec.Struct):
    pid: int
    created_seconds: float


class _Pids(msgspec.Struct):
    """Who started which processes here, so that the next start can end what a killed owner left."""

    owner: _Running
    servers: dict[str, _Running] = {}


class LocalTestbed:
    """Starts servers in a data folder, keeps them alive, and ends them.

    Call `start` from a thread that lives as long as the servers should, best the main thread: when that
    thread is gone, however it went, the kernel ends the servers.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        redis_flavour: Flavour = "valkey",
        postgres_version: int = 18,
        redis_options: Mapping[str, str] | None = None,
        postgres_options: Mapping[str, str] | None = None,
        proxied: bool = False,
        power_cuts: bool = False,
        on_event: EventListener | None = None,
    ) -> None:
        """Choose the servers.

        The options replace settings of the servers under test, never of the ledger. Where they are proxied,
        clients are given the address of a proxy in front of each, and network faults become possible. For power
        cuts they run under a shim that knows what was synced; where there can be none, `no_power_cuts` says why.
        """
        # Resolved, because strays are found by their working folder, and that is always a resolved path.
        self._folder = data_dir.resolve() / FOLDER_NAME
        self._flavour: Flavour = redis_flavour
        self._version = postgres_version
        self._redis_options = options.checked("Redis", redis_options or {}, REDIS_OURS)
        self._postgres_options = options.checked("PostgreSQL", postgres_options or {}, POSTGRES_OURS)
        self._proxied = proxied
        self._power_cuts = power_cuts
        self.no_power_cuts: str | None = None if power_cuts else "the testbed was started without power cuts"
        self.namespace: str | None = None
        """What everything that the run writes begins with, once whoever starts the run has said so."""
        self._on_event: EventListener = on_event or _ignore
        self._servers: dict[str, Server] = {}
        self._state = state.TestbedState()
        self._away: Away | None = None
        self._opened = False

    @property
    def servers(self) -> Mapping[str, Server]:
        """The started servers by kind."""
        return self._servers

    async def start(self, kinds: Iterable[str]) -> dict[str, str]:
        """Start these kinds of servers, on the data they had if there is any; returns all addresses by kind.

        May be called again for further kinds. Raises `ServerUnreachableError` or `UsageError`, and then
        leaves none of the servers it was asked for running.
        """
        missing = [kind for kind in _in_order(kinds) if kind not in self._servers]
        await self._open()
        try:
            # A replica is copied from its primary, so the primary comes first.
            await self._start_all([kind for kind in missing if kind != "postgres-replica"])
            await self._start_all([kind for kind in missing if kind == "postgres-replica"])
        except BaseException:
            await self._stop_all(missing)
            raise
        return {kind: server.url for kind, server in self._servers.items()}

    async def stop(self) -> None:
        """End all servers, cleanly where they let us; afterwards nothing of them runs."""
        await self._stop_all(list(self._servers))

    async def telemetry(self, kind: str) -> dict[str, str]:
        """Sample a server's own counters; raises `ServerUnreachableError` when it does not answer."""
        return await self._servers[kind].telemetry()

    async def _open(self) -> None:
        if self._opened:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._state = state.load(self._folder)
            await self._end_leftovers()
            self._record()
        except OSError as error:
            raise UsageError(
                f"the data folder {self._folder.parent} cannot be written ({error.strerror}); "
                "choose another folder with --data-dir"
            ) from error
        self._opened = True

    async def _end_leftovers(self) -> None:
        try:
            pids = msgspec.json.decode((self._folder / PIDS_NAME).read_bytes(), type=_Pids)
        except (FileNotFoundError, msgspec.MsgspecError):
            pids = _Pids(_Running(0, 0))
        owner = pids.owner
        if owner.pid != os.getpid() and process.is_same_process(owner.pid, owner.created_seconds):
            raise UsageError(
                f"process {owner.pid} runs the servers of {self._folder.parent}; "
                "stop it first or choose another folder with --data-dir"
            )
        known = [
            server.pid
            for server in pids.servers.values()
            if process.is_same_process(server.pid, server.created_seconds)
        ]
        roots = [self._folder, *([Path(self._state.away)] if self._state.away else [])]
        await process.end_strays(known, [root / kind / "data" for root in roots for kind in KINDS])

    async def _start_all(self, kinds: list[str]) -> None:
        for kind in kinds:
            self._servers[kind] = self._make(kind)
            if self._power_cuts and kind != LEDGER:
                await self._supply_power_to(self._servers[kind])
        results = await asyncio.gather(*(self._servers[kind].start() for kind in kinds), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        for kind in kinds:
            if self._proxied and kind != LEDGER:
                await self._put_proxy_before(self._servers[kind])
        self._record()
        for kind in kinds:
            self._servers[kind].watch(self._on_event)

    async def _stop_all(self, kinds: list[str]) -> None:
        stopping = [self._servers[kind] for kind in kinds if kind in self._servers]
        results = await asyncio.gather(*(server.stop() for server in stopping), return_exceptions=True)
        for server in stopping:
            if server.proxy is not None:
                await server.proxy.close()
            del self._servers[server.kind]
        if not self._servers and self._opened:
            if self._away is not None:
                self._away.bring_back()
                self._away = None
            (self._folder / PIDS_NAME).unlink(missing_ok=True)
            self._opened = False
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _make(self, kind: str) -> Server:
        fresh = kind not in self._state.servers
        if fresh:
            self._state.servers[kind] = state.Pinned(free_port(), self._password_for(kind))
            self._save()  # before anything is made that needs the password again
        pinned = self._state.servers[kind]
        folder = self._folder / kind
        if kind == LEDGER:
            return RedisServer(kind, folder, pinned, fresh=fresh, on_spawn=self._record, options={}, flavour="valkey")
        if kind == "redis":
            return RedisServer(
                kind,
                folder,
                pinned,
                fresh=fresh,
                on_spawn=self._record,
                options=self._redis_options,
                flavour=self._flavour,
            )
        user = account.unprivileged()
        home, programs = self._placed(kind, user)
        if fresh and (home / "data").exists():
            raise UsageError(
                f"{home / 'data'} holds a database whose password is lost, for "
                f"{self._folder / state.FILE_NAME} is gone; choose another data folder"
            )
        if kind == "postgres":
            return PostgresServer(
                kind,
                folder,
                pinned,
                fresh=fresh,
                on_spawn=self._record,
                options=self._postgres_options,
                home=home,
                programs=programs,
                account=user,
                version=self._version,
            )
        primary = self._servers["postgres"]
        if not isinstance(primary, PostgresServer):
            raise TypeError(primary)
        return PostgresReplica(
            kind,
            folder,
            pinned,
            fresh=fresh,
            on_spawn=self._record,
            options=self._postgres_options,
            home=home,
            programs=programs,
            account=user,
            version=self._version,
            primary=primary,
        )

    async def _put_proxy_before(self, server: Server) -> None:
        exchange = RedisExchange if isinstance(server, RedisServer) else PostgresExchange
        pinned = server.pinned
        for _ in range(FRESH_PORTS_MAX):
            fresh = pinned.proxy_port is None
            if pinned.proxy_port is None:
                pinned.proxy_port = free_port()
            proxy = Proxy(pinned.proxy_port, server.port, exchange)
            try:
                await proxy.start()
            except ServerUnreachableError:
                # Lost the race for a port nobody has been told about yet: take another.
                if not fresh:
                    raise
                pinned.proxy_port = None
            else:
                server.proxy = proxy
                return
        raise ServerUnreachableError(f"{FRESH_PORTS_MAX} free ports for a proxy were taken by others; start it again")

    async def _supply_power_to(self, server: Server) -> None:
        try:
            library = await asyncio.to_thread(power_cut.build, self._folder)
        except power_cut.PowerCutUnavailableError as error:
            self.no_power_cuts = str(error)
            return
        disk = server.working_folder
        user = account.unprivileged() if isinstance(server, PostgresServer) else None
        server.power = power_cut.PowerSupply(disk.with_name("power"), disk, library, user)

    def _password_for(self, kind: str) -> str:
        # A replica is a copy, and so is its password.
        if kind == "postgres-replica":
            return self._state.servers["postgres"].password
        return secrets.token_hex(_PASSWORD_BYTES)

    def _placed(self, kind: str, user: account.Account | None) -> tuple[Path, Path]:
        """Return the folders of a PostgreSQL's data and of its programs, both open to the user it runs as."""
        home = self._folder / kind
        programs = binaries.postgres_folder(self._version)
        if user is None:
            return home, programs
        if self._away is None:
            self._away = Away(self._folder, user, self._state, self._save)
        home.mkdir(mode=0o755, exist_ok=True)
        if not user.reaches(home):
            home = self._away.home(kind)
        if not user.reaches(programs / "bin"):
            programs = self._away.programs(programs)
        return home, programs

    def _save(self) -> None:
        state.save(self._folder, self._state)

    def _record(self) -> None:
        self._save()
        pids = _Pids(
            _Running(os.getpid(), process.created_seconds(os.getpid())),
            {
                kind: _Running(server.pid, process.created_seconds(server.pid))
                for kind, server in self._servers.items()
                if server.pid is not None
            },
        )
        state.write_whole(self._folder / PIDS_NAME, msgspec.json.encode(pids))


def _in_order(kinds: Iterable[str]) -> list[str]:
    wanted = set(kinds)
    unknown = wanted - set(KINDS)
    if unknown:
        raise UsageError(f"no such kind of server: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    if "postgres-replica" in wanted:
        wanted.add("postgres")
    return [kind for kind in KINDS if kind in wanted]


def _ignore(_event: ServerEvent) -> None:
    pass
