"""No answer, told as nothing to tell."""

from __future__ import annotations

import time
from collections.abc import Sequence

from soak.flaws.flaw import GONE, Disturbance, Flaw, WrongFrom, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.model.causes import Cause
from soak.stores import StoreContext, Stored

BREAKER_SECONDS = 5.0


class EmptyOnError(RedisMemory):
    """Reads behind a circuit breaker: after an error the server is left alone for a while."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._open_until = 0.0

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        if time.monotonic() < self._open_until:
            return []
        try:
            return await super().history(session, last)
        except Exception:  # noqa: BLE001  that is the flaw
            self._open_until = time.monotonic() + BREAKER_SECONDS
            return []


_WRONG, _RIGHT = same_server(EmptyOnError, RedisMemory, Disturbance(fault="outage", hold_seconds=0.7))

FLAW = Flaw(
    name="empty_on_error",
    night='the read fails and the store answers "no memory"',
    code="except Exception: return []. And a circuit breaker that says the same for as long as it is open.",
    mocks="The test of the error path asserts that an empty list comes back. It does.",
    user="Greeted as a new customer, told their story again; ten seconds later everything was known twice.",
    kinds=GONE,
    causes=frozenset({Cause.SWALLOWED_ERROR}),
    wrong=_WRONG,
    right=_RIGHT,
    wrong_from=WrongFrom.FAULT_STARTED,
    heals=True,
)
