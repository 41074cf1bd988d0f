"""Given servers with TLS: client certificates, ACL users, Sentinel, Cluster, and PostgreSQL behind a pooler."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import asyncpg
import pytest
import redis.asyncio
from redis.exceptions import RedisError

from soak.errors import ServerUnreachableError, UsageError
from soak.flaws.shared_cluster_client import SharedClusterClient
from soak.servers import pgbouncer
from soak.servers.inspect import inspect
from soak.servers.ports import free_port
from soak.stores.protocol import StoreContext
from soak.stores.registry import open_store
from soak.stores.speaking import Speaker
from tests.support.needs import missing
from tests.support.paths import ROOT
from tests.support.servers.certificates import Certificates, make_certificates

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

USER, PASSWORD = "memory", "pa:ss"
LOGIN = f"{USER}:{quote(PASSWORD, safe='')}"
SECONDS_MAX = 20.0
SHAPES = ["single", "sentinel", "cluster"]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    for path in (folder, folder.parent, folder.parent.parent):
        path.chmod(0o755)
    return make_certificates(folder)


@contextlib.contextmanager
def program(*words: str, folder: Path, **options: Any) -> Iterator[None]:
    with (folder / "log.txt").open("ab") as log:
        running = subprocess.Popen(words, cwd=folder, stdout=log, stderr=log, **options)
    try:
        yield
    finally:
        running.kill()
        running.wait()


class GivenRedis:
    """Addresses of one Redis with TLS, as each shape has them."""

    def __init__(self, certificates: Certificates) -> None:
        self.certificates = certificates
        self.ports = {shape: free_port() for shape in SHAPES}
        self.ports["primary"] = self.ports["single"]

    def url(self, shape: str, *, authority: Path | None = None, is_certified: bool = True) -> str:
        given = self.certificates
        options = f"?ssl_ca_certs={authority or given.authority}"
        if is_certified:
            options += f"&ssl_certfile={given.client}&ssl_keyfile={given.client_key}"
        scheme, path = {
            "single": ("rediss", "/0"),
            "sentinel": ("rediss+sentinel", "/mymaster"),
            "cluster": ("rediss+cluster", ""),
        }[shape]
        return f"{scheme}://{LOGIN}@127.0.0.1:{self.ports[shape]}{path}{options}"

    def options(self, port: int) -> dict[str, str]:
        given = self.certificates
        return {
            "port": "0",
            "bind": "127.0.0.1",
            "tls-port": str(port),
            "tls-cert-file": str(given.server),
            "tls-key-file": str(given.server_key),
            "tls-ca-cert-file": str(given.authority),
            "tls-auth-clients": "yes",
            "tls-replication": "yes",
        }

    async def ask(self, shape: str, *command: str) -> Any:
        """Ask until there is an answer; the login of the servers is that of their users."""
        given = self.certificates
        login: dict[str, Any] = {} if shape == "sentinel" else {"username": USER, "password": PASSWORD}
        client: Any = redis.asyncio.Redis(
            host="127.0.0.1",
            port=self.ports[shape],
            ssl=True,
            ssl_ca_certs=str(given.authority),
            ssl_certfile=str(given.client),
            ssl_keyfile=str(given.client_key),
            **login,
        )
        async with asyncio.timeout(SECONDS_MAX), client:
            while True:
                with contextlib.suppress(RedisError, OSError):
                    return await client.execute_command(*command)
                await asyncio.sleep(0.05)


@pytest.fixture
async def given_redis(certificates: Certificates, tmp_path: Path) -> AsyncIterator[GivenRedis]:
    """Start a primary with its sentinel, and a cluster of one node; all with TLS, client certificates and ACL users."""
    server = shutil.which("redis-server")
    if server is None:
        missing("redis-server is not installed; what the packages bring knows no TLS")
    given = GivenRedis(certificates)
    user = ("--user", f"{USER} on >{PASSWORD} ~* &* +@all", "--user", "default off")
    with contextlib.ExitStack() as stack:
        for shape, more in (("single", ()), ("cluster", ("--cluster-enabled", "yes", "--tls-cluster", "yes"))):
            folder = tmp_path / shape
            folder.mkdir()
            options = [
                word for name, value in given.options(given.ports[shape]).items() for word in (f"--{name}", value)
            ]
            words = [str(server), *options, "--save", "", "--appendonly", "yes", *more]
            # A user is several words of one line, which only a file can have.
            (folder / "users.acl").write_text(f"{user[1].replace(USER, 'user ' + USER, 1)}\nuser {user[3]}\n")
            stack.enter_context(program(*words, "--aclfile", str(folder / "users.acl"), folder=folder))
        await given.ask("cluster", "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        folder = tmp_path / "sentinel"
        folder.mkdir()
        lines = [f"{name} {value}" for name, value in given.options(given.ports["sentinel"]).items()]
        lines += [
            f"sentinel monitor mymaster 127.0.0.1 {given.ports['single']} 1",
            f"sentinel auth-user mymaster {USER}",
            f"sentinel auth-pass mymaster {PASSWORD}",
        ]
        (folder / "sentinel.conf").write_text("\n".join(lines) + "\n")
        stack.enter_context(program(str(server), str(folder / "sentinel.conf"), "--sentinel", folder=folder))
        await given.ask("sentinel", "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")
        async with asyncio.timeout(SECONDS_MAX):
            while b"cluster_state:ok" not in await given.ask("cluster", "CLUSTER", "INFO"):
                await asyncio.sleep(0.05)
        yield given


async def use(name: str, context: StoreContext) -> None:
    store: Any = await open_store(name, context)
    speaker = Speaker("run")
    session = speaker.session("one")
    for message in speaker.turns(session, 5):
        await store.append(session, message)
    assert list(await store.history(session)) == speaker.turns(session, 5)
    await store.clean_up()
    await store.close()


async def test_every_shape_of_redis_is_used_with_a_client_certificate_and_an_acl_user(
    given_redis: GivenRedis, namespace: str
) -> None:
    for shape in SHAPES:
        servers = {"redis": given_redis.url(shape)}
        for is_verifier in (False, True):
            await use("redis-list", StoreContext(servers=servers, namespace=namespace, is_verifier=is_verifier))
        sample = await inspect("redis", servers["redis"], timeout_seconds=5)
        assert sample.configuration["appendonly"] == "yes", shape
        for wrong in (
            given_redis.url(shape, authority=given_redis.certificates.stranger),
            given_redis.url(shape, is_certified=False),
            given_redis.url(shape).replace(LOGIN, f"{USER}:wrong"),
        ):
            for is_verifier in (False, True):
                context = StoreContext(servers={"redis": wrong}, namespace=namespace, is_verifier=is_verifier)
                with pytest.raises(ServerUnreachableError) as caught:
                    await open_store("redis-list", context)
                line = str(caught.value)
                assert "\n" not in line, (shape, line)
                assert PASSWORD not in line
                if "stranger" in wrong:
                    assert "certificate" in line.lower(), (shape, line)
                if ":wrong" in wrong:
                    assert "login" in line, (shape, line)


async def test_libraries_reach_every_shape_with_a_client_certificate_and_an_acl_user(
    given_redis: GivenRedis, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "soak" / "subjects" / "kit"))
    kit: Any = importlib.import_module("soak_redis")
    for shape in SHAPES:
        with contextlib.closing(kit.redis_client(given_redis.url(shape))) as client:
            assert await asyncio.to_thread(client.set, "said", shape)
            assert await asyncio.to_thread(client.get, "said") == shape.encode()
    context = StoreContext(servers={"redis": given_redis.url("cluster")}, namespace=namespace)
    store = SharedClusterClient(context)
    speaker = Speaker("run")
    said = speaker.turns("one", 3)
    for message in said:
        await store.append("one", message)
    assert list(await store.history("one")) == said
    await store.close()


@pytest.fixture
def given_pooler(certificates: Certificates, postgres_url: str, tmp_path: Path) -> Iterator[int]:
    """Start a pgbouncer that wants TLS with a client certificate: PostgreSQL of the packages knows no TLS."""
    try:
        path = pgbouncer.program()
    except UsageError as error:
        missing(str(error))
    port, parts = free_port(), urlsplit(postgres_url)
    folder = tmp_path / "pooler"
    folder.mkdir()
    (folder / "users.txt").write_text(f'"{parts.username}" "{parts.password}"\n')
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "scram-sha-256",
        "auth_file": folder / "users.txt",
        "pool_mode": "transaction",
        "client_tls_sslmode": "verify-full",
        "client_tls_cert_file": certificates.server,
        "client_tls_key_file": certificates.server_key,
        "client_tls_ca_file": certificates.authority,
    }
    text = f"[databases]\npostgres = host={parts.hostname} port={parts.port}\n[pgbouncer]\n"
    (folder / "pgbouncer.ini").write_text(text + "".join(f"{name} = {value}\n" for name, value in settings.items()))
    account: dict[str, Any] = {}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        account = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        for one in (folder, *folder.iterdir()):
            os.chown(one, nobody.pw_uid, nobody.pw_gid)
        # pytest's folders are for their owner only, and one level deeper with several workers.
        top = Path(tempfile.gettempdir()).resolve()
        for one in itertools.takewhile(lambda folder: folder != top, (tmp_path, *tmp_path.parents)):
            one.chmod(0o755)
    with program(str(path), str(folder / "pgbouncer.ini"), folder=folder, **account):
        yield port


async def test_postgresql_is_used_with_a_checked_name_and_a_client_certificate(
    given_pooler: int, postgres_url: str, certificates: Certificates, namespace: str
) -> None:
    parts = urlsplit(postgres_url)
    bare = f"postgresql://{parts.username}:{parts.password}@127.0.0.1:{given_pooler}{parts.path}?sslmode=verify-full"
    certified = f"&sslcert={certificates.client}&sslkey={certificates.client_key}"
    right = f"{bare}&sslrootcert={certificates.authority}{certified}"
    await until_listening(right)
    for is_verifier in (False, True):
        await use("postgres", StoreContext(servers={"postgres": right}, namespace=namespace, is_verifier=is_verifier))
    assert (await inspect("postgres", right, timeout_seconds=5)).telemetry["pg_is_in_recovery"] == "false"
    for wrong in (
        f"{bare}&sslrootcert={certificates.stranger}{certified}",
        f"{bare}&sslrootcert={certificates.authority}",
    ):
        with pytest.raises(ServerUnreachableError) as caught:
            await open_store("postgres", StoreContext(servers={"postgres": wrong}, namespace=namespace))
        line = str(caught.value)
        assert "\n" not in line
        assert str(parts.password) not in line
        if "stranger" in wrong:
            assert "certificate" in line.lower()


async def until_listening(url: str) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            try:
                connection = await asyncpg.connect(url, statement_cache_size=0)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                connection.terminate()
                return
