"""What earlier versions of the store wrote is read by this one: data outlives the code that wrote it."""

from __future__ import annotations

from pathlib import Path

from soak.checker.message import Message
from soak.checker.text import RECORDED_TEXTS
from soak.contract_suite.comparison import broken, not_tried
from soak.contract_suite.memory import Memory, described
from soak.pytest_plugin import recording
from soak.servers.kinds import POSTGRES, REDIS


async def what_is_written_today_can_be_read_again(memory: Memory, soak_record: tuple[str, Path] | None) -> None:
    if not memory.servers:
        not_tried("the store declares no server in `needs`, so there is nothing that the suite can record")
    store = await memory.open()
    said = _conversations(memory)
    for messages in said.values():
        await memory.say(store, messages)
    taken = await _take(memory, type(store), said, soak_record[0] if soak_record else "today")
    await _expect(memory, taken, "A user who comes back after the data was moved to another server")
    if soak_record is not None:
        recording.save(soak_record[1], taken)


async def data_of_an_earlier_version_is_readable(memory: Memory, soak_recording: Path | None) -> None:
    if soak_recording is None:
        not_tried("no data of an earlier version was recorded; record today's with --soak-record=LABEL")
    old = recording.load(soak_recording)
    await _expect(memory, old, f"A user who has been talking since version {old.label}")


def _conversations(memory: Memory) -> dict[str, list[Message]]:
    first, second = memory.session("first"), memory.session("second")
    return {
        first: [memory.message(first, seq, text) for seq, text in enumerate(RECORDED_TEXTS, start=1)],
        second: memory.turns(second, 3),
    }


async def _take(memory: Memory, factory: type, said: dict[str, list[Message]], label: str) -> recording.StoreRecording:
    keys: list[recording.Key] = []
    statements = ""
    if REDIS.name in memory.servers:
        keys = await recording.read_redis(memory.servers[REDIS.name].url, memory.namespace)
    if POSTGRES.name in memory.servers:
        statements = await recording.read_postgres(memory.servers[POSTGRES.name].url, memory.namespace)
    if not keys and not statements:
        broken("A user's words lie where nobody finds them: nothing on the servers begins with the namespace")
    return recording.StoreRecording(
        label=label,
        store=f"{factory.__module__}:{factory.__qualname__}",
        servers=[server.version for server in memory.servers.values()],
        namespace=memory.namespace,
        messages={session: memory.kept(messages) for session, messages in said.items()},
        keys=keys,
        statements=statements,
    )


async def _expect(memory: Memory, old: recording.StoreRecording, who: str) -> None:
    namespace = memory.other_namespace()
    if old.keys:
        await recording.write_redis(memory.servers[REDIS.name].url, old.keys, old.namespace, namespace)
    if old.statements:
        url = memory.servers[POSTGRES.name].url
        await recording.write_postgres(url, old.statements, old.namespace, namespace)
    try:
        store = await memory.open(namespace=namespace)
    except Exception as error:  # noqa: BLE001  whatever a store of somebody else raises
        broken(f"{who} meets an error: the store cannot be opened on that data ({described(error)})")
    for session, said in old.messages.items():
        await memory.expect(who, store, session, said)
        new = memory.turns(session, 2, writer=7)
        await memory.say(store, new)
        await memory.expect(f"{who} and goes on talking", store, session, [*said, *new])
