"""What a process must know to take part in a run, and how it finds a run on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from soak.clock import boot_identity
from soak.errors import UsageError
from soak.hosts import with_login
from soak.json_input import decode_json
from soak.ledger.records import RunHeader
from soak.proc.files import write_whole
from soak.proc.tree import created_seconds, is_same_process
from soak.settings import RedisStoreSettings, StoreSettings
from soak.stores import registry
from soak.stores.protocol import RedisUse, StoreContext

FILE_NAME = "run.json"
OPENED_POLL_SECONDS = 0.05
"""How often a child of the daemon looks whether the run is open."""


class JoinInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The run, its ledger and its servers. Addresses may hold passwords: the file is for its owner only."""

    header: RunHeader
    ledger_url: str
    servers: dict[str, str]
    """Address by kind: redis, postgres, postgres-replica."""
    timeout_seconds: float
    connections_max: int
    ttl_seconds: float | None
    verifier_logins: dict[str, str] = {}
    """By kind, user:password of an account of the verifier's own, which need not be allowed to write."""
    redis: RedisUse = RedisUse()
    daemon_pid: int = 0
    """0: the daemon is on another machine, or there is none."""
    daemon_created_seconds: float = 0.0
    """Since the boot of its machine."""
    daemon_boot: str = ""
    http_address: str = ""
    token: str = ""
    """A user who can read this file may ask the daemon to break its servers."""

    @classmethod
    def of(
        cls,
        header: RunHeader,
        ledger_url: str,
        context: StoreContext,
        verifier_logins: Mapping[str, str] | None = None,
    ) -> JoinInfo:
        """Describe a run whose stores are opened with this context, and by the verifier with logins of its own."""
        return cls(
            header=header,
            ledger_url=ledger_url,
            servers=dict(context.servers),
            timeout_seconds=context.timeout_seconds,
            connections_max=context.connections_max,
            ttl_seconds=context.ttl_seconds,
            verifier_logins=dict(verifier_logins or {}),
            redis=context.redis,
        )

    def announced_by(self, pid: int) -> JoinInfo:
        """Return the same with the process that keeps the run alive."""
        return msgspec.structs.replace(
            self, daemon_pid=pid, daemon_created_seconds=created_seconds(pid), daemon_boot=boot_identity()
        )

    def needs_of(self, store: str) -> tuple[str, ...]:
        """Return the servers that a store rests on, also those behind a service."""
        return tuple(self.header.needs.get(store, ())) or registry.find(store).needs

    def store_context(self) -> StoreContext:
        return StoreContext(
            servers=self.servers,
            namespace=self.header.namespace,
            timeout_seconds=self.timeout_seconds,
            connections_max=self.connections_max,
            ttl_seconds=self.ttl_seconds,
            redis=self.redis,
        )

    def verifier_context(self, *, writes: bool = False) -> StoreContext:
        """Return what the verifier opens stores with: its own logins where it has any, and the load's to write."""
        context = msgspec.structs.replace(self.store_context(), is_verifier=True)
        if writes or not self.verifier_logins:
            return context
        own = {
            kind: with_login(url, self.verifier_logins[kind]) if kind in self.verifier_logins else url
            for kind, url in self.servers.items()
        }
        return msgspec.structs.replace(context, servers=own, is_read_only=True)


def store_context(settings: StoreSettings, servers: Mapping[str, str], namespace: str) -> StoreContext:
    """Return what stores are opened with: their servers, and the limits that the settings give them."""
    return StoreContext(
        servers=dict(servers),
        namespace=namespace,
        timeout_seconds=settings.timeout,
        connections_max=settings.connections,
        ttl_seconds=settings.ttl,
        redis=redis_use(settings.redis),
    )


def redis_use(settings: RedisStoreSettings) -> RedisUse:
    """Return how the settings let stores use a Redis."""
    return RedisUse(
        reads_replicas=settings.read_from == "replica",
        wait_replicas=settings.wait_replicas,
        wait_aof=settings.wait_aof,
    )


def publish(data_dir: Path, info: JoinInfo) -> None:
    """Write the join file in one step, readable by its owner only."""
    write_whole(data_dir / FILE_NAME, msgspec.json.encode(info), is_synced=False)


def keep_published(data_dir: Path, info: JoinInfo) -> None:
    """Write the join file again if it is gone or altered, so that later joins are not refused."""
    with contextlib.suppress(OSError):  # as much as a disk that is full lets us
        try:
            if (data_dir / FILE_NAME).read_bytes() == msgspec.json.encode(info):
                return
        except FileNotFoundError:
            pass
        publish(data_dir, info)


def find(data_dir: Path) -> JoinInfo | None:
    """Return the run whose daemon is alive in this folder, if there is one."""
    try:
        info = decode_json((data_dir / FILE_NAME).read_bytes(), type=JoinInfo)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(
            f"{data_dir / FILE_NAME} cannot be read ({error}); remove it or name another data folder"
        ) from error
    return info if _is_alive(info) else None


def find_opened(data_dir: Path) -> JoinInfo | None:
    """Return the same, or None while a child of the daemon has to wait: it is started before the run is open.

    A file that cannot be read is left from an earlier daemon: ours has not written its own yet.
    """
    with contextlib.suppress(UsageError):
        return find(data_dir)
    return None


def running(data_dir: Path) -> JoinInfo:
    """Return the run whose daemon is alive in this folder; raises `UsageError` if there is none."""
    info = find(data_dir)
    if info is None:
        raise UsageError(f"no soak runs in {data_dir}; start one with 'soak run', or name its folder with --data-dir")
    return info


def _is_alive(info: JoinInfo) -> bool:
    # A pid alone proves nothing: it may have been given to another process since.
    return info.daemon_boot == boot_identity() and is_same_process(info.daemon_pid, info.daemon_created_seconds)
