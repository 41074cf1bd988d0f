"""Configuration that changes while a soak runs: noticed once, counted once, and over when it is set back."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from soak.checker.contract import Contract
from soak.checker.telemetry import ServerSample
from soak.clock import now_us
from soak.contracts.drift import ServerRecord, differences, take_in, unsupported
from soak.contracts.guarantees import WATCHED_SETTINGS, guarantees_of, redis_guarantees
from soak.ledger.records import FORMAT_VERSION, RunHeader
from soak.verifier.drift import DriftWatch, configurations_now, drift_now, drift_warnings, unmet_promises
from soak.verifier.state import State

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
    assert unsupported(contracts, needs, {"redis": redis_guarantees(BASE)}) == []
    weaker = {"redis": redis_guarantees({**BASE, "appendonly": "no"})}
    found = unsupported(contracts, needs, weaker)
    assert [(one.store, one.clause) for one in found] == [("redis-list", "crash"), ("redis-list", "power_cut")]
    assert unsupported(contracts, {**needs, "redis-list": ("redis", "postgres")}, weaker) == []


@given(st.sampled_from(["pg-1", "ANY 1 (pg-1, pg-2)", "*"]), st.sampled_from(["pg-2", "FIRST 1 (pg-3)", "*"]))
def test_commits_that_wait_for_another_standby_are_no_drift_and_commits_that_wait_for_none_are(
    before: str, after: str
) -> None:
    on = {"topology": "several hosts", "synchronous_commit": "on", "fsync": "on"}

    def told(names: str) -> ServerSample:
        return ServerSample(server="postgres", at=0, configuration={**on, "synchronous_standby_names": names})

    kept = ServerRecord(baseline=told(before).configuration)
    assert feed(kept, told(after), told(after)) == []
    gone = told("")
    assert feed(kept, gone, gone) == [("synchronous_standby_names", before, "", False)]
    promised = {"postgres": Contract(failover_loss_seconds=0.0)}
    given_then = {"postgres": guarantees_of(gone)}
    assert [one.clause for one in unsupported(promised, {"postgres": ("postgres",)}, given_then)] == ["failover"]
    assert feed(kept, told(after)) == [("synchronous_standby_names", "", after, True)]


# Several nodes that act as one server -----------------------------------------------------------------------

NODE = {"appendonly": "yes", "appendfsync": "everysec", "save": "", "maxmemory": "0"}
OTHER = {**NODE, "save": "900 1", "appendfsync": "always"}
SENTINEL = {"topology": "sentinel", "replicas": "1"}
NODES = {"a:6379": {**NODE, "role": "primary"}, "b:6379": {**OTHER, "role": "replica"}}
HEADER = RunHeader(
    version=FORMAT_VERSION,
    run="r1",
    seed=1,
    namespace="t",
    stores=["redis-list"],
    contracts={"redis-list": Contract(crash_loss_seconds=2.0, power_loss_seconds=2.0, failover_loss_seconds=2.0)},
    started_wall_seconds=0.0,
    configurations={"redis": {**NODE, **SENTINEL, "role": "primary"}},
    nodes={"redis": NODES},
)


class Group:
    """What the verifier notices of a group whose nodes say this."""

    def __init__(self, header: RunHeader = HEADER) -> None:
        self.state = State(header, {"redis-list": ("redis",)}, 1_000_000)
        self.watch = DriftWatch(self.state, {"redis": "redis+sentinel://a:26379/mymaster"})

    def look(self, nodes: Mapping[str, Mapping[str, str] | None], primary: str = "a:6379") -> list[str]:
        """Sample it twice, and return what is new."""
        before = len(self.state.tally.events)
        for _ in range(2):
            asked = now_us()
            of_all = {**(nodes[primary] or {}), **SENTINEL}
            self.watch.take(ServerSample(server="redis", at=now_us(), configuration=of_all), asked)
            self.watch.take_nodes("redis", nodes, asked)
        return [event.text for event in self.state.tally.events[before:]]


def failed_over(nodes: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    swapped = {"primary": "replica", "replica": "primary"}
    return {place: {**told, "role": swapped[told["role"]]} for place, told in nodes.items()}


def test_nodes_that_differ_and_change_their_roles_do_not_drift() -> None:
    group = Group()
    assert group.look(NODES) == []
    assert group.look(failed_over(NODES), "b:6379") == []
    assert group.look({**NODES, "b:6379": None}) == [], "one that is silent is not judged"
    assert drift_now(group.state)["redis"] == dict.fromkeys(WATCHED_SETTINGS["redis"], 0)
    assert drift_warnings(group.state) == []


def test_a_change_at_any_node_is_drift_that_names_it_and_may_break_a_promise() -> None:
    group = Group()
    changed = {**NODES, "b:6379": {**NODES["b:6379"], "appendonly": "no"}}
    (told,) = group.look(changed)
    assert told.startswith("redis at b:6379: appendonly was changed to no while the soak runs, it was yes; redis-list ")
    assert group.look(failed_over(changed), "b:6379") == []
    assert drift_now(group.state)["redis"]["appendonly"] == 1
    assert drift_warnings(group.state)[0] == "redis at b:6379: appendonly is no, it was yes when the run began"
    assert [one.clause for one in unmet_promises(group.state)] == ["crash", "power_cut"]
    status = configurations_now(group.state)["redis"]
    assert (status.drifted, status.drifts) == ({"appendonly of b:6379": "no"}, 1)
    assert group.look(NODES) == ["redis at b:6379: appendonly is back at yes"]
    assert unmet_promises(group.state) == []


def test_a_node_that_was_silent_at_the_beginning_is_as_it_is_first_heard_and_so_is_one_that_comes_later() -> None:
    for known in ({"a:6379": NODES["a:6379"], "b:6379": {}}, {"a:6379": NODES["a:6379"]}, {}):
        group = Group(msgspec.structs.replace(HEADER, nodes={"redis": known}))
        assert group.look(NODES) == []
        assert group.look({**NODES, "b:6379": {**OTHER, "save": "5 1"}}) != []


def test_a_run_whose_header_knows_no_nodes_drifts_by_none_of_them() -> None:
    old = msgspec.structs.replace(HEADER, configurations={"redis": {**OTHER, **SENTINEL}}, nodes={})
    assert msgspec.json.decode(msgspec.json.encode(old), type=RunHeader) == old
    assert Group(old).look(NODES) == []
