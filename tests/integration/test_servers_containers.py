"""Given servers in containers that are named: broken through Docker as far as allowed, and no other container is."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from soak import configuration, faults
from soak.daemon.bed import make_testbed
from soak.daemon.plan import make_plan
from soak.errors import ServerUnreachableError, UsageError
from soak.faults.healing import Notes
from soak.servers.external.servers import ExternalServers
from soak.servers.ports import HOST, free_port
from soak.servers.server import ServerState
from tests.support.servers.breaking import client_of, journalled, sql

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.support.docker.images import Images

pytestmark = pytest.mark.long  # containers are started, broken and restarted

POSSIBLE = ("restart", "crash", "pause", "restart_from_aof", "shutdown_nosave")
ON_POSTGRES = ("restart", "crash", "pause")


class Operated:
    """A container that somebody runs, and where its server answers."""

    def __init__(self, container: Any, url: str) -> None:
        self.container = container
        self.name = container.name
        self.url = url

    @property
    def starts(self) -> str:
        self.container.reload()
        return str(self.container.attrs["State"]["StartedAt"])


def run_redis(engine: Any, images: Images, **options: Any) -> Operated:
    port = free_port()
    words = ["valkey-server", "--appendonly", "yes", "--save", "", "--protected-mode", "no"]
    container = engine.containers.run(
        images["valkey-9"],
        words,
        detach=True,
        name=f"soak-test-given-{uuid.uuid4().hex[:8]}",
        ports={"6379/tcp": (HOST, port)},
        **options,
    )
    return Operated(container, f"redis://{HOST}:{port}")


def run_postgres(engine: Any, images: Images) -> Operated:
    port = free_port()
    container = engine.containers.run(
        images["postgres-18"],
        ["postgres", "-c", "listen_addresses=*"],
        detach=True,
        name=f"soak-test-given-{uuid.uuid4().hex[:8]}",
        ports={"5432/tcp": (HOST, port)},
        stop_signal="SIGINT",  # as the official image has it
        environment={"POSTGRES_USER": "soak", "POSTGRES_DB": "soak", "POSTGRES_HOST_AUTH_METHOD": "trust"},
    )
    return Operated(container, f"postgresql://soak@{HOST}:{port}/soak?sslmode=disable")


@pytest.fixture
def operated(engine: Any, images: Images) -> Iterator[Operated]:
    one = run_redis(engine, images)
    yield one
    one.container.remove(force=True, v=True)


@pytest.fixture
def bystander(engine: Any, images: Images) -> Iterator[Operated]:
    """Return a container beside it that nobody has named."""
    one = run_redis(engine, images)
    yield one
    one.container.remove(force=True, v=True)


@contextlib.asynccontextmanager
async def taken(folder: Path, url: str, name: str, *, allow: tuple[str, ...] = POSSIBLE) -> AsyncIterator[Any]:
    kind = "postgres" if url.startswith("postgres") else "redis"
    servers = ExternalServers(folder, {kind: url}, allow_faults=allow, containers={kind: name})
    try:
        await servers.start([kind])
        server = servers.nodes[kind]
        await server.start_again()  # the first answer takes it a moment
        yield servers
    finally:
        await servers.stop()


async def test_each_fault_happens_to_the_container_that_is_named_and_is_healed(
    tmp_path: Path, operated: Operated, bystander: Operated, ledger_url: str
) -> None:
    aside = bystander.starts
    async with taken(tmp_path, operated.url, operated.name) as servers, journalled(ledger_url) as run:
        async with client_of(operated.url) as client:
            await client.set("kept", "yes")
        for name in POSSIBLE:
            before = operated.starts
            assert faults.ALL[name].unavailable(servers, "redis") is None, name
            await faults.during(faults.ALL[name], servers, "redis", run.journal, hold_seconds=0.2)
            assert (operated.starts == before) == (name == "pause"), name
            async with client_of(operated.url) as client:
                assert await client.get("kept") == "yes", name
        assert [phase.kind for phase in await run.phases("start")] == list(POSSIBLE)
        assert [phase.kind for phase in await run.phases("end")] == list(POSSIBLE)
    assert bystander.starts == aside
    assert operated.container.status == "running"


async def test_a_postgres_in_its_container_is_broken_likewise(
    tmp_path: Path, engine: Any, images: Images, ledger_url: str
) -> None:
    operated = run_postgres(engine, images)
    try:
        async with (
            taken(tmp_path, operated.url, operated.name, allow=ON_POSTGRES) as servers,
            journalled(ledger_url) as run,
        ):
            await sql(operated.url, "create table kept as select 'yes' as value")
            for name in ON_POSTGRES:
                await faults.during(faults.ALL[name], servers, "postgres", run.journal, hold_seconds=0.2)
                assert await sql(operated.url, "select value from kept") == "yes"
    finally:
        operated.container.remove(force=True, v=True)


async def test_what_is_not_allowed_or_needs_more_than_a_container_does_not_happen(
    tmp_path: Path, operated: Operated
) -> None:
    before = operated.starts
    async with taken(tmp_path, operated.url, operated.name, allow=("pause", "wiped_volume", "power_cut")) as servers:
        assert "testbed.allow_faults" in str(faults.ALL["crash"].unavailable(servers, "redis"))
        for name in ("wiped_volume", "power_cut"):
            assert "needs more than its container" in str(faults.ALL[name].unavailable(servers, "redis"))
        assert faults.ALL["pause"].unavailable(servers, "redis") is None
        with pytest.raises(UsageError, match="cannot be wiped"):
            await servers.nodes["redis"].wipe()
    assert operated.starts == before


async def test_a_server_that_docker_would_start_again_is_not_told_to_end_by_itself(
    tmp_path: Path, engine: Any, images: Images
) -> None:
    operated = run_redis(engine, images, restart_policy={"Name": "unless-stopped"})
    try:
        async with taken(tmp_path, operated.url, operated.name) as servers:
            assert 'restart: "no"' in str(faults.ALL["shutdown_nosave"].unavailable(servers, "redis"))
            crash = faults.ALL["crash"]
            assert crash.unavailable(servers, "redis") is None
            await crash.inject(servers, "redis")
            assert servers.nodes["redis"].pid is None  # whoever kills through Docker is not countermanded by it
            await crash.heal(servers, "redis")
    finally:
        operated.container.remove(force=True, v=True)


@pytest.mark.parametrize(("fault", "left"), [("crash", ServerState.STOPPED), ("pause", ServerState.PAUSED)])
async def test_what_a_killed_daemon_left_broken_is_healed_by_the_next(
    tmp_path: Path, operated: Operated, fault: str, left: ServerState
) -> None:
    async with taken(tmp_path, operated.url, operated.name) as servers:
        Notes(servers.nodes["redis"]).begin(fault)
        await faults.ALL[fault].inject(servers, "redis")
    servers = ExternalServers(tmp_path, {"redis": operated.url}, containers={"redis": operated.name})
    await servers.start(["redis"])
    try:
        assert servers.nodes["redis"].state is left
        assert [note.fault for note in await faults.heal_leftovers(servers)] == [fault]
        async with client_of(operated.url) as client:
            assert await client.ping()
        assert servers.nodes["redis"].configuration["appendonly"] == "yes"
    finally:
        await servers.stop()


async def test_a_container_that_does_not_serve_the_address_is_refused_before_anything_is_broken(
    tmp_path: Path, operated: Operated, bystander: Operated
) -> None:
    for name, complaint in ((bystander.name, "is not where"), ("soak-test-nobody", "no such container")):
        servers = ExternalServers(tmp_path, {"redis": operated.url}, containers={"redis": name})
        with pytest.raises(UsageError, match=complaint):
            await servers.start(["redis"])
        await servers.stop()


async def test_a_fault_that_hit_another_server_is_no_fault(tmp_path: Path, operated: Operated, redis_url: str) -> None:
    async with taken(tmp_path, operated.url, operated.name) as servers:
        server = servers.nodes["redis"]
        server.backend.url = redis_url  # as if something else answered at this address
        await server.kill()
        with pytest.raises(ServerUnreachableError, match="still the old one"):
            await server.start_again()


@pytest.mark.parametrize(
    ("assignments", "complaint"),
    [
        (("testbed.containers.redis=x",), "set servers.redis, too"),
        (
            (
                *("servers.redis=redis://h:1", "servers.postgres=postgresql://h:1/x"),
                *("testbed.containers.redis=x", "testbed.containers.postgres=x"),
            ),
            "one container twice",
        ),
    ],
)
def test_containers_that_cannot_be_meant_are_one_clear_line(
    tmp_path: Path, assignments: tuple[str, ...], complaint: str
) -> None:
    settings = configuration.read(assignments=assignments, environ={}).settings
    with pytest.raises(UsageError, match=complaint):
        make_testbed(
            settings,
            make_plan(settings, settings.stores.names),
            tmp_path,
            on_event=lambda _event: None,
            say=lambda _text: None,
        )
