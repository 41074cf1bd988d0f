"""Conversations in Redis, in four layouts. Every session has one key, under a prefix of the store's own."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import ClassVar, Self

import msgspec
from redis.asyncio.sentinel import MasterNotFoundError

from soak.checker.contract import Contract, Expiry, Reads
from soak.checker.message import Message, Stored, decode_history
from soak.errors import ServerUnreachableError, UsageError
from soak.hosts import ClusterAddress, SentinelAddress, is_cluster, is_sentinel, parse_cluster, parse_sentinel
from soak.redis_sentinel import why_no_primary
from soak.servers.kinds import REDIS
from soak.stores.protocol import ReadsEnds, StoreContext, session_bytes
from soak.stores.redis_client import (
    Argument,
    LoginRefusedError,
    RedisAddress,
    RedisClient,
    RedisError,
    RedisScript,
    ReplyError,
    judged,
    parse_address,
)
from soak.stores.redis_cluster import ClusterClient
from soak.stores.redis_pool import RedisPool
from soak.stores.redis_reader import RedisReader
from soak.stores.redis_waiting import WaitingClient

AOF_EVERYSEC_CONTRACT = Contract(crash_loss_seconds=2.0, power_loss_seconds=2.0, failover_loss_seconds=2.0)
"""`appendonly yes, appendfsync everysec`: the server may hold up to two seconds of writes back."""
DEFAULT_TTL_SECONDS = 3600.0
"""Of the hash layout, the only one whose sessions expire."""

REPLICA_STALENESS_SECONDS = 5.0
"""How far a replica that is read may be behind, while no fault is under way."""

_SCAN_COUNT = 1000
_GLOB_SPECIAL = re.compile(rb"([*?\[\]^\\-])")


class RedisStore(ReadsEnds):
    """What all layouts share. A key is the prefix and the session's name, byte for byte: nothing is folded or cut."""

    needs: ClassVar[tuple[str, ...]] = (REDIS.name,)
    contract: ClassVar[Contract] = AOF_EVERYSEC_CONTRACT
    layout: ClassVar[str]
    """The part of the prefix that keeps the layouts apart in one namespace."""

    def __init__(self, client: RedisClient, context: StoreContext, replicas: RedisClient | None = None) -> None:
        """Take the client that writes; where replicas are read, one for that, too."""
        self._client = client
        self._reads = replicas or client
        self._prefix = f"{context.namespace}:{self.layout}:".encode()
        if replicas is not None:
            # An attribute, and only here: whoever has it is known to read what may be stale.
            vars(self)["primary_history"] = functools.partial(self._history, client)
        if isinstance(self._reads, RedisReader) and "end_command" in vars(type(self)):
            self.ends = functools.partial(self._read_ends, self._reads)

    @classmethod
    def contract_for(cls, context: StoreContext) -> Contract:
        if not context.redis.reads_replicas:
            return cls.contract
        return msgspec.structs.replace(
            cls.contract, reads=Reads.BOUNDED_STALENESS, staleness_seconds=REPLICA_STALENESS_SECONDS
        )

    @classmethod
    async def open(cls, context: StoreContext) -> Self:
        url = context.servers.get(REDIS.name)
        if url is None:
            raise UsageError("no Redis server is configured; give its address in servers.redis")
        address, client = _client(url, context)
        replicas = _replicas(url, context)
        try:
            for one in filter(None, (client, replicas)):
                await one.connect()
                if not isinstance(one, ClusterClient):  # which has learned who has which keys
                    await one.execute("PING")
        except RedisError as error:
            for one in filter(None, (client, replicas)):
                await one.close()
            why: object = error
            if isinstance(address, SentinelAddress) and isinstance(error.__cause__, MasterNotFoundError):
                why = await why_no_primary(address, timeout_seconds=context.timeout_seconds)
            raise _unreachable(address, error, why) from error
        return cls(client, context, replicas)

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        return await self._history(self._reads, session, last)

    async def _history(self, client: RedisClient, session: str, last: int | None = None) -> Sequence[Stored]:
        raise NotImplementedError

    end_command: ClassVar[str] = ""
    """Of a layout whose last so many messages are those from -N to -1."""

    async def _read_ends(
        self, reader: RedisReader, asked: Sequence[tuple[str, int]]
    ) -> Sequence[Sequence[Stored] | BaseException]:
        commands = [(self.end_command, self.key(session), -last, -1) for session, last in asked]
        answers = await reader.execute_together(commands)
        return [one if isinstance(one, ReplyError) else decode_history(one) for one in answers]

    def key(self, session: str) -> bytes:
        return self._prefix + session_bytes(session)

    async def forget(self, session: str) -> None:
        await self._write("UNLINK", self.key(session))

    async def _write(self, *command: Argument) -> None:
        try:
            await self._client.execute(*command)
        except ReplyError as error:
            raise judged(error) from error

    async def _run(self, script: RedisScript, session: str, *arguments: Argument) -> None:
        """Write by a script, which may have done half of it when it fails."""
        try:
            await script.run(self._client, self.key(session), *arguments)
        except ReplyError as error:
            raise judged(error, of_script=True) from error

    async def close(self) -> None:
        if self._reads is not self._client:
            await self._reads.close()
        await self._client.close()

    async def clean_up(self) -> None:
        """Remove the sessions of this layout in this namespace; every other key is left alone."""
        pattern = _GLOB_SPECIAL.sub(rb"\\\1", self._prefix) + b"*"
        if isinstance(self._client, ClusterClient):
            async for key in self._client.keys(pattern):
                await self._client.execute("UNLINK", key)  # one by one: they are in many slots
            return
        cursor = b"0"
        while True:
            cursor, keys = await self._client.execute("SCAN", cursor, "MATCH", pattern, "COUNT", _SCAN_COUNT)
            if keys:
                await self._client.execute("UNLINK", *keys)
            if cursor == b"0":
                return


def _client(url: str, context: StoreContext) -> tuple[RedisAddress | SentinelAddress | ClusterAddress, RedisClient]:
    most, seconds = context.connections_max, context.timeout_seconds
    if is_cluster(url):
        if context.redis.waits:
            raise UsageError(
                "stores.redis.wait_replicas and wait_aof are for one server and for Sentinel: redis-py's cluster "
                "client sends WAIT on no connection in particular; leave them out"
            )
        cluster = parse_cluster(url)
        return cluster, ClusterClient(
            cluster, connections_max=most, timeout_seconds=seconds, reads_again=context.is_verifier
        )
    # Load and verifier follow the primary by redis-py's own client, as applications do.
    address = parse_sentinel(url) if is_sentinel(url) else parse_address(url)
    reader = isinstance(address, SentinelAddress) or context.is_verifier or context.redis.waits
    if isinstance(address, RedisAddress) and not reader:
        return address, RedisPool(address, connections_max=most, timeout_seconds=seconds)
    client = RedisReader(address, connections_max=most, timeout_seconds=seconds)
    return address, WaitingClient(client, context.redis, timeout_seconds=seconds) if context.redis.waits else client


def _replicas(url: str, context: StoreContext) -> RedisClient | None:
    """Return the client that reads replicas, where they are read."""
    if not context.redis.reads_replicas:
        return None
    most, seconds = context.connections_max, context.timeout_seconds
    if is_cluster(url):
        return ClusterClient(
            parse_cluster(url),
            connections_max=most,
            timeout_seconds=seconds,
            reads_again=context.is_verifier,
            reads_replicas=True,
        )
    if is_sentinel(url):
        return RedisReader(parse_sentinel(url), connections_max=most, timeout_seconds=seconds, reads_replicas=True)
    raise UsageError(
        "stores.redis.read_from = replica: nobody names the replicas of a single server; "
        "take --redis sentinel, --redis cluster, or the address of such a group"
    )


def _unreachable(address: object, error: RedisError, why: object) -> ServerUnreachableError:
    if isinstance(error, LoginRefusedError):
        return ServerUnreachableError(
            f"the Redis server at {address} refuses the login ({why}); check user and password in its address"
        )
    return ServerUnreachableError(
        f"the Redis server at {address} cannot be used ({why}); check that it runs and that its address is right"
    )


class RedisListStore(RedisStore):
    """Conversations as Redis lists, in the order in which the server took the messages."""

    description = "one Redis list per session: RPUSH, LRANGE"
    layout = "list"
    end_command = "LRANGE"

    async def append(self, session: str, message: Message) -> None:
        await self._write("RPUSH", self.key(session), message.to_bytes())

    async def _history(self, client: RedisClient, session: str, last: int | None = None) -> Sequence[Stored]:
        # LRANGE -0 -1 would be everything.
        if last is not None and last <= 0:
            return []
        first = 0 if last is None else -last
        return decode_history(await client.execute("LRANGE", self.key(session), first, -1))


class RedisStreamStore(RedisStore):
    """Conversations as Redis streams. Ids never go back, even when the server's clock does."""

    description = "one Redis stream per session: XADD, XRANGE, the last N by XREVRANGE"
    layout = "stream"
    _FIELD = b"m"

    async def append(self, session: str, message: Message) -> None:
        await self._write("XADD", self.key(session), "*", self._FIELD, message.to_bytes())

    async def _history(self, client: RedisClient, session: str, last: int | None = None) -> Sequence[Stored]:
        if last is None:
            entries = await client.execute("XRANGE", self.key(session), "-", "+")
        elif last > 0:
            entries = await client.execute("XREVRANGE", self.key(session), "+", "-", "COUNT", last)
            entries.reverse()
        else:
            return []
        return decode_history([self._value(fields) for _, fields in entries])

    def _value(self, fields: list[bytes]) -> bytes:
        # An entry that somebody else shaped is passed on whole, to be shown as it is.
        return fields[1] if len(fields) == 2 and fields[0] == self._FIELD else b"\xc1" + b"\0".join(fields)


_APPEND_SCORED = RedisScript("""
-- Add a member behind all others. One that is there already (the same name and content) stays where it is.
local newest = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local score = newest[2] and tonumber(newest[2]) + 1 or 1
return redis.call('ZADD', KEYS[1], 'NX', score, ARGV[1])
""")


class RedisZsetStore(RedisStore):
    """Conversations as Redis sorted sets, scored by a sequence that the server assigns.

    The next score is the highest one plus one, found and used inside one script, so no two writers get the same.
    No separate counter: it could be evicted or expire by itself, and the order would start over.
    """

    description = "one Redis sorted set per session, scored by a sequence assigned inside a script"
    layout = "zset"
    end_command = "ZRANGE"

    async def append(self, session: str, message: Message) -> None:
        await self._run(_APPEND_SCORED, session, message.to_bytes())

    async def _history(self, client: RedisClient, session: str, last: int | None = None) -> Sequence[Stored]:
        # ZRANGE -0 -1 would be everything.
        if last is not None and last <= 0:
            return []
        first = 0 if last is None else -last
        return decode_history(await client.execute("ZRANGE", self.key(session), first, -1))


_APPEND_EXPIRING = RedisScript("""
-- Take the next position, put the message there, and let the whole session live on for its time.
local position = redis.call('HINCRBY', KEYS[1], 'n', 1)
redis.call('HSET', KEYS[1], position, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return position
""")

_READ_LAST = RedisScript("""
-- Return the last so many messages, of one moment.
local length = tonumber(redis.call('HGET', KEYS[1], 'n') or 0)
local messages = {}
for position = math.max(1, length - ARGV[1] + 1), length do
  local message = redis.call('HGET', KEYS[1], position)
  if message then
    messages[#messages + 1] = message
  end
end
return messages
""")


class RedisHashStore(RedisStore):
    """Session contexts as Redis hashes with a sliding time to live.

    The hash holds each message under its position, and the number of messages under `n`. Position, message and the
    new expiry are set in one script: nobody ever sees one without the others.
    """

    description = "one Redis hash per session under a sliding TTL (one hour unless set), by position"
    layout = "hash"
    _LENGTH_FIELD = b"n"

    def __init__(self, client: RedisClient, context: StoreContext, replicas: RedisClient | None = None) -> None:
        super().__init__(client, context, replicas)
        self._ttl_ms = max(1, round(_ttl_seconds(context) * 1000))

    @classmethod
    def contract_for(cls, context: StoreContext) -> Contract:
        promised = super().contract_for(context)
        return msgspec.structs.replace(promised, ttl_seconds=_ttl_seconds(context), expiry=Expiry.SLIDING)

    async def append(self, session: str, message: Message) -> None:
        await self._run(_APPEND_EXPIRING, session, message.to_bytes(), self._ttl_ms)

    async def _history(self, client: RedisClient, session: str, last: int | None = None) -> Sequence[Stored]:
        if last is None:
            return decode_history(self._by_position(await client.execute("HGETALL", self.key(session))))
        if last <= 0:
            return []
        return decode_history(await _READ_LAST.run(client, self.key(session), last))

    def _by_position(self, flat: list[bytes]) -> list[bytes]:
        """Put the answer of HGETALL, which has no order, into the order of the conversation."""
        rows = dict(zip(flat[0::2], flat[1::2], strict=True))
        rows.pop(self._LENGTH_FIELD, None)
        try:
            return [rows[field] for field in sorted(rows, key=int)]
        except ValueError:
            # A field that is no position was not put there by us: it is shown last and hides no other.
            return [rows[field] for field in sorted(rows, key=_position_or_last)]


def _ttl_seconds(context: StoreContext) -> float:
    return DEFAULT_TTL_SECONDS if context.ttl_seconds is None else context.ttl_seconds


def _position_or_last(field: bytes) -> tuple[bool, int, bytes]:
    is_position = field.isdigit()
    return (not is_position, int(field) if is_position else 0, field)
