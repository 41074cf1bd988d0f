"""Draws of the plan, options of the command line, constant error texts, and pruned statistics."""

from __future__ import annotations

import random
import statistics
from argparse import Namespace
from types import SimpleNamespace

import pytest

from soak.checker.outcome import NotApplied
from soak.errors import UsageError
from soak.load import reading
from soak.load.locust_stats import HISTORY_MAX, KEPT_SECONDS, prune
from soak.load.options import chosen_stores, load_settings, requested_stores
from soak.load.plan import LENGTH_FACTOR_MAX, LENGTH_MESSAGES_MAX, Plan


def test_sessions_are_mostly_short_and_sometimes_very_long_and_never_endless() -> None:
    source = random.Random(1)
    plan = Plan(stores=("redis-list",), session_messages=60)
    lengths = [plan.draw_length(source) for _ in range(20_000)]
    assert 50 < statistics.median(lengths) < 70
    assert max(lengths) == 60 * LENGTH_FACTOR_MAX
    assert min(lengths) >= 1
    assert 0.005 < sum(length >= 20 * 60 for length in lengths) / len(lengths) < 0.03
    assert (
        max(Plan(stores=("x",), session_messages=9_000).draw_length(source) for _ in range(500)) == LENGTH_MESSAGES_MAX
    )
    assert Plan(stores=("x",), session_messages=100_000).draw_length(source) <= 100_000


def test_pauses_have_the_mean_that_was_asked_for_and_a_bound() -> None:
    source = random.Random(2)
    plan = Plan(stores=("redis-list",), think_seconds=2.0)
    pauses = [plan.draw_think_seconds(source) for _ in range(20_000)]
    assert 1.9 < statistics.mean(pauses) < 2.1
    assert max(pauses) <= 20.0
    assert Plan(stores=("x",), think_seconds=0.0).draw_think_seconds(source) == 0.0


def options(**changes: object) -> Namespace:
    values: dict[str, object] = {
        "context_messages": 10,
        "session_messages": 60,
        "writers_per_session": 4,
        "shared_share": 0.1,
        "recall_share": 0.02,
        "forget_share": 0.1,
        "reread_share": 0.1,
        "search_share": 0.2,
        "similar_share": 0.125,
        "think_time": "500ms",
        "mix": "chat",
        "browser_users": 0,
        "store": None,
    }
    return Namespace(**(values | changes))


def test_options_become_settings() -> None:
    settings = load_settings(options(context_messages="7"))
    assert (settings.think, settings.context_messages, settings.mix) == (0.5, 7, "chat")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"think_time": "-1s"}, "--think-time '-1s': duration '-1s' is negative"),
        ({"shared_share": 1.5}, "--shared-share 1.5: input should be less than or equal to 1"),
        ({"session_messages": 0}, "--session-messages 0: input should be greater than or equal to 1"),
        ({"mix": "noise"}, "--mix 'noise': input should be"),
        ({"browser_users": 99}, "--browser-users 99: input should be less than or equal to 16"),
    ],
)
def test_a_wrong_option_is_one_clear_line(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_settings(options(**changes))
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)


def test_stores_may_be_given_again_or_with_commas_and_must_be_in_the_run() -> None:
    assert requested_stores(options(store=["a,b", " c ", "a"])) == ("a", "b", "c")
    assert requested_stores(options(store="a, b")) == ("a", "b")
    assert chosen_stores(options(), ["a", "b"]) == ("a", "b")
    assert chosen_stores(options(store=["b"]), ["a", "b"]) == ("b",)
    with pytest.raises(UsageError, match="the run that is joined does not test c; it has a, b"):
        chosen_stores(options(store=["c"]), ["a", "b"])


def test_errors_of_one_kind_share_one_object_and_there_are_few_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_by_type", {})  # what is filled here must not be full for the next test
    assert reading.failure_of(ConnectionResetError("10.0.0.1:5")) is reading.failure_of(ConnectionResetError("x"))
    assert str(reading.failure_of(ConnectionResetError("10.0.0.1:5"))) == "error: ConnectionResetError"
    assert str(reading.failure_of(TimeoutError("after 5.01 s"))) == "no answer in time"
    assert str(reading.failure_of(NotApplied("no"))) == "refused, not applied"
    kinds = {reading.failure_of(type(f"Made{number}Error", (Exception,), {})()) for number in range(500)}
    assert len(kinds) <= reading.KINDS_MAX + 1


def test_statistics_keep_a_minute_and_a_bounded_history() -> None:
    def entry() -> SimpleNamespace:
        return SimpleNamespace(
            num_reqs_per_sec=dict.fromkeys(range(1_000), 1), num_fail_per_sec=dict.fromkeys(range(900, 1_000), 1)
        )

    stats = SimpleNamespace(total=entry(), entries={("append", "redis-list"): entry()}, history=list(range(3_000)))
    prune(stats, now_seconds=1_000.4)
    for one in (stats.total, *stats.entries.values()):
        assert min(one.num_reqs_per_sec) == 1_000 - KEPT_SECONDS == min(one.num_fail_per_sec)
        assert max(one.num_reqs_per_sec) == 999
    assert stats.history == list(range(3_000 - HISTORY_MAX, 3_000))
