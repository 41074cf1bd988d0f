"""Valkey or Redis 6.2 as a local process: the memory under test, and in a folder of its own the ledger."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, RedisError

from soak.errors import ServerUnreachableError, UsageError
from soak.testbed import binaries, process
from soak.testbed.ports import HOST
from soak.testbed.server import STOP_SECONDS_MAX, Server, StillLoadingError
from soak.testbed.state import Pinned, write_whole

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

Flavour = Literal["valkey", "redis"]

CONFIGURATION_READ = ("save", "appendonly", "appendfsync", "maxmemory-policy", "maxmemory", "dir")
TELEMETRY_READ = (
    "aof_pending_bio_fsync",
    "aof_buffer_length",
    "aof_delayed_fsync",
    "rdb_last_save_time",
    "rdb_changes_since_last_save",
    "evicted_keys",
    "expired_keys",
    "run_id",
)
_ANSWER_SECONDS_MAX = 2.0
_REWRITE_SECONDS_MAX = 60.0
_REWRITE_POLL_SECONDS = 0.02
_SCAN_COUNT = 1_000
_GLOB_SPECIAL = re.compile(r"([*?\[\]^\\-])")
_ESCAPED = r"\\\1"
_DEFAULTS = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"}
OURS = frozenset({"bind", "port", "requirepass", "dir", "daemonize", "logfile", "unixsocket", "include"})
"""Settings that no option may replace."""
_TITLES = {"valkey": "Valkey", "redis": "Redis 6.2"}


class RedisServer(Server):
    """A Redis-compatible server with its append-only file on, synced every second, that never evicts."""

    # Politely even when our own process is killed: a write that waits for a slow fsync stays in the server's
    # memory for up to two seconds, and killing it then would lose what was acknowledged.
    death_signal = signal.SIGTERM
    stop_signal = signal.SIGTERM

    def __init__(
        self,
        kind: str,
        folder: Path,
        pinned: Pinned,
        *,
        fresh: bool,
        on_spawn: Callable[[], None],
        options: Mapping[str, str],
        flavour: Flavour = "valkey",
    ) -> None:
        super().__init__(kind, folder, pinned, fresh=fresh, on_spawn=on_spawn, options=options)
        self._choose(flavour if pinned.flavour is None else "valkey" if pinned.flavour == "valkey" else "redis")
        self._data = folder / "data"

    @property
    def url(self) -> str:
        return f"redis://:{self.pinned.password}@{HOST}:{self.public_port}/0"

    @property
    def working_folder(self) -> Path:
        return self._data

    async def prepare(self) -> None:
        self._data.mkdir(mode=0o700, exist_ok=True)
        is_ours = self.pinned.flavour is None  # and not the outcome of a downgrade, which was on purpose
        if is_ours and self.flavour == "redis" and (self._data / "appendonlydir").exists():
            # It would start empty, without an error.
            raise UsageError(
                f"{self._data} holds data of Valkey, which Redis 6.2 cannot read; "
                "choose another data folder or the flavour valkey"
            )
        for unfinished in (*self._data.glob("temp-*.aof"), *self._data.glob("temp-*.rdb")):
            unfinished.unlink(missing_ok=True)
        write_whole(self._settings_path, self._settings().encode())

    def spawn(self) -> subprocess.Popen[bytes]:
        return process.spawn(
            [self._program, self._settings_path],
            log=self.log_path,
            cwd=self._data,
            home=self.folder,
            death_signal=self.death_signal,
            environment=self.environment,
        )

    async def answers(self) -> bool:
        try:
            async with self._client() as client:
                await client.ping()
                # Ours, not a stranger's that took the port before us.
                return int((await client.info("server"))["process_id"]) == self.pid
        except BusyLoadingError as error:
            raise StillLoadingError from error
        except (RedisError, OSError, TimeoutError):
            return False

    async def read_configuration(self) -> dict[str, str]:
        found = await self.get_settings(*dict.fromkeys((*CONFIGURATION_READ, *self.options)))
        version = await self.information("server")
        return {**found, "version": version.get("valkey_version") or version["redis_version"]}

    async def telemetry(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for section in ("persistence", "stats", "server"):
            found |= await self.information(section)
        async with self._asking() as client:
            keys = await client.dbsize()
        return {"keys": str(keys), **{name: found[name] for name in TELEMETRY_READ if name in found}}

    async def get_settings(self, *names: str) -> dict[str, str]:
        """Return what is in effect just now."""
        # One by one: Redis 6.2 takes no list of names.
        async with self._asking() as client:
            answers = [await client.config_get(name) for name in names]
        return {str(name): str(value) for answer in answers for name, value in answer.items()}

    async def change_settings(self, settings: Mapping[str, str]) -> None:
        """Change settings of the running server, in this order, until its next start."""
        async with self._asking() as client:
            for name, value in settings.items():
                await client.config_set(name, value)

    async def information(self, section: str) -> dict[str, str]:
        """Return one section of what the server tells of itself."""
        async with self._asking() as client:
            return {name: str(value) for name, value in (await client.info(section)).items()}

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[Redis]:
        try:
            async with self._client() as client:
                yield client
        except (RedisError, OSError, TimeoutError) as error:
            raise ServerUnreachableError(
                f"{self.title} on port {self.port} does not answer ({type(error).__name__}); "
                f"see its log {self.log_path}"
            ) from error

    @property
    def _settings_path(self) -> Path:
        return self.folder / "server.conf"

    def _settings(self) -> str:
        # In a file that only its owner may read: arguments, and so the password, show in the process list.
        lines = [f"{name} {value}" for name, value in {**_DEFAULTS, **self.options}.items() if name != "save"]
        lines += [
            f"bind {HOST}",
            f"port {self.port}",
            f"requirepass {self.pinned.password}",
            f"dir {_quoted(str(self._data))}",
            "daemonize no",
            'logfile ""',
        ]
        return "\n".join([*lines, *_save_lines(self.options.get("save", ""))]) + "\n"

    def _client(self) -> Redis:
        return Redis(
            host=HOST,
            port=self.port,
            password=self.pinned.password,
            decode_responses=True,
            socket_timeout=_ANSWER_SECONDS_MAX,
            socket_connect_timeout=_ANSWER_SECONDS_MAX,
            retry=Retry(NoBackoff(), 0),
        )

    async def shut_down(self, *, save: bool) -> None:
        """End the server by its own command, with or without a last snapshot; it stays down until `start_again`."""
        async with self._planned:
            await self._unwatch()
            if self._process is not None and self.pid is not None:
                with contextlib.suppress(RedisError, OSError, TimeoutError):  # it answers by closing the connection
                    async with self._client() as client:
                        await client.shutdown(save=save, nosave=not save)
                await process.ended_within(self._process, STOP_SECONDS_MAX)
            # One that refused, for its disk is full or it does not answer, has crashed.
            await self._crash()

    async def start_again_from_snapshot(self) -> None:
        """Bring the server back from its last snapshot alone, and turn its append-only file on again if it has one.

        A server whose append-only file is on reads nothing else, and without that file begins empty; so it is
        started with the file off. The old file stays until the server has replaced it by a new one.
        """
        wanted = self.options
        self.options = {**wanted, "appendonly": "no"}
        try:
            await self.start_again()
        finally:
            self.options = wanted
        if {**_DEFAULTS, **wanted}["appendonly"] == "yes":
            if (await self.get_settings("appendonly"))["appendonly"] != "yes":
                await self.change_settings({"appendonly": "yes"})
            await self._until_rewritten()
        self.configuration = await self.read_configuration()

    async def _until_rewritten(self) -> None:
        """Wait until the append-only file holds everything: before that, what is acknowledged is on no disk."""
        deadline = time.monotonic() + _REWRITE_SECONDS_MAX
        while True:
            told = await self.information("persistence")
            if told["aof_rewrite_in_progress"] == told["aof_rewrite_scheduled"] == "0":
                break
            if time.monotonic() >= deadline:
                raise self._failure(f"{self.title} did not write its append-only file anew in time")
            await asyncio.sleep(_REWRITE_POLL_SECONDS)
        if told["aof_last_bgrewrite_status"] != "ok":
            raise self._failure(f"{self.title} could not write its append-only file anew")

    def become(self, flavour: Flavour) -> None:
        """Be another server on the same data from the next start on, and after every later start of ours."""
        self._choose(flavour)
        self.pinned.flavour = flavour
        self._on_spawn()  # which writes down what is pinned

    def _choose(self, flavour: Flavour) -> None:
        self.flavour = flavour
        self.title = f"{_TITLES[flavour]} for {self.kind}"
        self._program = binaries.valkey_server() if flavour == "valkey" else binaries.redis_server()

    async def shorten_life(self, prefix: str, seconds: float, keys_max: int) -> int:
        """Let keys of this prefix expire within so many seconds, except those that do so earlier; returns how many."""
        milliseconds = int(seconds * 1000)
        shortened = 0
        async with self._asking() as client:
            async for key in client.scan_iter(match=f"{_GLOB_SPECIAL.sub(_ESCAPED, prefix)}*", count=_SCAN_COUNT):
                if shortened >= keys_max:
                    break
                left = await client.pttl(key)
                if left == -1 or left > milliseconds:
                    shortened += int(await client.pexpire(key, milliseconds))
        return shortened


def _save_lines(points: str) -> list[str]:
    """Return one line per save point: Redis 6.2 takes no more than one in a line."""
    words = points.split()
    return [f"save {seconds} {changes}" for seconds, changes in zip(words[::2], words[1::2], strict=True)] or [
        'save ""'
    ]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
