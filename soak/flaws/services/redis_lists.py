"""A memory on Redis as most people write it behind a web service, and write it right."""

from __future__ import annotations

import json
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from soak_subject import Message, Surroundings

ANSWER_SECONDS_MAX = 1.0


class RedisLists:
    """A session is a list under one key: RPUSH remembers, LRANGE recalls, and every error is told."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.redis: Any = Redis.from_url(
            surroundings.servers["redis"],
            socket_timeout=ANSWER_SECONDS_MAX,
            socket_connect_timeout=ANSWER_SECONDS_MAX,
            retry=Retry(NoBackoff(), 0),
        )

    def key(self, session: str) -> str:
        return f"{type(self).__name__}:{session}"

    def append(self, session: str, message: Message) -> None:
        self.redis.rpush(self.key(session), packed(message))

    def history(self, session: str, last: int | None) -> list[Message]:
        return unpacked(self.redis.lrange(self.key(session), 0 if last is None else -last, -1))

    def forget(self, session: str) -> None:
        self.redis.delete(self.key(session))


def packed(message: Message) -> str:
    return json.dumps([message.id, message.role, message.content])


def unpacked(rows: list[bytes]) -> list[Message]:
    return [Message(*json.loads(row)) for row in rows]
