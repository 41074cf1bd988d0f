"""Said once, written twice."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.flaws.flaw import Flaw, same_server
from soak.flaws.redis_memory import CONNECTIONS_MAX, RedisMemory
from soak.scenarios.scenario import ScenarioFault
from soak.servers.kinds import REDIS
from soak.stores import StoreContext


class ClientRetry(RedisMemory):
    """Leaves the client's retries on, as they are by default."""

    def connect(self, context: StoreContext) -> Any:
        return Redis.from_url(
            context.servers[REDIS.name],
            socket_timeout=context.timeout_seconds,
            max_connections=CONNECTIONS_MAX,
            retry=Retry(ExponentialBackoff(cap=0.5, base=0.01), 10),
        )


FLAW = Flaw(
    name="client_retry",
    incident="the client library retries a write whose reply was lost",
    code="Nothing at all: ten retries are the default of the library, and RPUSH is not idempotent.",
    mocks="A mock that raises has not applied the write. A server whose reply is lost has.",
    user="'Transfer the money.' 'Transfer the money.'",
    kinds=frozenset({Kind.DUPLICATED}),
    causes=frozenset({Cause.RETRY}),
    setups=same_server(ClientRetry, RedisMemory, ScenarioFault(fault="dropped_reply", hold_seconds=0.7)),
)
