"""What earlier versions of the store wrote is read by this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.checker.hard_text import RECORDED_TEXTS
from soak.checker.message import Message
from soak.pytest_plugin import recording
from soak.pytest_plugin.checks.check import check
from soak.pytest_plugin.comparison import broken
from soak.pytest_plugin.memory import Memory, described
from soak.servers.kinds import POSTGRES, REDIS


class Compatibility:
    """Data outlives the code that wrote it."""

    @check
    async def test_what_is_written_today_can_be_read_again(
        self, soak_memory: Memory, soak_record: tuple[str, Path] | None
    ) -> None:
        _check_recordable(soak_memory)
        store = await soak_memory.open()
        said = _conversations(soak_memory)
        for messages in said.values():
            await soak_memory.say(store, messages)
        taken = await _take(soak_memory, type(store), said, soak_record[0] if soak_record else "today")
        await _expect(soak_memory, taken, "A user who comes back after the data was moved to another server")
        if soak_record is not None:
            recording.save(soak_record[1], taken)

    @check
    async def test_data_of_an_earlier_version_is_readable(
        self, soak_memory: Memory, soak_recording: Path | None
    ) -> None:
        if soak_recording is None:
            pytest.skip("no data of an earlier version was recorded; record today's with --soak-record=LABEL")
        old = recording.load(soak_recording)
        await _expect(soak_memory, old, f"A user who has been talking since version {old.label}")


def _conversations(memory: Memory) -> dict[str, list[Message]]:
    first, second = memory.session("first"), memory.session("second")
    return {
        first: [memory.message(first, seq, text) for seq, text in enumerate(RECORDED_TEXTS, start=1)],
        second: memory.turns(second, 3),
    }


def _check_recordable(memory: Memory) -> None:
    if not memory.servers:
        pytest.skip("the store declares no server in `needs`, so there is nothing that the suite can record")


async def _take(memory: Memory, factory: type, said: dict[str, list[Message]], label: str) -> recording.Recording:
    keys: list[recording.Key] = []
    statements = ""
    if REDIS.name in memory.servers:
        keys = await memory.there(recording.read_redis(memory.servers[REDIS.name].url, memory.namespace))
    if POSTGRES.name in memory.servers:
        statements = await memory.there(recording.read_postgres(memory.servers[POSTGRES.name].url, memory.namespace))
    if not keys and not statements:
        broken("A user's words lie where nobody finds them: nothing on the servers begins with the namespace")
    return recording.Recording(
        label=label,
        store=f"{factory.__module__}:{factory.__qualname__}",
        servers=[server.version for server in memory.servers.values()],
        namespace=memory.namespace,
        messages={session: memory.kept(messages) for session, messages in said.items()},
        keys=keys,
        statements=statements,
    )


async def _expect(memory: Memory, old: recording.Recording, who: str) -> None:
    namespace = memory.other_namespace()
    if old.keys:
        await memory.there(recording.write_redis(memory.servers[REDIS.name].url, old.keys, old.namespace, namespace))
    if old.statements:
        url = memory.servers[POSTGRES.name].url
        await memory.there(recording.write_postgres(url, old.statements, old.namespace, namespace))
    try:
        store = await memory.open(namespace=namespace)
    except Exception as error:  # noqa: BLE001  whatever a store of somebody else raises
        broken(f"{who} meets an error: the store cannot be opened on that data ({described(error)})")
    for session, said in old.messages.items():
        await memory.expect(who, store, session, said)
        new = memory.turns(session, 2, writer=7)
        await memory.say(store, new)
        await memory.expect(f"{who} and goes on talking", store, session, [*said, *new])
