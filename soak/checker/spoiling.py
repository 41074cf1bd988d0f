"""Ways to spoil a session on purpose that its contract must not let pass, to see whether the verifier reports it."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from soak.checker.contract import Contract, Duplicates, Order
from soak.checker.kinds import Kind
from soak.checker.message import Message

MESSAGES = 5
"""Messages of a session that is to be spoiled, unless the store keeps fewer."""

SWAPPED_AT = 1
"""The message at this place changes places with the next one."""


class Spoil(enum.Enum):
    """What is done to a session behind the ledger's back."""

    REMOVED = "removed"
    SWAPPED = "swapped"
    DUPLICATED = "duplicated"
    INVENTED = "invented"
    """A message is added that nobody ever meant to send. No contract excuses that."""

    @property
    def kinds(self) -> frozenset[Kind]:
        """As what it has to be reported."""
        return _KINDS[self]


_KINDS = {
    Spoil.REMOVED: frozenset({Kind.LOST, Kind.ROLLED_BACK}),
    Spoil.SWAPPED: frozenset({Kind.REORDERED}),
    Spoil.DUPLICATED: frozenset({Kind.DUPLICATED}),
    Spoil.INVENTED: frozenset({Kind.PHANTOM}),
}


def length_for(contract: Contract) -> int:
    """Return how many messages to write: so few that one more pushes none out."""
    kept = contract.retained_messages
    return MESSAGES if kept is None else max(1, min(MESSAGES, kept - 1))


def spoils_for(contract: Contract, *, lasting: bool, absence_is_confirmed: bool) -> list[Spoil]:
    """Return the ways that break this contract.

    `lasting`: what is written will certainly be there for as long as the judgement takes. `absence_is_confirmed`: the
    store can be read so that what is missing is known to be missing, and not only late.
    """
    length = length_for(contract)
    if not lasting or contract.eviction_allowed:
        return [Spoil.INVENTED]
    ways = []
    if absence_is_confirmed and length > SWAPPED_AT + 1:
        ways.append(Spoil.REMOVED)
    if contract.order is not Order.NONE and length > SWAPPED_AT + 1:
        ways.append(Spoil.SWAPPED)
    if contract.duplicates is Duplicates.EXACTLY_ONCE and contract.retained_messages != length:
        ways.append(Spoil.DUPLICATED)
    return [*ways, Spoil.INVENTED]


def spoiled(written: Sequence[Message], way: Spoil, invented: Message) -> list[Message]:
    """Return the session as it is to be found."""
    messages = list(written)
    if way is Spoil.REMOVED:
        del messages[len(messages) // 2]
    elif way is Spoil.SWAPPED:
        messages[SWAPPED_AT : SWAPPED_AT + 2] = reversed(messages[SWAPPED_AT : SWAPPED_AT + 2])
    elif way is Spoil.DUPLICATED:
        messages.append(messages[-1])
    else:
        messages.append(invented)
    return messages


def accused(written: Sequence[Message], way: Spoil, invented: Message) -> frozenset[str]:
    """Return the messages that the report may name, each as `session/writer/seq`."""
    chosen = {
        Spoil.REMOVED: [written[len(written) // 2]],
        Spoil.SWAPPED: written[SWAPPED_AT : SWAPPED_AT + 2],
        Spoil.DUPLICATED: [written[-1]],
        Spoil.INVENTED: [invented],
    }[way]
    return frozenset(str(message.name) for message in chosen)
