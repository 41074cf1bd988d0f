"""A time to live, judged from both sides: not gone too early, not there too long."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from typing import NoReturn

from soak.checker.contract import Contract, Expiry
from soak.contract_suite import administration
from soak.contract_suite.check import check
from soak.contract_suite.comparison import broken, compare, not_tried
from soak.contract_suite.memory import Memory
from soak.servers.kinds import REDIS
from soak.stores.protocol import MemoryStore

TTL_SECONDS = 1.5
"""Given to a store that takes its time to live from the context."""
TTL_SECONDS_MAX = 10.0
"""The longest time to live that the suite waits for, if the store has its own."""
EPSILON_SECONDS = 0.5
SLACK_SECONDS = 5.0
"""How much earlier than promised an expiry in the far future may be."""
PATIENCE_FACTORS = (1, 2, 4, 6)
"""If the machine is too slow for a time to live, a longer one is tried, where the store takes it."""
REQUIRE_VARIABLE = "SOAK_REQUIRE_ALL"
"""If this is 1 in the environment, a check that could not run counts as failed."""


@check()
async def nothing_expires_before_its_time(memory: Memory) -> None:
    contract = memory.contract
    if REDIS.name in memory.servers:
        await _expect_no_early_expiry(memory)
    ttl = _short_ttl(memory)
    if ttl is None:
        if contract.ttl_seconds is not None and REDIS.name not in memory.servers:
            not_tried(f"sessions live for {contract.ttl_seconds:g} s, which is longer than the suite waits")
        return
    for number, ttl in enumerate(_patient_ttls(memory)):
        store = await memory.open(ttl_seconds=ttl)
        session = memory.session(f"early{number}")
        said = memory.turns(session, 2)
        first = time.monotonic()
        await memory.say(store, said)
        await asyncio.sleep(0.6 * ttl)
        read = await memory.recall(store, session)
        if time.monotonic() < first + ttl - 0.1:
            who = f"A user who comes back {0.6 * ttl:g} s into the promised {ttl:g} s"
            compare(who, memory.kept(said), read, order=contract.order, duplicates=contract.duplicates)
            return
    _too_slow(f"to read within {ttl:g} s")


@check()
async def what_has_expired_is_gone(memory: Memory) -> None:
    ttl = _short_ttl(memory)
    if ttl is None:
        not_tried(_why_not(memory.contract))
    session = memory.session("late")
    store = await memory.open(ttl_seconds=ttl)
    await memory.say(store, memory.turns(session, 3))
    await asyncio.sleep(ttl + EPSILON_SECONDS + memory.staleness_seconds)
    for last in (None, 2):
        read = await memory.recall(store, session, last)
        compare(f"A user who comes back after more than the promised {ttl:g} s", [], read)


@check()
async def time_counts_from_where_the_contract_says(memory: Memory) -> None:
    ttl = _short_ttl(memory)
    if ttl is None:
        not_tried(_why_not(memory.contract))
    if memory.contract_with(ttl_seconds=ttl).expiry is Expiry.SLIDING:
        await _expect_renewal(memory)
    else:
        await _expect_no_renewal(memory, await memory.open(ttl_seconds=ttl), ttl)


async def _expect_no_early_expiry(memory: Memory) -> None:
    store = await memory.open()
    await memory.say(store, memory.turns(memory.session("life"), 2))
    url = memory.servers[REDIS.name].url
    life = await administration.longest_life_seconds(url, memory.namespace)
    promised = memory.contract.ttl_seconds
    if life is not None and (promised is None or life < promised - SLACK_SECONDS):
        until = "nothing was to expire" if promised is None else f"{promised:g} s were promised"
        broken(f"A user who comes back after {life:.0f} s is not known any more, though {until} (lost)")


async def _expect_renewal(memory: Memory) -> None:
    ttl = 0.0
    for number, ttl in enumerate(_patient_ttls(memory)):
        store = await memory.open(ttl_seconds=ttl)
        session = memory.session(f"sliding{number}")
        said = memory.turns(session, 4)
        is_in_time = True
        for message in said:
            started = time.monotonic()
            await memory.say(store, [message])
            await asyncio.sleep(0.6 * ttl)
            read = await memory.recall(store, session)
            is_in_time = is_in_time and time.monotonic() < started + ttl - 0.1
        if is_in_time:
            who = f"A user who never paused for longer than {0.6 * ttl:g} s of the promised {ttl:g} s"
            compare(who, memory.kept(said), read, order=memory.contract.order, duplicates=memory.contract.duplicates)
            return
    _too_slow(f"to talk within {ttl:g} s")


async def _expect_no_renewal(memory: Memory, store: MemoryStore, ttl: float) -> None:
    session = memory.session("absolute")
    first, second = memory.turns(session, 2)
    await memory.say(store, [first])
    await asyncio.sleep(0.6 * ttl)
    await memory.say(store, [second])
    await asyncio.sleep(0.4 * ttl + EPSILON_SECONDS + memory.staleness_seconds)
    if first in await memory.recall(store, session):
        broken(f"A user is reminded of what was to be gone {ttl:g} s after it was first said (resurrected)")


def _short_ttl(memory: Memory) -> float | None:
    """Return a time to live that can be waited for, if the store has one."""
    ttl = memory.contract_with(ttl_seconds=TTL_SECONDS).ttl_seconds
    return ttl if ttl is not None and ttl <= TTL_SECONDS_MAX else None


def _patient_ttls(memory: Memory) -> Iterator[float]:
    """Yield times to live to try, each longer than the last; the store's own, where it has one, as often."""
    for factor in PATIENCE_FACTORS:
        ttl = memory.contract_with(ttl_seconds=TTL_SECONDS * factor).ttl_seconds
        if ttl is not None and ttl <= TTL_SECONDS_MAX:
            yield ttl


def _too_slow(what: str) -> NoReturn:
    reason = f"this machine is too slow {what}"
    if os.environ.get(REQUIRE_VARIABLE) == "1":
        broken(f"{reason}, so nothing is known of its time to live; give it less to do")
    not_tried(reason)


def _why_not(contract: Contract) -> str:
    if contract.ttl_seconds is None:
        return "the contract declares no time to live"
    return f"sessions live for {contract.ttl_seconds:g} s, which is longer than the suite waits"
