"""The memory under test, as one contract test uses it: opens stores, says things, reads them back."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from soak.checker.contract import Contract, Reads
from soak.checker.message import Message
from soak.errors import SoakError
from soak.pytest_plugin import administration
from soak.pytest_plugin.background import Background
from soak.pytest_plugin.comparison import broken, compare, difference, shown
from soak.pytest_plugin.server import SoakServer
from soak.stores.protocol import MemoryStore, StoreContext
from soak.stores.speaking import Speaker

TEST_SECONDS_MAX = 150.0
"""For one test, whatever the store does."""
CLOSE_SECONDS_MAX = 20.0
EVENTUAL_SECONDS_MAX = 20.0
"""How long a store that promises eventual reads may take before the suite gives up."""
_POLL_SECONDS = 0.02

Opener = Callable[[StoreContext], Awaitable[MemoryStore]]


def new_namespace() -> str:
    """Return a name that no other test, worker or run uses; all are of one length, so none begins another."""
    return f"soak_t_{secrets.token_hex(8)}"


class Memory(Speaker):
    """One store class on one set of servers, under a namespace of this test's own."""

    def __init__(
        self,
        opener: Opener,
        contract_for: Callable[[StoreContext], Contract],
        servers: Mapping[str, SoakServer],
        background: Background,
    ) -> None:
        super().__init__("contract")
        self.servers = servers
        self.namespace = new_namespace()
        self.contract = contract_for(self.context())
        self._opener = opener
        self._contract_for = contract_for
        self._background = background
        self._namespaces = [self.namespace]
        self._opened: list[MemoryStore] = []

    def run(self, check: Coroutine[Any, Any, None]) -> None:
        """Run a test to its end and close what it opened, on a loop of its own."""
        # The global event loop is left alone: other plugins may keep theirs there.
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(self._bounded(check))

    def clean_up(self) -> None:
        """Mend the servers and remove what the test wrote, and nothing else."""
        for server in self.servers.values():
            server.heal_now()
        for namespace in self._namespaces:
            for server in self.servers.values():
                self._background.call(administration.remove_namespace(server.kind, server.url, namespace))

    async def there(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Ask a server something beside the store."""
        return await self._background.there(work)

    def context(self, **changes: Any) -> StoreContext:
        """Return what the store is opened with, with some fields changed."""
        servers = {kind: server.url for kind, server in self.servers.items()}
        return StoreContext(**{"servers": servers, "namespace": self.namespace, **changes})

    def other_namespace(self) -> str:
        self._namespaces.append(new_namespace())
        return self._namespaces[-1]

    def contract_with(self, **changes: Any) -> Contract:
        return self._contract_for(self.context(**changes))

    async def open(self, **changes: Any) -> MemoryStore:
        """Open a store of the class under test; it is closed after the test."""
        try:
            store = await self._opener(self.context(**changes))
        except SoakError as error:
            broken(f"A user meets an assistant without a memory, for the store cannot be opened: {error}")
        self._opened.append(store)
        return store

    async def close(self, store: MemoryStore) -> None:
        self._opened = [one for one in self._opened if one is not store]
        await store.close()

    async def say(self, store: MemoryStore, messages: Sequence[Message]) -> None:
        """Append one after the other; fails where the store raises, for nothing is wrong with its server."""
        for message in messages:
            try:
                await store.append(message.session, message)
            except Exception as error:  # noqa: BLE001  whatever a store of somebody else raises
                broken(
                    f"A user says {shown(message)} and is answered with an error: {described(error)}",
                    "nothing was wrong with the server; append has to store the message",
                )

    async def recall(self, store: MemoryStore, session: str, last: int | None = None) -> list[object]:
        """Read a history; fails where the store raises, for nothing is wrong with its server."""
        try:
            return list(await (store.history(session) if last is None else store.history(session, last)))
        except Exception as error:  # noqa: BLE001  whatever a store of somebody else raises
            broken(
                f"A user comes back to the conversation and meets an error in its place: {described(error)}",
                "nothing was wrong with the server; history has to answer, and one bad row must hide no other",
            )

    def kept(self, messages: Sequence[Message]) -> list[Message]:
        """Return those of the messages that the contract promises to keep."""
        retained = self.contract.retained_messages
        return list(messages) if retained is None else list(messages)[-retained:] if retained else []

    async def expect(
        self, who: str, store: MemoryStore, session: str, said: Sequence[Message], last: int | None = None
    ) -> None:
        """Fail unless the store remembers exactly this; a read that may lag is given the promised time."""
        kept = self.kept(said)
        expected = kept if last is None else kept[max(0, len(kept) - last) :] if last > 0 else []
        read = await self.recall(store, session, last)
        deadline = time.monotonic() + self.staleness_seconds
        while time.monotonic() < deadline and self._differs(expected, read):
            await asyncio.sleep(_POLL_SECONDS)
            read = await self.recall(store, session, last)
        compare(who, expected, read, order=self.contract.order, duplicates=self.contract.duplicates)

    @property
    def staleness_seconds(self) -> float:
        """How long a read may lag behind by contract."""
        if self.contract.reads is Reads.EVENTUAL:
            return EVENTUAL_SECONDS_MAX
        return self.contract.staleness_seconds if self.contract.reads is Reads.BOUNDED_STALENESS else 0.0

    def _differs(self, expected: Sequence[Message], read: Sequence[object]) -> bool:
        return difference(expected, read, order=self.contract.order, duplicates=self.contract.duplicates) is not None

    async def _bounded(self, check: Coroutine[Any, Any, None]) -> None:
        limit = asyncio.timeout(TEST_SECONDS_MAX)
        try:
            async with limit:
                await check
        except TimeoutError:
            if not limit.expired():
                raise
            broken(f"A user waits for more than {TEST_SECONDS_MAX:g} s: the store did not answer")
        finally:
            for server in self.servers.values():
                await server.heal()
            for store in self._opened:
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(CLOSE_SECONDS_MAX):
                        await store.close()


def described(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
