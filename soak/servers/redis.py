"""A Redis or Valkey server, wherever it runs: what it is asked and told over its own protocol."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, RedisError

from soak.errors import ServerUnreachableError
from soak.servers.aof_tail import cut_zeros_off
from soak.servers.backend import PortTakenError, StillLoadingError
from soak.servers.exchange import RedisExchange
from soak.servers.ports import HOST
from soak.servers.power_cut import LoopbackVolume
from soak.servers.redis_settings import is_logged
from soak.servers.server import STOP_SECONDS_MAX, Server

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
ANSWER_SECONDS_MAX = 2.0
_END_POLL_SECONDS = 0.02
_REWRITE_SECONDS_MAX = 60.0
_REWRITE_POLL_SECONDS = 0.02
_SCAN_COUNT = 1_000
_GLOB_SPECIAL = re.compile(r"([*?\[\]^\\-])")
_ESCAPED = r"\\\1"


class RedisServer(Server):
    """A Redis-compatible server."""

    exchange = RedisExchange

    def address(self, port: int) -> str:
        return f"redis://:{self.pinned.password}@{HOST}:{port}/0"

    async def answers(self) -> bool:
        try:
            async with self.client() as client:
                await client.ping()
                if self.vessel.pid_inside is None:
                    return True
                # Ours, not a stranger's that took the port before us.
                return int((await client.info("server"))["process_id"]) == self.vessel.pid_inside
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
            async with self.client() as client:
                yield client
        except (RedisError, OSError, TimeoutError) as error:
            raise ServerUnreachableError(
                f"{self.title} on port {self.port} does not answer ({type(error).__name__}); "
                f"see its log {self.log_path}"
            ) from error

    def client(self, timeout_seconds: float = ANSWER_SECONDS_MAX) -> Redis:
        """Return a client that goes to the server itself, not through its proxy, and tries nothing twice."""
        return Redis.from_url(
            self.address(self.port),
            decode_responses=True,
            socket_timeout=timeout_seconds,
            socket_connect_timeout=timeout_seconds,
            retry=Retry(NoBackoff(), 0),
        )

    async def shut_down(self, *, save: bool) -> None:
        """End the server by its own command, with or without a last snapshot; it stays down until `start_again`."""
        async with self._planned:
            self._check("killed")
            await self._unwatch()
            if self.pid is not None:
                with contextlib.suppress(RedisError, OSError, TimeoutError):  # it answers by closing the connection
                    async with self.client() as client:
                        await client.shutdown(save=save, nosave=not save)
                await self._until_ended()
                if save and self.pid is not None:
                    raise ServerUnreachableError(
                        f"{self.title} was told to save and end, and did neither; see its log {self.log_path}"
                    )
            # One that refused, for its disk is full or it does not answer, has crashed.
            await self._crash()

    async def _launch(self) -> None:
        disk = self.power
        try:
            await super()._launch()
        except PortTakenError:
            raise
        except ServerUnreachableError as error:
            if not isinstance(disk, LoopbackVolume) or not disk.was_cut:
                raise
            await self._repair_log(disk, error)
            await super()._launch()

    async def _repair_log(self, disk: LoopbackVolume, refusal: ServerUnreachableError) -> None:
        """Do what an operator does for a server that refuses its append-only file after a power cut, and say so."""
        path, zeros = await asyncio.to_thread(lambda: cut_zeros_off(disk.mount()))
        if not zeros:
            raise refusal
        told = (
            f"{self.title} refused to start after the power cut, for the last {zeros} bytes of {path.name} were zeros; "
            f"they were cut off, as 'check-aof --fix' does. In production it stays down until somebody does that"
        )
        if self._on_event is not None:
            await self._tell(self._on_event, "repaired", told)

    async def _until_ended(self) -> None:
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while await self.vessel.how_it_ended() is None and time.monotonic() < deadline:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(_END_POLL_SECONDS)

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
        if is_logged(wanted):
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
                raise ServerUnreachableError(
                    f"{self.title} did not write its append-only file anew within {_REWRITE_SECONDS_MAX:.0f} s; "
                    f"see its log {self.log_path}"
                )
            await asyncio.sleep(_REWRITE_POLL_SECONDS)
        if told["aof_last_bgrewrite_status"] != "ok":
            raise ServerUnreachableError(
                f"{self.title} could not write its append-only file anew; see its log {self.log_path}"
            )

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
