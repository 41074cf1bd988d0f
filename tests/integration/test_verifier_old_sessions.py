"""Old sessions are read again at growing ages, and a time to live is judged from both sides."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xxhash import xxh3_64_intdigest

from soak.checker.contract import Contract, Expiry, Reads
from soak.checker.message import Message
from soak.stores.redis_stores import RedisListStore
from tests.support.verifying import SECONDS_MAX, Script, Soaking, Verifying, found_kinds, scripting, verifying

pytestmark = pytest.mark.long

TALK, TWIN = "talk-chat", "twin-chat"
MESSAGES = 4
TTL_SECONDS = 3.0
PLANNED: dict[str, Any] = {"coverage": 3600.0, "recall_ages": [3600.0]}
"""No rounds and no recall in time: only a visit that is planned for the expiry can find anything."""


class Sliding(RedisListStore):
    """A list that lives for a while after its last message."""

    layout = "sliding"
    ttl_seconds = TTL_SECONDS
    flag: tuple[str, ...] = ()

    async def append(self, session: str, message: Message) -> None:
        await super().append(session, message)
        await self._client.execute("PEXPIRE", self.key(session), int(self.ttl_seconds * 1000), *self.flag)


class SlidingEarly(Sliding):
    """The same, and its author took half of the time for granted."""

    layout = "sliding-early"
    ttl_seconds = 1.0


class Absolute(Sliding):
    """A list that lives for a while after its first message."""

    layout = "absolute"
    flag = ("NX",)


class AbsoluteEarly(Absolute):
    """The same with a shorter time than promised."""

    layout = "absolute-early"
    ttl_seconds = 1.0


class Forever(RedisListStore):
    """A list that never expires."""

    layout = "forever"


HERE = __name__
SLIDING = Contract(ttl_seconds=TTL_SECONDS, expiry=Expiry.SLIDING)
ABSOLUTE = Contract(ttl_seconds=TTL_SECONDS, expiry=Expiry.ABSOLUTE)


async def begin(script: Script, *, close: bool = True, session: str = TALK) -> list[Message]:
    said = await script.say(session, MESSAGES)
    if close:
        script.close(session)
    return said


# -- a time to live, from both sides --


@pytest.mark.parametrize("contract", [SLIDING, ABSOLUTE], ids=["sliding", "absolute"])
@pytest.mark.parametrize("close", [True, False], ids=["ended", "going on"])
async def test_a_session_that_expires_too_early_is_lost(
    *, close: bool, contract: Contract, redis_url: str, ledger_url: str, tmp_path: Path
) -> None:
    store = f"{HERE}:{contract.expiry.value.capitalize()}Early"
    async with scripting(redis_url, ledger_url, store=store, contract=contract) as script:
        async with verifying(script, tmp_path, **PLANNED) as verifier:
            await begin(script, close=close)
            await verifier.until_found(MESSAGES)
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"rolled_back": MESSAGES}


@pytest.mark.parametrize("contract", [SLIDING, ABSOLUTE], ids=["sliding", "absolute"])
async def test_a_session_that_never_expires_is_resurrected(contract: Contract, soaking: Soaking) -> None:
    async with soaking(store=f"{HERE}:Forever", contract=contract) as script:
        async with verifying(script, **PLANNED) as verifier:
            await begin(script)
            await verifier.until_found(MESSAGES)
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"resurrected": MESSAGES}


@pytest.mark.parametrize("contract", [SLIDING, ABSOLUTE], ids=["sliding", "absolute"])
async def test_a_session_that_expires_in_time_is_seen_gone_and_let_go(contract: Contract, soaking: Soaking) -> None:
    store = f"{HERE}:{contract.expiry.value.capitalize()}"
    async with soaking(store=store, contract=contract) as script:
        async with verifying(script, **PLANNED) as verifier:
            await begin(script)
            await verifier.until_verified(MESSAGES)
            before = time.monotonic()
            await verifier.until(lambda status: status["sessions_live"] == 0)
            assert time.monotonic() - before > 1.0, "it was let go before its time"
            assert await verifier.metric("soak_sessions_retired_total") == 1
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


async def test_a_session_whose_time_does_not_slide_although_promised_is_lost_while_it_is_spoken_in(
    soaking: Soaking,
) -> None:
    async with soaking(store=f"{HERE}:AbsoluteEarly", contract=SLIDING) as script:
        async with verifying(script, **PLANNED) as verifier:
            await begin(script, close=False)
            await verifier.until_verified(MESSAGES)
            await asyncio.sleep(0.7)
            await script.say(TALK)
            await verifier.until_found()
            verdict = await verifier.finish()
        assert verdict.verdict == "violation"
        assert set(found_kinds(verdict)) <= {"lost", "rolled_back"}


async def test_a_session_whose_time_slides_although_it_should_not_is_resurrected(soaking: Soaking) -> None:
    short = Contract(ttl_seconds=1.5, expiry=Expiry.ABSOLUTE)
    async with soaking(store=f"{HERE}:Sliding", contract=short) as script:
        async with verifying(script, **PLANNED) as verifier:
            await begin(script, close=False)
            await asyncio.sleep(0.5)
            await script.say(TALK)
            script.close(TALK)
            await verifier.until_found()
            verdict = await verifier.finish()
        assert set(found_kinds(verdict)) == {"resurrected"}


async def test_a_reader_that_may_be_behind_may_still_show_what_has_expired(soaking: Soaking) -> None:
    behind = Contract(ttl_seconds=0.6, reads=Reads.BOUNDED_STALENESS, staleness_seconds=3600.0)
    async with soaking(store=f"{HERE}:Forever", contract=behind) as script:
        async with verifying(script, recall_ages=[0.3, 1.5]) as verifier:
            await begin(script)
            await verifier.until(lambda status: status["recalls"][script.store]["1.5s"] == 1)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


# -- recall ages --


async def to_be_recalled(script: Script, verifier: Verifying, age: str, count: int) -> dict[str, Any]:
    return await verifier.until(lambda status: status["recalls"][script.store][age] >= count)


def remove_one(script: Script, said: list[Message]) -> Any:
    return script.remove(said[1])


def bring_back(script: Script, said: list[Message]) -> Any:
    return script.push(TALK, said[1].to_bytes())


@pytest.mark.parametrize(
    ("forget", "spoil", "kind"),
    [(False, remove_one, "rolled_back"), (True, bring_back, "resurrected")],
    ids=["remembered", "forgotten"],
)
async def test_what_goes_wrong_after_the_first_recall_is_found_at_the_next(
    *,
    forget: bool,
    spoil: Callable[[Script, list[Message]], Any],
    kind: str,
    redis_url: str,
    ledger_url: str,
    tmp_path: Path,
) -> None:
    ages = {"coverage": 3600.0, "recall_ages": [2.5, 0.3]}  # in whatever order they are given
    async with scripting(redis_url, ledger_url, contract=Contract()) as script:
        async with verifying(script, tmp_path, **ages) as verifier:
            for session in (TALK, TWIN):
                said = await begin(script, close=False, session=session)
                if session == TALK:
                    wrong = said
                await verifier.until_verified(MESSAGES * len(script.numbers))
                if forget:
                    await script.forget(session)
                script.close(session)
            await to_be_recalled(script, verifier, "300ms", 2)
            await spoil(script, wrong)
            await verifier.until_found()
            await to_be_recalled(script, verifier, "2.5s", 2)
            await verifier.until(lambda status: status["sessions_live"] == 0)
            assert await verifier.metric("soak_recalls_total", age="2.5s") == 2
            assert await verifier.metric("soak_oldest_recall_seconds") >= 2.5
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {kind: 1}


async def test_a_recall_is_counted_once_although_the_verifier_was_killed_since(soaking: Soaking) -> None:
    ages = {"recall_ages": [0.3, 3600.0]}
    async with soaking(contract=Contract()) as script:
        async with verifying(script, **ages) as verifier:
            await begin(script)
            await to_be_recalled(script, verifier, "300ms", 1)
            await asyncio.sleep(1.0)  # several checkpoints
            await verifier.kill()
        started = time.time()
        async with verifying(script, **ages) as verifier:
            await verifier.until(lambda status: status["last_sweep_wall_seconds"] > started)
            status = await verifier.status()
            assert status["recalls"][script.store] == {"300ms": 1, "1h": 0}
            assert status["sessions_live"] == 1
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


# -- too many of them --


async def what_is_left(
    script: Script, tmp_path: Path, sessions: list[str], *, most: int, share: float
) -> tuple[set[str], int]:
    """Let sessions grow old; returns those that are still there, and how many are still watched."""
    ages = {"recall_ages": [0.2, 3600.0], "closed_sessions_max": most, "kept_share": share}
    async with verifying(script, tmp_path, **ages) as verifier:
        for session in sessions:
            await script.say(session)
        await verifier.until_verified(len(sessions))
        for session in sessions:
            script.close(session)
        status = await to_be_recalled(script, verifier, "200ms", len(sessions))
        status = await verifier.until(lambda now: now["sessions_live"] <= most)
        deadline = time.monotonic() + SECONDS_MAX
        while len(left := await there(script, sessions)) > status["sessions_live"]:
            assert time.monotonic() < deadline, "what was let go is not removed"
            await asyncio.sleep(0.05)
        live: int = status["sessions_live"]
        verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})
    return left, live


async def there(script: Script, sessions: list[str]) -> set[str]:
    return {session for session in sessions if await script.redis.exists(script.key(session))}


def drawn(sessions: list[str], share: float) -> set[str]:
    return {session for session in sessions if xxh3_64_intdigest(session.encode()) < share * 2**64}


async def test_when_there_are_too_many_a_share_drawn_by_name_is_kept_to_the_end(
    soaking: Soaking, tmp_path: Path
) -> None:
    sessions = [f"{number}-chat" for number in range(40)]
    async with soaking(contract=Contract()) as script:
        left, live = await what_is_left(script, tmp_path, sessions, most=12, share=0.2)
    assert 0 < len(drawn(sessions, 0.2)) <= 12
    assert drawn(sessions, 0.2) <= left
    assert live == len(left) == 12


async def test_a_share_that_becomes_too_many_is_cut_and_the_bound_holds(soaking: Soaking, tmp_path: Path) -> None:
    sessions = [f"{number}-chat" for number in range(40)]
    async with soaking(contract=Contract()) as script:
        left, live = await what_is_left(script, tmp_path, sessions, most=5, share=1.0)
    assert live == len(left) <= 5


async def test_none_is_kept_where_none_may_be(soaking: Soaking, tmp_path: Path) -> None:
    sessions = [f"{number}-chat" for number in range(10)]
    async with soaking(contract=Contract()) as script:
        left, live = await what_is_left(script, tmp_path, sessions, most=0, share=1.0)
    assert (left, live) == (set(), 0)
