"""Configuration that changes while a soak runs: noticed once, counted once, and over when it is set back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from soak.checker.contract import Contract
from soak.checker.telemetry import ServerSample
from soak.contracts.drift import ServerRecord, differences, take_in, unsupported
from soak.contracts.guarantees import WATCHED_SETTINGS

BASE = {"appendonly": "yes", "appendfsync": "everysec", "save": "", "maxmemory": "0", "role": "primary"}


def sample(**changed: str) -> ServerSample:
    return ServerSample(server="redis", at=0, configuration={**BASE, **changed})


def record() -> ServerRecord:
    return ServerRecord(baseline=dict(BASE))


def feed(kept: ServerRecord, *samples: ServerSample) -> list[tuple[str, str, str, bool]]:
    """Take samples in one after the other, as the verifier does."""
    told = []
    seen: dict[str, str] = {}
    for one in samples:
        told += [(c.setting, c.before, c.now, c.is_over) for c in take_in(kept, one, seen)]
        seen = differences(kept, one)
    return told


def test_nothing_changes_nothing_is_told() -> None:
    kept = record()
    assert feed(kept, sample(), sample(), sample()) == []
    assert (kept.drifts, kept.drifted) == (0, {})


def test_a_change_is_told_once_when_a_second_sample_shows_it_too() -> None:
    kept = record()
    off = sample(appendonly="no")
    assert feed(kept, sample(), off) == []
    assert feed(kept, off, off, off) == [("appendonly", "yes", "no", False)]
    assert (kept.drifts, kept.drifted) == (1, {"appendonly": "no"})


def test_it_is_over_when_it_is_set_back_and_counts_again_when_it_returns() -> None:
    kept = record()
    off = sample(appendonly="no")
    assert feed(kept, off, off, sample()) == [("appendonly", "yes", "no", False), ("appendonly", "no", "yes", True)]
    assert (kept.drifts, kept.drifted) == (1, {})
    feed(kept, off, off)
    assert kept.drifts == 2


def test_a_second_change_of_the_same_setting_is_another_one() -> None:
    kept = record()
    first, second = sample(save="900 1"), sample(save="5 1")
    assert feed(kept, first, first, second, second) == [
        ("save", "", "900 1", False),
        ("save", "900 1", "5 1", False),
    ]


def test_what_is_not_told_any_more_is_neither_changed_nor_set_back() -> None:
    kept = record()
    off = sample(appendonly="no")
    silent = ServerSample(server="redis", at=0, configuration={"role": "primary"})
    feed(kept, off, off)
    assert feed(kept, silent, silent) == []
    assert kept.drifted == {"appendonly": "no"}


def test_settings_that_promise_nothing_are_not_watched() -> None:
    kept = ServerRecord(baseline={**BASE, "run_id": "1"})
    other = sample(run_id="2")
    assert feed(kept, other, other) == []


changes = st.lists(
    st.dictionaries(st.sampled_from(sorted(BASE)), st.sampled_from(["yes", "no", "x"]), max_size=3), max_size=12
)


@given(changes)
def test_what_is_drifted_is_always_what_two_samples_in_a_row_have_shown(lines: list[dict[str, str]]) -> None:
    kept = record()
    seen: dict[str, str] = {}
    for line in lines:
        one = sample(**line)
        take_in(kept, one, seen)
        now = differences(kept, one)
        for setting, value in kept.drifted.items():
            assert setting in WATCHED_SETTINGS["redis"]
            assert value != kept.baseline[setting]
            assert setting in now
        for setting, value in now.items():
            if seen.get(setting) == value:
                assert kept.drifted[setting] == value
        seen = now


def test_a_promise_that_the_server_cannot_keep_any_more_is_named_with_its_store() -> None:
    contracts = {"redis-list": Contract(crash_loss_seconds=2, power_loss_seconds=2), "postgres": Contract()}
    needs = {"redis-list": ("redis",), "postgres": ("postgres",)}
    assert unsupported(contracts, needs, {"redis": sample()}) == []
    found = unsupported(contracts, needs, {"redis": sample(appendonly="no")})
    assert [(one.store, one.clause) for one in found] == [("redis-list", "crash"), ("redis-list", "power_cut")]
    assert (
        unsupported(contracts, {**needs, "redis-list": ("redis", "postgres")}, {"redis": sample(appendonly="no")}) == []
    )
