"""Messages under the ids that clients give them.

An id that names a message as soak does (run, session, writer, seq, checksum) becomes that message, so that whoever
reads the store itself can tell which one it is. Any other text is kept as it is and comes back as it came.
"""

from __future__ import annotations

import msgspec

from soak.checker.message import MISMADE, Message, Stored, checksum, garbled, is_well_made
from soak.stores.http_contract import Wire, from_wire, to_wire

NUMBER_MAX = 2**31 - 1
"""What every store can keep as the number of a writer or of a message."""
_OPAQUE = "id:"


def to_message(session: str, wire: Wire) -> Message:
    """Make the message that a store is asked to remember."""
    named = from_wire(msgspec.json.encode(wire))
    if isinstance(named, Message) and to_wire(named).id == wire.id and _is_keepable(named):
        return named
    unsigned = Message(_OPAQUE + wire.id, session, 0, 0, wire.role, wire.content, 0)
    return msgspec.structs.replace(unsigned, checksum=checksum(unsigned))


def to_item(stored: Stored) -> dict[str, str]:
    """Say what a store returned, as the contract does; what is no message has no id."""
    if not isinstance(stored, Message) or not is_well_made(stored):
        return {"unreadable": garbled(stored, MISMADE).reason}
    named = stored.run.removeprefix(_OPAQUE) if _is_opaque(stored) else to_wire(stored).id
    return {"id": named, "role": stored.role, "content": stored.content}


def answer_to(message: Message, content: str) -> Message:
    """Name an answer after what it answers: the next number of the same writer."""
    if _is_opaque(message):
        unsigned = msgspec.structs.replace(message, run=f"{message.run}.answer", role="assistant", content=content)
    else:
        unsigned = msgspec.structs.replace(message, seq=message.seq + 1, role="assistant", content=content)
    return msgspec.structs.replace(unsigned, checksum=checksum(unsigned))


def _is_opaque(message: Message) -> bool:
    return message.run.startswith(_OPAQUE) and not message.writer and not message.seq


def _is_keepable(message: Message) -> bool:
    numbers = (message.writer, message.seq)
    return all(0 <= number < NUMBER_MAX for number in numbers) and not message.run.startswith(_OPAQUE)
