"""A Redis or Valkey server, wherever it runs: the commands that soak sends it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import redis.exceptions
from redis.asyncio import Redis
from redis.exceptions import BusyLoadingError, RedisError

from soak.errors import ServerUnreachableError
from soak.hosts import member_address
from soak.redis_sentinel import redis_at
from soak.servers.backend import PortTakenError, StillLoadingError
from soak.servers.exchange import RedisExchange
from soak.servers.inspect import inspect_server
from soak.servers.ports import HOST
from soak.servers.power_cut.source import PowerSource
from soak.servers.server import HOLD_SECONDS_MAX, STOP_SECONDS_MAX, HeldConnection, Server
from soak.tasks import until

CHOSEN_BY_US = frozenset({"bind", "port", "requirepass", "dir", "daemonize", "logfile", "unixsocket", "include"})
"""Settings that no option may replace."""
_DEFAULTS = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction"}
_IN_LINES = frozenset({"save", "loadmodule"})
"""Settings with several values, each on a line of its own."""
_TAIL_BYTES = 2**16
_LOG_NAMES = ("**/appendonlydir/*.incr.aof", "**/appendonly.aof")
"""Since 7.0 a folder of numbered files, the last of which is appended to; before, one file."""
_EXHAUST_SECONDS_MAX = 60.0
_PIECE_BYTES = 2**20
_EXHAUST_SCRIPT = "local piece = string.rep('x', ARGV[1]) return #string.rep(piece, ARGV[2])"
"""Held in the memory of the script, not in any key."""
_END_POLL_SECONDS = 0.02
_REWRITE_SECONDS_MAX = 60.0
_REWRITE_POLL_SECONDS = 0.02
_SCAN_COUNT = 1_000
_GLOB_SPECIAL = re.compile(r"([*?\[\]^\\-])")
_ESCAPED = r"\\\1"


class RedisServer(Server):
    """A Redis-compatible server."""

    exchange = RedisExchange

    def address_at(self, port: int) -> str:
        return f"redis://:{self.pinned.password}@{HOST}:{port}/0"

    async def primary_places(self) -> list[str]:
        """Return host and port of each server that takes writes; an empty text stands for its own address."""
        return [""]

    async def answers(self) -> bool:
        try:
            async with self.client() as client:
                await client.ping()
                if self.backend.pid_inside is None:
                    return True
                # Ours, not a stranger's that took the port before us.
                return int((await client.info("server"))["process_id"]) == self.backend.pid_inside
        except BusyLoadingError as error:
            raise StillLoadingError from error
        except (RedisError, OSError, TimeoutError):
            return False

    async def read_configuration(self) -> dict[str, str]:
        sample = await inspect_server(self.kind, self.own_url, timeout_seconds=self.backend.answer_seconds_max)
        found = {**sample.configuration, "version": sample.telemetry.get("version", "unknown")}
        # A managed server may refuse to say more; one of ours is asked for all that was set.
        return {**found, **await self.get_settings("dir", *self.options)} if self.backend.is_ours else found

    async def read_limits(self) -> dict[str, str]:
        return await self.get_settings("maxclients")

    async def get_settings(self, *names: str, place: str = "") -> dict[str, str]:
        """Return what is in effect just now."""
        # One by one: Redis 6.2 takes no list of names.
        async with self._asking(place) as client:
            answers = [await client.config_get(name) for name in names]
        return {str(name): str(value) for answer in answers for name, value in answer.items()}

    async def change_settings(self, settings: Mapping[str, str], place: str = "") -> None:
        """Change settings of the running server, in this order, until its next start."""
        self.backend.check("configured")
        async with self._asking(place) as client:
            for name, value in settings.items():
                await client.config_set(name, value)

    async def information(self, section: str, place: str = "") -> dict[str, str]:
        """Return one section of INFO."""
        async with self._asking(place) as client:
            return {name: str(value) for name, value in (await client.info(section)).items()}

    async def standing_at(self, place: str = "") -> str:
        """Return the role of a node and its replication position, as text."""
        info = await self.information("replication", place)
        is_primary = info.get("role") == "master"
        offset = info.get("master_repl_offset" if is_primary else "slave_repl_offset", "?")
        epoch = await self.epoch(place)
        return f"{'primary' if is_primary else 'replica'}, offset {offset}{epoch and f', epoch {epoch}'}"

    async def epoch(self, place: str = "") -> str:
        """Return the number of the last failover that a node knows of; nothing where only sentinels count them."""
        del place
        return ""

    @asynccontextmanager
    async def _asking(self, place: str = "") -> AsyncIterator[Redis]:
        try:
            async with self.client(place=place) as client:
                yield client
        except (RedisError, OSError, TimeoutError) as error:
            raise ServerUnreachableError(
                f"{self.title} on port {self.port} does not answer ({type(error).__name__}); "
                f"see its log {self.log_path}"
            ) from error

    def client(self, timeout_seconds: float | None = None, place: str = "") -> Redis:
        """Return a client that goes to the server itself, not through its proxy, and tries nothing twice."""
        limit = timeout_seconds or self.backend.answer_seconds_max
        url = member_address(self.own_url, place) if place else self.own_url
        return redis_at(url, timeout_seconds=limit, decode_responses=True)

    async def shut_down(self, *, save: bool) -> None:
        """End the server by its own command, with or without a last snapshot; it stays down until `start_again`."""
        async with self._planned:
            self.backend.check("killed")
            await self._remember_start()
            await self._unwatch()
            if self.pid is not None:
                with contextlib.suppress(RedisError, OSError, TimeoutError):  # it answers by closing the connection
                    async with self.client() as client:
                        await client.shutdown(save=save, nosave=not save)
                await self._until_ended()
                if save and self.pid is not None:
                    raise ServerUnreachableError(
                        f"{self.title} was asked to save and exit, and did neither; see its log {self.log_path}"
                    )
            # One that refused, for its disk is full or it does not answer, has crashed.
            await self._crash()

    async def _launch(self) -> None:
        power = self.power
        try:
            await super()._launch()
        except PortTakenError:
            raise
        except ServerUnreachableError as error:
            if power is None or not power.was_cut:
                raise
            await self._repair_log(power, error)
            await super()._launch()

    async def _repair_log(self, power: PowerSource, refusal: ServerUnreachableError) -> None:
        """Do what an operator does for a server that refuses its append-only file after a power cut, and say so."""
        path, zeros = await asyncio.to_thread(lambda: cut_zeros_off(power.provide_disk() or self.working_folder))
        if not zeros:
            raise refusal
        text = (
            f"{self.title} refused to start after the power cut, for the last {zeros} bytes of {path.name} were zeros; "
            f"they were cut off, as 'check-aof --fix' does. In production it stays down until somebody does that"
        )
        if self._on_event is not None:
            await self._report(self._on_event, "repaired", text)

    async def _until_ended(self) -> None:
        async def has_ended() -> bool:
            return await self.backend.how_it_ended() is not None

        await until(has_ended, STOP_SECONDS_MAX, _END_POLL_SECONDS)

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
        found: dict[str, str] = {}

        async def is_rewritten() -> bool:
            found.update(await self.information("persistence"))
            return found["aof_rewrite_in_progress"] == found["aof_rewrite_scheduled"] == "0"

        if not await until(is_rewritten, _REWRITE_SECONDS_MAX, _REWRITE_POLL_SECONDS):
            raise ServerUnreachableError(
                f"{self.title} did not rewrite its append-only file within {_REWRITE_SECONDS_MAX:.0f} s; "
                f"see its log {self.log_path}"
            )
        if found["aof_last_bgrewrite_status"] != "ok":
            raise ServerUnreachableError(
                f"{self.title} could not rewrite its append-only file; see its log {self.log_path}"
            )

    async def hold_connections(self, count: int) -> list[HeldConnection | None]:
        # Of a group the primary as it is now: its sentinels are asked once, and not for every connection.
        place = (await self.primary_places())[0]
        return await asyncio.gather(*(self._hold_connection(place) for _ in range(count)))

    async def _hold_connection(self, place: str) -> HeldConnection | None:
        pool: Any = self.client(HOLD_SECONDS_MAX, place).connection_pool
        connection = pool.make_connection()
        close = functools.partial(connection.disconnect, nowait=True)
        try:
            async with asyncio.timeout(HOLD_SECONDS_MAX):
                await connection.connect()
                # One that asks for no password says only now that there are too many.
                await connection.send_command("PING")
                await connection.read_response()
        except (RedisError, OSError, TimeoutError):
            await close()
            return None
        return close

    async def survives_taking(self, size_bytes: int) -> bool:
        try:
            async with self.client(_EXHAUST_SECONDS_MAX) as client:
                await client.eval(_EXHAUST_SCRIPT, 0, str(_PIECE_BYTES), str(size_bytes // _PIECE_BYTES))
        except redis.exceptions.ConnectionError:
            return False
        except RedisError:
            return True  # it refused, or is still at it
        return True

    async def shorten_life(self, prefix: str, seconds: float, keys_max: int) -> int:
        """Let keys of this prefix expire within so many seconds, except those that do so earlier; returns how many."""
        shortened = 0
        for place in await self.primary_places():
            async with self._asking(place) as client:
                shortened += await _shorten(client, prefix, int(seconds * 1000), keys_max - shortened)
        return shortened


async def _shorten(client: Redis, prefix: str, milliseconds: int, keys_max: int) -> int:
    shortened = 0
    async for key in client.scan_iter(match=f"{_GLOB_SPECIAL.sub(_ESCAPED, prefix)}*", count=_SCAN_COUNT):
        if shortened >= keys_max:
            break
        left = await client.pttl(key)
        if left == -1 or left > milliseconds:
            shortened += int(await client.pexpire(key, milliseconds))
    return shortened


# Its configuration file --------------------------------------------------------------------------------------


def redis_settings(options: Mapping[str, str], *, password: str, bind: str, port: int, folder: str) -> str:
    """Return the file: durable as in production, and what the options say instead."""
    lines = [f"{name} {value}" for name, value in {**_DEFAULTS, **options}.items() if name not in _IN_LINES]
    lines += [f"loadmodule {_quoted(module)}" for module in shlex.split(options.get("loadmodule", ""))]
    lines += [
        f"bind {bind}",
        f"port {port}",
        f"requirepass {password}",
        f"dir {_quoted(folder)}",
        "daemonize no",
        'logfile ""',
    ]
    return "\n".join([*lines, *_save_lines(options.get("save", ""))]) + "\n"


def is_logged(options: Mapping[str, str]) -> bool:
    """Return whether a server with these options keeps an append-only file."""
    return {**_DEFAULTS, **options}["appendonly"] == "yes"


def _save_lines(points: str) -> list[str]:
    """Return one line per save point: Redis 6.2 takes no more than one in a line."""
    words = points.split()
    return [f"save {seconds} {changes}" for seconds, changes in zip(words[::2], words[1::2], strict=True)] or [
        'save ""'
    ]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


# What a power cut may leave at the end of an append-only file ------------------------------------------------
#
# Zeros, where no bytes had reached the disk yet: a file system may have written down that a file is longer before it
# has written what is there. The server leaves out a command that is cut short and starts (`aof-load-truncated yes`);
# zeros are damage to it, and it refuses to start until somebody cuts them off (`valkey-check-aof --fix`).


def cut_zeros_off(folder: Path) -> tuple[Path, int]:
    """Cut zeros off the end of the file below this folder that was appended to last; returns it, and how many.

    Nothing else is changed: a command that is cut short before them is left out by the server.
    """
    found = [path for pattern in _LOG_NAMES for path in folder.glob(pattern)]
    if not found:
        return folder, 0
    path = max(found, key=lambda one: one.stat().st_mtime_ns)
    zeros = _zeros_at_end(path)
    if zeros:
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - zeros)
    return path, zeros


def _zeros_at_end(path: Path) -> int:
    with path.open("rb") as file:
        size = end = file.seek(0, 2)
        while end:
            start = max(0, end - _TAIL_BYTES)
            file.seek(start)
            kept = len(file.read(end - start).rstrip(b"\0"))
            if kept:
                return size - start - kept
            end = start
    return size
