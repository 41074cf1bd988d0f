"""A trial is won only if the flaw is found as what it is, and its twin is left alone."""

from __future__ import annotations

import msgspec
import pytest

from soak.cli import main
from soak.commands.selftest import as_json, report_lines
from soak.flaws import catalogue
from soak.flaws.flaw import Flaw, WrongFrom
from soak.scenarios.selftest.observation import EvidenceSummary, StoreObservation
from soak.scenarios.selftest.scenario import Pace, SoakResult
from soak.scenarios.selftest.trial import FlawTrial, judge, not_made, scenarios_of, trial_of
from soak.settings import VerifierSettings

SECOND = 1_000_000
CORRUPTED = catalogue.find("lossy_text")
ACCUSED = StoreObservation(
    store="wrong",
    acknowledged=300,
    verified=290,
    tolerated=0,
    violations={"corrupted": 10},
    healed={},
    verdict="violation",
    reasons=["10 violations of the contract"],
    evidence=[
        EvidenceSummary(
            kind="corrupted",
            cause="serialization change",
            count=10,
            found=7 * SECOND,
            acknowledged=5 * SECOND,
            message="s/0/1",
        )
    ],
)
SILENT = StoreObservation(
    store="right", acknowledged=300, verified=300, tolerated=0, violations={}, healed={}, verdict="pass", reasons=[]
)


def changed(seen: StoreObservation, **changes: object) -> StoreObservation:
    return msgspec.structs.replace(seen, **changes)


def complaints(flaw: Flaw, wrong: StoreObservation, right: StoreObservation) -> str:
    trial = judge(flaw, wrong, right)
    assert trial.passed is not bool(trial.failures)
    return "; ".join(trial.failures)


def test_a_flaw_found_as_what_it_is_beside_a_silent_twin_passes() -> None:
    trial = judge(CORRUPTED, ACCUSED, SILENT)
    assert trial.passed
    assert trial.found_kinds == {"corrupted": 10}
    assert trial.affected == 10
    assert trial.cause == "serialization change"
    assert trial.twin_verdict == "pass"


def test_a_flaw_of_which_nothing_is_said_is_not_found() -> None:
    assert "not found" in complaints(CORRUPTED, SILENT, SILENT)


def test_an_accused_twin_is_a_false_alarm() -> None:
    assert "FALSE ALARM" in complaints(CORRUPTED, ACCUSED, ACCUSED)


def test_a_twin_that_was_not_judged_proves_nothing() -> None:
    unsure = changed(SILENT, verdict="inconclusive", reasons=["only 3 messages were verified"])
    assert "only 3 messages" in complaints(CORRUPTED, ACCUSED, unsure)


def test_a_flaw_found_as_another_kind_is_not_found() -> None:
    found = [msgspec.structs.replace(ACCUSED.evidence[0], kind="lost")]
    assert "found as another kind" in complaints(
        CORRUPTED, changed(ACCUSED, violations={"lost": 10}, evidence=found), SILENT
    )


def test_a_flaw_found_mostly_as_another_kind_is_not_found() -> None:
    assert "mostly" in complaints(CORRUPTED, changed(ACCUSED, violations={"lost": 11, "corrupted": 10}), SILENT)


def test_a_few_of_another_kind_beside_the_right_one_are_no_failure() -> None:
    assert judge(CORRUPTED, changed(ACCUSED, violations={"lost": 3, "corrupted": 10}), SILENT).passed


def test_a_wrong_cause_is_a_failure() -> None:
    found = [msgspec.structs.replace(ACCUSED.evidence[0], cause="eviction")]
    assert "said to be 'eviction'" in complaints(CORRUPTED, changed(ACCUSED, evidence=found), SILENT)


def test_the_cause_is_the_one_named_for_most_messages() -> None:
    other = msgspec.structs.replace(ACCUSED.evidence[0], cause="eviction", count=9)
    assert judge(CORRUPTED, changed(ACCUSED, evidence=[other, *ACCUSED.evidence]), SILENT).passed


def test_what_came_back_must_be_noticed_to_have_come_back() -> None:
    flaw = msgspec.structs.replace(CORRUPTED, heals=True)
    assert "came back" in complaints(flaw, ACCUSED, SILENT)
    assert judge(flaw, changed(ACCUSED, healed={"corrupted": 10}), SILENT).passed


def test_what_must_be_said_of_a_flaw_must_be_said_of_its_own_kind() -> None:
    flaw = msgspec.structs.replace(CORRUPTED, says=("changed in place",))
    assert "'changed in place' was not said" in complaints(flaw, ACCUSED, SILENT)
    of_another = msgspec.structs.replace(ACCUSED.evidence[0], kind="lost", said=["then changed in place"])
    assert "'changed in place' was not said" in complaints(
        flaw, changed(ACCUSED, evidence=[*ACCUSED.evidence, of_another]), SILENT
    )
    found = [msgspec.structs.replace(ACCUSED.evidence[0], said=["it was right until 12.0, then changed in place"])]
    assert judge(flaw, changed(ACCUSED, evidence=found), SILENT).passed
    assert judge(flaw, changed(ACCUSED, in_common=["each of the 3 was changed in place later"]), SILENT).passed


def test_the_result_names_the_first_message_of_the_expected_kind() -> None:
    other = msgspec.structs.replace(ACCUSED.evidence[0], kind="lost", message="s/0/9")
    assert judge(CORRUPTED, changed(ACCUSED, evidence=[other, *ACCUSED.evidence]), SILENT).example == "s/0/1"


def test_what_a_replica_of_the_twin_showed_late_is_counted_and_no_failure() -> None:
    late = changed(SILENT, shadowed_reads=7, shadowed_lag_seconds_max=1.5)
    trial = judge(CORRUPTED, ACCUSED, late)
    assert trial.passed
    assert (trial.twin_shadowed_reads, trial.twin_shadowed_lag_seconds_max) == (7, 1.5)


def test_the_settings_as_shipped_are_the_default_ones() -> None:
    assert Pace.AS_SHIPPED.settings == VerifierSettings()
    assert Pace.QUICK.settings != VerifierSettings()
    patient = msgspec.structs.replace(CORRUPTED, patience_seconds=1_000.0)
    for pace in Pace:
        assert pace.patience_seconds(patient) == 1_000.0
    assert Pace.AS_SHIPPED.patience_seconds(CORRUPTED) > VerifierSettings().coverage


@pytest.mark.parametrize(
    ("wrong_from", "latent", "seconds"),
    [
        (WrongFrom.ACKNOWLEDGED, 0.0, 2.0),
        (WrongFrom.FAULT_STARTED, 0.0, 1.0),
        (WrongFrom.FAULT_ENDED, 0.0, 0.5),
        (WrongFrom.ACKNOWLEDGED, 1.5, 0.5),
    ],
)
def test_the_time_counts_from_when_the_wrong_state_could_be_read(
    wrong_from: WrongFrom, latent: float, seconds: float
) -> None:
    flaw = msgspec.structs.replace(CORRUPTED, wrong_from=wrong_from, latent_seconds=latent)
    seen = changed(ACCUSED, fault_started=6 * SECOND, fault_ended=6_500_000)
    assert judge(flaw, seen, SILENT).seconds_to_detect == seconds


def test_the_table_shows_what_failed_and_why() -> None:
    trials = [judge(CORRUPTED, ACCUSED, SILENT), judge(CORRUPTED, SILENT, ACCUSED)]
    lines = report_lines(trials, 12.0)
    assert lines[1].endswith("found")
    assert lines[2].endswith("FAILED")
    assert any("FALSE ALARM" in line for line in lines)
    assert lines[-1].startswith("1 of 2 flaws found")


def test_the_table_shows_the_expected_kind_that_was_found_most() -> None:
    trial = FlawTrial(
        flaw="empty_on_error",
        expected_kinds=["lost", "rolled_back"],
        expected_causes=["swallowed error"],
        found_kinds={"stale": 103, "lost": 87, "rolled_back": 74},
        affected=161,
    )
    assert report_lines([trial], 12.0)[1].split()[4] == "lost"


@pytest.mark.parametrize("flaw", catalogue.ALL.values(), ids=catalogue.ALL)
def test_a_flaw_and_its_twin_share_one_soak_unless_their_servers_differ(flaw: Flaw) -> None:
    scenarios = scenarios_of(flaw)
    assert [store for one in scenarios for store in one.stores] == [flaw.wrong.store, flaw.right.store]
    assert [one.expectation for one in scenarios] == [flaw, None][: len(scenarios)]
    assert len(scenarios) == 1 or scenarios[0].servers != scenarios[1].servers or flaw.wrong.fault != flaw.right.fault
    again = msgspec.json.decode(msgspec.json.encode(scenarios[0]), type=type(scenarios[0]))
    assert again == scenarios[0], "its process must get what was planned"


def test_a_trial_is_lost_if_one_of_its_soaks_could_not_be_made() -> None:
    right, wrong = SoakResult(seen={"right": SILENT}, seconds=2.0), SoakResult(seen={"wrong": ACCUSED}, seconds=3.0)
    assert trial_of(CORRUPTED, [wrong, right]).passed
    assert trial_of(CORRUPTED, [wrong, right]).seconds == 5.0
    assert trial_of(CORRUPTED, [SoakResult(seen={"w": ACCUSED, "r": SILENT})]).passed
    lost = trial_of(CORRUPTED, [wrong, SoakResult(not_made="no cc")])
    assert lost.failures == ["the trial could not be made: no cc"]


def test_a_soak_is_over_when_the_flaw_is_found_and_the_others_were_used() -> None:
    [both] = scenarios_of(CORRUPTED)
    few = changed(SILENT, verified=99)
    assert both.is_enough({"wrong": ACCUSED, "right": SILENT})
    assert not both.is_enough({"wrong": SILENT, "right": SILENT})
    assert not both.is_enough({"wrong": ACCUSED, "right": few})
    assert msgspec.structs.replace(both, expectation=None).is_enough({"right": SILENT})


def test_the_json_says_whether_all_passed() -> None:
    trial = judge(CORRUPTED, ACCUSED, SILENT)
    assert as_json([trial], 1.0)["passed"] is True
    assert as_json([trial, not_made(CORRUPTED, "no cc")], 1.0)["passed"] is False


def test_median_and_worst_time_to_detect_are_shown_with_the_settings_they_hold_for() -> None:
    later = [msgspec.structs.replace(ACCUSED.evidence[0], found=11 * SECOND)]
    trials = [judge(CORRUPTED, ACCUSED, SILENT), judge(CORRUPTED, changed(ACCUSED, evidence=later), SILENT)]
    last = report_lines(trials, 12.0, Pace.AS_SHIPPED)[-1]
    assert "median time to detect with the settings as shipped 4.0 s, worst 6.0 s" in last
    assert "as shipped" not in report_lines(trials, 12.0)[-1]
    result = as_json(trials, 12.0, Pace.AS_SHIPPED)
    assert (result["settings"], result["median_seconds_to_detect"]) == ("as-shipped", 4.0)
    assert result["worst_seconds_to_detect"] == 6.0


@pytest.mark.parametrize(("words", "pace"), [([], Pace.QUICK), (["--as-shipped"], Pace.AS_SHIPPED)])
def test_trials_are_made_with_the_settings_that_were_asked_for(
    words: list[str], pace: Pace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def made(*arguments: object) -> tuple[list[FlawTrial], float]:
        asked.append(arguments[-1])
        return [judge(CORRUPTED, ACCUSED, SILENT)], 1.0

    monkeypatch.setattr("soak.commands.selftest.make_trials", made)
    assert main(["selftest", "lossy_text", *words]) == 0
    assert asked == [pace]


def test_the_exit_code_is_0_only_if_every_trial_is_won(monkeypatch: pytest.MonkeyPatch) -> None:
    results: list[FlawTrial] = []

    def made(*_arguments: object) -> tuple[list[FlawTrial], float]:
        return results, 1.0

    monkeypatch.setattr("soak.commands.selftest.make_trials", made)
    results[:] = [judge(CORRUPTED, ACCUSED, SILENT)]
    assert main(["selftest", "lossy_text"]) == 0
    results.append(not_made(CORRUPTED, "no cc"))
    assert main(["selftest", "lossy_text"]) == 1


def test_an_unknown_flaw_is_an_error_of_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", "read_kap"]) == 2
    assert "did you mean read_cap" in capsys.readouterr().err
