"""What a version of a store left on its servers, kept in a file, and put back under another namespace.

Redis keys are kept by what they hold, not as DUMP payloads, which other server versions refuse. PostgreSQL schemas are
kept as the statements of pg_dump. The namespace is replaced by one of the same length wherever it stands.
"""

from __future__ import annotations

import asyncio
import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec

from soak.checker.message import Message
from soak.contract_suite.administration import own_keys, own_tables, postgres_connection, redis_client
from soak.errors import UsageError
from soak.json_input import decode_json
from soak.proc.files import write_whole
from soak.proc.spawn import run
from soak.servers import binaries

FORMAT = 1
_DUMP_SECONDS_MAX = 60.0


class Key(msgspec.Struct, frozen=True):
    """One Redis key: its name and parts in base64, and how long it was to live."""

    name: str
    kind: str
    parts: list[str]
    life_ms: int = -1


class StoreRecording(msgspec.Struct, frozen=True, kw_only=True):
    """Data of one version of a store, and what it has to be read as."""

    format: int = FORMAT
    label: str
    store: str
    servers: list[str]
    namespace: str
    messages: dict[str, list[Message]]
    """Every session, and what was said in it."""
    keys: list[Key] = []
    statements: str = ""


def load(path: Path) -> StoreRecording:
    try:
        recording = decode_json(path.read_bytes(), type=StoreRecording)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"the recording {path} cannot be read ({error}); make a new one with --soak-record") from error
    if recording.format != FORMAT:
        raise UsageError(f"the recording {path} is of format {recording.format}, and this soak reads format {FORMAT}")
    return recording


def save(path: Path, recording: StoreRecording) -> None:
    """Write a recording, which must be a new one: those of earlier versions are never changed."""
    if path.exists():
        raise UsageError(f"{path} exists already, and a recording is never changed; choose another label")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(recording), indent=1)
    write_whole(path, text + b"\n", mode=0o644, is_synced=False)


async def read_redis(url: str, namespace: str) -> list[Key]:
    """Return all keys of a namespace."""
    async with redis_client(url) as client:
        return [await _read_key(client, name) for name in await own_keys(client, namespace)]


async def write_redis(url: str, keys: list[Key], old: str, new: str) -> None:
    """Put keys back under another namespace."""
    async with redis_client(url) as client:
        for key in keys:
            name, *parts = (b64decode(part).replace(old.encode(), new.encode()) for part in (key.name, *key.parts))
            await _write_key(client, key.kind, name, parts)
            if key.life_ms >= 0:
                await client.pexpire(name, key.life_ms)


async def read_postgres(url: str, namespace: str) -> str:
    """Return the statements that make the schemas and tables of a namespace with all they hold."""
    async with postgres_connection(url) as connection:
        schemas, tables = await own_tables(connection, namespace)
    # pg_dump takes schemas or tables, not both at once.
    chosen = [[f"--schema={name}" for name in schemas], [f"--table={name}" for name in tables]]
    return "".join([await asyncio.to_thread(_dump, url, names) for names in chosen if names])


def _dump(url: str, names: list[str]) -> str:
    parts = urlsplit(url)
    # Not in the arguments, which every process list shows.
    secret = {"PGPASSWORD": unquote(parts.password)} if parts.password else {}
    host = parts.netloc.rpartition("@")[2]
    user = f"{parts.username}@" if parts.username else ""
    program = binaries.postgres_folder(max(binaries.POSTGRES_FOLDERS)) / "bin" / "pg_dump"
    command = [
        str(program), "--inserts", "--no-owner", "--no-privileges", "--no-comments", "--encoding=UTF8",
        *names, f"--dbname={urlunsplit(parts._replace(netloc=user + host))}",
    ]  # fmt: skip
    done = run(command, seconds_max=_DUMP_SECONDS_MAX, environment={**os.environ, **secret})
    if done.code != 0:
        raise UsageError(f"what the store wrote cannot be recorded ({done.complaint}); run without --soak-record")
    return _statements(done.output)


async def write_postgres(url: str, statements: str, old: str, new: str) -> None:
    """Make the schemas again under another namespace."""
    if statements:
        async with postgres_connection(url) as connection:
            await connection.execute(statements.replace(old, new))


def _statements(dump: str) -> str:
    """Cut off what pg_dump puts before and after: settings that other versions do not know, commands for psql."""
    _, create, rest = dump.partition("\nCREATE ")
    body, _, _ = (create + rest).partition("\n-- PostgreSQL database dump complete")
    return body.strip().removesuffix("--").strip() + "\n" if create else ""


async def _read_key(client: Any, name: bytes) -> Key:
    kind = (await client.type(name)).decode()
    parts: list[Any]
    if kind == "string":
        parts = [await client.get(name)]
    elif kind == "list":
        parts = await client.lrange(name, 0, -1)
    elif kind == "hash":
        parts = [part for pair in sorted((await client.hgetall(name)).items()) for part in pair]
    elif kind == "set":
        parts = sorted(await client.smembers(name))
    elif kind == "zset":
        scored = await client.zrange(name, 0, -1, withscores=True)
        parts = [part for member, score in scored for part in (repr(float(score)).encode(), member)]
    elif kind == "stream":
        # Each entry: its id, the number of parts that follow, and these.
        parts = []
        for number, fields in await client.xrange(name):
            flat = [part for pair in fields.items() for part in pair]
            parts += [number, str(len(flat)).encode(), *flat]
    else:
        parts = [await client.dump(name)]
    return Key(_encoded(name), kind, [_encoded(part) for part in parts], int(await client.pttl(name)))


async def _write_key(client: Any, kind: str, name: bytes, parts: list[bytes]) -> None:
    if kind == "string":
        await client.set(name, parts[0])
    elif kind == "list":
        await client.rpush(name, *parts)
    elif kind == "hash":
        await client.execute_command("HSET", name, *parts)
    elif kind == "set":
        await client.sadd(name, *parts)
    elif kind == "zset":
        await client.execute_command("ZADD", name, *parts)
    elif kind == "stream":
        rest = list(parts)
        while rest:
            number, count = rest[0], int(rest[1])
            await client.execute_command("XADD", name, number, *rest[2 : 2 + count])
            rest = rest[2 + count :]
    else:
        await client.restore(name, 0, parts[0])


def _encoded(part: bytes) -> str:
    return b64encode(part).decode()
