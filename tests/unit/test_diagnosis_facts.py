"""Each fact holds by the evidence that supports it, and does not without."""

from __future__ import annotations

import typing
from typing import Any

import msgspec
import pytest

from soak.checker import facts as f
from soak.checker.clues import Clues
from soak.checker.facts import AnyFact
from soak.checker.facts.fact import Fact, FaultRef, ref_of
from soak.checker.faults import FaultWindow
from soak.checker.kinds import Kind
from soak.checker.outcome import Attempt, Outcome
from soak.checker.telemetry import FOLDER_MARK, ServerSample
from soak.faults.catalogue import ALL as FAULTS

SECOND = 1_000_000


def attempt(writer: int, seq: int, sent: int, ended: int) -> Attempt:
    return Attempt(1, writer, seq, 0, sent, ended)


def window(kind: str, started: int = 20, ended: int | None = 30, **values: Any) -> FaultWindow:
    values.setdefault("excuses", FAULTS[kind].excuses)
    values.setdefault("promotes", FAULTS[kind].promotes)
    values.setdefault("down", FAULTS[kind].down)
    return FaultWindow(fault="f", kind=kind, target="redis", started=started, ended=ended, **values)


def sample(at: int, configuration: dict[str, str] | None = None, **telemetry: str) -> ServerSample:
    return ServerSample(server="redis", at=at, configuration=configuration or {}, telemetry=telemetry)


def evidence(**values: Any) -> Clues:
    """Return the evidence of a loss: sent at 10, acknowledged at 12, missed at 40, confirmed at 50."""
    at: dict[str, Any] = {
        "kind": Kind.LOST,
        "place": (0, 5),
        "attempt": attempt(0, 5, 10, 12),
        "gone": [(0, 5)],
        "present": [(0, 1, 4), (0, 6, 8)],
        "items": 7,
        "first_items": 7,
        "first_missed": 40,
        "first_missed_returned": 41,
        "read_invoked": 50,
        "read_returned": 51,
    }
    return Clues(**{**at, **values})


CRASH = FaultRef("redis", "crash", 20)
OTHER = attempt(1, 3, 11, 15)
UNKNOWN = msgspec.structs.replace(attempt(0, 5, 10, 12), outcome=Outcome.UNKNOWN)
RUNS = [sample(15, run_id="aaa"), sample(35, run_id="bbb")]
TEXTS = {"kind": Kind.CORRUPTED, "expected_role": "user", "got_role": "user", "present": [(0, 1, 8)]}
SILENT = [sample(0), sample(9 * SECOND)]

CASES: list[tuple[Fact, Clues, Clues]] = [
    # The fact, evidence by which it holds, evidence by which it does not.
    (
        f.FaultHappened(fault=CRASH, ended=30, acknowledged=12),
        evidence(faults=[window("crash")]),
        evidence(faults=[window("crash", ended=31)]),
    ),
    (
        f.FaultHappened(fault=CRASH, ended=30, acknowledged=None),
        evidence(faults=[window("crash")], attempt=UNKNOWN),
        evidence(faults=[window("crash")]),
    ),
    (
        f.ServerRestarted(server="redis", mark="run_id", before="aaa", after="bbb", since=15, until=35),
        evidence(samples=RUNS),
        evidence(samples=[RUNS[0], sample(35, run_id="aaa")]),
    ),
    (
        f.NoPersistence(server="redis", settings={"appendonly": "no"}, at=20),
        evidence(samples=[sample(15, {"appendonly": "no"})]),
        evidence(samples=[sample(15, {"appendonly": "yes"})]),
    ),
    (
        f.Persistence(server="redis", settings={"appendonly": "yes"}, at=20),
        evidence(samples=[sample(15, {"appendonly": "yes"})]),
        evidence(samples=[sample(15, {"appendonly": "no"})]),
    ),
    (
        f.ConfigurationUnknown(server="redis"),
        evidence(samples=[sample(15)]),
        evidence(samples=[sample(15, {"fsync": "on"})]),
    ),
    (
        f.SyncLeftToKernel(server="redis", at=20),
        evidence(samples=[sample(15, {"appendfsync": "no"})]),
        evidence(samples=[sample(15, {"appendfsync": "everysec"})]),
    ),
    (
        f.AcknowledgedWhileDown(fault=FaultRef("redis", "crash", 9), sent=10, acknowledged=12),
        evidence(faults=[window("crash", 9, injected=9)]),
        evidence(faults=[window("crash", 9, injected=11)]),
    ),
    (  # a restart of its own began at some time after the last sign of the process before
        f.AcknowledgedWhileDown(fault=FaultRef("redis", "crash", 9), sent=10, acknowledged=12),
        evidence(faults=[window("crash", 9, injected=9)]),
        evidence(faults=[window("crash", 9, planned=False)]),
    ),
    (
        f.AcknowledgedWhileDown(fault=FaultRef("redis", "crash", 9), sent=10, acknowledged=12),
        evidence(faults=[window("crash", 9, injected=9)]),
        evidence(faults=[window("crash", 9, injected=9)], attempt=UNKNOWN),
    ),
    (
        f.ReplicaPromoted(fault=FaultRef("redis", "failover", 20), lag_bytes="7"),
        evidence(faults=[window("failover", telemetry={"replication_lag_bytes": "7"})]),
        evidence(faults=[window("failover", telemetry={"replication_lag_bytes": "0"})]),
    ),
    (
        f.ReplicaPromoted(fault=FaultRef("redis", "restart", 20), lag_bytes=None),
        evidence(faults=[window("restart", telemetry={"primary": "a"}, telemetry_after={"primary": "b"})]),
        evidence(faults=[window("restart", telemetry={"primary": "a"}, telemetry_after={"primary": "a"})]),
    ),
    (
        f.OtherVersionStarted(fault=FaultRef("redis", "downgrade", 20), keys_after="0"),
        evidence(faults=[window("downgrade", telemetry_after={"keys": "0"})]),
        evidence(faults=[window("downgrade", telemetry_after={"keys": "9"})]),
    ),
    (
        f.FilesChanged(fault=FaultRef("redis", "file_corruption", 20)),
        evidence(faults=[window("file_corruption")]),
        evidence(faults=[window("file_corruption", 21)]),
    ),
    (
        f.OtherDataFolder(fault=CRASH),
        evidence(faults=[window("crash", telemetry={FOLDER_MARK: "a"}, telemetry_after={FOLDER_MARK: "b"})]),
        evidence(faults=[window("crash", telemetry={FOLDER_MARK: "a"}, telemetry_after={FOLDER_MARK: "a"})]),
    ),
    (
        f.NoSurvivorKnown(fault=CRASH),
        evidence(faults=[window("crash")]),
        evidence(faults=[window("crash", survivor_sent=9)]),
    ),
    (  # of this session, though other reads may be behind and prove nothing
        f.NoSurvivorKnown(fault=CRASH),
        evidence(faults=[window("crash")]),
        evidence(faults=[window("crash")], others=[attempt(0, 4, 7, 8)]),
    ),
    (
        f.EarlierSurvived(fault=CRASH, sent=9),
        evidence(faults=[window("crash", survivor_sent=9)]),
        evidence(faults=[window("crash")]),
    ),
    (
        f.HoleInTail(fault=CRASH, acknowledged=12, sent=18),
        evidence(faults=[window("crash", survivor_sent=18)]),
        evidence(faults=[window("crash", survivor_sent=18)], attempt=UNKNOWN),
    ),
    (
        f.HoleInTail(fault=CRASH, acknowledged=12, sent=14),
        evidence(faults=[window("crash")], others=[attempt(0, 6, 14, 16)]),
        evidence(faults=[window("crash")], others=[attempt(0, 6, 14, 21)]),
    ),
    (
        f.TimeToLiveChanged(server="redis", started=20),
        evidence(faults=[window("ttl_change")]),
        evidence(faults=[window("ttl_change", 20, 60)]),
    ),
    (
        f.CounterRose(server="redis", counter="evicted_keys", before=3, after=5, since=11, until=45),
        evidence(samples=[sample(11, evicted_keys="3"), sample(45, evicted_keys="5")]),
        evidence(samples=[sample(11, evicted_keys="5"), sample(45, evicted_keys="5")]),
    ),
    (
        f.NotCounted(counter="expired_keys"),
        evidence(samples=[sample(11)]),
        evidence(samples=[sample(11, expired_keys="0")]),
    ),
    (
        f.FaultDuring(fault=FaultRef("redis", "connection_refused", 5), ended=11, during="append"),
        evidence(faults=[window("connection_refused", 5, 11)]),
        evidence(faults=[window("connection_refused", 5, 9)]),
    ),
    (
        f.OperationsFailed(count=2, since=9, until=11, during="append"),
        evidence(troubles=[9, 11]),
        evidence(troubles=[11]),
    ),
    (
        f.OperationsFailed(count=1, since=9, until=9, during="append"),
        evidence(troubles=[9], attempt=attempt(0, 5, 8, 12)),
        evidence(troubles=[9]),
    ),
    (
        f.ServerSilent(server="redis", since=0, until=9 * SECOND, during="append"),
        evidence(samples=SILENT),
        evidence(samples=[SILENT[0], sample(4 * SECOND), SILENT[1]]),
    ),
    (f.NothingElseKnown(), evidence(), evidence(faults=[window("pause")])),
    (f.NothingElseKnown(), evidence(samples=RUNS[:1]), evidence(samples=RUNS)),
    (
        f.OverlappingAppend(writer=1, seq=3, sent=11, ended=15),
        evidence(others=[OTHER]),
        evidence(others=[attempt(1, 3, 13, 15)]),
    ),
    (f.NoRival(), evidence(others=[attempt(1, 3, 13, 15)]), evidence(others=[OTHER])),
    (f.NoRival(), evidence(), evidence(others_cut=True)),
    (f.LossesAlone(alone=2, losses=3), evidence(losses=3, losses_alone=2), evidence(losses=3, losses_alone=1)),
    (f.SentOnce(sent=10, ended=12), evidence(), evidence(attempt=None)),
    (f.NotAcknowledged(sent=10, ended=12), evidence(attempt=UNKNOWN), evidence()),
    (f.WriterSilent(silent_us=7), evidence(worker_silent_us=7), evidence()),
    (
        f.AppendsDuringRead(count=1),
        evidence(others=[attempt(1, 9, 49, 52)]),
        evidence(others=[attempt(1, 9, 52, 53)]),
    ),
    (f.NeverSeen(), evidence(), evidence(was_seen=True)),
    (f.NeverSeen(), evidence(), evidence(present=[(0, 5, 5)])),
    (f.NeverSeen(), evidence(), evidence(history_unknown=True)),
    (
        f.SeenThenGone(last_seen=30, first_missed=40),
        evidence(was_seen=True, last_seen=30),
        evidence(was_seen=True),
    ),
    (f.SeenBefore(first_missed=40), evidence(was_seen=True), evidence()),
    (f.StandsElsewhere(session="x"), evidence(elsewhere=["x"]), evidence()),
    (f.NeighboursPresent(before=(0, 4), after=(0, 6)), evidence(), evidence(present=[], items=0)),
    (f.NeighboursPresent(before=(0, 4), after=(0, 6)), evidence(), evidence(present=[(0, 3, 3), (0, 6, 6)])),
    (
        f.NeighboursPresent(before=(0, 4), after=None),
        evidence(gone=[(0, 5), (0, 6)], present=[(0, 1, 4), (0, 7, 8)]),
        evidence(gone=[(0, 5), (0, 6)], present=[(0, 1, 3), (0, 7, 8)]),
    ),
    (
        f.NeighboursPresent(before=(1, 1), after=(0, 6)),
        evidence(present=[(0, 4, 4), (1, 1, 1), (0, 6, 6)], others=[attempt(0, 4, 1, 2), attempt(1, 1, 5, 6)]),
        evidence(present=[(0, 4, 4), (1, 1, 1), (0, 6, 6)], others=[attempt(0, 4, 7, 8), attempt(1, 1, 5, 6)]),
    ),
    (
        f.GapAround(before=(0, 3), after=(0, 7)),
        evidence(gone=[(0, 4), (0, 5), (0, 6)], present=[(0, 1, 3), (0, 7, 8)]),
        evidence(gone=[(0, 4), (0, 5), (0, 6)], present=[(0, 1, 3)]),
    ),
    (
        f.HoleInLog(writer=0, seq=6),
        evidence(was_seen=True, survivor=(0, 6), others=[attempt(0, 6, 14, 16)]),
        evidence(was_seen=True, survivor=(0, 6), others=[attempt(0, 6, 11, 16)]),
    ),
    (
        f.GoneFromTheBeginning(count=2),
        evidence(gone=[(0, 4), (0, 5)], present=[(0, 6, 8)]),
        evidence(gone=[(0, 4), (0, 5)], present=[(0, 1, 3), (0, 6, 8)]),
    ),
    (f.LastAcknowledged(), evidence(present=[(0, 1, 4)]), evidence()),
    (f.AnswerWasEmpty(invoked=40), evidence(first_items=0), evidence(first_items=1)),
    (f.AnswerWasEmpty(invoked=50), evidence(items=0), evidence(items=1)),
    (f.ShownLater(first_missed=40, invoked=50), evidence(present=[(0, 1, 8)]), evidence()),
    (f.ReadsReplica(), evidence(reads_replica=True), evidence()),
    (f.SameText(count=1), evidence(same_text=[(0, 2)]), evidence(same_text=[(0, 9)])),
    (
        f.EveryLossRepeats(losses=3),
        evidence(losses=3, losses_repeating=3),
        evidence(losses=3, losses_repeating=2),
    ),
    (
        f.RepeatedInSearch(count=2),
        evidence(kind=Kind.DUPLICATED, is_search=True, present=[(0, 5, 5), (0, 5, 5)]),
        evidence(kind=Kind.DUPLICATED, present=[(0, 5, 5), (0, 5, 5)]),
    ),
    (
        f.OutOfOrder(writer=1, seq=3, later_us=1),
        evidence(present=[(1, 3, 3), (0, 5, 5)], others=[OTHER]),
        evidence(present=[(0, 5, 5), (1, 3, 3)], others=[OTHER]),
    ),
    (
        f.SentClose(writer=1, seq=3, apart_us=1),
        evidence(present=[(0, 5, 5), (1, 3, 3)], others=[OTHER]),
        evidence(present=[(0, 5, 6), (1, 3, 3)], others=[OTHER]),
    ),
    (
        f.StoredNotFound(searched=40, invoked=50),
        evidence(kind=Kind.UNFINDABLE, present=[(0, 5, 5)]),
        evidence(kind=Kind.UNFINDABLE),
    ),
    (
        f.ChangedInPlace(right_until=30, wrong_since=50),
        evidence(**TEXTS, was_seen=True, last_seen=30),
        evidence(**TEXTS, was_seen=True),
    ),
    (f.RightBefore(wrong_since=50), evidence(**TEXTS, was_seen=True), evidence(**TEXTS)),
    (f.NeverRight(), evidence(**TEXTS), evidence(**TEXTS, was_seen=True)),
    (f.NotAMessage(), evidence(kind=Kind.UNDECODABLE), evidence()),
    (
        f.ReplacedInPlace(writer=0, seq=5),
        evidence(kind=Kind.UNDECODABLE, replaced=[(0, 5)]),
        evidence(kind=Kind.UNDECODABLE, replaced=[(0, 5)], present=[(0, 5, 5)]),
    ),
    (
        f.RoleDiffers(expected="user", got="tool"),
        evidence(**{**TEXTS, "got_role": "tool"}),
        evidence(**TEXTS),
    ),
    (
        f.TextDiffers(at=1, expected="bc", got="xc"),
        evidence(**TEXTS, expected="abc", got="axc"),
        evidence(**TEXTS, expected="abc", got="abx"),
    ),
    (
        f.TextCut(characters=1, bytes=2, of_characters=3),
        evidence(**TEXTS, expected="\u00e9bc", got="\u00e9"),
        evidence(**TEXTS, expected="\u00e9bc", got="b"),
    ),
    (
        f.SameInNormalForm(form="NFC"),
        evidence(**TEXTS, expected="\u00e9", got="e\u0301"),
        evidence(**TEXTS, expected="\u00e9", got="e"),
    ),
]


@pytest.mark.parametrize(("fact", "supported", "unsupported"), CASES, ids=lambda one: type(one).__name__)
def test_a_fact_holds_by_what_supports_it_and_not_without(fact: Fact, supported: Clues, unsupported: Clues) -> None:
    assert fact.holds(supported)
    assert not fact.holds(unsupported)


def test_every_kind_of_fact_is_tried() -> None:
    assert {type(fact) for fact, _, _ in CASES} == set(typing.get_args(AnyFact))


@pytest.mark.parametrize("fact", [fact for fact, _, _ in CASES], ids=lambda one: type(one).__name__)
def test_a_fact_is_one_line_and_comes_back_from_a_file_as_it_was(fact: Fact) -> None:
    sentence = fact.sentence(lambda at_us: f"<{at_us}>")
    assert sentence
    assert "\n" not in sentence
    assert not sentence.endswith(".")
    assert msgspec.json.decode(msgspec.json.encode(fact), type=AnyFact) == fact


def test_a_fault_is_known_by_its_server_kind_and_beginning() -> None:
    assert ref_of(window("crash")) == CRASH
    assert CRASH.window(evidence(faults=[window("crash"), window("pause")])) == window("crash")
