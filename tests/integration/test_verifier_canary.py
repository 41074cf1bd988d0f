"""The alarm is tested while it is on: a session spoiled on purpose is reported, or the run proves nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from soak.checker import judge as judging
from soak.checker import session as checking
from soak.checker.contract import Contract, Duplicates, Expiry, Reads
from soak.checker.expected_session import ExpectedSession
from soak.checker.judge import identify
from soak.checker.kinds import Kind
from soak.checker.message import Message, Stored
from soak.checker.order import order_findings
from soak.checker.read import Finding
from soak.checker.session import StoreJudging
from soak.checker.text import MessageGenerator
from soak.stores.redis_stores import RedisListStore
from soak.verifier import canary, result
from soak.verifier.canary import FILE_NAME
from soak.verifier.reporter import Reporter
from soak.verifier.sweeper import Sweeper
from tests.support.verifying import STORES, Script, Soaking, Unordered, Verifying, found_kinds, verifying

pytestmark = pytest.mark.long

if TYPE_CHECKING:
    from tests.support.servers.testbed_thread import TestbedThread

TALK = "talk-chat"
OFTEN: dict[str, Any] = {"canary": 0.1, "canary_deadline": 10.0}
ONCE: dict[str, Any] = {"canary": 3600.0, "canary_deadline": 10.0}
PATIENCE_SECONDS = 60.0


class LastThree(RedisListStore):
    """A list that keeps its last three messages."""

    layout = "last-three"
    contract = Contract(retained_messages=3)

    async def append(self, session: str, message: Message) -> None:
        await super().append(session, message)
        await self._client.execute("LTRIM", self.key(session), -3, -1)


class OnlyLast(RedisListStore):
    """A list that keeps nothing but its last message."""

    layout = "only-last"
    contract = Contract(retained_messages=1)

    async def append(self, session: str, message: Message) -> None:
        await super().append(session, message)
        await self._client.execute("LTRIM", self.key(session), -1, -1)


class LosesThird(RedisListStore):
    """A list that acknowledges every message and drops each third."""

    layout = "loses-third"
    contract = Contract()

    async def append(self, session: str, message: Message) -> None:
        if message.seq != 3:
            await super().append(session, message)


class Evicting(RedisListStore):
    """A list that may be evicted at any time, and is."""

    layout = "evicting"
    contract = Contract(eviction_allowed=True)
    reads = 0

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        type(self).reads += 1
        if self.reads % 5 == 0:
            await self.forget(session)
        return await super().history(session, last)


HERE = __name__


async def canaries(verifier: Verifying, ending: str, count: int) -> dict[str, Any]:
    """Wait until so many canaries have ended so; several, one after the other, take longer than anything else."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await verifier.until(lambda status: sum(one[ending] for one in status["canaries"]) >= count)
        except AssertionError:
            if time.monotonic() > deadline:
                raise


def doubts(verdict: result.Result) -> list[str]:
    """Return what keeps a run from passing, without what is only worth knowing."""
    return [reason for reason in verdict.reasons if not reason.startswith("warning:")]


async def is_gone(script: Script, verifier: Verifying) -> None:
    """Check that no canary session is left in the store, nor anything of one in the records."""
    saved = json.loads((verifier.folder / FILE_NAME).read_bytes())
    saved = saved.get("value", saved)["stores"]
    assert saved[script.store]["left"] == []
    index = script.info.header.stores.index(script.store)
    for number in range(1, saved[script.store]["last"] + 1):
        session = f"canary-{script.info.header.run}-{index}-{number}-chat"
        assert not await script.memory.history(session)
    assert verifier.journal() == []
    assert verifier.evidence() == []


# -- it rings --


@pytest.mark.parametrize(
    ("store", "endings"),
    [
        ("redis-list", ["removed", "swapped", "duplicated", "invented"]),
        ("redis-zset", ["removed", "swapped", "invented", "invented"]),
        ("redis-stream", ["removed", "swapped", "duplicated", "invented"]),
        ("redis-hash", ["removed", "swapped", "duplicated", "invented"]),
        ("postgres", ["removed", "swapped", "invented", "invented"]),
    ],
)
async def test_the_canary_is_reported_on_every_store_in_every_way_and_counts_nowhere(
    store: str, endings: list[str], soaking: Soaking, redis_url: str, postgres_url: str, spoils: list[str]
) -> None:
    servers = {"redis": redis_url, "postgres": postgres_url}
    async with soaking(store=store, servers=servers) as script:
        await script.say(TALK, 6)
        async with verifying(script, **OFTEN) as verifier:
            await canaries(verifier, "detected", len(endings))
            assert await verifier.metric("soak_canaries_total", store=store, result="detected") >= len(endings)
            assert time.time() - await verifier.metric("soak_canary_last_detected_timestamp_seconds") < PATIENCE_SECONDS
            status = await verifier.until_verified(6)
            assert status["sessions_live"] == 1
            verdict = await verifier.finish()
        assert (verdict.verdict, doubts(verdict)) == ("pass", [])
        assert spoils[: len(endings)] == endings
        totals = verdict.totals
        assert (totals.acknowledged, totals.verified, totals.violations, totals.tolerated) == (6, 6, 0, 0)
        assert (totals.sessions, totals.released, totals.indeterminate) == (1, 0, 0)
        assert verdict.canaries is not None
        assert (verdict.canaries[0].missed, verdict.canaries[0].early) == (0, 0)
        await is_gone(script, verifier)


async def test_the_canary_is_reported_by_a_reader_of_a_replica(
    soaking: Soaking, redis_url: str, postgres_url: str, postgres_replica_url: str
) -> None:
    servers = {"redis": redis_url, "postgres": postgres_url, "postgres-replica": postgres_replica_url}
    async with soaking(store="postgres-replica", servers=servers) as script:
        await script.say(TALK, 6)
        async with verifying(script, **OFTEN) as verifier:
            await canaries(verifier, "detected", 3)
            verdict = await verifier.finish()
        assert (verdict.verdict, doubts(verdict)) == ("pass", [])


@pytest.mark.parametrize(
    ("store", "contract", "ttl_seconds", "endings"),
    [
        (f"{HERE}:LastThree", None, None, ["duplicated", "invented"]),
        (f"{HERE}:OnlyLast", None, None, ["invented", "invented"]),
        (f"{STORES}:Unordered", None, None, ["removed", "duplicated", "invented"]),
        ("redis-list", Contract(duplicates=Duplicates.AT_LEAST_ONCE), None, ["removed", "swapped", "invented"]),
        ("redis-list", Contract(reads=Reads.EVENTUAL), None, ["swapped", "duplicated", "invented"]),
        ("redis-hash", None, 1.5, ["invented", "invented"]),
        ("redis-hash", None, 0.05, ["invented"]),
        (
            f"{STORES}:AbsoluteList",
            Contract(ttl_seconds=1.5, expiry=Expiry.ABSOLUTE),
            None,
            ["invented", "invented"],
        ),
        (f"{HERE}:Evicting", None, None, ["invented", "invented"]),
        ("examples.my_memory:MyMemory", None, None, ["removed", "swapped", "duplicated", "invented"]),
    ],
    ids=["last 3", "last 1", "no order", "repeats", "eventual", "ttl", "short ttl", "absolute ttl", "evicting", "own"],
)
async def test_only_what_the_contract_forbids_is_done_to_a_canary(
    store: str,
    contract: Contract | None,
    ttl_seconds: float | None,
    endings: list[str],
    soaking: Soaking,
    spoils: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Unordered, "turns", 0)
    kept = {"contract": contract, "ttl_seconds": ttl_seconds}
    async with soaking(store=store, **kept) as script:
        async with verifying(script, **OFTEN) as verifier:
            status = await canaries(verifier, "detected", len(endings))
            assert (status["canaries"][0]["missed"], status["canaries"][0]["early"]) == (0, 0)
            verdict = await verifier.finish()
        assert spoils[: len(endings)] == endings
        assert found_kinds(verdict) == {}
        assert verdict.reasons[0].startswith("only 0 messages were verified")


@pytest.fixture
def spoils(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Hear of each canary that was detected how it had been spoiled."""
    heard: list[str] = []
    listen = canary.Canary._listen

    async def listen_too(self: Any, watched: Any, written: Any, invented: Any, way: Any, begun: int) -> Any:
        ending = await listen(self, watched, written, invented, way, begun)
        if ending[0] is canary.CanaryOutcome.DETECTED:
            heard.append(way.value)
        return ending

    monkeypatch.setattr(canary.Canary, "_listen", listen_too)
    return heard


async def test_a_load_that_ends_at_once_still_gets_its_canary(soaking: Soaking) -> None:
    async with soaking() as script:
        await script.say(TALK, 6)
        async with verifying(script, **ONCE) as verifier:
            verdict = await verifier.finish()
        assert (verdict.verdict, doubts(verdict)) == ("pass", [])
        assert verdict.canaries is not None
        assert [one.detected for one in verdict.canaries] == [1]
        await is_gone(script, verifier)


async def test_a_canary_that_is_switched_off_is_said_to_be(soaking: Soaking) -> None:
    async with soaking() as script:
        await script.say(TALK, 6)
        async with verifying(script, canary="none") as verifier:
            verdict = await verifier.finish()
        assert (verdict.verdict, verdict.canaries) == ("pass", None)
        assert not (verifier.folder / FILE_NAME).exists()


# -- it does not ring --


def suspect_nothing(*_: object, **__: object) -> None:
    return None


def confirm_nothing(*_: object, **__: object) -> bool:
    return False


def find_nothing(*_: object, **__: object) -> list[object]:
    return []


def see_no_repeats(*_: object, **__: object) -> None:
    return None


def take_all_for_sent(book: ExpectedSession, item: Stored, author: MessageGenerator, index: int) -> Any:
    place, finding = identify(book, item, author, index)
    return place, None if finding is not None and finding.kind is Kind.PHANTOM else finding


def mistake_order(*arguments: Any) -> list[Finding]:
    return [finding._replace(kind=Kind.CORRUPTED) for finding in order_findings(*arguments)]


async def read_nothing(self: Sweeper) -> None:
    await asyncio.Event().wait()


BLIND: list[tuple[str, Any, str, Callable[..., object], str]] = [
    ("what is missing is never suspected", checking, "suspect", find_nothing, "removed"),
    ("a suspicion is never confirmed", StoreJudging, "is_calm", confirm_nothing, "removed"),
    ("a wrong order is never found", judging, "order_findings", find_nothing, "swapped"),
    ("a wrong order is taken for something else", judging, "order_findings", mistake_order, "swapped"),
    ("a repeat is never found", judging, "find_duplicates", see_no_repeats, "duplicated"),
    ("what nobody sent is never found", judging, "identify", take_all_for_sent, "invented"),
    ("nothing is read", Sweeper, "_read_forever", read_nothing, "not read"),
    ("nothing is reported", Reporter, "_publish", suspect_nothing, "removed"),
]


@pytest.mark.parametrize(("place", "name", "blind", "told"), [case[1:] for case in BLIND], ids=[c[0] for c in BLIND])
async def test_a_check_that_is_blind_is_noticed_and_the_run_proves_nothing(
    place: Any, name: str, blind: Callable[..., object], told: str, soaking: Soaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, name, blind)
    number = {"swapped": 2, "duplicated": 3, "invented": 4}.get(told, 1)
    async with soaking(contract=Contract()) as script:
        await script.say(TALK, 6)
        quickly = {"canary": 0.1, "canary_deadline": 1.0, "drain": 3.0}
        async with verifying(script, **quickly) as verifier:
            status = await canaries(verifier, "missed", 1)
            assert status["canaries"][0]["detected"] == number - 1
            rang = await verifier.metric("soak_canary_last_detected_timestamp_seconds")
            assert (rang > 0) == (number > 1)
            assert await verifier.metric("soak_canaries_total", result="missed") >= 1
            verdict = await verifier.finish()
        assert verdict.verdict == "inconclusive"
        assert any("the self-check failed on redis-list" in reason for reason in verdict.reasons)


async def test_a_canary_that_never_comes_to_its_end_makes_the_run_inconclusive(soaking: Soaking) -> None:
    async with soaking(contract=Contract()) as script:
        await script.say(TALK, 6)
        await script.fault("pause-1", "start", "pause")  # and nobody ever says that it is over
        async with verifying(script, drain=2.0, **ONCE) as verifier:
            await verifier.until_verified(6)
            verdict = await verifier.finish()
        assert verdict.verdict == "inconclusive"
        assert doubts(verdict) == ["the self-check did not run on redis-list: no canary came to its end"]


# -- it rings for a reason of the store's own --


async def test_a_wrong_store_is_a_violation_whatever_its_canaries_say(soaking: Soaking) -> None:
    async with soaking(store=f"{HERE}:LosesThird") as script:
        await script.say(TALK, 6)
        async with verifying(script, **OFTEN) as verifier:
            await canaries(verifier, "early", 1)
            await verifier.until_found()
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("violation", {"lost": 1})


async def test_a_canary_that_rings_before_it_is_spoiled_keeps_a_run_from_passing(soaking: Soaking) -> None:
    async with soaking(store=f"{HERE}:LosesThird") as script:
        await script.say(TALK, 2)  # too short to meet the flaw
        async with verifying(script, **ONCE) as verifier:
            await canaries(verifier, "early", 1)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("inconclusive", {})
        assert ["reported before they were spoiled" in reason for reason in doubts(verdict)] == [True]


# -- it is disturbed --


async def test_a_paused_server_delays_a_canary_and_does_not_fail_it(testbed: TestbedThread, soaking: Soaking) -> None:
    async with soaking() as script:
        await script.say(TALK, 6)
        pid = testbed.nodes["redis"].pid
        assert pid is not None
        async with verifying(script, canary=0.1, canary_deadline=1.0) as verifier:
            await canaries(verifier, "detected", 1)
            os.kill(pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(5.0)  # much longer than the deadline
                status = await verifier.status()
            finally:
                os.kill(pid, signal.SIGCONT)
            assert status["canaries"][0]["missed"] == 0
            await canaries(verifier, "detected", status["canaries"][0]["detected"] + 2)
            verdict = await verifier.finish()
        assert (verdict.verdict, doubts(verdict)) == ("pass", [])


async def test_a_fault_in_the_middle_of_a_canary_begins_it_anew(
    soaking: Soaking, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoil = canary.Canary._spoil
    crashes: list[str] = []

    async def spoil_after_a_crash(self: Any, *arguments: Any) -> Any:
        if not crashes:
            # It may have taken what is removed now: nobody can be blamed for not reporting that.
            crashes.append("crash-1")
            await script.fault("crash-1", "start")
            await script.fault("crash-1", "end")
            while not self._state.faults:
                await asyncio.sleep(0.01)
        return await spoil(self, *arguments)

    monkeypatch.setattr(canary.Canary, "_spoil", spoil_after_a_crash)
    lenient = Contract(crash_loss_seconds=60.0)
    async with soaking(contract=lenient) as script:
        await script.say(TALK, 6)
        async with verifying(script, canary=3600.0, canary_deadline=3.0) as verifier:
            await verifier.until(lambda status: any(status["canaries"][0][end] for end in ("detected", "missed")))
            assert crashes
            verdict = await verifier.finish()
        assert (verdict.verdict, doubts(verdict)) == ("pass", [])


async def test_a_verifier_killed_in_the_middle_of_a_canary_leaves_neither_it_nor_a_false_alarm(
    soaking: Soaking, tmp_path: Path
) -> None:
    async with soaking() as script:
        await script.say(TALK, 6)
        for pause in (0.05, 0.2, 0.4, 0.6, 0.8):
            async with verifying(script, **OFTEN) as verifier:
                await verifier.until(lambda _: (tmp_path / "verifier" / FILE_NAME).exists())
                await asyncio.sleep(pause)
                await verifier.kill()
        async with verifying(script, **ONCE) as verifier:
            await verifier.until_verified(6)
            verdict = await verifier.finish()
        assert (verdict.verdict, doubts(verdict)) == ("pass", [])
        await is_gone(script, verifier)


async def test_canaries_that_rang_are_remembered_over_a_restart(soaking: Soaking) -> None:
    async with soaking() as script:
        await script.say(TALK, 6)
        async with verifying(script, **ONCE) as verifier:
            await canaries(verifier, "detected", 1)
            rang = await verifier.metric("soak_canary_last_detected_timestamp_seconds")
            await asyncio.sleep(1.0)  # several checkpoints
            await verifier.kill()
        async with verifying(script, **ONCE) as verifier:
            status = await verifier.until_verified(6)
            assert status["canaries"][0]["detected"] >= 1
            assert await verifier.metric("soak_canary_last_detected_timestamp_seconds") >= rang
            await verifier.finish()
