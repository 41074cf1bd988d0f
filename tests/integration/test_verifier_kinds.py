"""Each way to be wrong, planted in a real store, is found as exactly that, once; its twin is silent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from soak.checker.contract import Contract, Duplicates, Expiry, Reads
from soak.checker.message import Message
from soak.checker.outcome import Outcome
from soak.clock import now_us
from soak.ledger.records import Observation, SeenItem
from tests.support.verifying import (
    STORES,
    RaisesForOne,
    Script,
    Soaking,
    UnreachableForOne,
    Verifying,
    altered,
    found_kinds,
    verifying,
)

TALK, TWIN = "talk-chat", "twin-chat"
MESSAGES = 6
SLOW_DRAIN_SECONDS_MAX = 15.0
STRICT = Contract()

Plant = Callable[[Script, list[Message]], Awaitable[Message]]


async def remove(script: Script, said: list[Message]) -> Message:
    await script.remove(said[2])
    return said[2]


async def remove_last(script: Script, said: list[Message]) -> Message:
    await script.remove(said[-1])
    return said[-1]


async def swap(script: Script, said: list[Message]) -> Message:
    await script.swap(said[2], said[3])
    return said[2]


async def duplicate(script: Script, said: list[Message]) -> Message:
    await script.push(TALK, said[-1].to_bytes())
    return said[-1]


async def alter(script: Script, said: list[Message]) -> Message:
    await script.replace(said[3], altered(said[3]))
    return said[3]


async def leak(script: Script, said: list[Message]) -> Message:
    foreign = script.author.write(TWIN, 0, 1)
    await script.push(TALK, foreign.to_bytes())
    return foreign


async def push_unsent(script: Script, said: list[Message]) -> Message:
    unsent = script.author.write(TALK, 0, 5_000)
    await script.push(TALK, unsent.to_bytes())
    return unsent


async def push_refused(script: Script, said: list[Message]) -> Message:
    (refused,) = await script.say(TALK, outcome=Outcome.FAILED, stored=False)
    await script.push(TALK, refused.to_bytes())
    return refused


async def forget_and_bring_back(script: Script, said: list[Message]) -> Message:
    await script.forget(TALK)
    await asyncio.sleep(0.05)
    await script.push(TALK, said[1].to_bytes())
    return said[1]


ALWAYS: list[tuple[str, Plant]] = [
    ("reordered", swap),
    ("duplicated", duplicate),
    ("corrupted", alter),
    ("leaked", leak),
    ("phantom", push_unsent),
    ("phantom", push_refused),
    ("resurrected", forget_and_bring_back),
]


async def told_by(verifier: Verifying, kind: str, wrong: str, *, count: int = 1) -> None:
    """Check the page, the evidence and the verdict: this kind so often, naming this message, and nothing else."""
    await verifier.until_found(count)
    assert await verifier.metric("soak_consistency_violations_total", kind=kind) == count
    assert await verifier.metric("soak_consistency_violations_total") == count
    verdict = await verifier.finish()
    assert (verdict.verdict, found_kinds(verdict)) == ("violation", {kind: count})
    assert verdict.totals.unverifiable == 0
    stories = verifier.evidence()
    assert {story["kind"] for story in stories} == {kind}
    assert wrong in [name for story in stories for name in (story["message"], *story["also"])]
    assert {story["session"] for story in stories} == {TALK}
    assert len(verifier.journal()) == count


@pytest.mark.parametrize(("kind", "plant"), [("lost", remove), ("lost", remove_last), *ALWAYS])
async def test_what_is_wrong_before_anyone_has_looked_is_found_once(kind: str, plant: Plant, soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        await script.open(TALK)
        await script.open(TWIN)
        said = await script.say(TALK, MESSAGES)
        await script.say(TWIN, MESSAGES)
        wrong = await plant(script, said)
        async with verifying(script) as verifier:
            name = str(wrong.name) if kind != "leaked" else f"{wrong.run}:{wrong.name}"
            await told_by(verifier, kind, name)


@pytest.mark.parametrize(("kind", "plant"), [("rolled_back", remove), ("rolled_back", remove_last), *ALWAYS])
async def test_what_goes_wrong_after_it_was_verified_is_found_once(kind: str, plant: Plant, soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        await script.open(TALK)
        await script.open(TWIN)
        said = await script.say(TALK, MESSAGES)
        await script.say(TWIN, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(2 * MESSAGES)
            wrong = await plant(script, said)
            name = str(wrong.name) if kind != "leaked" else f"{wrong.run}:{wrong.name}"
            await told_by(verifier, kind, name)


@pytest.mark.parametrize("garbage", [b"", b"\xc1", b'{"role": "user"}', b"\x97\x01", b"x" * 100_000])
async def test_a_row_that_is_no_message_is_undecodable_and_hides_no_other(garbage: bytes, soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        await script.say(TALK, MESSAGES)
        await script.push(TALK, garbage)
        async with verifying(script) as verifier:
            await verifier.until_found()
            await verifier.until_verified(MESSAGES)
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"undecodable": 1}
        (story,) = verifier.evidence()
        assert story["stored"]["raw_hex"] == garbage[: 64 * 1024].hex()
        assert story["message"].startswith("bytes:")


async def test_a_row_garbled_in_its_place_is_one_wrong_and_the_verdict_does_not_wait_for_it(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, MESSAGES)
        await script.replace(said[2], b"\xc1garbage")
        async with verifying(script, drain=60.0) as verifier:
            verdict = await asyncio.wait_for(verifier.finish(), 20)
        assert found_kinds(verdict) == {"undecodable": 1}


async def test_garbage_in_one_place_hides_no_loss_in_another(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            await script.push(TALK, b"\xc1garbage")
            await verifier.until_found()
            await script.remove(said[1])
            await verifier.until_found(2)
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"undecodable": 1, "rolled_back": 1}


async def test_an_empty_history_in_place_of_all_is_the_loss_of_each_message(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, MESSAGES)
        await script.memory.forget(TALK)
        async with verifying(script) as verifier:
            await told_by(verifier, "lost", str(said[0].name), count=MESSAGES)


async def test_what_is_gone_and_there_again_in_its_place_is_non_monotonic_and_healed(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, MESSAGES)
        async with verifying(script, settle=3.0) as verifier:
            await verifier.until_verified(MESSAGES)
            await script.remove(said[2])
            await verifier.until(lambda status: status["suspicions_open"] == 1)
            await script.put_before(said[2], said[3])
            await verifier.until_found()
            assert await verifier.metric("soak_healed_violations_total", kind="non_monotonic") == 1
            assert await verifier.metric("soak_open_violations") == 0
            await told_by(verifier, "non_monotonic", str(said[2].name))


async def test_what_is_shown_late_is_stale_under_read_your_writes(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, MESSAGES)
        await script.remove(said[2])
        async with verifying(script, settle=3.0) as verifier:
            await verifier.until(lambda status: status["suspicions_open"] == 1)
            await script.put_before(said[2], said[3])
            await told_by(verifier, "stale", str(said[2].name))


async def test_what_is_shown_late_within_the_promised_time_is_neither_stale_nor_lost(soaking: Soaking) -> None:
    contract = Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=60.0)
    async with soaking(contract=contract) as script:
        said = await script.say(TALK, MESSAGES)
        await script.remove(said[-1])
        async with verifying(script) as verifier:
            await verifier.until(lambda status: status["suspicions_open"] == 1)
            await asyncio.sleep(1.0)  # longer than the settle time, far shorter than promised
            await script.push(TALK, said[-1].to_bytes())
            await verifier.until_verified(MESSAGES)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


async def test_a_loss_that_comes_back_is_healed_once_and_open_again_when_it_goes_again(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            await script.remove(said[2])
            await verifier.until_found()
            assert await verifier.metric("soak_open_violations") == 1
            await script.put_before(said[2], said[3])
            await verifier.until_metric(0, "soak_open_violations")
            await script.remove(said[2])
            await verifier.until_metric(1, "soak_open_violations")
            assert await verifier.metric("soak_consistency_violations_total") == 1


# -- expiry --


async def test_a_session_that_expires_when_it_should_is_not_missed(soaking: Soaking) -> None:
    async with soaking(store="redis-hash", ttl_seconds=1.5) as script:
        await script.say(TALK, MESSAGES)
        script.close(TALK)
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            while await script.redis.exists(script.key(TALK)):
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.5)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


async def test_a_session_that_outlives_its_time_is_resurrected(soaking: Soaking) -> None:
    async with soaking(store="redis-hash", ttl_seconds=0.6) as script:
        said = await script.say(TALK, 2)
        await script.redis.persist(script.key(TALK))
        script.close(TALK)
        async with verifying(script) as verifier:
            await asyncio.sleep(1.2)
            await script.end()
            await told_by(verifier, "resurrected", str(said[0].name), count=2)


async def test_an_unknown_append_may_have_prolonged_the_life_of_a_session(soaking: Soaking) -> None:
    async with soaking(store="redis-hash", ttl_seconds=0.6) as script:
        await script.say(TALK, 2)
        await script.say(TALK, outcome=Outcome.UNKNOWN, stored=False)
        await script.redis.persist(script.key(TALK))
        script.close(TALK)
        async with verifying(script) as verifier:
            await verifier.until_verified(2)
            await asyncio.sleep(1.2)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


async def test_a_session_gone_before_its_time_is_lost(soaking: Soaking) -> None:
    async with soaking(store="redis-hash", ttl_seconds=60.0) as script:
        said = await script.say(TALK, 3)
        await script.redis.delete(script.key(TALK))
        async with verifying(script) as verifier:
            await told_by(verifier, "lost", str(said[0].name), count=3)


async def test_a_session_that_expired_may_be_begun_anew_under_an_absolute_time_to_live(soaking: Soaking) -> None:
    contract = Contract(ttl_seconds=1.5, expiry=Expiry.ABSOLUTE)
    async with soaking(store=f"{STORES}:AbsoluteList", contract=contract) as script:
        await script.say(TALK, 2)
        async with verifying(script) as verifier:
            await verifier.until_verified(2)
            while await script.redis.exists(script.key(TALK)):
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.8)
            await script.say(TALK, 2)
            script.close(TALK)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


# -- what the contract does not promise --


async def test_repeats_are_not_held_against_a_store_that_promises_at_least_once(soaking: Soaking) -> None:
    contract = Contract(duplicates=Duplicates.AT_LEAST_ONCE)
    async with soaking(contract=contract) as script:
        said = await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            await script.push(TALK, said[-1].to_bytes())
            for count in range(1, 8):
                said = await script.say(TALK)
                await script.push(TALK, said[-1].to_bytes())
                await verifier.until_verified(MESSAGES + count)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


async def test_no_order_is_asked_of_a_store_that_promises_none(soaking: Soaking) -> None:
    async with soaking(store=f"{STORES}:Unordered") as script:
        await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            for count in range(1, 8):
                await script.say(TALK)
                await verifier.until_verified(MESSAGES + count)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


async def test_a_store_that_answers_none_for_nothing_does_not_stop_the_verifier(soaking: Soaking) -> None:
    async with soaking(store=f"{STORES}:NothingIsNone", contract=STRICT) as script:
        await script.open(TALK)
        await script.open(TWIN)
        await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            verdict = await verifier.finish()
        assert verdict.totals.verified == MESSAGES


async def test_things_that_are_no_messages_are_told_once_each_whatever_they_are(soaking: Soaking) -> None:
    async with soaking(store=f"{STORES}:OddRows", contract=STRICT) as script:
        await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            await script.say(TALK)
            await verifier.until_verified(MESSAGES + 1)
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"undecodable": 3}


async def test_a_number_that_is_none_is_told_beside_whatever_else_is_wrong(soaking: Soaking) -> None:
    async with soaking(store=f"{STORES}:OddNumbers", contract=STRICT) as script:
        said = await script.say(TALK, MESSAGES)
        await script.replace(said[3], altered(said[3]))
        async with verifying(script) as verifier:
            await verifier.until_found(2)
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"undecodable": 1, "corrupted": 1}


async def test_an_answer_that_is_no_history_is_told_and_does_not_stop_the_verifier(soaking: Soaking) -> None:
    async with soaking(store=f"{STORES}:OddAnswer", contract=STRICT) as script:
        await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_found()
            verdict = await verifier.finish()
        assert found_kinds(verdict)["undecodable"] == 1


async def test_a_store_that_raises_before_it_can_be_awaited_gave_no_answer(soaking: Soaking) -> None:
    async with soaking(store=f"{STORES}:RaisesAtOnce", contract=STRICT) as script:
        await script.say(TALK, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(MESSAGES)
            await script.say(TALK)
            await verifier.until_verified(MESSAGES + 1)
            verdict = await verifier.finish()
        assert (verdict.verdict, verdict.totals.verified) == ("pass", MESSAGES + 1)


@pytest.mark.parametrize("is_noticed_before_the_end", [True, False])
async def test_a_session_that_cannot_be_read_is_reported_and_does_not_hold_up_the_verdict(
    is_noticed_before_the_end: bool, soaking: Soaking
) -> None:
    async with soaking(store=f"{STORES}:RaisesForOne", contract=STRICT) as script:
        await script.open(TALK)
        await script.open(RaisesForOne.unreadable)
        await script.say(TALK, MESSAGES)
        await script.say(RaisesForOne.unreadable, MESSAGES)
        async with verifying(script, drain=3600.0) as verifier:
            await verifier.until_verified(MESSAGES)
            if is_noticed_before_the_end:
                await verifier.until_found()
            # A last sweep that waited for it would last longer than any test.
            verdict = await verifier.finish()
        assert found_kinds(verdict) == {"undecodable": 1}
        assert verdict.findings[0].example.message == f"{RaisesForOne.unreadable}/*"
        assert verdict.findings[0].cause == "unknown"


async def test_reads_that_never_left_say_nothing_about_their_session(soaking: Soaking) -> None:
    async with soaking(store=f"{STORES}:UnreachableForOne", contract=STRICT) as script:
        await script.say(TALK, MESSAGES)
        await script.say(UnreachableForOne.unreadable, MESSAGES)
        async with verifying(script) as verifier:
            await verifier.until_verified(2 * MESSAGES)
            verdict = await verifier.finish()
    assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


@pytest.mark.long
async def test_slow_reads_make_a_drain_no_longer_than_they_take(soaking: Soaking) -> None:
    """25 sessions of which each read takes a second: they are read at the same time, and once more at the end."""
    sessions = [f"{number}-chat" for number in range(25)]
    async with soaking(store=f"{STORES}:SlowToRead", contract=STRICT) as script:
        for session in sessions:
            await script.say(session)
        async with verifying(script, drain=60.0, minimum_verified=1) as verifier:
            await verifier.until_verified(len(sessions))
            began = time.monotonic()
            verdict = await verifier.finish()
            assert time.monotonic() - began < SLOW_DRAIN_SECONDS_MAX
        assert (verdict.verdict, verdict.totals.verified) == ("pass", len(sessions))


async def test_a_corrupted_message_is_not_counted_as_verified(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, MESSAGES)
        await script.replace(said[3], altered(said[3]))
        async with verifying(script) as verifier:
            await verifier.until_found()
            verdict = await verifier.finish()
        assert (found_kinds(verdict), verdict.totals.verified) == ({"corrupted": 1}, MESSAGES - 1)


# -- what participants saw --


def seen(messages: list[Message]) -> list[SeenItem]:
    return [SeenItem(message.session, message.writer, message.seq) for message in messages]


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("stale", slice(0, 19)),
        ("window", slice(12, 20)),
        ("window", slice(9, 20)),
        ("window", slice(0, 10)),
    ],
    ids=["lags", "too few", "too many", "the oldest"],
)
async def test_a_wrong_window_that_a_participant_saw_is_found(kind: str, shown: slice, soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, 20)
        last = None if kind == "stale" else 10
        script.observe(TALK, seen(said[shown]), last=last)
        async with verifying(script) as verifier:
            await verifier.until_found()
            verdict = await verifier.finish()
        assert set(found_kinds(verdict)) == {kind}


async def test_what_a_participant_saw_and_nobody_judged_is_a_doubt(soaking: Soaking) -> None:
    """It is judged by a read that is made after it, and here none ever is."""
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, 20)
        later = now_us() + 3_600_000_000
        acked = list(script.acked[TALK])
        script.writer.observe(
            Observation(script.numbers[TALK], later, later + 1, 10, seen(said[10:]), acked, len(acked), "absent", None)
        )
        async with verifying(script, drain=3.0) as verifier:
            await verifier.until_verified(20)
            verdict = await verifier.finish()
        assert verdict.verdict == "inconclusive"
        assert [one for one in verdict.reasons if "not judged by the end" in one], verdict.reasons


async def test_a_right_window_is_no_violation_whoever_suspected_it(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, 20)
        script.observe(TALK, seen(said[10:]), last=10)
        script.observe(TALK, seen(said), last=None)
        async with verifying(script) as verifier:
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


async def test_a_window_that_ended_earlier_is_within_a_promised_staleness(soaking: Soaking) -> None:
    contract = Contract(reads=Reads.BOUNDED_STALENESS, staleness_seconds=60.0)
    async with soaking(contract=contract) as script:
        said = await script.say(TALK, 25)
        script.observe(TALK, seen(said[:10]), last=10)  # the last ten, when there were only ten
        async with verifying(script) as verifier:
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


async def test_another_sessions_message_in_a_participants_read_is_leaked(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        await script.open(TALK)
        await script.open(TWIN)
        said = await script.say(TALK, MESSAGES)
        foreign = await script.say(TWIN, 1)
        script.observe(TALK, [*seen(said), *seen(foreign)])
        async with verifying(script) as verifier:
            verdict = await verifier.finish()
        assert set(found_kinds(verdict)) == {"leaked"}


async def test_a_refused_message_in_a_participants_read_is_a_phantom(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        said = await script.say(TALK, MESSAGES)
        refused = await script.say(TALK, outcome=Outcome.FAILED, stored=False)
        script.observe(TALK, seen([*said, *refused]))
        async with verifying(script) as verifier:
            verdict = await verifier.finish()
        assert set(found_kinds(verdict)) == {"phantom"}


# -- nothing to say --


async def test_a_run_in_which_nothing_was_written_is_inconclusive(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        await script.open(TALK)
        async with verifying(script) as verifier:
            verdict = await verifier.finish()
        assert verdict.verdict == "inconclusive"
        assert "nothing was verified on redis-list" in verdict.reasons


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.UNKNOWN])
async def test_what_was_never_acknowledged_is_not_missed(outcome: Outcome, soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        await script.say(TALK, 3)
        await script.say(TALK, outcome=outcome, stored=False)
        await script.say(TALK, 3)
        async with verifying(script) as verifier:
            await verifier.until_verified(6)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})


async def test_an_unknown_append_may_appear_late_behind_what_was_said_since(soaking: Soaking) -> None:
    async with soaking(contract=STRICT) as script:
        await script.say(TALK, 3)
        (late,) = await script.say(TALK, outcome=Outcome.UNKNOWN, stored=False)
        await script.say(TALK, 3)
        async with verifying(script) as verifier:
            await verifier.until_verified(6)
            await script.push(TALK, late.to_bytes())
            await verifier.until(lambda status: status["totals"]["indeterminate"] == 0)
            verdict = await verifier.finish()
        assert (verdict.verdict, found_kinds(verdict)) == ("pass", {})
