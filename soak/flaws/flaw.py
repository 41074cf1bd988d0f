"""What a planted bug is: a story, a wrong way, the right way next to it, and what must be found."""

from __future__ import annotations

import enum

import msgspec

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.scenarios.scenario import ScenarioFault, ServerSetup

PATIENCE_SECONDS = 15.0


class WrongFrom(enum.Enum):
    """Since when the wrong state of a message can be read, besides its acknowledgement."""

    ACKNOWLEDGED = "acknowledged"
    """From the acknowledgement on."""
    FAULT_STARTED = "fault started"
    """As soon as the fault begins."""
    FAULT_ENDED = "fault ended"
    """When the server is back and has forgotten."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What the participants do; the names are those of the load's settings."""

    users: int = 12
    think_seconds: float = 0.05
    context_messages: int = 10
    session_messages: int = 60
    writers_per_session: int = 4
    shared_share: float = 0.0
    recall_share: float = 0.05
    forget_share: float = 0.0
    reread_share: float = 0.2
    search_share: float = 0.0
    similar_share: float = 0.125
    raced_share_max: float = 0.003
    mix: str = "chat"
    tenants: int = 1
    """Processes' worth of participants; each numbers its sessions from one."""


SHARED_SESSIONS = Load(shared_share=1.0)
"""Four writers in every session, who often speak at the same moment."""

RARE = Load(users=32, think_seconds=0.02, mix="short")
"""Enough messages to show what happens to one in a thousand."""


class FlawSetup(msgspec.Struct, frozen=True, kw_only=True):
    """One way to do it: a store, how its servers are set, and the fault they are put through."""

    store: str
    """As `package.module:Class`."""
    servers: ServerSetup = ServerSetup()
    fault: ScenarioFault | None = None
    derives_contract: bool = False
    """Its durability is not declared, but derived from the server's configuration."""

    def can_share_a_server_with(self, other: FlawSetup) -> bool:
        return msgspec.structs.replace(self, store="") == msgspec.structs.replace(other, store="")


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """One planted bug."""

    name: str
    incident: str
    """What happened, in one line."""
    code: str
    """What the code, or the configuration, looks like."""
    mocks: str
    """Why the tests with mocks are green."""
    user: str
    """What the user saw."""
    kinds: frozenset[Kind]
    causes: frozenset[Cause]
    setups: tuple[FlawSetup, FlawSetup]
    """The wrong way, and the right one next to it."""
    load: Load = Load()
    wrong_from: WrongFrom = WrongFrom.ACKNOWLEDGED
    latent_seconds: float = 0.0
    """How long after that the wrong state can be read first: a time to live that is too short, say."""
    patience_seconds: float = PATIENCE_SECONDS
    """The trial gives up after this time."""
    heals: bool = False
    """What was lost comes back, and that must be noticed, too."""
    says: tuple[str, ...] = ()
    """Texts that the report must contain besides."""

    @property
    def wrong(self) -> FlawSetup:
        return self.setups[0]

    @property
    def right(self) -> FlawSetup:
        return self.setups[1]


def store_of(cls: type) -> str:
    """Return the name under which the registry finds a class."""
    return f"{cls.__module__}:{cls.__qualname__}"


def same_server(
    wrong: type,
    right: type,
    fault: ScenarioFault | None = None,
    servers: ServerSetup = ServerSetup(),  # noqa: B008  it is never changed
) -> tuple[FlawSetup, FlawSetup]:
    """Set up a wrong and a right store next to each other, under one and the same fault."""
    return (
        FlawSetup(store=store_of(wrong), servers=servers, fault=fault),
        FlawSetup(store=store_of(right), servers=servers, fault=fault),
    )


GONE = frozenset({Kind.LOST, Kind.ROLLED_BACK})
"""Lost; those that somebody had read before are called rolled back."""


def after_a_while(fault: str) -> ScenarioFault:
    """Break a group of nodes once its load is well under way."""
    return ScenarioFault(fault=fault, after_seconds=2.0, hold_seconds=0.2)
