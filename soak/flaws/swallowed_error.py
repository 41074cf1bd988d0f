"""Logged, and acknowledged."""

from __future__ import annotations

import logging

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, same_server
from soak.flaws.redis_memory import RedisMemory
from soak.scenarios.scenario import ScenarioFault
from soak.stores import Message

_log = logging.getLogger(__name__)


class SwallowedError(RedisMemory):
    """A memory must never stop the conversation."""

    async def append(self, session: str, message: Message) -> None:
        try:
            await super().append(session, message)
        except (RedisConnectionError, RedisTimeoutError) as error:
            _log.debug("memory unavailable, continuing without it: %s", error)


FLAW = Flaw(
    name="swallowed_error",
    incident="ConnectionError in a network hiccup is logged and skipped; the caller gets an acknowledgement",
    code="except ConnectionError: log.warning(...), and then nothing. The chat goes on; that was the idea.",
    mocks="The test of the error path asserts that no exception escapes. None does.",
    user="What was said in one particular second had not been said. Nobody knew which second.",
    kinds=GONE,
    causes=frozenset({Cause.SWALLOWED_ERROR}),
    setups=same_server(SwallowedError, RedisMemory, ScenarioFault(fault="connection_refused", hold_seconds=0.7)),
)
