"""All servers of one data folder, as local processes that end with us and are resumed by the next start."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from soak.errors import UsageError
from soak.sealed_file import DamagedFileError, read_sealed, write_sealed
from soak.servers import account, binaries, postgres_upgrade, power_cut, process, state, versions
from soak.servers.away import Away
from soak.servers.bed import CHROMA, FOLDER_NAME, HTTP, KINDS, LEDGER, POSTGRES, REPLICA, BedKind
from soak.servers.chroma import ChromaServer
from soak.servers.chroma_process import ChromaProcess
from soak.servers.own import ManagedServers
from soak.servers.postgres import PostgresReplica, PostgresServer
from soak.servers.postgres_process import PostgresProcess, ReplicaProcess
from soak.servers.power_cut import SIZE_DEFAULT, Disks, LoopbackVolume, PowerCutWay, no_disks, size_bytes
from soak.servers.process_backend import Berth
from soak.servers.redis import RedisServer
from soak.servers.redis_process import RedisProcess
from soak.servers.server import EventListener, Server
from soak.servers.service_process import ServiceProcess, ServiceProgram
from soak.servers.versions import VALKEY, ServerVersion
from soak.servers.web_server import ServiceServer

PIDS_NAME = "pids.json"
LEDGER_OPTIONS = {"auto-aof-rewrite-min-size": "16mb"}
"""What the verifier has read is dropped, so its log is written anew long before it fills a disk."""


class _Running(msgspec.Struct):
    pid: int
    created_seconds: float


class _Pids(msgspec.Struct):
    """Who started which processes here, so that the next start can end what a killed owner left."""

    owner: _Running
    servers: dict[str, _Running] = {}


class LocalTestbed(ManagedServers):
    """Servers as processes.

    Call `start` from a thread that lives as long as the servers should, best the main thread: when that
    thread is gone, however it went, the kernel ends the servers.
    """

    kind = BedKind.LOCAL

    def __init__(
        self,
        data_dir: Path,
        *,
        redis_version: str | ServerVersion = VALKEY,
        redis_binary: Path | None = None,
        redis_upgrade: ServerVersion | None = None,
        redis_upgrade_binary: Path | None = None,
        postgres_version: int = 18,
        redis_options: Mapping[str, str] | None = None,
        postgres_options: Mapping[str, str] | None = None,
        proxied: bool = False,
        power_cuts: bool = False,
        power_cut_by: PowerCutWay = "auto",
        disk_size: str = SIZE_DEFAULT,
        service: ServiceProgram | None = None,
        neighbours: Callable[[], Mapping[str, str]] = dict,
        on_event: EventListener | None = None,
    ) -> None:
        """Choose the servers.

        The options replace settings of the servers under test, never of the ledger. Where they are proxied,
        clients are given the address of a proxy in front of each, and network faults become possible. A Redis is
        upgraded to the given version or program, or else to the next one that can be had here. For power cuts they
        run under a shim that knows what was synced, or each on a disk of its own; where there can be none,
        `no_power_cuts` says why. A service is given the addresses of what it needs, of servers here and of its
        `neighbours` in other testbeds.
        """
        super().__init__(
            # Resolved, because strays are found by their working folder, and that is always a resolved path.
            data_dir.resolve() / FOLDER_NAME,
            redis_options=redis_options,
            postgres_options=postgres_options,
            proxied=proxied,
            on_event=on_event,
        )
        self._redis_version = versions.redis_version(redis_version) if isinstance(redis_version, str) else redis_version
        self._redis_binary = redis_binary
        self._redis_upgrade = redis_upgrade
        self._redis_upgrade_binary = redis_upgrade_binary
        self._version = postgres_version
        self._service = service
        self._neighbours = neighbours
        self._power_cuts = power_cuts
        self.no_power_cuts: str | None = None if power_cuts else "the testbed was started without power cuts"
        self._by_file_system = power_cuts and power_cut_by == "filesystem"
        self._disks = Disks(self._folder, size=size_bytes(disk_size))
        self._away: Away | None = None

    async def _enter(self) -> None:
        await self._end_leftovers()
        self._record()

    async def _leave(self) -> None:
        await self._disks.close()
        if self._away is not None:
            self._away.bring_back()
            self._away = None
        (self._folder / PIDS_NAME).unlink(missing_ok=True)

    async def _started(self) -> None:
        self._record()

    async def _prepare(self, kind: str) -> Server:
        if kind == LEDGER:
            return await super()._prepare(kind)
        disk = await self._disk_of(kind)
        server = await super()._prepare(kind)
        if disk is not None:
            server.vessel.power = disk
        elif self._power_cuts and not self._by_file_system:
            await self._supply_power_to(server)
        return server

    async def _disk_of(self, kind: str) -> LoopbackVolume | None:
        """Return a disk of its own for a server that has or should have one."""
        if not self._disks.has(kind):
            if not self._by_file_system:
                return None
            if (reason := no_disks() or self._has_data_elsewhere(kind)) is not None:
                self.no_power_cuts = reason
                return None
        return await self._disks.take(kind, account.unprivileged() if kind in (POSTGRES, REPLICA) else None)

    def _has_data_elsewhere(self, kind: str) -> str | None:
        if any((root / kind / "data").exists() for root in self._roots()):
            return f"the data of {kind} was begun without a disk of its own; choose another data folder"
        return None

    def _roots(self) -> list[Path]:
        return [self._folder, *([Path(self._state.away)] if self._state.away else [])]

    async def _end_leftovers(self) -> None:
        try:
            pids = read_sealed(self._folder / PIDS_NAME, _Pids) or _Pids(_Running(0, 0))
        except DamagedFileError:
            pids = _Pids(_Running(0, 0))  # strays are found by their working folder as well
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
        names = ("data", postgres_upgrade.NEXT_NAME)
        folders = [root / kind / name for root in self._roots() for kind in KINDS for name in names]
        points = [mounted.point for loop in power_cut.abandoned() for mounted in power_cut.mounts_of(loop.number)]
        await process.end_strays(known, [*folders, *(point / name for point in points for name in names)])
        # Those of other folders, too: nobody may ever come back to them.
        await asyncio.to_thread(power_cut.release_abandoned)

    def _make(self, kind: str, pinned: state.Pinned, *, fresh: bool) -> Server:
        if kind in (LEDGER, "redis"):
            return self._make_redis(kind, pinned, fresh=fresh)
        if kind == HTTP:
            return self._make_service(kind, pinned, fresh=fresh)
        if kind == CHROMA:
            return self._make_chroma(kind, pinned, fresh=fresh)
        return self._make_postgres(kind, pinned, fresh=fresh)

    def _make_redis(self, kind: str, pinned: state.Pinned, *, fresh: bool) -> Server:
        under_test = kind != LEDGER
        options = self._redis_options if under_test else LEDGER_OPTIONS
        vessel = RedisProcess(
            self._berth(kind, pinned),
            options=options,
            version=self._redis_version if under_test else VALKEY,
            binary=self._redis_binary if under_test else None,
            upgrade=self._redis_upgrade,
            upgrade_binary=self._redis_upgrade_binary,
        )
        return RedisServer(kind, pinned, vessel, fresh=fresh)

    def _make_service(self, kind: str, pinned: state.Pinned, *, fresh: bool) -> Server:
        if self._service is None:
            raise UsageError("no service is known that could be started; name one with --subject")
        vessel = ServiceProcess(self._berth(kind, pinned), self._service, self._addresses)
        return ServiceServer(kind, pinned, vessel, fresh=fresh)

    def _make_chroma(self, kind: str, pinned: state.Pinned, *, fresh: bool) -> Server:
        return ChromaServer(kind, pinned, ChromaProcess(self._berth(kind, pinned)), fresh=fresh)

    def _berth(self, kind: str, pinned: state.Pinned) -> Berth:
        return Berth(kind, self._folder / kind, pinned, self._record, self._disks.mount_point(kind))

    def _addresses(self) -> dict[str, str]:
        return {**self._neighbours(), **{kind: server.url for kind, server in self._servers.items()}}

    def _make_postgres(self, kind: str, pinned: state.Pinned, *, fresh: bool) -> Server:
        user = account.unprivileged()
        home = self._placed(kind, user)
        if fresh and (home / "data").exists():
            raise UsageError(
                f"{home / 'data'} holds a database whose password is lost, for "
                f"{self._folder / state.FILE_NAME} is gone; choose another data folder"
            )
        berth, options = self._berth(kind, pinned)._replace(home=home), self._postgres_options
        if kind == POSTGRES:
            vessel = PostgresProcess(berth, options=options, install=self._install, account=user, version=self._version)
            return PostgresServer(kind, pinned, vessel, fresh=fresh)
        primary = self._primary()
        if not isinstance(primary.vessel, PostgresProcess):
            raise TypeError(primary.vessel)
        copy = ReplicaProcess(berth, options=options, install=self._install, account=user, primary=primary.vessel)
        return PostgresReplica(kind, pinned, copy, fresh=fresh, primary=primary)

    async def _supply_power_to(self, server: Server) -> None:
        try:
            library = await asyncio.to_thread(power_cut.build, self._folder)
        except power_cut.PowerCutUnavailableError as error:
            self.no_power_cuts = str(error)
            return
        disk = server.working_folder
        user = account.unprivileged() if isinstance(server, PostgresServer) else None
        server.vessel.power = power_cut.FsyncShim(disk.with_name("power"), disk, library, user)

    def _placed(self, kind: str, user: account.Account | None) -> Path:
        """Return the folder of a PostgreSQL's data, open to the user it runs as."""
        home = self._folder / kind
        if user is None:
            return home
        home.mkdir(mode=0o755, exist_ok=True)
        if (disk := self._disks.mount_point(kind)) is not None:
            return disk
        return home if user.reaches(home) else self._elsewhere(user).home(kind)

    def _install(self, version: int) -> Path:
        """Return the folder of a PostgreSQL's programs, open to the user it runs as."""
        user = account.unprivileged()
        programs = binaries.postgres_folder(version)
        if user is None or user.reaches(programs / "bin"):
            return programs
        return self._elsewhere(user).programs(programs)

    def _elsewhere(self, user: account.Account) -> Away:
        if self._away is None:
            self._away = Away(self._folder, user, self._state, self._save)
        return self._away

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
        write_sealed(self._folder / PIDS_NAME, pids)
