"""PostgreSQL under Patroni: three nodes, and three etcd that say which of them is the leader.

What one must know before touching it:
- Patroni starts PostgreSQL in a session of its own, which outlives a Patroni that is killed. So a node is ended by what
  works in its folder, and not by its first process alone.
- Patroni runs as the server's account, so it needs an interpreter and packages which that account can reach.
- Patroni, libpq and etcd cannot choose the address they call from; callers are told apart by their working folder.
- A standby that is being copied streams, too; only those that call themselves by the name of a node count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from soak.errors import ServerUnreachableError
from soak.json_input import decode_json
from soak.proc.files import write_whole
from soak.proc.spawn import Running
from soak.servers import binaries
from soak.servers.exchange import HttpExchange
from soak.servers.kinds import Replication, ServerKind
from soak.servers.node_group import GroupNode, Seat
from soak.servers.ports import HOST
from soak.servers.postgres import USER, settings_of
from soak.servers.postgres_group import CHEAP_LOGIN, PostgresGroup, PostgresNode, PostgresPrograms
from soak.servers.process_backend import ProcessBackend, ProcessSite
from soak.servers.state import Pinned
from soak.servers.strays import end_strays, kill_strays_below
from soak.tasks import until

SERVERS = ("postgres-1", "postgres-2", "postgres-3")
ETCDS = ("etcd-1", "etcd-2", "etcd-3")
SCOPE = "memory"
TTL_SECONDS = 20
"""The least that Patroni allows: so long after its last sign a leader is replaced."""
LOOP_WAIT_SECONDS = 2
RETRY_SECONDS = 9
"""The most that Patroni allows with these: on a busy machine etcd may take a second to answer."""
RECONNECT = {"wal_retrieve_retry_interval": "1s"}
"""Every try to stream is a connection whose caller has to be looked up."""
MAXIMUM_LAG_BYTES = 2**20
HEARTBEAT_MS, ELECTION_MS = 250, 2_500
"""More than etcd's own: on a busy machine a healthy node may be silent for a second."""
_FORM_SECONDS_MAX = 180.0
LEAD_SECONDS_MAX = 30.0
"""So long the one that led last may take to lead again before the others are started, too."""
_POLL_SECONDS = 0.2
"""On an idle machine it takes ten."""
_REST_SECONDS_MAX = 30.0
_ACCESS = ("local all all", f"host all all {HOST}/32", f"host replication all {HOST}/32")


class PatroniProcess(ProcessBackend):
    """Patroni, with the PostgreSQL that it starts."""

    ready_seconds_max = _FORM_SECONDS_MAX

    def __init__(
        self, site: ProcessSite, seats: Mapping[str, Seat], programs: PostgresPrograms, dynamic: Mapping[str, object]
    ) -> None:
        """Take where it is; `dynamic` is what all nodes share, and the first one writes into etcd."""
        super().__init__(f"PostgreSQL {programs.version} under Patroni for {site.name}", site, {})
        self.seat = seats[site.name]
        self._etcds = [f"{HOST}:{seats[name].front}" for name in ETCDS]
        self._programs = programs
        self._dynamic = dynamic
        self._binaries = programs.install(programs.version) / "bin"
        self._python = binaries.patroni_python(programs.account)

    async def prepare(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        if (account := self._programs.account) is not None:
            account.own(self.home)
        # As JSON, which YAML is a superset of.
        write_whole(self.home / "patroni.yml", msgspec.json.encode(self._settings()), owner=account)

    def _settings(self) -> dict[str, object]:
        seat, login = self.seat, {"username": USER, "password": self.pinned.password}
        return {
            "scope": SCOPE,
            "name": seat.name,
            "restapi": {"listen": f"{seat.host}:{seat.bus_port}", "connect_address": f"{HOST}:{seat.bus}"},
            "etcd3": {"hosts": self._etcds},
            "bootstrap": {
                "dcs": self._dynamic,
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, {"set": CHEAP_LOGIN}],
            },
            "postgresql": {
                "listen": f"{seat.host}:{seat.port}",
                "connect_address": f"{HOST}:{seat.front}",
                "data_dir": str(self.working_folder),
                "bin_dir": str(self._binaries),
                "pgpass": str(self.home / "pgpass"),
                "parameters": {"unix_socket_directories": ""},
                "pg_hba": [f"{line} scram-sha-256" for line in _ACCESS],
                "authentication": {"superuser": login, "replication": login},
                "basebackup": [{"checkpoint": "fast"}],
                "remove_data_directory_on_rewind_failure": True,
                "remove_data_directory_on_diverged_timelines": True,
            },
        }

    async def spawn(self) -> Running:
        return await self.start_program(
            [*self._python.command, "-m", "patroni", self.home / "patroni.yml"],
            home=self.home,
            cwd=self.home,
            account=self._programs.account,
            environment=self._python.environment,
        )

    async def kill(self) -> None:
        await super().kill()
        await asyncio.to_thread(kill_strays_below, self.home)

    async def _end_strays(self) -> None:
        await end_strays([], [self.home, self.working_folder])


class PatroniState(msgspec.Struct, frozen=True):
    """What Patroni says of its node."""

    state: str = ""
    role: str = ""
    timeline: int = 0

    @property
    def is_leader(self) -> bool:
        return self.state == "running" and self.role in {"primary", "master"}


class PatroniNode(PostgresNode):
    """One PostgreSQL under Patroni."""

    async def rest(self, path: str, body: Mapping[str, object] | None = None) -> bytes:
        """Ask its Patroni; raises `ServerUnreachableError` if that does not answer, or refuses."""
        url = f"http://{self.seat.host}:{self.seat.bus_port}{path}"
        seconds = self.backend.answer_seconds_max if body is None else _REST_SECONDS_MAX
        return await _ask(url, f"the Patroni of {self.name}", seconds, body)

    async def state_of_patroni(self) -> PatroniState:
        # Another status than 200 only says that it is no leader; the body is the same.
        return decode_json(await self.rest("/patroni"), PatroniState)


class EtcdProcess(ProcessBackend):
    """One etcd."""

    def __init__(self, site: ProcessSite, seats: Mapping[str, Seat]) -> None:
        super().__init__(f"etcd for {site.name}", site, {})
        self.seat = seats[site.name]
        self._peers = ",".join(f"{name}=http://{HOST}:{seats[name].bus}" for name in ETCDS)
        self._token = f"{SCOPE}-{seats[ETCDS[0]].port}"
        """Of this group alone, so that it never takes the etcd of another one for its own."""
        self._program = binaries.etcd_program()

    async def prepare(self) -> None:
        self.working_folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def spawn(self) -> Running:
        seat = self.seat
        options = {
            "name": seat.name,
            "data-dir": self.working_folder / "etcd",
            "listen-client-urls": f"http://{seat.host}:{seat.port}",
            "advertise-client-urls": f"http://{HOST}:{seat.front}",
            "listen-peer-urls": f"http://{seat.host}:{seat.bus_port}",
            "initial-advertise-peer-urls": f"http://{HOST}:{seat.bus}",
            "initial-cluster": self._peers,
            "initial-cluster-token": self._token,
            "heartbeat-interval": HEARTBEAT_MS,
            "election-timeout": ELECTION_MS,
        }
        return await self.start_program(
            [self._program, *(f"--{name}={value}" for name, value in options.items())], home=self.folder
        )


class EtcdNode(GroupNode):
    """One etcd."""

    exchange = HttpExchange

    def __init__(self, kind: ServerKind, pinned: Pinned, backend: EtcdProcess) -> None:
        super().__init__(kind, pinned, backend, fresh=False)
        self.seat = backend.seat
        self.name = self.seat.name

    def address_at(self, port: int) -> str:
        return f"http://{self.seat.host}:{port}"

    async def answers(self) -> bool:
        try:
            told = await _ask(f"{self.address_at(self.port)}/health", self.title, self.backend.answer_seconds_max)
        except ServerUnreachableError:
            return False
        return b'"true"' in told

    async def read_configuration(self) -> dict[str, str]:
        return {}


class PatroniGroup(PostgresGroup):
    """Three PostgreSQL whose leader is elected."""

    topology = "Patroni"
    flag = "--postgres patroni"
    name_of_nodes = (*SERVERS, *ETCDS)
    has_bus = True
    agree_seconds_max = _FORM_SECONDS_MAX
    replacement_seconds = TTL_SECONDS + LOOP_WAIT_SECONDS + RETRY_SECONDS
    _has_led = False
    """Whether `last_primaries` was seen to lead since this process began."""

    def _make_nodes(self) -> list[GroupNode]:
        self.patronis = [self._make_node(name) for name in SERVERS]
        self.servers = [*self.patronis]
        self.etcds = [self._make_etcd(name) for name in ETCDS]
        return [*self.patronis, *self.etcds]

    def _make_node(self, name: str) -> PatroniNode:
        site = self.site_of(name)
        process = PatroniProcess(site, self.seats, self.programs, self._dynamic())
        node = PatroniNode(self.kind, site.pinned, process, self.seats[name])
        node.report_to(self._on_node_event)
        return node

    def _make_etcd(self, name: str) -> EtcdNode:
        site = self.site_of(name)
        node = EtcdNode(self.kind, site.pinned, EtcdProcess(site, self.seats))
        node.report_to(self._on_node_event)
        return node

    def _dynamic(self) -> dict[str, object]:
        commits = {"synchronous_commit": "remote_apply"} if self.replication is Replication.REMOTE_APPLY else {}
        return {
            "ttl": TTL_SECONDS,
            "loop_wait": LOOP_WAIT_SECONDS,
            "retry_timeout": RETRY_SECONDS,
            "maximum_lag_on_failover": MAXIMUM_LAG_BYTES,
            "synchronous_mode": self.is_synchronous,
            "postgresql": {"use_pg_rewind": True, "parameters": settings_of({**RECONNECT, **commits, **self.options})},
        }

    def in_order_of_end(self) -> Sequence[Sequence[GroupNode]]:
        # The leader after those who would take its place, and etcd last: a Patroni without it takes no writes.
        others = [node for node in self.patronis if node not in self.last_primaries]
        return [others, self.last_primaries, self.etcds]

    def beside(self, node: GroupNode) -> set[str]:
        return {node.name, ETCDS[SERVERS.index(node.name)]} if node.name in SERVERS else {node.name}

    async def _form(self) -> None:
        await asyncio.gather(*(node.start_again() for node in self.etcds))
        if self._has_led and all(node.pid is None for node in self.patronis):
            # The others were stopped before it and lack what it acknowledged since. One of them that comes first leads.
            await asyncio.gather(*(node.start_again() for node in self.last_primaries))
            await until(self._is_led, LEAD_SECONDS_MAX, _POLL_SECONDS)
        await asyncio.gather(*(node.start_again() for node in self.patronis))

    async def primaries(self) -> list[GroupNode]:
        """Return the node that says it is the leader; of two that do, the one of the later timeline."""
        answers = await asyncio.gather(*(node.state_of_patroni() for node in self.patronis), return_exceptions=True)
        leaders = [
            (state.timeline, node)
            for node, state in zip(self.patronis, answers, strict=True)
            if isinstance(state, PatroniState) and state.is_leader
        ]
        if not leaders:
            raise ServerUnreachableError(f"no node of {self.title} is the leader; see the logs in {self.folder}")
        self.last_primaries = [max(leaders, key=lambda one: one[0])[1]]
        self._has_led = True
        return self.last_primaries

    async def _is_led(self) -> bool:
        try:
            return bool(await self.primaries())
        except ServerUnreachableError:
            return False

    async def leader(self) -> PatroniNode:
        """Return the node that takes writes."""
        (found,) = await self.primaries()
        return next(node for node in self.patronis if node is found)

    @property
    def patroni_addresses(self) -> Sequence[str]:
        return [f"http://{node.seat.host}:{node.seat.bus_port}" for node in self.patronis]

    async def hand_over(self, primary: GroupNode) -> None:
        """Ask for a switchover: the leader stops cleanly first."""
        await (await self.leader()).rest("/switchover", {"leader": primary.name})
        await self.until_replaced(primary)

    async def restart(self, node: GroupNode) -> None:
        """Let Patroni restart its PostgreSQL, as `patronictl restart` does; an etcd is stopped and started again."""
        if isinstance(node, PatroniNode):
            await node.rest("/restart", {})
        else:
            await super().restart(node)

    async def until_demoted(self, leader: GroupNode) -> None:
        """Wait until a node takes no more writes, whether or not another one does."""
        node = next(node for node in self.patronis if node is leader)

        async def demoted() -> bool:
            return not (await node.state_of_patroni()).is_leader

        await self.until(demoted, f"demote {leader.name}")

    async def _agree(self) -> bool:
        leader = await self.leader()
        others = [node for node in self.patronis if node is not leader]
        followers = {name: state for name, state in (await leader.followers()).items() if name in SERVERS}
        if len(followers) < len(others) or (self.is_synchronous and "sync" not in followers.values()):
            return False
        return all([await node.follows(leader) for node in others])


async def _ask(url: str, whom: str, seconds: float, body: Mapping[str, object] | None = None) -> bytes:
    """Ask over HTTP, or post; raises `ServerUnreachableError` if there is no answer, or a post is refused."""
    import aiohttp  # noqa: PLC0415  costly, and most servers need none of it

    request: dict[str, Any] = {"method": "GET"} if body is None else {"method": "POST", "json": dict(body)}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds)) as client,
            client.request(url=url, **request) as answer,
        ):
            text = await answer.read()
            if body is not None and not answer.ok:
                raise ServerUnreachableError(f"{whom} refuses: {text.decode('utf-8', 'replace').strip()}")
            return text
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise ServerUnreachableError(f"{whom} does not answer ({type(error).__name__})") from error
