"""What a judgement comes to, and which read it waits for next."""

from __future__ import annotations

import enum
from typing import NamedTuple

from soak.checker.kinds import Kind
from soak.checker.read import MessageId
from soak.checker.second_look import Late, Lost
from soak.checker.suspicion import Suspicion


class Wrong(NamedTuple):
    """One thing that is wrong: which message, where it belongs, what is wrong with it, where it stands in the read."""

    message: str
    place: MessageId | None
    detail: str
    at: int


class Verified(NamedTuple):
    """Acknowledgements that a read settled."""

    messages: int
    released: int
    """Rightly gone before anyone had looked."""
    surfaced: list[MessageId]
    """Writes without an acknowledgement that are there."""


class Suspected(NamedTuple):
    """A read lacks something."""

    suspicion: Suspicion


class Confirmed(NamedTuple):
    """Violations of one kind that were not reported before."""

    kind: Kind
    wrong: list[Wrong]
    suspicion: Suspicion | None


class Gone(NamedTuple):
    """Messages that are confirmed as gone, each with the fault that excuses it, if one does."""

    losses: list[Lost]
    """Tolerated ones, and those that were not reported before."""
    suspicion: Suspicion


class Tolerated(NamedTuple):
    """Reads that were late, and may have been; how late is measured all the same."""

    late: list[Late]
    is_shadowed: bool
    """They were reads of a replica in the shadow of a fault."""
    seconds: float = 0.0
    """How long after the read that lacked something another one showed it."""


class Healed(NamedTuple):
    """Violations that are over."""

    changes: list[tuple[Kind, str, MessageId | None]]


class Reopened(NamedTuple):
    """Violations that were over and are there again."""

    changes: list[tuple[Kind, str, MessageId | None]]


Event = Verified | Suspected | Confirmed | Gone | Tolerated | Healed | Reopened


class Observed(NamedTuple):
    """What a read comes to."""

    events: list[Event]
    before: bytes | None
    """The book as it was before the read was taken into it, packed; None: nothing is reported of it."""


class Want(enum.Enum):
    """A read that the judgement of a session waits for."""

    TAIL = "tail"
    """The end of the session: it was found right so far, and has grown."""
    FULL = "full"
    CONFIRM = "confirm"
    """A full read, and the primary's where reads may be behind it."""


class Wanted(NamedTuple):
    """The next read that a session needs, and when."""

    want: Want
    at: int
    last: int | None = None
    """How many messages to ask for; None: all."""
