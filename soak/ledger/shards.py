"""Several verifiers share a run: each follows a stream of its own, and every worker writes to one of them.

A worker is dealt to a shard when it connects, and stays there: its sessions belong to one verifier for good. It goes
where the fewest workers live, so that one that takes the place of a dead one goes to that one's shard. There may
be more shards when the run is resumed, never fewer; only workers that connect from then on are dealt to the new ones.
Records about the run as a whole are in every stream, written in one transaction.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any, NamedTuple

from redis.exceptions import RedisError, WatchError

from soak.errors import UsageError
from soak.ledger.connection import keys_of, reaching

SHARDS_MAX = 64
ALIVE_SECONDS = 4
"""A worker that was not heard of for so long is dead: it says every second that it lives."""
FOLDER_PREFIX = "shard-"
_SHARD = re.compile(r"(\d{1,4})/(\d{1,4})")


class Shard(NamedTuple):
    """One of the verifiers of a run: the first, the second …, of so many."""

    number: int = 1
    of: int = 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def is_first(self) -> bool:
        """The first does what is done once, and gives the verdict of the whole."""
        return self.number == 1

    @property
    def name(self) -> str:
        """What its process is called."""
        return "verifier" if self.is_first else f"verifier-{self.number}"

    @property
    def folder(self) -> str:
        """Where in the data folder it keeps its state and what it finds."""
        return "verifier" if self.is_first else f"verifier/{FOLDER_PREFIX}{self.number}"


WHOLE = Shard()


def parse_shard(text: str) -> Shard:
    """Read `2/4`. Raises `UsageError`."""
    found = _SHARD.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--shard {text}: write which one of how many, such as 2/4")
    shard = Shard(*map(int, found.groups()))
    if not 1 <= shard.of <= SHARDS_MAX:
        raise UsageError(f"--shard {text}: there can be 1 to {SHARDS_MAX} shards")
    if not 1 <= shard.number <= shard.of:
        raise UsageError(f"--shard {text}: of {shard.of} shards the last one is {shard.of}/{shard.of}")
    return shard


async def count_verifiers(redis: Any, run: str) -> int:
    """Return how many verifiers share a run."""
    said = await redis.get(keys_of(run).verifiers)
    if said is not None and not said.isdigit():
        raise RedisError(f"{keys_of(run).verifiers} holds no number")
    return max(1, int(said or 1))


async def read_verifiers(url: str, run: str) -> int:
    """Return how many verifiers share a run, by its ledger."""
    async with reaching(url) as redis:
        return await count_verifiers(redis, run)


async def share(url: str, run: str, count: int) -> None:
    """Let so many verifiers share a run from now on."""
    async with reaching(url) as redis:
        known = await count_verifiers(redis, run)
        if count < known:
            raise UsageError(
                f"run {run} is shared by {known} verifiers, and each has sessions of its own; resume it with "
                f"--verifiers {known} or more"
            )
        if count > known:
            await redis.set(keys_of(run).verifiers, count)


class DealtWorker(NamedTuple):
    """Where a worker was dealt to, as it stands in the ledger."""

    kind: str
    """Workers with browsers are dealt apart from the others of their process."""
    shard: int
    worker: str

    def __str__(self) -> str:
        return "/".join(map(str, self))


async def deal(url: str, run: str, worker: str, kind: str = "load") -> Shard:
    """Return the shard that a new worker belongs to: the one with the fewest workers of its kind that live."""
    async with reaching(url) as redis:
        count = await count_verifiers(redis, run)
        if count == 1:
            return WHOLE
        while True:
            async with redis.pipeline(transaction=True) as pipe:
                await pipe.watch(keys_of(run).workers)
                seconds, _ = await pipe.time()
                heard = await pipe.zrange(keys_of(run).workers, 0, -1, withscores=True)
                shard = _emptiest(
                    count, kind, [(DealtWorker(*at.decode().split("/")), until) for at, until in heard], seconds
                )
                pipe.multi()
                pipe.zremrangebyscore(keys_of(run).workers, "-inf", seconds)
                pipe.zadd(keys_of(run).workers, {str(DealtWorker(kind, shard, worker)): seconds + ALIVE_SECONDS})
                with contextlib.suppress(WatchError):  # another worker came in between
                    await pipe.execute()
                    return Shard(shard, count)


def _emptiest(count: int, kind: str, heard: list[tuple[DealtWorker, float]], now: float) -> int:
    """Of shards with equally few workers, take the one that has not heard of one of its own for longest."""
    until: dict[int, list[float]] = {shard: [] for shard in range(1, count + 1)}
    for seat, expires in heard:
        if seat.kind == kind and expires > now:
            until[int(seat.shard)].append(expires)
    return min(until, key=lambda shard: (len(until[shard]), min(until[shard], default=0.0)))
