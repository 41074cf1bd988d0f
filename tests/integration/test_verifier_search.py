"""A memory that is searched, on a real server: what is stored and not found is told, and nothing else is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import asyncpg
import pytest

from soak.checker.contract import Contract, Order, Reads
from soak.checker.message import Message, Stored
from soak.ledger.records import SeenItem
from soak.stores.pgvector import PgvectorStore
from tests.support.verifying import Script, Verifying, found_kinds, scripting, verifying

TALK = "t1-chat"
HERE = __name__
RIGHT = "pgvector"


class Blind(PgvectorStore):
    """Finds everything but what a test has hidden, and may find what is not there."""

    schema_suffix = "-blind"
    hidden: ClassVar[set[tuple[str, int]]] = set()
    besides: ClassVar[list[Message]] = []
    is_out: ClassVar[bool] = False

    async def search(self, session: str, text: str, limit: int) -> Sequence[Stored]:
        if self.is_out:
            raise ConnectionError("the index is being rebuilt")
        found = await super().search(session, text, limit + len(self.hidden))
        seen = [one for one in found if not isinstance(one, Message) or (one.session, one.seq) not in self.hidden]
        return [*self.besides, *seen][:limit]


@pytest.fixture(autouse=True)
def blind() -> None:
    Blind.hidden, Blind.besides, Blind.is_out = set(), [], False


@contextlib.asynccontextmanager
async def searched(
    urls: tuple[str, str, str],
    folder: Path,
    store: str = f"{HERE}:Blind",
    contract: Contract | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[Script, Verifying]]:
    """Soak a store that can be searched, and clean up after it."""
    redis_url, ledger_url, postgres_url = urls
    servers = {"redis": redis_url, "postgres": postgres_url}
    async with (
        scripting(redis_url, ledger_url, store=store, servers=servers, contract=contract) as script,
        verifying(script, folder, minimum_verified=1, **settings) as verifier,
    ):
        yield script, verifier


@pytest.fixture
def urls(redis_url: str, ledger_url: str, postgres_url: str) -> tuple[str, str, str]:
    return redis_url, ledger_url, postgres_url


async def until_searches(verifier: Verifying, count: int, result: str) -> None:
    """Wait until so many searches, at least, have ended so."""
    await verifier.until(lambda status: status["totals"]["verified"])
    async with asyncio.timeout(30):
        while await verifier.metric("soak_searches_total", result=result) < count:
            await asyncio.sleep(0.05)


async def test_a_store_that_finds_what_it_stores_is_left_alone(urls: tuple[str, str, str], tmp_path: Path) -> None:
    async with searched(urls, tmp_path, RIGHT) as (script, verifier):
        for session in (TALK, "t2-chat", "t3-short"):
            await script.say(session, 30)
        await script.forget("t2-chat")
        await until_searches(verifier, 40, "hit")
        await until_searches(verifier, 3, "not_expected")
        assert await verifier.metric("soak_searches_total", result="not_found") == 0
        verdict = await verifier.finish()
        assert verdict.verdict == "pass", verdict.reasons


async def test_what_is_stored_and_not_found_is_told_once_and_over_when_it_is_found(
    urls: tuple[str, str, str], tmp_path: Path
) -> None:
    async with searched(urls, tmp_path) as (script, verifier):
        await script.open(TALK)
        Blind.hidden = {(TALK, 5), (TALK, 9)}
        said = await script.say(TALK, 12)
        await verifier.until_found(2)
        await until_searches(verifier, 4, "not_found")
        assert await verifier.metric("soak_consistency_violations_total", kind="unfindable") == 2
        stories = {story["message"]: story for story in verifier.evidence()}
        assert set(stories) == {str(said[4].name), str(said[8].name)}
        told = stories[str(said[4].name)]
        assert told["kind"] == "unfindable"
        assert told["clause"]["broken"] == "reads"
        assert told["probable_cause"]["cause"] == "swallowed error"
        assert told["expected"]["content"] == said[4].content
        assert told["stored"]["content"] == said[4].content, "the history shows it"
        await verifier.kill()
        verifier.start()
        await verifier.until(lambda status: status["restarts"] == 1)
        await until_searches(verifier, 6, "not_found")
        assert await verifier.metric("soak_consistency_violations_total", kind="unfindable") == 2, (
            "and not counted anew"
        )
        Blind.hidden = set()
        await verifier.until_metric(2, "soak_healed_violations_total", kind="unfindable")
        await verifier.until_metric(0, "soak_open_violations")
        verdict = await verifier.finish()
        assert found_kinds(verdict) == {"unfindable": 2}


@pytest.mark.long
async def test_a_kill_in_the_middle_of_a_suspicion_neither_forgets_nor_confirms_it_too_soon(
    urls: tuple[str, str, str], tmp_path: Path
) -> None:
    async with searched(urls, tmp_path, settle=1.5) as (script, verifier):
        await script.open(TALK)
        Blind.hidden = {(TALK, 2)}
        await script.say(TALK, 3)
        await verifier.until(lambda status: status["suspicions_open"] == 1)
        await verifier.kill()
        verifier.start()
        await verifier.until_found(1)
        assert found_kinds(await verifier.finish()) == {"unfindable": 1}


@pytest.mark.long
async def test_what_only_a_wide_search_finds_is_measured_and_no_violation(
    urls: tuple[str, str, str], tmp_path: Path
) -> None:
    async with searched(urls, tmp_path, RIGHT) as (script, verifier):
        said = await script.say(TALK, 25)
        connection: Any = await asyncpg.connect(urls[2])
        # As far from its own words as can be: what an approximate index does to a message now and then.
        await connection.execute(
            f'UPDATE "{script.info.header.namespace}-pgvector".message SET embedding = embedding * '  # noqa: S608
            "array_fill(-1::real, ARRAY[64])::vector WHERE seq = 7"
        )
        await connection.close()
        assert list(await script.memory.search(TALK, said[6].content, 25))[-1] == said[6]  # type: ignore[attr-defined]
        await until_searches(verifier, 1, "found_wide")
        verdict = await verifier.finish()
        assert verdict.verdict == "pass", verdict.reasons


async def test_what_is_found_later_was_stale_if_every_search_is_promised_to_show_it(
    urls: tuple[str, str, str], tmp_path: Path
) -> None:
    async with searched(urls, tmp_path, settle=1.5) as (script, verifier):
        await script.open(TALK)
        Blind.hidden = {(TALK, 4)}
        await script.say(TALK, 4)
        await verifier.until(lambda status: status["suspicions_open"] == 1)
        Blind.hidden = set()
        await until_searches(verifier, 1, "found_later")
        assert found_kinds(await verifier.finish()) == {"stale": 1}


LATER = Contract(order=Order.NONE, reads=Reads.BOUNDED_STALENESS, staleness_seconds=30.0)


@pytest.mark.long
async def test_an_index_that_may_be_behind_is_left_the_time_it_asked_for(
    urls: tuple[str, str, str], tmp_path: Path
) -> None:
    async with searched(urls, tmp_path, contract=LATER) as (script, verifier):
        await script.open(TALK)
        Blind.hidden = {(TALK, 4)}
        await script.say(TALK, 4)
        await verifier.until(lambda status: status["suspicions_open"] == 1)
        await asyncio.sleep(1.5)
        Blind.hidden = set()
        await until_searches(verifier, 1, "found_later")
        verdict = await verifier.finish()
        assert verdict.verdict == "pass", verdict.reasons


async def test_what_is_found_after_a_forget_is_resurrected_and_what_is_not_ones_own_is_leaked(
    urls: tuple[str, str, str], tmp_path: Path
) -> None:
    async with searched(urls, tmp_path) as (script, verifier):
        for session in (TALK, "t2-chat"):
            await script.open(session)
        mine, other = await script.say(TALK, 4), await script.say("t2-chat", 4)
        await verifier.until_verified(8)
        await script.forget(TALK)
        Blind.besides = [mine[1]]
        # In the other session the same message is somebody else's.
        await verifier.until_found(2)
        Blind.besides = []
        verdict = await verifier.finish()
        assert found_kinds(verdict) == {"resurrected": 1, "leaked": 1}
        assert other


@pytest.mark.long
async def test_a_search_that_fails_is_unavailable_and_a_store_that_never_answers_one_does_not_pass(
    urls: tuple[str, str, str], tmp_path: Path
) -> None:
    async with searched(urls, tmp_path) as (script, verifier):
        await script.open(TALK)
        Blind.is_out = True
        await script.say(TALK, 5)
        await verifier.until_verified(5)
        await verifier.until(lambda status: status["totals"]["reads"] > 5)
        verdict = await verifier.finish()
        assert verdict.verdict == "inconclusive"
        assert verdict.reasons == [
            f"searches on {HERE}:Blind found less than half of what is stored there, or nothing was searched for"
        ]


@pytest.mark.long
async def test_what_a_participant_did_not_find_is_looked_for(urls: tuple[str, str, str], tmp_path: Path) -> None:
    async with searched(urls, tmp_path) as (script, verifier):
        await script.say(TALK, 120)
        await verifier.until_verified(120)
        Blind.hidden = {(TALK, 60)}
        script.observe(TALK, [SeenItem(TALK, 0, 1)], last=10, asked=(0, 60))
        await verifier.until_found(1)
        assert found_kinds(await verifier.finish()) == {"unfindable": 1}
