"""All servers of one data folder, as local processes that end with us and are resumed by the next start."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Unpack

import msgspec

from soak.errors import UsageError
from soak.proc import tree
from soak.proc.files import DamagedFileError, read_sealed, write_sealed
from soak.servers import binaries, postgres_upgrade, power_cut, state, versions
from soak.servers.kinds import KINDS, BackendKind, PoolMode, PostgresTopology, RedisTopology, Replication, ServerKind
from soak.servers.managed import ManagedOptions, ManagedServers
from soak.servers.node_group import NODES_FOLDER
from soak.servers.pgbouncer import through_pooler
from soak.servers.power_cut import no_disks
from soak.servers.process_backend import ProcessBackend, ProcessSite
from soak.servers.redis_process import RedisPrograms
from soak.servers.server import Server
from soak.servers.servers import FOLDER_NAME
from soak.servers.strays import end_strays
from soak.servers.unprivileged import Account, Away, unprivileged
from soak.servers.versions import VALKEY, ServerVersion
from soak.servers.web_process import ServiceProgram
from soak.sqlite_address import SYNCHRONOUS_DEFAULT

PIDS_NAME = "pids.json"


class _Running(msgspec.Struct):
    pid: int
    created_seconds: float


class _Pids(msgspec.Struct):
    """Who started which processes here, so that the next start can end what a killed owner left."""

    owner: _Running
    servers: dict[str, _Running] = {}


class LocalServers(ManagedServers):
    """Servers as processes.

    Call `start` from a thread that lives as long as the servers should, best the main thread: when that
    thread is gone, however it went, the kernel ends the servers.
    """

    backend = BackendKind.LOCAL

    def __init__(
        self,
        data_dir: Path,
        *,
        redis_version: str | ServerVersion = VALKEY,
        redis_topology: RedisTopology = RedisTopology.SINGLE,
        redis_binary: Path | None = None,
        redis_upgrade: ServerVersion | None = None,
        redis_upgrade_binary: Path | None = None,
        postgres_version: int = 18,
        sqlite_synchronous: str = SYNCHRONOUS_DEFAULT,
        pool_mode: PoolMode = PoolMode.TRANSACTION,
        pool_logins: Sequence[str] = (),
        postgres_topology: PostgresTopology = PostgresTopology.SINGLE,
        postgres_replication: Replication = Replication.AUTO,
        service: ServiceProgram | None = None,
        neighbours: Callable[[], Mapping[str, str]] = dict,
        **options: Unpack[ManagedOptions],
    ) -> None:
        """Choose the servers.

        A Redis is upgraded to the given version or program, or else to the next one that is available here. For power
        cuts they run under a shim that knows what was synced, or each on a disk of its own. A service is given the
        addresses of what it needs, of servers here and of its `neighbours` elsewhere.
        """
        super().__init__(
            # Resolved, because strays are found by their working folder, and that is always a resolved path.
            data_dir.resolve() / FOLDER_NAME,
            options,
        )
        version = versions.redis_version(redis_version) if isinstance(redis_version, str) else redis_version
        self.redis_programs = RedisPrograms(version, redis_binary, redis_upgrade, redis_upgrade_binary)
        self.redis_topology = redis_topology
        self.postgres_version = postgres_version
        self.sqlite_synchronous = sqlite_synchronous
        self.pool_mode = pool_mode
        self.pool_logins = pool_logins
        self.postgres_topology = postgres_topology
        self.postgres_replication = postgres_replication
        self.service = service
        self._neighbours = neighbours
        self._by_file_system = self._power_cuts and self._power_cut_by == "filesystem"
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

    async def _prepare(self, kind: ServerKind) -> Server:
        server = await super()._prepare(kind)
        is_wanted = self._power_cuts and kind.is_under_test and kind.has_data_folder
        if is_wanted and not self._by_file_system and server.power is None:
            if not isinstance(server.backend, ProcessBackend):
                self.no_power_cuts = server.backend.no_power_cut
                return server
            await self._supply_power_to(server)
        return server

    def _wants_disks(self) -> bool:
        return self._by_file_system

    async def _no_disk_for(self, kind: ServerKind) -> str | None:
        if (reason := no_disks()) is not None:
            return reason
        if any((root / kind.name / "data").exists() for root in self._roots()):
            return f"the data of {kind.name} was begun without a disk of its own; choose another data folder"
        return None

    def _account_of(self, kind: ServerKind) -> Account | None:
        return unprivileged() if kind.has_account else None

    def _roots(self) -> list[Path]:
        return [self._folder, *([Path(self._state.away)] if self._state.away else [])]

    async def _end_leftovers(self) -> None:
        try:
            pids = read_sealed(self._folder / PIDS_NAME, _Pids) or _Pids(_Running(0, 0))
        except DamagedFileError:
            pids = _Pids(_Running(0, 0))  # strays are found by their working folder as well
        owner = pids.owner
        if owner.pid != os.getpid() and tree.is_same_process(owner.pid, owner.created_seconds):
            raise UsageError(
                f"process {owner.pid} runs the servers of {self._folder.parent}; "
                "stop it first or choose another folder with --data-dir"
            )
        known = [
            server.pid for server in pids.servers.values() if tree.is_same_process(server.pid, server.created_seconds)
        ]
        names = ("data", postgres_upgrade.NEXT_NAME)
        folders = [root / kind / name for root in self._roots() for kind in KINDS for name in names]
        nodes = [found for root in self._roots() for found in root.glob(f"*/{NODES_FOLDER}/*")]
        folders += [folder for node in nodes for folder in (node, node / "data")]
        points = [mounted.point for loop in power_cut.abandoned() for mounted in power_cut.mounts_of(loop.number)]
        await end_strays(known, [*folders, *(point / name for point in points for name in names)])
        # Those of other folders, too: nobody may ever come back to them.
        await asyncio.to_thread(power_cut.release_abandoned)

    def _make(self, kind: ServerKind, pinned: state.Pinned, *, fresh: bool) -> Server:
        return kind.support.process(self, kind, pinned, fresh=fresh)

    def site(self, kind: ServerKind, pinned: state.Pinned) -> ProcessSite:
        """Return where a server of this kind lives."""
        return ProcessSite(
            kind.name, self._folder / kind.name, pinned, self._record, self._disks.mount_point(kind.name)
        )

    def addresses(self) -> dict[str, str]:
        """Return the addresses of all servers, here and elsewhere."""
        return {**self._neighbours(), **{name: server.url for name, server in self._nodes.items()}}

    def address_of(self, kind: ServerKind) -> str:
        """Return the address of one server, here or elsewhere."""
        return self._nodes[kind.name].url if kind.name in self._nodes else self._neighbours()[kind.name]

    def client_addresses(self) -> dict[str, str]:
        """Return the addresses as clients use them, through a pooler where there is one."""
        return through_pooler(self.addresses())

    async def _supply_power_to(self, server: Server) -> None:
        try:
            library = await asyncio.to_thread(power_cut.build, self._folder)
        except power_cut.PowerCutUnavailableError as error:
            self.no_power_cuts = str(error)
            return
        disk = server.working_folder
        server.backend.power = power_cut.FsyncShim(
            disk.with_name("power"), disk, library, self._account_of(server.kind)
        )

    def home_of(self, kind: ServerKind, user: Account | None) -> Path:
        """Return the folder that holds a server's data, open to the user it runs as."""
        home = self._folder / kind.name
        if user is None:
            return home
        home.mkdir(mode=0o755, exist_ok=True)
        if (disk := self._disks.mount_point(kind.name)) is not None:
            return disk
        return home if user.reaches(home) else self._elsewhere(user).home(kind.name)

    def install(self, version: int) -> Path:
        """Return the folder of a PostgreSQL's programs, open to the user it runs as."""
        user = unprivileged()
        programs = binaries.postgres_folder(version)
        if user is None or user.reaches(programs / "bin"):
            return programs
        return self._elsewhere(user).programs(programs)

    def _elsewhere(self, user: Account) -> Away:
        if self._away is None:
            self._away = Away(self._folder, user, self._state, self._save)
        return self._away

    def _record(self) -> None:
        self._save()
        pids = _Pids(
            _Running(os.getpid(), tree.created_seconds(os.getpid())),
            {
                name: _Running(server.pid, tree.created_seconds(server.pid))
                for name, server in self._nodes.items()
                if server.pid is not None
            },
        )
        write_sealed(self._folder / PIDS_NAME, pids)
