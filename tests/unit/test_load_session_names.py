"""Names of sessions: plain mostly, and pairs that a careless store takes for one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from urllib.parse import unquote

import pytest

from soak.checker.text import MIXES, _table_of
from soak.load.plan import PAIRS, SessionNames

WORKER = "w1a2b3c4d"
SHARE = 0.125
ROUND = 16 * len(PAIRS)

CARELESS: dict[str, Callable[[str], str]] = {
    "lower-cases": str.lower,
    "upper-cases": str.upper,
    "folds case": str.casefold,
    "trims": str.strip,
    "trims at the end": str.rstrip,
    "composes": lambda name: unicodedata.normalize("NFC", name),
    "decomposes": lambda name: unicodedata.normalize("NFD", name),
    "composes what is compatible": lambda name: unicodedata.normalize("NFKC", name),
    "drops accents": lambda name: unicodedata.normalize("NFD", name).encode("ascii", "ignore").decode(),
    "takes the last part of a path": lambda name: name.rpartition("/")[2],
    "takes the first part of a path": lambda name: name.partition("/")[0],
    "takes the last part between colons": lambda name: name.rpartition(":")[2],
    "takes the first part between colons": lambda name: name.partition(":")[0],
    "makes a slug": lambda name: re.sub(r"\W+", "_", name),
    "drops punctuation": lambda name: re.sub(r"[^\w\s]", "", name),
    "joins blanks": lambda name: " ".join(name.split()),
    "decodes percents": unquote,
}


def named(count: int, share: float = SHARE, mix: str = "chat") -> list[str]:
    names = SessionNames(WORKER, mix, share)
    return [names.next("redis-list") for _ in range(count)]


@pytest.mark.parametrize("how", CARELESS)
def test_a_store_that_is_careless_with_keys_mixes_sessions_of_one_round(how: str) -> None:
    names = named(ROUND)
    assert len({CARELESS[how](name) for name in names}) < len(names)


def test_no_two_sessions_have_the_same_name() -> None:
    names = named(10 * ROUND)
    assert len(set(names)) == len(names)


def test_most_names_are_plain_and_a_share_is_not() -> None:
    odd = [name for name in named(10 * ROUND) if not re.fullmatch(r"w1a2b3c4d-\d+-chat", name)]
    assert 0.05 < len(odd) / (10 * ROUND) < SHARE


def test_the_first_pair_differs_in_case_only() -> None:
    first, second = named(2)
    assert first != second
    assert first.lower() == second.lower()


def test_a_pair_stands_on_one_store() -> None:
    names = SessionNames(WORKER, "chat", SHARE)
    of_one, of_other = zip(*((names.next("one"), names.next("other")) for _ in range(ROUND)), strict=True)
    for on_store in (of_one, of_other):
        assert on_store[0].lower() == on_store[1].lower()
    assert len({*of_one, *of_other}) == 2 * ROUND


def test_none_is_similar_where_none_is_asked_for() -> None:
    assert all(re.fullmatch(r"w1a2b3c4d-\d+-chat", name) for name in named(ROUND, share=0.0))


@pytest.mark.parametrize("mix", MIXES)
def test_what_is_said_follows_from_the_mix_at_the_end_of_every_name(mix: str) -> None:
    table = _table_of(f"x-{mix}")
    for name in named(ROUND, mix=mix):
        assert name.rstrip().endswith(f"-{mix}")
        assert _table_of(name) is table
