"""Whole soaks on real servers: flawed memories are reported as what they are, good ones pass."""

from __future__ import annotations

from typing import Any

import pytest

from soak import cli
from soak.errors import ExitCode
from tests.support.checking import BUSY, checking, kinds_by_store, total

FLAWED = {
    # A third writer that had read what a second one overwrote brings it back: late, or after it had been seen.
    "tests.support.stores.flawed:WholeHistory": {"lost", "rolled_back", "stale", "non_monotonic"},
    "tests.support.stores.flawed:SkewedClock": {"reordered"},
    "tests.support.stores.flawed:OneInAThousand": {"lost"},
}
BUILT_IN = ("redis-list", "redis-stream", "redis-zset", "redis-hash", "postgres", "postgres-replica")
FOUND_SECONDS_MAX = 30.0


def chosen(*stores: str) -> list[str]:
    return [word for store in stores for word in ("--store", store)]


@pytest.mark.slow
@pytest.mark.long
def test_flawed_memories_are_each_reported_as_the_right_kind_with_evidence_that_names_the_message() -> None:
    words = (*chosen(*FLAWED), *BUSY, "--users", "48", "--duration", "60s", "--set", "load.forget_share=0")
    with checking(*words) as check:
        check.until_verified(1)
        found = check.until(lambda status: set(kinds_by_store(status["verifier"])) == set(FLAWED), FOUND_SECONDS_MAX)
        assert found["verdict"] == "violation"
        told = check.end()
        assert (check.process.returncode, told["verdict"]) == (ExitCode.VIOLATION, "violation")
        kinds = kinds_by_store(told["result"])
        assert {store: set(counts) <= FLAWED[store] for store, counts in kinds.items()} == dict.fromkeys(
            FLAWED, True
        ), kinds
        assert {"lost", "rolled_back"} & set(kinds["tests.support.stores.flawed:WholeHistory"])
        for store in FLAWED:
            stories = [story for story in check.evidence() if story["store"] == store]
            assert stories
            assert all(is_named(story) for story in stories)
        causes = {story["store"]: story["probable_cause"]["cause"] for story in check.evidence()}
        assert causes["tests.support.stores.flawed:SkewedClock"] == "client clock"
        # Every verdict is reached again from its evidence alone.
        assert cli.main(["replay", str(check.data_dir / "verifier" / "evidence")]) == ExitCode.PASS
        assert told["result"]["totals"]["unverifiable"] == 0


def is_named(story: dict[str, Any]) -> bool:
    """Whether the evidence says which message of the session it is, and what it should have been."""
    session, writer, seq = story["message"].rsplit("/", 2)
    return session == story["session"] and writer.isdigit() and seq.isdigit() and bool(story["expected"]["role"])


@pytest.mark.slow
@pytest.mark.long
def test_every_built_in_store_passes_with_nothing_unverifiable() -> None:
    with checking(*chosen(*BUILT_IN), *BUSY, "--duration", "10s") as check:
        told = check.wait()
        assert (check.process.returncode, told["verdict"]) == (ExitCode.PASS, "pass"), check.output
        totals = told["result"]["totals"]
        assert (totals["violations"], totals["unverifiable"]) == (0, 0)
        assert {store["store"]: store["verified"] > 0 for store in told["result"]["by_store"]} == dict.fromkeys(
            BUILT_IN, True
        )
        assert all(count == 0 for count in told["child_restarts"].values())


@pytest.mark.extra  # `soak selftest` shows it with the flaw replica_reads
def test_a_replica_that_is_declared_to_read_its_writes_is_reported_as_stale() -> None:
    words = (
        *chosen("postgres-replica"),
        *("--set", "contract.postgres-replica.reads=read_your_writes", "--set", "load.reread_share=1"),
        *("--duration", "60s"),
    )
    with checking(*words, *BUSY) as check:
        check.until(lambda status: total(status, "violations") > 0)
        told = check.end()
        assert (check.process.returncode, told["verdict"]) == (ExitCode.VIOLATION, "violation")
        assert set(kinds_by_store(told["result"])["postgres-replica"]) == {"stale"}
        story = check.evidence()[0]
        assert (story["kind"], story["probable_cause"]["cause"]) == ("stale", "replica lag")
        assert is_named(story)
