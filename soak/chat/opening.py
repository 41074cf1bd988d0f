"""A chat with everything it needs: its servers where none are given, its store, its address."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from soak import join
from soak.api.http import is_loopback
from soak.chat.http import serving
from soak.chat.memory import ChatMemory
from soak.chat.service import ChatService
from soak.daemon.bed import make_testbed
from soak.daemon.folder import DataFolder
from soak.daemon.plan import LEDGER, make_plan
from soak.errors import UsageError
from soak.proc.lock import DataFolderLock
from soak.settings import SoakSettings
from soak.stores.protocol import StoreContext
from soak.stores.registry import open_store

NAMESPACE = "soak_chat"
"""Where the memory is kept by default: the same at every start, or nobody would be remembered."""


@contextlib.asynccontextmanager
async def chatting(
    settings: SoakSettings, store: str, *, pace_seconds: float, say: Callable[[str], None]
) -> AsyncIterator[str]:
    """Serve a chat over this store as long as the block lasts; gives the address of its page.

    `say` reports what takes long before that.
    """
    async with _servers(settings, store, say) as servers:
        context = join.store_context(settings.stores, servers, settings.stores.namespace or NAMESPACE)
        async with serving_store(store, context, settings.http.host, settings.http.port, pace_seconds) as address:
            yield address


@contextlib.asynccontextmanager
async def serving_store(
    store: str, context: StoreContext, host: str, port: int, pace_seconds: float
) -> AsyncIterator[str]:
    """Open a store and serve a chat over it; gives the address."""
    memory = await open_store(store, context)
    try:
        service = ChatService(ChatMemory(memory, context.timeout_seconds), pace_seconds=pace_seconds)
        async with serving(service.application(by_address_only=is_loopback(host)), host, port) as address:
            yield address
    finally:
        await memory.close()


@contextlib.asynccontextmanager
async def _servers(settings: SoakSettings, store: str, say: Callable[[str], None]) -> AsyncIterator[dict[str, str]]:
    """Start the servers that are not given, on the data they had; they end with the block."""
    plan = make_plan(settings, [store])
    given = {kind: address for kind, address in plan.given.items() if kind != LEDGER}
    wanted = tuple(kind for kind in plan.embedded if kind != LEDGER)
    if not wanted:
        yield given
        return
    with DataFolderLock(settings.data_dir):
        _refuse_folder_of_a_run(settings.data_dir)
        bed = make_testbed(
            settings,
            # A started service needs the addresses of the given servers that it rests on.
            dataclasses.replace(plan, given=given if plan.subject is not None else {}, embedded=wanted),
            settings.data_dir,
            on_event=lambda _event: None,
            say=say,
        )
        try:
            started = await bed.start([*given, *wanted] if plan.subject is not None else wanted)
            yield {**given, **{kind: address for kind, address in started.items() if kind in wanted}}
        finally:
            await bed.stop()


def _refuse_folder_of_a_run(path: Path) -> None:
    folder = DataFolder(path)
    if folder.join_file.exists() or folder.state_file.exists():
        raise UsageError(f"{path} is the data folder of a soak; choose another for the chat with --data-dir")
