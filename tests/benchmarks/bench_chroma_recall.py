"""How much of what Chroma stores its search finds: each message by its own vector, with its session as the filter.

No message lies nearer to its own vector than itself, so an exact search finds all. Here the whole session is asked for,
and more, so what is missing is not merely far down the list.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path

from soak.checker.message import Message
from soak.checker.partial import is_missed
from soak.checker.read import Read
from soak.checker.text import MessageGenerator
from soak.servers.local import LocalServers
from soak.stores import http_contract as wire
from soak.stores.chroma import ChromaStore
from soak.stores.embedding import embed
from soak.stores.protocol import StoreContext
from tests.support.benchmark_report import Row, print_rows

SESSIONS = 250
MESSAGES = 80
ASKED = 3_000
BATCH = 200
LIMITS = (10, 1, 50, 180, 1_000)
SEED = 5


async def measure(folder: Path) -> list[Row]:
    servers = LocalServers(folder)
    urls = await servers.start(["chroma"])
    try:
        store = await ChromaStore.open(StoreContext(servers=urls, namespace="recall", timeout_seconds=60.0))
        try:
            return await _ask(store)
        finally:
            await store.close()
    finally:
        await servers.stop()


async def _ask(store: ChromaStore) -> list[Row]:
    author, chance = MessageGenerator("recall", SEED), random.Random(SEED)
    said = [author.write(f"s{number}-chat", 0, seq) for number in range(SESSIONS) for seq in range(1, MESSAGES + 1)]
    chance.shuffle(said)
    for start in range(0, len(said), BATCH):
        await _add(store, said[start : start + BATCH])
    narrow = [one for one in chance.sample(said, ASKED) if await _is_missed(store, one, LIMITS[0])]
    never = [one for one in narrow if all([await _is_missed(store, one, limit) for limit in LIMITS[1:]])]
    return [
        Row("missing among the nearest ten", len(narrow), ASKED, "messages asked for", ""),
        Row("found with no limit up to 1,000", len(never), ASKED, "messages asked for", ""),
    ]


async def _add(store: ChromaStore, messages: list[Message]) -> None:
    sent = [wire.to_wire(message) for message in messages]
    documents = {
        "ids": [one.id for one in sent],
        "documents": [one.content for one in sent],
        "metadatas": [{"session": message.session, "role": message.role} for message in messages],
        "embeddings": [embed(one.content) for one in sent],
    }
    wire.expect(*await store._ask("add", documents), dict, allowed=(200, 201))


async def _is_missed(store: ChromaStore, message: Message, limit: int) -> bool:
    items = await store.search(message.session, message.content, limit)
    return is_missed(Read(invoked=0, returned=0, acked={}, items=items), message, limit)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="soak-bench-") as folder:
        print_rows(
            f"Chroma: {SESSIONS * MESSAGES:,} documents in {SESSIONS} sessions", asyncio.run(measure(Path(folder)))
        )


if __name__ == "__main__":
    main()
