"""The replica that confirmed is not the one that is promoted."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, FlawSetup, WrongFrom, after_a_while, store_of
from soak.flaws.unconfirmed_failover import PromisesFailovers
from soak.scenarios.scenario import ServerSetup
from soak.servers.kinds import RedisTopology
from soak.stores import Message

WAIT_MILLISECONDS = 1000


class WaitsForOne(PromisesFailovers):
    """Acknowledges once one of the two replicas has the message, and raises where none has in time."""

    async def append(self, session: str, message: Message) -> None:
        async with self.redis.pipeline(transaction=False) as both:  # WAIT is about its own connection
            both.rpush(self.key(session), message.to_bytes())
            both.wait(1, WAIT_MILLISECONDS)
            _, confirmed = await both.execute()
        if not confirmed:
            raise TimeoutError("written, and no replica has confirmed it")


_SENTINEL = ServerSetup(redis_topology=RedisTopology.SENTINEL)
_STORE = store_of(WaitsForOne)


FLAW = Flaw(
    name="wait_one",
    incident="every write waits for a replica; the other one is promoted, and what it had not received is gone",
    code="pipeline: RPUSH, WAIT 1 1000. One confirmation 'makes it durable'; there are two replicas.",
    mocks="A mock answers WAIT with the number it was asked for.",
    user="A second of the conversation was gone after a maintenance that everybody called planned.",
    kinds=GONE,
    causes=frozenset({Cause.REPLICA_LAG}),
    setups=(
        FlawSetup(store=_STORE, servers=_SENTINEL, fault=after_a_while("sentinel_failover")),
        # The primary stops first, and hands over to a replica that has everything.
        FlawSetup(store=_STORE, servers=_SENTINEL, fault=after_a_while("coordinated_failover")),
    ),
    wrong_from=WrongFrom.FAULT_ENDED,
    patience_seconds=30.0,
)
