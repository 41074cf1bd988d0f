"""The process that browser users live in: a chat service for each store, one Chromium, and soak's contract before them.

Locust patches threads and processes, and Playwright starts one and waits for it: so they live apart, and the load
speaks with its browsers as with any memory behind HTTP. What the load has to tell, addresses with passwords among it,
comes as one line on standard input, which then stays open: when it ends, the parent is gone, and we end, too.

    python -m soak.browsing.child
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import msgspec
from aiohttp import web

from soak.browsing.page_memory import PageMemory
from soak.browsing.tabs import NoBrowserError, Tabs
from soak.chat.contract import ContractRoutes
from soak.chat.http import application, serving
from soak.chat.memory import ChatMemory
from soak.chat.opening import serving_store
from soak.checker.message import Message, Stored
from soak.errors import ExitCode, SoakError
from soak.masking import mask
from soak.proc import parent_exit
from soak.servers.temporary import TemporaryFolder
from soak.stores.protocol import StoreContext

PREFIX = "browser"
"""What the load's client puts before the names of sessions; here they have their own again."""
FOLDER_PREFIX = "soak-browser-"
TABS_TO_SPARE = 2
HOST = "127.0.0.1"


class BrowserJob(msgspec.Struct, frozen=True, kw_only=True):
    """What the load sends."""

    stores: list[str]
    context: StoreContext
    chromium: str
    users: int
    step_seconds: float
    operation_seconds: float


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """The reply: at this port, each store's memory stands under its number."""

    port: int


class Unprefixed:
    """The memory of a page under the names that the load's client gives to sessions."""

    def __init__(self, memory: PageMemory) -> None:
        self._memory = memory

    async def append(self, session: str, message: Message) -> None:
        await self._memory.append(_own_name(session), message)

    async def history(self, session: str, last: int | None = None) -> list[Stored]:
        return list(await self._memory.history(_own_name(session), last))

    async def forget(self, session: str) -> None:
        await self._memory.forget(_own_name(session))

    async def close(self) -> None:
        await self._memory.close()


def _own_name(session: str) -> str:
    return session.removeprefix(f"{PREFIX}.")


async def serve(job: BrowserJob) -> None:
    """Serve until the parent is gone."""
    is_over = asyncio.Event()
    parent_exit.on_parent_exit(is_over.set)
    async with contextlib.AsyncExitStack() as stack:
        # Everybody has a tab or two, and there is one for looking back at what was said before.
        tabs = await stack.enter_async_context(
            Tabs.open(Path(job.chromium), tabs_max=2 * job.users + TABS_TO_SPARE, step_seconds=job.step_seconds)
        )
        guarded = application(by_address_only=True)
        for number, store in enumerate(job.stores):
            chat = await stack.enter_async_context(serving_store(store, job.context, HOST, 0, 0.0))
            memory = Unprefixed(PageMemory(tabs, chat))
            contract = ContractRoutes(ChatMemory(memory, job.operation_seconds), cleans_up=False)
            mounted = web.Application()
            mounted.add_routes(contract.routes())
            guarded.add_subapp(f"/{number}", mounted)
        address = await stack.enter_async_context(serving(guarded, HOST, 0))
        sys.stdout.buffer.write(msgspec.json.encode(Ready(port=int(address.rpartition(":")[2]))) + b"\n")
        sys.stdout.buffer.flush()
        await is_over.wait()


def main() -> int:
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=BrowserJob)
    # Profiles of browsers are kept in here, and go with it; what a killed one left goes with the next.
    folder = TemporaryFolder(FOLDER_PREFIX)
    os.environ["TMPDIR"] = str(folder.path)
    try:
        asyncio.run(serve(job))
    except (SoakError, NoBrowserError) as error:
        sys.stderr.write(f"soak: {mask(str(error))}\n")
        return int(error.exit_code if isinstance(error, SoakError) else ExitCode.UNREACHABLE)
    finally:
        folder.remove()
    return int(ExitCode.PASS)


if __name__ == "__main__":
    sys.exit(main())
