"""Bytes rot in the server's files while it is stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path

from soak.checker.faults import Excuse, Promotion
from soak.faults import spoiling
from soak.faults.fault import Fault, FaultUnavailableError, writes_a_log
from soak.faults.parameters import Count
from soak.faults.spoiling import ByteRange
from soak.servers.kinds import Protocol, Role, names_of
from soak.servers.postgres import PostgresServer
from soak.servers.redis import RedisServer
from soak.servers.server import Server
from soak.servers.servers import Servers

_LARGEST_TABLE = """
select pg_relation_filepath(c.oid) as path
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'r' and n.nspname <> 'information_schema' and n.nspname not like 'pg\\_%'
 order by pg_relation_size(c.oid) desc
 limit 1
"""


class FileCorruption(Fault):
    """A bad cable, a disk that lies: a bit is flipped in the middle of some messages, and all around it is well."""

    name = "file_corruption"
    excuses = Excuse.CLEAN
    promotes = Promotion.NONE
    down = True
    description = (
        "The server is stopped, a bit is flipped in some of the last messages in its files, and it is started again; "
        "an append-only file is read as if nothing were wrong, PostgreSQL with checksums refuses to read the page; "
        "no contract excuses what is changed or gone."
    )
    targets = names_of(Protocol.REDIS, Protocol.POSTGRES, roles=(Role.PRIMARY,))
    needs = "a server whose files are on this machine; of a Redis, its append-only file"
    messages = Count(4, "how many of the last messages are changed, at most", least=1, most=1_000)

    def hindrance(self, servers: Servers, target: str) -> str | None:
        server = servers.nodes[target]
        if not server.backend.is_local_process:
            return f"the files of {target} are not on this machine"
        if isinstance(server, RedisServer) and not writes_a_log(server):
            return f"{target} keeps no append-only file, and a snapshot has a checksum: it would not be read at all"
        return None

    async def inject(self, servers: Servers, target: str) -> None:
        server = servers.nodes[target]
        table = await _largest_table(server)
        await server.stop_cleanly()
        if await asyncio.to_thread(_spoil, server, table, self.messages) == 0:
            raise FaultUnavailableError(f"{self.name} of {target} found no message in its files to change")


async def _largest_table(server: Server) -> Path | None:
    if isinstance(server, PostgresServer):
        path = (await server.ask(_LARGEST_TABLE)).get("path")
        return server.working_folder / path if path else None
    return None


def _spoil(server: Server, table: Path | None, messages_max: int) -> int:
    """Change some messages; returns how many."""
    path = table if isinstance(server, PostgresServer) else spoiling.append_only_file(server.working_folder)
    if path is None:
        return 0
    offset, data = spoiling.end_of(path)
    found: list[ByteRange] = spoiling.text_in_pages(data) if path == table else spoiling.payloads_in_log(data)
    spoiling.flip_bits(path, found[-messages_max:], offset)
    return len(found[-messages_max:])
