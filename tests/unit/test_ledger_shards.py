"""Which share of a run a verifier has: what is written is read, and what cannot be is refused in one line."""

from __future__ import annotations

import pytest

from soak.errors import UsageError
from soak.ledger.connection import keys_of
from soak.ledger.shards import WHOLE, Shard, parse_shard
from soak.settings import SoakSettings, VerifierSettings
from soak.verifier.process import share_of


def test_a_shard_is_one_of_so_many() -> None:
    assert parse_shard("2/4") == Shard(2, 4)
    assert (str(Shard(2, 4)), Shard(2, 4).name, Shard(1, 4).name) == ("2/4", "verifier-2", "verifier")
    assert (Shard(2, 4).folder, WHOLE.folder) == ("verifier/shard-2", "verifier")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("3/2", "of 2 shards the last one is 2/2"),
        ("0/2", "of 2 shards the last one is 2/2"),
        ("1/0", "there can be 1 to 64 shards"),
        ("1/65", "there can be 1 to 64 shards"),
        ("2", "write which one of how many, such as 2/4"),
        ("-1/2", "write which one of how many, such as 2/4"),
        ("a/b", "write which one of how many, such as 2/4"),
    ],
)
def test_what_is_no_shard_is_refused(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_shard(text)


def test_the_first_shard_has_the_keys_of_a_run_with_one_verifier_and_the_others_share_what_is_of_all() -> None:
    first, second = keys_of("r1"), keys_of("r1", 2)
    assert first == keys_of("r1", 1)
    shared = [name for name in first._fields if getattr(first, name) == getattr(second, name)]
    assert shared == ["header", "verifiers", "workers", "faults", "reports"]


def test_bounds_of_the_run_are_shared_and_only_the_first_plants_canaries() -> None:
    settings = SoakSettings(
        verifier=VerifierSettings(messages_per_second=1_000, closed_sessions_max=4_000, canary=60.0)
    )
    first, second = (share_of(settings, Shard(number, 4)).verifier for number in (1, 2))
    assert (first.messages_per_second, first.closed_sessions_max, second.closed_sessions_max) == (250, 1_000, 1_000)
    assert (first.canary, second.canary) == (60.0, 0.0)


def test_the_first_verifier_is_started_where_the_run_is() -> None:
    with pytest.raises(ValueError, match="shards_elsewhere must be less than shards"):
        VerifierSettings(shards=2, shards_elsewhere=2)
