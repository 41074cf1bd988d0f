"""What a memory has to offer to be soaked: four methods. The rest is optional and has a default.

A store class may also have, each used when present:

- `needs: tuple[str, ...]`: servers it wants addresses of (`redis`, `postgres`, `postgres-replica`, `chroma`, `http`,
  `sqlite`)
- `contract: Contract`: what it promises; a clause that is not named is the strictest, and those of durability are
  what the server it needs gives as configured
- `contract_for(context) -> Contract`: the same where the promise depends on the settings (a TTL, say)
- `open(context)`: an async classmethod that makes a ready store; otherwise `Class(context)` or `Class()` is called
- `search(session, text, limit)`: of the session's messages at most so many, those nearest to the text first, for
  memories that are searched; equal texts must have equal vectors (`soak.stores.embedding` makes such)
- `can_search: bool`: whether it does, for a store that learns that only once it is open
- `primary_history(session)`: a full read that is never stale, for stores whose reads may be
- `clean_up()`: removes everything under the namespace, and nothing else
- `description: str`: one line for `soak stores`
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from soak.checker.contract import Contract
from soak.checker.message import Message, Stored


@runtime_checkable
class MemoryStore(Protocol):
    """A conversation memory. All methods may be called concurrently, on one event loop."""

    async def append(self, session: str, message: Message) -> None:
        """Remember a message. Returning is the acknowledgement.

        Raise `NotApplied` when the write certainly did not happen. Any other exception means: unknown.
        """

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        """Return the whole session in order, or only its last so many messages."""

    async def forget(self, session: str) -> None:
        """Erase the session. Returning is the acknowledgement."""

    async def close(self) -> None:
        """Release connections. Nothing is erased."""


class RedisUse(msgspec.Struct, frozen=True, kw_only=True):
    """How a store uses a Redis of several servers."""

    reads_replicas: bool = False
    """Reads go to replicas, writes to the primary."""
    wait_replicas: int = 0
    """So many replicas must have a write before it is acknowledged (WAIT)."""
    wait_aof: bool = False
    """The server, and so many replicas, must say that it is on disk (WAITAOF)."""

    @property
    def waits(self) -> bool:
        return self.wait_aof or self.wait_replicas > 0


class StoreContext(msgspec.Struct, frozen=True, kw_only=True):
    """Where a store finds its servers, and what it may use of them."""

    servers: Mapping[str, str]
    """Address by kind: `redis://…`, `postgresql://…`."""
    namespace: str
    """Prefix of every key, name of the schema: lower-case letters, digits and underscores."""
    timeout_seconds: float = 5.0
    """For every single operation."""
    connections_max: int = 16
    ttl_seconds: float | None = None
    redis: RedisUse = RedisUse()
    is_verifier: bool = False
    """Opened by the verifier, which should read with another client than the load writes with, where there is one."""
    is_read_only: bool = False
    """Opened with accounts that may only read: everything is there already, and nothing is to be made."""


class StoreSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A store that can be chosen: how it is called, what it is made of and what it promises."""

    name: str
    factory: type
    needs: tuple[str, ...]
    description: str
    declared: Contract | None = None
    """The contract of the memory behind it, instead of its own: a service that soak starts declares it."""
    declared_clauses: tuple[str, ...] = ()
    """The clauses of that which were named; the others are the strictest."""

    @property
    def may_be_searched(self) -> bool:
        """Whether it can be searched; some learn only when they are open that they cannot."""
        return inspect.iscoroutinefunction(inspect.unwrap(getattr(self.factory, "search", None) or str))

    def contract_for(self, context: StoreContext) -> Contract:
        if self.declared is not None:
            return self.declared
        derive = getattr(self.factory, "contract_for", None)
        if derive is not None:
            contract: Contract = derive(context)
            return contract
        declared = getattr(self.factory, "contract", None)
        return declared if isinstance(declared, Contract) else Contract()


# Whether a memory can be searched, and how: by a method that is optional, and may be off where it is there.


Search = Callable[[str, str, int], Awaitable[Sequence[Stored]]]
"""Of a session's messages at most so many, those nearest to a text first."""


def search_of(store: object) -> Search | None:
    """Return the search of a store; None if it has none, or one that is of another kind, or says that it cannot."""
    search = getattr(store, "search", None)
    if search is None or not getattr(store, "can_search", True):
        return None
    # A class of the user's may have a method of this name that was never meant for us.
    if not inspect.iscoroutinefunction(inspect.unwrap(search)):
        return None
    try:
        inspect.signature(search).bind("session", "text", 1)
    except (TypeError, ValueError):
        return None
    found: Search = search
    return found


EndsOf = Callable[[Sequence[tuple[str, int]]], Awaitable[Sequence[Sequence[Stored] | BaseException]]]
"""Of each session its last so many messages, or why there is no answer about it."""


class ReadsEnds:
    """A store of ours that reads the ends of many sessions for little more than that of one."""

    ends: EndsOf | None = None
    """None: it cannot, or `history` was replaced by a subclass, so that reads have to go through that."""


def session_bytes(session: str) -> bytes:
    """Return the name of a session as a store keeps it: any text, and no two names the same."""
    return session.encode("utf-8", "surrogatepass")
