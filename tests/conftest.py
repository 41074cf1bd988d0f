"""Real servers for tests: one set per worker process, started when first asked for."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Its pytest plugin imports this at the very end. There a warning of a socket that is left, raised while Python compiles
# it, ends pytest with a SystemError.
import hypothesis.internal.observability  # noqa: F401
import pytest

from soak.errors import ServerUnreachableError
from soak.servers.power_cut import no_disks

pytest.register_assert_rewrite("tests.support")  # before anything of it is imported

from tests.support.docker.images import Images  # noqa: E402
from tests.support.needs import missing  # noqa: E402
from tests.support.servers.testbed_thread import TestbedThread  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.docker.deploy_images import DeployImages
    from tests.support.verifying import Soaking


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So a shell starts what runs in its background, and every soak started here would inherit it and ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let `--cov` measure unit tests only: the others run most of the code in children, and measuring slows them."""
    for item in items:
        if "unit" not in item.path.relative_to(Path(__file__).parent).parts:
            item.add_marker("no_cover")


def _testbed(**options: object) -> Iterator[TestbedThread]:
    folder = Path(tempfile.mkdtemp(prefix="soak-tests-"))
    folder.chmod(0o755)  # so that a PostgreSQL that runs as another user gets in
    testbed = TestbedThread(folder, **options)
    try:
        yield testbed
    finally:
        testbed.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def testbed() -> Iterator[TestbedThread]:
    """Valkey, PostgreSQL 18 with a replica, and a ledger; each is started when first asked for."""
    yield from _testbed()


@pytest.fixture(scope="session")
def testbed62() -> Iterator[TestbedThread]:
    """The same with Redis 6.2 and PostgreSQL 16."""
    yield from _testbed(redis_version="redis", postgres_version=16)


@pytest.fixture
def new_testbed() -> Iterator[Callable[..., TestbedThread]]:
    """Make a testbed of this test's own, with options of its own: servers that may be killed."""
    with contextlib.ExitStack() as stack:
        yield lambda **options: stack.enter_context(contextlib.contextmanager(_testbed)(**options))


@pytest.fixture(scope="session")
def redis_url(testbed: TestbedThread) -> str:
    return testbed.url("redis")


@pytest.fixture(scope="session")
def redis62_url(testbed62: TestbedThread) -> str:
    return testbed62.url("redis")


@pytest.fixture(scope="session")
def ledger_url(testbed: TestbedThread) -> str:
    return testbed.url("ledger")


@pytest.fixture
def soaking(redis_url: str, ledger_url: str, tmp_path: Path) -> Soaking:
    """Return how a test begins a scripted run; its verifiers write to `tmp_path`."""
    from tests.support.verifying import scripting  # noqa: PLC0415  most tests need nothing of the verifier

    return functools.partial(scripting, redis_url, ledger_url, data_dir=tmp_path)


@pytest.fixture(scope="session")
def postgres_url(testbed: TestbedThread) -> str:
    return testbed.url("postgres")


@pytest.fixture(scope="session")
def postgres16_url(testbed62: TestbedThread) -> str:
    return testbed62.url("postgres")


@pytest.fixture(scope="session")
def postgres_replica_url(testbed: TestbedThread, postgres_url: str) -> str:
    """Return the address of a streaming replica of the server at `postgres_url`."""
    return testbed.url("postgres-replica")


@pytest.fixture(scope="session")
def sqlite_url(testbed: TestbedThread) -> str:
    return testbed.url("sqlite")


@pytest.fixture(scope="session")
def chroma_url(testbed: TestbedThread) -> str:
    """Return the address of a Chroma server; where it cannot be installed there is none."""
    return testbed.url("chroma")


@pytest.fixture(scope="session")
def engine() -> Iterator[Any]:
    """Return a client of the Docker engine."""
    from soak.servers.docker.engine import connect  # noqa: PLC0415

    try:
        client = connect()
    except ServerUnreachableError as error:
        missing(error)
    yield client
    client.close()


@pytest.fixture(scope="session")
def images(engine: Any) -> Iterator[Images]:
    found = Images(engine)
    yield found
    found.remove()


@pytest.fixture(scope="session")
def own_disks() -> None:
    """Skip where no server can have a disk of its own."""
    if (reason := no_disks()) is not None:
        missing(reason)


@pytest.fixture(scope="session")
def deploy_images(engine: Any) -> Iterator[DeployImages]:
    """Return the images of the deployment, each made when first asked for."""
    from tests.support.docker import deploy_images as made  # noqa: PLC0415  most tests need nothing of Docker

    found = made.DeployImages(os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid())))
    yield found
    found.remove()


@pytest.fixture
def namespace() -> str:
    """Return a prefix that no other test uses: lower-case letters, digits and underscores."""
    return f"t_{uuid.uuid4().hex[:12]}"
