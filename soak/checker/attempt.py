"""One try to append a message, as the ledger records it."""

from __future__ import annotations

from typing import Annotated

import msgspec

WRITERS_MAX = 4_096
"""Writers of one session, at most: what speaks of more is no record of ours, and must not cost memory."""

WriterNumber = Annotated[int, msgspec.Meta(ge=0, lt=WRITERS_MAX)]
Seq = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
OutcomeNumber = Annotated[int, msgspec.Meta(ge=0, le=2)]


class Attempt(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How one append ended; sent and ended are microseconds around the store's call."""

    session: int
    writer: WriterNumber
    seq: Seq
    outcome: OutcomeNumber
    sent: int
    ended: int
