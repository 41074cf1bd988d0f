"""A Redis or Valkey server, wherever it runs: what it is asked and told over its own protocol."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, RedisError

from soak.errors import ServerUnreachableError
from soak.testbed.exchange import RedisExchange
from soak.testbed.ports import HOST
from soak.testbed.server import Server
from soak.testbed.vessel import StillLoadingError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

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


class RedisServer(Server):
    """A Redis-compatible server."""

    exchange = RedisExchange

    def address(self, port: int) -> str:
        return f"redis://:{self.pinned.password}@{HOST}:{port}/0"

    async def answers(self) -> bool:
        try:
            async with self._client() as client:
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
        return {name: found[name] for name in TELEMETRY_READ if name in found}

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

    def _client(self) -> Redis:
        return Redis.from_url(
            self.address(self.port),
            decode_responses=True,
            socket_timeout=_ANSWER_SECONDS_MAX,
            socket_connect_timeout=_ANSWER_SECONDS_MAX,
            retry=Retry(NoBackoff(), 0),
        )
