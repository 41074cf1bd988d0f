"""Small wrong stores, each wrong in one way that the planted bugs of the catalogue leave out."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from typing import Any, ClassVar

import msgspec
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from examples.my_memory import MyMemory
from soak.stores import Contract, Message, StoreContext


class KnowsTwoRoles(MyMemory):
    async def append(self, session: str, message: Message) -> None:
        role = message.role if message.role in ("user", "assistant") else "user"
        await super().append(session, msgspec.structs.replace(message, role=role))


class ReplacesHalfEmoji(MyMemory):
    async def append(self, session: str, message: Message) -> None:
        content = message.content.encode("utf-8", "replace").decode()
        await super().append(session, msgspec.structs.replace(message, content=content))


class GreetsStrangers(MyMemory):
    async def history(self, session: str, last: int | None = None) -> list[Message]:
        greeting = Message("contract", session, 0, 0, "assistant", "Hello! What is your name?", 0)
        return await super().history(session, last) or [greeting]


class RemembersInItsProcess(MyMemory):
    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._sessions: dict[str, list[Message]] = defaultdict(list)

    async def append(self, session: str, message: Message) -> None:
        self._sessions[session].append(message)

    async def history(self, session: str, last: int | None = None) -> list[Message]:
        messages = self._sessions[session]
        return messages[-last:] if last else [] if last == 0 else list(messages)


class NeverCloses(MyMemory):
    kept: ClassVar[list[Any]] = []

    async def close(self) -> None:
        self.kept.append(self._redis)


class TakesNoneForAll(MyMemory):
    async def history(self, session: str, last: int | None = None) -> list[Message]:
        return await super().history(session, last or None)


class ReadsFromTheWrongEnd(MyMemory):
    async def history(self, session: str, last: int | None = None) -> list[Message]:
        return (await super().history(session))[:last]


class SharesItsDrawer(MyMemory):
    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._prefix = "chat:"


class WritesItsCacheBack(MyMemory):
    """Knows what it wrote itself, and puts that back when it finds less."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._written: dict[str, list[Message]] = defaultdict(list)

    async def append(self, session: str, message: Message) -> None:
        if not await self._redis.exists(self._prefix + session):
            for known in self._written[session]:
                await super().append(session, known)
        await super().append(session, message)
        self._written[session].append(message)


class NeverExpires(MyMemory):
    @classmethod
    def contract_for(cls, context: StoreContext) -> Contract:
        return Contract(crash_loss_seconds=2, power_loss_seconds=2, ttl_seconds=context.ttl_seconds or 3600)


class WaitsForEver(MyMemory):
    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._redis: Any = Redis.from_url(context.servers["redis"], socket_timeout=None)


class IgnoresRefusals(MyMemory):
    async def append(self, session: str, message: Message) -> None:
        with contextlib.suppress(ResponseError):
            await super().append(session, message)


class ForgetsWithoutTheLock(MyMemory):
    """Writers wait for each other; forgetting waits for nobody."""

    locks: ClassVar[dict[str, asyncio.Lock]] = {}

    async def append(self, session: str, message: Message) -> None:
        async with self.locks.setdefault(self._prefix + session, asyncio.Lock()):
            known = await self.history(session)
            await asyncio.sleep(0.01)
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.delete(self._prefix + session)
                pipe.rpush(self._prefix + session, *(one.to_json() for one in [*known, message]))
                await pipe.execute()


class SearchesTheNewest(MyMemory):
    """Looks for words only in the last few messages."""

    async def search(self, session: str, text: str, limit: int) -> list[Message]:
        newest = await self.history(session, 8)
        return sorted(newest, key=lambda message: message.content != text)[:limit]


class FindsMoreThanAskedFor(MyMemory):
    async def search(self, session: str, text: str, limit: int) -> list[Message]:  # noqa: ARG002  that is what is wrong
        return sorted(await self.history(session), key=lambda message: message.content != text)


class KnowsNothingOnError(MyMemory):
    async def history(self, session: str, last: int | None = None) -> list[Message]:
        try:
            return await super().history(session, last)
        except Exception:  # noqa: BLE001  that is what is wrong with it
            return []


class DropsTheTenant(MyMemory):
    async def append(self, session: str, message: Message) -> None:
        await super().append(_without_tenant(session), message)

    async def history(self, session: str, last: int | None = None) -> list[Message]:
        return await super().history(_without_tenant(session), last)

    async def forget(self, session: str) -> None:
        await super().forget(_without_tenant(session))


def _without_tenant(session: str) -> str:
    return session.partition("-")[2]


class DropsWhatItHasHeard(MyMemory):
    async def append(self, session: str, message: Message) -> None:
        if await self._redis.sadd(f"{self._prefix}{session}:heard", f"{message.role}:{message.content}".encode()):
            await super().append(session, message)


class ReadsOnePage(MyMemory):
    async def history(self, session: str, last: int | None = None) -> list[Message]:
        page = (await super().history(session))[:1_000]
        return page if last is None else page[max(0, len(page) - last) :]
