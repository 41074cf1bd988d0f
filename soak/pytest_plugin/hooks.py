"""What pytest calls: options, fixtures, and one test per server version.

Imported by every pytest on the machine, so nothing heavy is imported before a test asks for a server.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from soak.pytest_plugin import options
from soak.servers.kinds import POSTGRES, POSTGRES_REPLICA, REDIS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from soak.contract_suite.memory import Memory
    from soak.pytest_plugin.pool import ServerPool
    from soak.pytest_plugin.server import SoakServer
    from soak.pytest_plugin.suite import MemoryContract

_POOL = pytest.StashKey["ServerPool"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    options.declare(parser)


def pytest_configure(config: pytest.Config) -> None:
    options.read(config)  # a choice that makes no sense is one line before anything begins
    for group, what in options.GROUPS.items():
        config.addinivalue_line("markers", f"soak_{group}: checks of the contract suite: {what}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    suite = _suite_of(metafunc)
    if suite is None:
        return
    from soak.errors import SoakError  # noqa: PLC0415

    choice = options.read(metafunc.config)
    try:
        sets = choice.versions_for(suite.needed(), suite.versions)
    except SoakError as error:
        raise pytest.Collector.CollectError(str(error)) from None
    if "soak_versions" in metafunc.fixturenames:
        names = ["+".join(version.label for version in versions) or "no-server" for versions in sets]
        metafunc.parametrize("soak_versions", sets, ids=names, indirect=True, scope="session")
    if "soak_recording" in metafunc.fixturenames:
        found: list[Path | None] = [*sorted(suite.recordings_folder().glob("*.json"))] or [None]
        metafunc.parametrize("soak_recording", found, ids=[path.stem if path else "none-yet" for path in found])


def pytest_runtest_teardown(item: pytest.Item) -> None:
    pool = item.config.stash.get(_POOL, None)
    if pool is not None:
        pool.heal()


@pytest.fixture(scope="session")
def soak_servers(pytestconfig: pytest.Config) -> Iterator[ServerPool]:
    """All servers of this session (of this worker, under pytest-xdist), each started when first asked for."""
    from soak.pytest_plugin.pool import ServerPool  # noqa: PLC0415

    pool = ServerPool(options.read(pytestconfig))
    pytestconfig.stash[_POOL] = pool
    try:
        yield pool
    finally:
        del pytestconfig.stash[_POOL]
        pool.stop()


@pytest.fixture(scope="session")
def soak_redis(soak_servers: ServerPool) -> SoakServer:
    """Return a Redis or Valkey server: `url`, `restart()`, `kill()`, `start()`, `pause()`, `resume()`."""
    return _started(soak_servers, REDIS.name)


@pytest.fixture(scope="session")
def soak_postgres(soak_servers: ServerPool) -> SoakServer:
    """Return a PostgreSQL server, with the same verbs."""
    return _started(soak_servers, POSTGRES.name)


@pytest.fixture(scope="session")
def soak_postgres_replica(soak_servers: ServerPool, soak_postgres: SoakServer) -> SoakServer:
    """Return a streaming replica of the server of `soak_postgres`."""
    del soak_postgres  # it has to be there first
    return _started(soak_servers, POSTGRES_REPLICA.name)


@pytest.fixture
def soak_namespace(soak_servers: ServerPool) -> Iterator[str]:
    """Return a name that no other test, worker or run uses.

    Keys, schemas and tables that begin with it are removed afterwards, and nothing else is.
    """
    from soak.contract_suite.memory import new_namespace  # noqa: PLC0415

    namespace = new_namespace()
    yield namespace
    _remove(soak_servers, soak_servers.started, namespace)


@pytest.fixture(scope="session")
def soak_versions(request: pytest.FixtureRequest) -> Any:
    """Return the server versions that a contract test runs on; set for each test by the plugin."""
    return getattr(request, "param", ())


@pytest.fixture
def soak_memory(request: pytest.FixtureRequest, soak_servers: ServerPool, soak_versions: Any) -> Iterator[Memory]:
    """Return the memory that a contract suite is about, on the servers it needs and under a namespace of this test."""
    from soak.contract_suite.memory import Memory  # noqa: PLC0415

    suite: MemoryContract = request.instance
    by_kind = {version.kind: version for version in soak_versions}
    servers = {
        kind: _started(soak_servers, kind, by_kind[POSTGRES.name if kind == POSTGRES_REPLICA.name else kind])
        for kind in sorted(suite.needed())
    }
    memory = Memory(suite.open_store, suite.contract_for, servers, suite.refused_texts)
    yield memory
    for namespace in memory.namespaces:
        _remove(soak_servers, servers.values(), namespace)


@pytest.fixture
def soak_record(
    request: pytest.FixtureRequest, soak_servers: ServerPool, soak_versions: Any
) -> tuple[str, Path] | None:
    """Return label and file of what is to be recorded.

    On the oldest version only: newer servers read what older ones wrote.
    """
    label = request.config.getoption("soak_record")
    suite: MemoryContract = request.instance
    if not label or soak_versions != soak_servers.choice.versions_for(suite.needed(), suite.versions)[-1]:
        return None
    return label, suite.recordings_folder() / f"{label}.json"


def _remove(pool: ServerPool, servers: Iterable[SoakServer], namespace: str) -> None:
    """Mend the servers and remove what a test wrote, and nothing else."""
    from soak.contract_suite.administration import remove_namespace  # noqa: PLC0415

    pool.heal()
    for server in servers:
        pool.background.call(remove_namespace(server.kind, server.url, namespace))


def _started(pool: ServerPool, kind: str, version: Any = None) -> SoakServer:
    from soak.errors import SoakError  # noqa: PLC0415
    from soak.masking import mask  # noqa: PLC0415

    try:
        return pool.newest(kind) if version is None else pool.get(kind, version)
    except SoakError as error:
        raise pytest.fail.Exception(mask(str(error)), pytrace=False) from None


def _suite_of(metafunc: pytest.Metafunc) -> type[MemoryContract] | None:
    # A class that subclasses the suite has imported it; without that there is nothing to do, and nothing to import.
    module = sys.modules.get("soak.pytest_plugin.suite")
    if module is None or metafunc.cls is None or not issubclass(metafunc.cls, module.MemoryContract):
        return None
    suite: type[MemoryContract] = metafunc.cls
    return suite
