"""Two memories as small services have them, written right: what the services with a planted bug begin with."""

from __future__ import annotations

import json
import sqlite3
import threading
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from soak_subject import ChatTurn, Surroundings

ANSWER_SECONDS_MAX = 1.0
BUSY_SECONDS_MAX = 10.0


class RedisLists:
    """A session is a list under one key: RPUSH remembers, LRANGE recalls, and every error is raised."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.redis: Any = Redis.from_url(
            surroundings.servers["redis"],
            socket_timeout=ANSWER_SECONDS_MAX,
            socket_connect_timeout=ANSWER_SECONDS_MAX,
            retry=Retry(NoBackoff(), 0),
        )

    def key(self, session: str) -> str:
        return f"{type(self).__name__}:{session}"

    def append(self, session: str, message: ChatTurn) -> None:
        self.redis.rpush(self.key(session), packed(message))

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        return unpacked(self.redis.lrange(self.key(session), 0 if last is None else -last, -1))

    def forget(self, session: str) -> None:
        self.redis.delete(self.key(session))


def packed(message: ChatTurn) -> str:
    return json.dumps([message.id, message.role, message.content])


def unpacked(rows: list[bytes]) -> list[ChatTurn]:
    return [ChatTurn(*json.loads(row)) for row in rows]


class SqliteRows:
    """A row for each message; what is committed outlives the process."""

    synchronous = "normal"
    """Enough for a process that dies. For a machine that does, it has to be `full`."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._path = f"{surroundings.folder}/{type(self).__name__}.db"
        self._local = threading.local()
        with self.database as database:
            database.execute("pragma journal_mode = wal")
            database.execute("create table if not exists said (number integer primary key, session, id, role, content)")
            database.execute("create index if not exists said_in on said (session, number)")

    @property
    def database(self) -> sqlite3.Connection:
        """Each thread has a connection of its own."""
        if not hasattr(self._local, "database"):
            self._local.database = sqlite3.connect(self._path, timeout=BUSY_SECONDS_MAX)
            self._local.database.execute(f"pragma synchronous = {self.synchronous}")
        found: sqlite3.Connection = self._local.database
        return found

    def append(self, session: str, message: ChatTurn) -> None:
        with self.database as database:
            row = (session, message.id, message.role, message.content)
            database.execute("insert into said (session, id, role, content) values (?, ?, ?, ?)", row)

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        rows = self.database.execute(
            "select id, role, content from said where session = ? order by number desc limit ?", [session, last or -1]
        )
        return [ChatTurn(*row) for row in rows][::-1]

    def forget(self, session: str) -> None:
        with self.database as database:
            database.execute("delete from said where session = ?", [session])
