# /// script
# dependencies = []
#
# [tool.soak]
# library = "soak-chat"
# title = "soak chat on redis-list"
# version = "1"
# needs = ["redis"]
# promises = "What the page calls remembered is remembered."
#
# [tool.soak.contract]
# crash_loss_seconds = 2
# power_loss_seconds = 2
# ///
"""The chat of `soak chat` as a subject: a web service with a page; several of them share one server.

soak analyse examples/chat_subject.py, or soak check --store http --subject examples/chat_subject.py

It needs no kit. Any service will do that listens on the given port (or writes its own to standard output), speaks
soak's JSON contract there, and ends when its standard input does.
"""

import asyncio
import json
import os
import sys

from soak.chat.opening import serving_store
from soak.proc import parent_exit
from soak.stores import StoreContext


async def serve() -> None:
    given = json.loads(os.environ["SOAK_SUBJECT"])
    context = StoreContext(servers=given["servers"], namespace="chat_subject")
    is_over = asyncio.Event()
    parent_exit.on_parent_exit(is_over.set)
    async with serving_store("redis-list", context, "127.0.0.1", given.get("port", 0), pace_seconds=0.0) as address:
        sys.stdout.write(json.dumps({"port": int(address.rpartition(":")[2])}) + "\n")
        sys.stdout.flush()
        await is_over.wait()


if __name__ == "__main__":
    asyncio.run(serve())
