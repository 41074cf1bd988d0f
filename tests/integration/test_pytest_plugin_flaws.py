"""The contract suite fails on the planted bugs, with the checks that are about them, and with no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from soak.pytest_plugin import MemoryContract
from tests.support.plugin_run import RUN_SECONDS_MAX, run_pytest

CROWD = {
    "test_concurrent_writers_lose_nothing",
    "test_few_connections_lose_nothing",
    "test_a_reader_never_sees_a_gap_while_others_write",
}
ALIKE = {"test_sessions_that_look_alike_are_apart[case]", "test_sessions_that_look_alike_are_apart[tenant]"}
AWAY = {"test_a_server_that_is_away_is_an_error", "test_a_server_that_is_silent_is_an_error"}
TODAY = {"test_what_is_written_today_can_be_read_again"}

FAILING: dict[str, set[str]] = {
    "whole_history_overwrite": CROWD,
    "context_window_merge": CROWD,
    "app_clock_order": {
        "test_turns_stand_in_the_order_they_were_said",
        "test_a_reader_never_sees_a_gap_while_others_write",
    },
    "serializer_v2": {"test_hard_text_comes_back_unchanged[32 KiB]", *TODAY},
    "swallowed_error": {*AWAY, "test_a_crash_loses_no_more_than_promised"},
    "client_retry": {"test_a_reply_that_is_lost_stores_nothing_twice"},
    "ttl_shortened": {"test_nothing_expires_before_its_time"},
    "ttl_not_refreshed": {"test_time_counts_from_where_the_contract_says"},
    "delete_then_late_write": {"test_a_forgotten_session_is_gone_and_stays_gone"},
    "lossy_text": {
        "test_hard_text_comes_back_unchanged[32 KiB]",
        "test_hard_text_comes_back_unchanged[emoji]",
        "test_hard_text_comes_back_unchanged[nul bytes]",
        *TODAY,
    },
    "two_query_context": {"test_a_reader_never_sees_a_gap_while_others_write"},
    "replica_reads": {"test_what_was_just_said_is_in_the_next_read"},
    "index_behind": {"test_hard_text_is_found"},
    "forgotten_in_index": {"test_nothing_of_a_forgotten_session_is_found"},
    "search_across_tenants": {
        "test_a_search_sees_one_session_of_one_namespace",
        "test_a_search_returns_no_more_than_was_asked_for",
        "test_nothing_of_a_forgotten_session_is_found",
    },
}
"""The checks that must fail on each flaw, where parameters matter with these. All others must not."""

SECOND_PROCESS = "test_a_second_process_reads_what_was_acknowledged"
CLOSING = "test_closing_erases_nothing_and_releases_its_connections"
FAILING_SMALL: dict[str, set[str]] = {
    "KnowsNothingOnError": AWAY,
    "DropsTheTenant": {
        "test_sessions_that_look_alike_are_apart[case]",
        "test_sessions_that_look_alike_are_apart[tenant]",
        "test_a_forgotten_session_is_gone_and_stays_gone",
        "test_a_forgotten_session_begins_anew",
        "test_few_connections_lose_nothing",
        *TODAY,
    },
    "DropsWhatItHasHeard": {"test_identical_turns_are_all_kept"},
    "ReadsOnePage": {"test_a_conversation_of_a_thousand_turns_is_read_whole"},
    "KnowsTwoRoles": {"test_a_conversation_comes_back_as_it_was"},
    "ReplacesHalfEmoji": {"test_what_is_no_text_is_kept_or_refused_and_never_changed"},
    "GreetsStrangers": {
        "test_a_session_nobody_wrote_to_is_empty",
        "test_the_last_none_are_none",
        "test_namespaces_are_apart",
        "test_a_forgotten_session_begins_anew",
        "test_a_forgotten_session_is_gone_and_stays_gone",
        *ALIKE,
    },
    "RemembersInItsProcess": {
        SECOND_PROCESS,
        CLOSING,
        "test_turns_stand_in_the_order_they_were_said",
        "test_concurrent_writers_lose_nothing",
        "test_a_forgotten_session_begins_anew",
        "test_identical_turns_are_all_kept",
        *ALIKE,
        *TODAY,
    },
    "NeverCloses": {CLOSING},
    "TakesNoneForAll": {"test_the_last_none_are_none"},
    "ReadsFromTheWrongEnd": {
        "test_the_last_n_are_the_newest_n[5]",
        "test_a_conversation_of_a_thousand_turns_is_read_whole",
    },
    "SharesItsDrawer": {
        "test_namespaces_are_apart",
        "test_everything_it_keeps_lies_under_its_namespace",
        *TODAY,
    },
    "WritesItsCacheBack": {"test_a_forgotten_session_begins_anew"},
    "NeverExpires": {"test_what_has_expired_is_gone"},
    "WaitsForEver": {"test_a_server_that_is_silent_is_given_up"},
    "IgnoresRefusals": {"test_a_write_that_is_refused_is_an_error"},
    "SearchesTheNewest": {
        "test_what_was_said_is_found_by_its_own_words",
        "test_a_search_and_a_read_show_the_same_messages",
        "test_hard_text_is_found",
    },
    "FindsMoreThanAskedFor": {"test_a_search_returns_no_more_than_was_asked_for"},
    "ForgetsWithoutTheLock": {"test_words_that_race_a_forget_bring_nothing_back"},
}
"""The same for small wrong stores of our own."""

FAILING_ELSEWHERE = {
    "test_a_clean_restart_loses_nothing",
    "test_a_crash_loses_no_more_than_promised",
    "test_data_of_an_earlier_version_is_readable",
}
"""Shown to fail in test_pytest_plugin.py, on a server without persistence and on data of another format."""

LUCK = {
    "WritesItsCacheBack": CROWD,
    "app_clock_order": {"test_concurrent_writers_lose_nothing", *TODAY},
    "delete_then_late_write": {*ALIKE, "test_a_forgotten_session_begins_anew"},
    "GreetsStrangers": {"test_a_reader_never_sees_a_gap_while_others_write"},
    "replica_reads": {
        "test_a_conversation_comes_back_as_it_was", "test_hard_text_comes_back_unchanged[cjk]",
        "test_hard_text_comes_back_unchanged[emoji]", "test_identical_turns_are_all_kept",
        "test_a_second_process_reads_what_was_acknowledged", "test_turns_stand_in_the_order_they_were_said",
        "test_what_is_no_text_is_kept_or_refused_and_never_changed", "test_the_last_n_are_the_newest_n[5]",
        "test_a_forgotten_session_is_gone_and_stays_gone", "test_a_forgotten_session_begins_anew",
        "test_sessions_that_look_alike_are_apart[case]", "test_sessions_that_look_alike_are_apart[tenant]",
        "test_namespaces_are_apart", "test_closing_erases_nothing_and_releases_its_connections", *TODAY, *CROWD,
        "test_hard_text_comes_back_unchanged[32 KiB]", "test_hard_text_comes_back_unchanged[nul bytes]",
    },
}  # fmt: skip
"""Checks that fail or not, as the moment has it: a replica may have caught up, writers may not have met."""

SLOW = {
    *AWAY,
    "test_few_connections_lose_nothing",
    "test_closing_erases_nothing_and_releases_its_connections",
    "test_a_forgotten_session_is_gone_and_stays_gone",
    "test_what_was_just_said_is_in_the_next_read",
    "test_a_server_that_is_silent_is_given_up",
    "test_a_write_that_is_refused_is_an_error",
    "test_a_reply_that_is_lost_stores_nothing_twice",
    "test_a_clean_restart_loses_nothing",
    "test_a_crash_loses_no_more_than_promised",
    "test_words_that_race_a_forget_bring_nothing_back",
    "test_a_conversation_of_a_thousand_turns_is_read_whole",
    "test_nothing_expires_before_its_time",
    "test_what_has_expired_is_gone",
    "test_time_counts_from_where_the_contract_says",
}
"""Run only on the flaws they are about, because each takes its time."""

PARAMETERS = {"case", "tenant", "cjk", "emoji", "nul bytes", "32 KiB", "5"}
"""Of the checks with many parameters, those that tell something here."""

NOT_RUN = {"test_the_last_none_are_none"}
"""The stores of the catalogue stand on a common ground that answers "the last 0" with everything."""

INI = """
[pytest]
filterwarnings =
    error
    ignore::ResourceWarning
    ignore::pytest.PytestUnraisableExceptionWarning
asyncio_default_fixture_loop_scope = function
"""
"""Wrong stores leave connections open; when one is collected, its warning would hit whichever test runs just then."""

PROJECT = """
from soak.flaws.catalogue import ALL
from soak.pytest_plugin import MemoryContract

for name in {names!r}:
    store = ALL[name].wrong.store if name in ALL else f"tests.support.stores.wrong_memories:{{name}}"
    globals()[f"Test_{{name}}"] = type(
        f"Test_{{name}}", (MemoryContract,), {{"store": store, "__module__": __name__}}
    )
"""
CONFTEST = """
import re

RUN = {run!r}

def pytest_collection_modifyitems(items):
    # The name of the server version comes first among the parameters; it is not told apart here.
    items[:] = [
        item for item in items
        if re.sub(r"\\[[a-z]+-[0-9.]+-?", "[", item.name).replace("[]", "") in RUN[item.cls.__name__]
    ]
"""


def _all_checks() -> set[str]:
    found = set()
    for name in dir(MemoryContract):
        if name.startswith("test_"):
            marks = getattr(getattr(MemoryContract, name), "pytestmark", [])
            values = [str(value) for mark in marks if mark.name == "parametrize" for value in mark.args[1]]
            found |= {f"{name}[{value}]" for value in values if value in PARAMETERS} if values else {name}
    return found


def _without_version(check: str) -> str:
    """Return the name of a check without the server version, which comes first among its parameters."""
    return re.sub(r"\[[a-z]+-[0-9.]+-?", "[", check).replace("[]", "")


def _failures(folder: Path) -> dict[str, dict[str, str]]:
    """Run the suite on all of them and return for each the checks that failed, with what they said."""
    wrong = {**FAILING, **FAILING_SMALL}
    cheap = _all_checks() - SLOW - FAILING_ELSEWHERE
    run = {
        f"Test_{name}": sorted((cheap if name in FAILING_SMALL else cheap - NOT_RUN) | wrong[name]) for name in wrong
    }
    files = {
        "pytest.ini": INI,
        "test_wrong.py": PROJECT.format(names=list(wrong)),
        "conftest.py": CONFTEST.format(run=run),
    }
    result = run_pytest(folder, files, "-n2", "--soak-versions=newest")
    broken = {name: result.messages[name] for name in result.named("error")}
    assert not broken
    assert {name.partition("::")[0].removeprefix("Test_") for name in result.outcomes} == set(wrong), result.output
    found: dict[str, dict[str, str]] = {name: {} for name in wrong}
    for test in result.named("failed"):
        suite, _, check = test.partition("::")
        found[suite.removeprefix("Test_")][_without_version(check)] = result.messages[test]
    return found


# One test for all of them: as many would run the whole suite once in each worker.
@pytest.mark.long
@pytest.mark.timeout(RUN_SECONDS_MAX)
def test_the_suite_fails_where_it_should_nowhere_else_and_in_words_of_a_user(tmp_path: Path) -> None:
    failures = _failures(tmp_path)
    missed, extra = {}, {}
    for flaw, expected in {**FAILING, **FAILING_SMALL}.items():
        failed = set(failures[flaw])
        if expected - failed:
            missed[flaw] = expected - failed
        for check in failed - expected - LUCK.get(flaw, set()):
            extra[flaw, check] = failures[flaw][check]
        for check, message in failures[flaw].items():
            first = message.splitlines()[0]
            assert re.match(r"(Failed: )?((A|An|Another) (user|assistant)|Users)\b", first), (flaw, check, first)
            assert "Traceback" not in message
    assert (missed, sorted(extra)) == ({}, []), extra


def test_no_check_is_there_that_was_not_seen_to_fail() -> None:
    shown = FAILING_ELSEWHERE.union(*FAILING.values(), *FAILING_SMALL.values())
    names = {check.partition("[")[0] for check in shown}
    assert {check.partition("[")[0] for check in _all_checks()} == names
