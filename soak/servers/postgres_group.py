"""Several PostgreSQL nodes that act as one server: what all groups of PostgreSQL share."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from soak.errors import UsageError
from soak.servers.backend import HandsOffBackend
from soak.servers.callers import Callers, CallersByProcess
from soak.servers.kinds import Replication, ServerKind
from soak.servers.node_group import GroupBackend, GroupNode, NodeGroup, Seat
from soak.servers.ports import HOST
from soak.servers.postgres import DATABASE, REPLICA_MARK, USER, PostgresServer
from soak.servers.postgres_process import PostgresProcess, base_backup
from soak.servers.process_backend import ProcessBackend, ProcessSite
from soak.servers.state import Pinned
from soak.servers.unprivileged import Account

CHEAP_LOGIN = "scram_iterations=1"
"""Clients that look for the primary log in to one node after the other, many times a second while there is none. The
password is random and for this machine alone, so nothing is gained by making that slow."""
_STANDING_QUERY = """
select case when pg_is_in_recovery() then 'standby' else 'primary' end as role,
       case when pg_is_in_recovery() then coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())
            else pg_current_wal_lsn() end::text as lsn,
       case when pg_is_in_recovery() then coalesce((select received_tli from pg_stat_wal_receiver),
                                                   (select timeline_id from pg_control_checkpoint()))
            else ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int end::text as timeline
"""
_STREAMS_QUERY = """
select (pg_is_in_recovery() and exists
        (select from pg_stat_wal_receiver where status = 'streaming' and sender_port = {front}))::text as streams
"""
_FOLLOWERS_QUERY = """
select coalesce(string_agg(application_name || '=' || sync_state, ','), '') as followers
  from pg_stat_replication where state = 'streaming'
"""


class PostgresPrograms(NamedTuple):
    """Which PostgreSQL the nodes are, and who runs it."""

    version: int
    install: Callable[[int], Path]
    account: Account | None


class PostgresNodeProcess(PostgresProcess):
    """One node as a process: a primary, or a copy of one that follows it."""

    def __init__(
        self,
        site: ProcessSite,
        seat: Seat,
        programs: PostgresPrograms,
        options: Mapping[str, str],
        followed: Callable[[], Seat | None],
    ) -> None:
        """Take where it is; `followed` says whom it follows, and None that it is the primary."""
        super().__init__(
            site, options=options, install=programs.install, account=programs.account, version=programs.version
        )
        self.seat = seat
        self._followed = followed

    async def prepare(self) -> None:
        is_copy = (self.working_folder / REPLICA_MARK).exists()
        if self._followed() is not None and self.working_folder.exists() and not is_copy:
            # It was a primary, and its history may have parted from that of the one which took its place.
            await self.wipe()
        await super().prepare()

    async def create(self, *options: str) -> None:
        if (primary := self._followed()) is None:
            await super().create("--set", CHEAP_LOGIN, *options)
        else:
            await self.fill(base_backup(primary.front, self.seat.name), {"PGPASSWORD": self.pinned.password})

    def _place(self) -> dict[str, str]:
        return {**super()._place(), "listen_addresses": self.seat.host}


class PostgresNode(GroupNode, PostgresServer):
    """One PostgreSQL of a group."""

    def __init__(self, kind: ServerKind, pinned: Pinned, backend: ProcessBackend, seat: Seat) -> None:
        super().__init__(kind, pinned, backend, fresh=False)
        self.seat = seat
        self.name = seat.name

    def address_at(self, port: int) -> str:
        return address_of_nodes(self.pinned.password, [f"{self.seat.host}:{port}"])

    async def standing(self) -> str | None:
        told = await self.ask(_STANDING_QUERY)
        return f"{told['role']}, LSN {told.get('lsn', 'unknown')}, timeline {told.get('timeline', 'unknown')}"

    async def is_primary(self) -> bool:
        return (await self.ask("select (not pg_is_in_recovery())::text as holds"))["holds"] == "true"

    async def follows(self, primary: PostgresNode) -> bool:
        """Whether it is a standby that streams from this primary."""
        return (await self.ask(_STREAMS_QUERY.format(front=primary.seat.front)))["streams"] == "true"

    async def followers(self) -> dict[str, str]:
        """Return who streams from it, each with its `sync_state`."""
        told = (await self.ask(_FOLLOWERS_QUERY))["followers"]
        return dict(one.split("=", 1) for one in told.split(",") if one)


class PostgresGroup(NodeGroup[GroupNode], PostgresServer, abc.ABC):
    """The group as its clients see it: one PostgreSQL, whose address names all nodes."""

    has_client_fronts = True
    servers: list[PostgresNode]
    """The nodes that are a PostgreSQL."""

    def __init__(
        self,
        kind: ServerKind,
        pinned: Pinned,
        site: ProcessSite,
        *,
        fresh: bool,
        options: Mapping[str, str],
        programs: PostgresPrograms,
        replication: Replication,
    ) -> None:
        title = f"PostgreSQL {programs.version} with {self.topology} for {kind.name}"
        super().__init__(kind, pinned, GroupBackend(title, site.folder, options), fresh=fresh)
        self.programs = programs
        self.replication = replication
        self._join(site, fresh=fresh)

    @property
    def is_synchronous(self) -> bool:
        """Whether a commit waits for a standby."""
        return self.replication not in {Replication.AUTO, Replication.ASYNC}

    def address_at(self, port: int) -> str:
        del port
        return self.address_for("read-write")

    def address_for(self, attributes: str) -> str:
        """Return the address of all nodes for sessions with these `target_session_attrs`."""
        fronts = [f"{HOST}:{node.seat.client_front}" for node in self.servers]
        return address_of_nodes(self.pinned.password, fronts, attributes)

    @property
    def own_url(self) -> str:
        # The present primary first: one that was replaced and does not know it would take the question, too.
        nodes = sorted(self.servers, key=lambda node: node not in self.last_primaries)
        return address_of_nodes(self.pinned.password, [f"{node.seat.host}:{node.port}" for node in nodes], "read-write")

    def _callers(self) -> Callers:
        return CallersByProcess(self.nodes_folder.resolve())


class StandbyReaders(PostgresServer):
    """Any standby of a group, for stores that read from a replica. Nothing runs for it: the group does."""

    is_group = True
    is_view = True

    def __init__(self, kind: ServerKind, pinned: Pinned, group: PostgresGroup) -> None:
        super().__init__(kind, pinned, _NothingOfItsOwn(f"standbys of {group.title}", group.folder, {}), fresh=False)
        self._group = group

    def address_at(self, port: int) -> str:
        del port
        return self._group.address_for("prefer-standby")

    async def start_proxy(self, host: str = HOST) -> None:
        await self._group.start_proxy(host)
        self.no_proxy = self._group.no_proxy


class _NothingOfItsOwn(HandsOffBackend):
    """What a server runs in that is only another way to a group."""

    @property
    def working_folder(self) -> Path:
        raise UsageError(f"{self.title} have no folder of their own")

    @property
    def no_power_cut(self) -> str | None:
        return "it is a way to a group, and no server of its own"

    def refuses(self, what: str) -> str | None:
        return None if what == "stopped" else self.no_power_cut


def address_of_nodes(password: str, places: Iterable[str], attributes: str = "any") -> str:
    """Return one address of several places, for sessions with these `target_session_attrs`."""
    options = f"sslmode=disable&target_session_attrs={attributes}"
    return f"postgresql://{USER}:{password}@{','.join(places)}/{DATABASE}?{options}"
