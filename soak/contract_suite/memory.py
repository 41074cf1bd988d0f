"""The memory under test, as one check uses it: opens stores, appends messages, reads them back, judges the answers."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from soak.checker.contract import Contract, Reads
from soak.checker.message import Message
from soak.checker.read import Rules
from soak.contract_suite.comparison import broken, compare, difference, shown
from soak.contract_suite.conversation import CheckedConversation, PlainTexts, append_again
from soak.contract_suite.workloads import Held
from soak.errors import SoakError
from soak.stores.protocol import MemoryStore, StoreContext
from soak.stores.speaking import Speaker

CLOSE_SECONDS_MAX = 20.0
EVENTUAL_SECONDS_MAX = 20.0
"""How long a store that promises eventual reads may take before the suite gives up."""
RETRIES_MAX = 5
"""How often a message is sent again after the store refused it (`NotApplied`)."""
STORES = 2
"""Stores that a workload uses in turn, as two processes would."""
_POLL_SECONDS = 0.02

StoreOpener = Callable[[StoreContext], Awaitable[MemoryStore]]


def new_namespace() -> str:
    """Return a name that no other test, worker or run uses; all have one length, so none is a prefix of another."""
    return f"soak_t_{secrets.token_hex(8)}"


class BreakableServer(Protocol):
    """A server that a check may break, where it is ours."""

    kind: str
    version: str

    @property
    def url(self) -> str: ...

    @property
    def protected(self) -> str | None:
        """Why this server must not be broken; None if it is ours."""

    async def stop(self) -> None: ...

    async def kill(self) -> None: ...

    async def start(self) -> None: ...

    async def pause(self) -> None: ...

    async def resume(self) -> None: ...

    async def refuse_writes(self) -> None: ...

    async def accept_writes(self) -> None: ...

    async def connections(self) -> int: ...


class Memory(Speaker):
    """One store class on one set of servers, under a namespace of this check's own."""

    def __init__(
        self,
        opener: StoreOpener,
        contract_for: Callable[[StoreContext], Contract],
        servers: Mapping[str, BreakableServer],
        refused_texts: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__("contract")
        self.servers = servers
        self.namespace = new_namespace()
        self.namespaces = [self.namespace]
        """All that were used."""
        self.contract = contract_for(self.context())
        self.refused_texts = refused_texts
        """Kinds of hard text that the store openly refuses (append raises) instead of keeping them."""
        self._opener = opener
        self._contract_for = contract_for
        self._opened: list[MemoryStore] = []
        self._taking_turns: list[MemoryStore] = []

    def context(self, **changes: Any) -> StoreContext:
        """Return what the store is opened with, with some fields changed."""
        servers = {kind: server.url for kind, server in self.servers.items()}
        return StoreContext(**{"servers": servers, "namespace": self.namespace, **changes})

    def other_namespace(self) -> str:
        self.namespaces.append(new_namespace())
        return self.namespaces[-1]

    def contract_with(self, **changes: Any) -> Contract:
        return self._contract_for(self.context(**changes))

    async def open(self, **changes: Any) -> MemoryStore:
        """Open a store of the class under test; it is closed after the check."""
        try:
            store = await self._opener(self.context(**changes))
        except SoakError as error:
            broken(f"A user meets an assistant without a memory, for the store cannot be opened: {error}", cause=error)
        self._opened.append(store)
        return store

    async def close(self, store: MemoryStore) -> None:
        self._opened = [one for one in self._opened if one is not store]
        await store.close()

    async def close_all(self) -> None:
        for store in self._opened:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_SECONDS_MAX):
                    await store.close()

    # -- single messages and reads --

    async def say(self, store: MemoryStore, messages: Sequence[Message]) -> None:
        """Append one after the other; fails if the store raises, because its server is well."""
        for message in messages:
            try:
                await append_again(store, message, RETRIES_MAX)
            except Exception as error:  # noqa: BLE001  whatever a store of somebody else raises
                broken(
                    f"A user says {shown(message)} and is answered with an error: {described(error)}",
                    "nothing was wrong with the server; append has to store the message",
                    cause=error,
                )

    async def recall(self, store: MemoryStore, session: str, last: int | None = None) -> list[object]:
        """Read a history; fails if the store raises, because its server is well."""
        try:
            return list(await (store.history(session) if last is None else store.history(session, last)))
        except Exception as error:  # noqa: BLE001  whatever a store of somebody else raises
            broken(
                f"A user comes back to the conversation and meets an error in its place: {described(error)}",
                "nothing was wrong with the server; history has to answer, and one bad row must hide no other",
                cause=error,
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

    # -- workloads --

    async def hold(
        self, who: str, workload: Callable[..., Awaitable[Held]], *arguments: object, may_refuse: bool = False
    ) -> None:
        """Hold the conversations of a workload; fails on the first thing that is wrong with them."""
        while len(self._taking_turns) < STORES:
            self._taking_turns.append(await self.open())
        held = await workload(self, *arguments)
        for conversation in held.conversations:
            self._judge(who, conversation, may_refuse=may_refuse)

    def conversation(self, name: str, texts: Sequence[str] = ()) -> CheckedConversation:
        # The name comes last, so that sessions differ only in their last characters.
        rules = Rules(contract=self.contract)
        conversation = CheckedConversation(self.token + name, PlainTexts("contract", 0, texts), rules)
        conversation.retries_max = RETRIES_MAX
        return conversation

    def store(self, number: int) -> MemoryStore:
        return self._taking_turns[number % STORES]

    async def settle(self, conversations: Sequence[CheckedConversation]) -> list[str]:
        for number, conversation in enumerate(conversations):
            deadline = time.monotonic() + self.staleness_seconds
            await conversation.settle(self.store(number))
            while not conversation.is_settled and time.monotonic() < deadline:
                await asyncio.sleep(_POLL_SECONDS)
                await conversation.settle(self.store(number))
        return []

    def _judge(self, who: str, conversation: CheckedConversation, *, may_refuse: bool) -> None:
        if conversation.last_error is not None and not may_refuse:
            error = conversation.last_error
            broken(f"{who} is answered with an error: {described(error)}", "its server was well", cause=error)
        if conversation.found:
            (kind, message), detail = next(iter(conversation.found.items()))
            count = sum(1 for found, _ in conversation.found if found is kind)
            broken(f"{who} meets {count} messages that are wrong, such as {message}: {detail} ({kind.value})")
        if not conversation.is_settled:
            broken(f"{who} misses {conversation.unseen} messages in every read (lost)")


def described(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
