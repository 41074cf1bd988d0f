"""Memories as people write them on a bad day: each works when tried by hand, and each loses or muddles messages."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from soak.checker.message import Message, Stored, checksum, decode_history
from soak.checker.outcome import NotApplied
from soak.stores.protocol import StoreContext
from soak.stores.redis_stores import RedisListStore
from soak.stores.sqlite import SqliteStore

DROPS_VARIABLE = "FLAWED_STORES_DROPS"
"""Names the file in which the forgetful memory admits what it has dropped."""


class _Flawed:
    """A session is one Redis key."""

    needs: ClassVar[tuple[str, ...]] = ("redis",)

    def __init__(self, context: StoreContext) -> None:
        self._redis: Any = Redis.from_url(
            context.servers["redis"],
            socket_timeout=context.timeout_seconds,
            max_connections=256,
            retry=Retry(NoBackoff(), 0),
        )
        self._prefix = f"{context.namespace}:{type(self).__name__}:"

    def _key(self, session: str) -> str:
        return self._prefix + session

    async def forget(self, session: str) -> None:
        await self._redis.delete(self._key(session))

    async def close(self) -> None:
        await self._redis.aclose()


class WholeHistory(_Flawed):
    """Reads the whole history, adds to it and writes it back: two at once, and one of them was never said."""

    async def append(self, session: str, message: Message) -> None:
        history = await self._load(session)
        await asyncio.sleep(0.01)  # as long as a model takes to count its tokens
        await self._redis.set(self._key(session), msgspec.msgpack.encode([*history, message.to_bytes()]))

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        rows = await self._load(session)
        return decode_history(rows if last is None else rows[-last:])

    async def _load(self, session: str) -> list[bytes]:
        raw = await self._redis.get(self._key(session))
        return [] if raw is None else msgspec.msgpack.decode(raw, type=list[bytes])


class SkewedClock(_Flawed):
    """Orders by the clock of whoever writes; every other writer's is five seconds slow."""

    async def append(self, session: str, message: Message) -> None:
        score = time.time() - (5.0 if message.writer % 2 else 0.0)
        await self._redis.zadd(self._key(session), {message.to_bytes(): score})

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        return decode_history(await self._redis.zrange(self._key(session), 0 if last is None else -last, -1))


class OneInAThousand(_Flawed):
    """Acknowledges every message and forgets to keep one in a thousand."""

    every: ClassVar[int] = 1_000
    appended = 0

    async def append(self, session: str, message: Message) -> None:
        type(self).appended += 1
        if self.appended % self.every == 0:
            self._admit(str(message.name))
            return
        await self._redis.rpush(self._key(session), message.to_bytes())

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        return decode_history(await self._redis.lrange(self._key(session), 0 if last is None else -last, -1))

    @staticmethod
    def _admit(name: str) -> None:
        if (path := os.environ.get(DROPS_VARIABLE)) is not None:
            with Path(path).open("a") as file:
                file.write(name + "\n")


class OneInTwoHundred(OneInAThousand):
    """The same in a hurry, where a test has to count many drops."""

    every: ClassVar[int] = 200


HOSTILE = "<img src=x onerror=\"document.body.dataset.owned='yes'\"><script>document.body.dataset.owned='yes'</script>"


class Hostile(OneInAThousand):
    """Puts one message in a hundred and fifty away under a name, and with a text, that a careless page would run."""

    every: ClassVar[int] = 150

    async def append(self, session: str, message: Message) -> None:
        type(self).appended += 1
        kept = self._spoiled(message) if self.appended % self.every == 0 else message
        await self._redis.rpush(self._key(session), kept.to_bytes())

    @staticmethod
    def _spoiled(message: Message) -> Message:
        spoiled = msgspec.structs.replace(message, session=HOSTILE, content=HOSTILE)
        return msgspec.structs.replace(spoiled, checksum=checksum(spoiled))


class NeverReconnects(_Flawed):
    """Notes once that its connection broke, and waits for ever for somebody to reset the circuit breaker."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._is_open = False

    async def append(self, session: str, message: Message) -> None:
        await self._guarded(self._redis.rpush(self._key(session), message.to_bytes()))

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        return decode_history(await self._guarded(self._redis.lrange(self._key(session), -last if last else 0, -1)))

    async def _guarded(self, asked: Any) -> Any:
        if self._is_open:
            asked.close()
            raise ConnectionError("the circuit breaker is open")
        try:
            return await asked
        except (RedisError, OSError):
            self._is_open = True
            raise


class HostileMemoryWithANameThatIsTooLongForAPhone(Hostile):
    """The same, where a test looks at how names are broken into lines; and now and then its own code raises."""

    async def append(self, session: str, message: Message) -> None:
        if message.seq % 20 == 7:
            raise ValueError(f"no token for {HOSTILE}")
        await super().append(session, message)


class KeptInTheProcess:
    """Keeps everything in a dict: as fast as can be, right in every test of one process, and gone with it."""

    def __init__(self) -> None:
        self._sessions: dict[str, list[Message]] = {}

    async def append(self, session: str, message: Message) -> None:
        self._sessions.setdefault(session, []).append(message)

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        messages = self._sessions.get(session, [])
        return messages if last is None else messages[-last:]

    async def forget(self, session: str) -> None:
        self._sessions.pop(session, None)

    async def close(self) -> None:
        """Nothing is to be released."""


class LostOnThePage(OneInAThousand):
    """Right for everybody but those who come by the chat's page: there it forgets one message in six."""

    every: ClassVar[int] = 6

    async def append(self, session: str, message: Message) -> None:
        if "soak.browsing.child" in getattr(sys.modules["__main__"], "__spec__", None).name:  # type: ignore[union-attr]
            await super().append(session, message)
        else:
            await self._redis.rpush(self._key(session), message.to_bytes())


class NoContext(RedisListStore):
    """Appends and whole reads work; a read of the last messages, which every turn begins with, never does."""

    layout = "nocontext"

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        if last is not None:
            raise ConnectionError("a typo in a query nobody looks at")
        return await super().history(session, last)


class SwallowingSqlite(SqliteStore):
    """Treats 'database is locked' as something to be logged, as background tasks do."""

    async def append(self, session: str, message: Message) -> None:
        try:
            await super().append(session, message)
        except NotApplied as error:
            sys.stderr.write(f"could not save: {error}\n")
