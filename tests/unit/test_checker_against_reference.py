"""The checker and an independent reading of the consistency model, asked about the same random histories.

The seed is drawn from the clock and printed; SOAK_SEED repeats a run, SOAK_HISTORIES asks about more (100,000 by hand).
A store that keeps its contract must never be accused. Of a store with a planted flaw, the two find the same kinds in
the same sessions, but for the decisions of the page: always in the histories that are the same in every run, and but
for a few of those that are drawn. Which messages of a session are named may differ: how often that happens is printed.
"""

from __future__ import annotations

import os
import time

import pytest

from tests.reference.adapter import Way, at_kind_level, compare, explain
from tests.reference.clocks import Hosts, slowed
from tests.reference.generator import correct, flawed
from tests.reference.history import VERIFIER, History, Item, Outcome, Read, Source
from tests.support.checker.under_reference import CheckerJudge, as_read

pytestmark = pytest.mark.no_cover

HISTORIES = int(os.environ.get("SOAK_HISTORIES", "150"))
PARTS = 4
AGREED_FROM = 910_000_000
"""Flawed histories from here on are judged in every run, and all of them alike."""
ASKED = (
    *(269, 285, 383, 661, 1234, 1247, 1424, 1546, 1548, 1991),
    *(2086, 2364, 3131, 3507, 4008, 4110, 4221, 4528, 4917, 4955),
)
"""Those of them, counted from there, in which the page demands that the primary is asked."""
AGREED = 1_600
DRAWN_MIN = 5_000
"""So many new ones are drawn in a run of everything, half of them flawed."""
OTHER_KINDS_PER = 4_000
"""Of so many flawed histories that are drawn, one may be judged otherwise, and one more."""
OTHER_KINDS_MIN = 2
"""In each part of a run of everything so many may be: eight draws must not fail by chance."""
ONCE_ACCUSED = {
    500_005_049: "only a read that may be behind has dated it",
    8_510_000_012: "a participant saw two in flight behind a forget, and their outcomes came in another order",
    5_001_378: "an unknown write was shown, and reads that may be behind lacked it until a forget",
    5_004_371: "an unknown write was shown, and the next read, which may be behind, lacked it",
}
"""Correct histories that an earlier checker accused, or one without a line that only these miss."""
ONCE_ACCUSED_IN_FAILOVERS = {
    144_053_797_067: "its outcome came in the next failover, and no read had shown it",
    8_520_007_139: "an outcome came late, of what had begun the life in which the next was said",
    354_971_784_371: "a read had shown that a life went on, when the outcome of an earlier append came",
    6_118_011_392: "seen in flight by a participant of a replica, which the verifier's next read may be behind",
    4_110_001_310: "its outcome came when the read of an old primary that had shown it was kept only in part",
    6_118_000_322: "gone in a failover, and a forget that was refused kept that undecided until after the next one",
}
"""The same of stores whose primary is replaced."""
ONCE_JUDGED_OTHERWISE = {
    600_001_604: "only the primary showed it in flight, and it was refused",
    600_001_925: "its outcome came after a second forget",
    600_002_955: "one row that cannot be read, beside a message that a crash may have taken",
    600_003_510: "shown again in another order, after a forget of unknown outcome",
    600_004_082: "shown behind a forget, whose outcome came between a second forget and its outcome",
    600_006_448: "its outcome says that a life had been prolonged, and came after its end",
    600_006_721: "a read in the shadow of a fault came before the outcome",
    600_008_729: "seen, and then hidden by the replica alone",
    600_011_046: "hidden and shown again before any outcome of the session came",
    600_011_408: "only a participant saw it, and nobody knew yet when its life began",
    700_002_068: "only a participant saw it, under an eventual contract",
    700_002_639: "seen behind a forget in the shadow of a fault",
    700_003_880: "an unknown append may have begun the life later than its caller gave up",
    700_005_976: "a participant saw what was forgotten, and a fault may have undone the forget before that was judged",
    700_006_015: "seen without an outcome, forgotten, and shown again",
    800_005_166: "only a participant saw the unknown write that may have begun its life",
    800_000_421: "shown behind a forget, and its outcome came after a fault that may have undone it",
    800_000_651: "only a participant saw it, in a store that keeps the last messages",
    710_004_095: "only the primary had shown it before it was gone",
    820_001_797: "a life that an unknown append had begun, which a read had shown",
    810_001_094: "a participant's window is as wrong as the full reads that order its messages differently",
    910_002_347: "only the primary, asked about what is missing, showed a wrong order",
    910_003_242: "an append was answered when an absolute life may have been over, and later ones when it was",
    910_004_602: "an outcome that came after a loss was confirmed says that the life was over by then",
    930_002_414: "a life was over as far as outcomes had come when a loss would have been confirmed",
    930_005_881: "it raced with a forget, and was shown behind one in flight",
    930_008_503: "it raced with a forget, was shown behind it, and vanished before the outcome of the forget came",
    940_003_977: "shown again in another order, after a read without it while the outcome of a forget was on its way",
    950_003_259: "an unknown write that was shown and has gone may be newer than what had to make room",
    812_003_884_475: "it had expired by a read that lacked it, and was shown again in another order",
    812_003_884_672: "the outcome of an unknown write that a read had shown came after a forget",
    1_010_007_563: "an unknown write that a participant saw before a fault has survived it",
    1_010_007_871: "a participant saw it before anything else had happened",
    1_020_003_167: "shown in flight while a forget was on its way, and refused",
    1_020_004_066: "a participant's window in a wrong order, of which the next full read shows nothing",
    1_020_007_670: "a store that retries may have added a copy of an unknown write behind a forget",
    1_110_009_227: "shown before a forget, and its late outcome says that it raced with it",
    1_210_003_748: "only an unknown outcome had come when an append was answered",
    1_310_000_767: "verified without its outcome, which says that it stands in a wrong order",
    1_410_000_350: "a second copy of an older message stands in the place of a newer one",
    960_002_976: "seen without an outcome, and shown again between a forget and its outcome",
    2_000_000_719: "an unknown write was shown, and its outcome came while that of a forget was on its way",
    2_000_001_362: "its outcome came after a forget was sent, and dates it before the tail of a fault",
    2_000_012_908: "shown in flight by a read that may be behind a forget, and hidden once",
    2_000_014_447: "the primary was asked, and a fault had begun since the read of the replica",
    2_200_005_665: "two reads order a pair differently, and the session is forgotten while the primary is asked",
    2_300_002_005: "two reads order an unknown write differently, and one between them shows nothing",
    7_000_006_461: "seen, hidden and seen again before its outcome came, which says that it had not expired",
    7_100_003_842: "an unknown write that a read showed before a forget has begun no life behind it",
    7_100_004_427: "the primary was asked, and the next read was under way when it began to be suspected",
    3_118_004_736: "shown in flight behind a forget that it raced with, and told before that was",
    4_210_000_930: "shown behind a forget, so its life began behind that, too",
    8_100_016_251: "what stands behind a forget was answered before a tail, so no fault has undone that",
    8_100_021_765: "a read lacked it before a forget was sent, and another showed it while that was under way",
    8_100_022_964: "shown behind a forget, and gone when its outcome came",
    8_100_041_341: "late before a forget, and its outcome came in time",
    8_100_043_999: "the same, and that has happened since",
    8_100_046_193: "seen before a forget erased it, so it began no life behind that",
    8_100_046_567: "late before a forget was sent",
    8_100_030_017: "another reader saw it in flight, and the verifier later than the bound allows",
    8_400_008_918: "two orders, and between the reads an append began a new life",
    8_400_010_656: "a life that an unknown append had begun was over by what a read had shown",
    700_008_878: "what prolonged a life came after a fault that may have taken it",
}
"""Flawed histories of which the checker and the reference once found other kinds."""
ONCE_ACCUSED_IF_SLOW = {
    4_300_000_033: "what was said behind a forget counted as older when its outcome came at last",
    4_300_000_047: "the same, and a crash came meanwhile",
}
"""The same where everything takes so much longer that times of messages are not remembered any more."""
SLOWER_TIMES = 100


@pytest.fixture
def seed() -> int:
    drawn = int(os.environ.get("SOAK_SEED") or time.time_ns() % 10**12)
    print(f"SOAK_SEED={drawn}")
    return drawn


ONCE_OTHERWISE_IN_FAILOVERS = {
    2_200_003_431: "an unknown write that only a read of an old primary dates was sent after an earlier failover",
    2_200_012_066: "a life began with a message that was lost in a failover",
    2_200_017_366: "the primary showed it, and then lost it while the replica had never shown it",
    2_200_018_126: "a failover may have undone what prolonged a life",
    7_000_006_558: "an unknown write that was sent after a forget is shown by an old primary, and gone",
    7_000_007_009: "the same, and its outcome came after it was gone",
    7_000_008_884: "an unknown write was shown in a failover, and may not have been taken by the one before that",
    7_100_008_399: "shown by an old primary behind something in flight, and gone",
    7_200_000_527: "the same, of another writer",
    7_100_005_005: "two orders behind a forget, and a read of an old primary between them",
    3_118_000_610: "in flight behind a forget, in an order in which their outcomes did not come",
    3_118_005_457: "only a participant's read of an old primary showed it",
    3_118_011_147: "an unknown write that had been shown with it, and was sent after it, has survived a failover",
    3_118_009_934: "the same, and its outcome had not come",
    3_118_005_560: "lost in a failover, and its outcome came in the next one; no read had ever shown it",
    4_100_000_032: "only the primary showed it in flight, and lacked it later",
    4_240_000_700: "only the primary, under an eventual contract, showed what has survived a failover",
    4_200_001_271: "in a wrong order it stood in front of all that is older, and had to make room",
    8_100_020_551: "in a store without an order the place of a message does not tell its age",
    8_100_022_747: "only a read in a shadow showed it, and nobody acknowledged it",
    8_100_026_844: "a fault may have undone the end of a life, and not what was answered before the tail",
    8_100_027_273: "two orders behind a forget, where reads may be behind for ever",
    8_100_031_363: "shown behind a forget, and another one in doubt may have taken it",
    8_100_036_509: "two orders behind a forget",
    8_100_039_010: "an unknown write that was shown with it, and was sent after it, has survived a failover",
    8_100_039_368: "shown late, and forgotten before the next read",
    8_100_046_310: "an unknown append is all that a fault has certainly left of a life",
    8_400_003_024: "the primary lacked it in a failover, and a replica showed it once more",
    8_400_010_902: "a participant saw that it had survived a failover",
    8_500_005_102: "a replica may have been behind, and the primary lacked it, too",
    8_500_008_978: "the primary showed in flight, after a failover, what was gone later",
    8_500_015_322: "two went while nothing was decided, and a read after the failover had shown one of them",
    8_400_013_516: "its outcome came while a read in a shadow was under way",
    8_410_008_358: "a window with room, where copies may stand",
    8_100_004_122: "an unknown write that was shown in an old life has not begun the next one",
    8_100_009_965: "seen in flight behind a forget, and shown again by an old primary before it was gone",
    2_100_004_751: "what a read had lacked undecided dated all that the next one lacked",
}
"""The same of stores whose primary is replaced."""


def expect_no_false_alarm(first: int, count: int, *, fails_over: bool = False) -> None:
    for number in range(first, first + count):
        wrong = compare(as_read(correct(number, fails_over=fails_over)), CheckerJudge())
        assert not wrong, f"history {number}, fails_over={fails_over}:\n{explain(wrong[0])}"


def expect_no_false_alarm_between_hosts(first: int, count: int) -> None:
    """Of what several hosts tell, whose clocks are apart, less can be proven; but nobody is accused of more.

    Of a flawed store, too, but for as few as are judged otherwise where one clock tells.
    """
    alarms: dict[str, list[str]] = {"correct": [], "flawed": []}
    for number in range(first, first + count):
        for make in (correct, flawed):
            history = as_read(make(number, fails_over=number % 2 == 1))
            told = [
                one
                for one in at_kind_level(compare(history, CheckerJudge(), Hosts(history)))
                if one.way is Way.FALSE_ALARM
            ]
            alarms[make.__name__] += [f"{make.__name__} {number}, several hosts:\n{explain(one)}" for one in told[:1]]
    assert not alarms["correct"], alarms["correct"][0]
    assert len(alarms["flawed"]) <= OTHER_KINDS_MIN + count // OTHER_KINDS_PER, alarms["flawed"][0]


def expect_no_false_alarm_if_slow(first: int, count: int) -> None:
    """Where everything takes longer, less is remembered and may be missed; but nobody is accused of more."""
    for number in range(first, first + count):
        wrong = compare(as_read(slowed(correct(number, fails_over=number % 2 == 0), SLOWER_TIMES)), CheckerJudge())
        assert not wrong, f"history {number}, {SLOWER_TIMES} times as slow:\n{explain(wrong[0])}"


def expect_agreement(first: int, count: int, *, other_kinds_max: int = 0, fails_over: bool = False) -> None:
    other_names, other_kinds = 0, []
    for number in range(first, first + count):
        differing = compare(as_read(flawed(number, fails_over=fails_over)), CheckerJudge())
        other_names += bool(differing)
        other_kinds += [f"history {number}:\n{explain(one)}" for one in at_kind_level(differing)[:1]]
    print(f"of {count} flawed histories, {other_names} with other messages and {len(other_kinds)} with other kinds")
    print(*other_kinds, sep="\n")
    assert len(other_kinds) <= other_kinds_max, other_kinds[0]


FAILS_OVER = pytest.mark.parametrize("fails_over", [False, True], ids=["one server", "a primary that is replaced"])


def asked_when_due(history: History) -> list[tuple[Read, bool]]:
    """Return the reads of the primary that the page demands, and whether the verifier makes them.

    It says so where nothing may rightly be gone: an acknowledged message that a read of the replica should have shown
    and lacked, and that one after the settle time lacks, too.
    """
    kept = {id(read) for read in as_read(history).reads}
    found: dict[int, tuple[Read, bool]] = {}
    for one in history.attempts:
        if one.outcome is not Outcome.OK or one.delivered_at is None or one.ended is None:
            continue
        told = max(one.delivered_at, one.ended + (history.contract.staleness or 0))
        lacked_since: int | None = None
        is_due = is_asked = False
        for read in sorted(history.reads, key=lambda read: read.returned):
            if read.session != one.id.session or read.reader != VERIFIER or read.items is None:
                continue
            if read.source is Source.PRIMARY:
                # Whoever asks earlier, because it had been missed by a read that might be behind, has asked, too.
                is_asked = is_asked or (id(read) in kept and read.invoked > one.delivered_at)
                if is_due:
                    found[id(read)] = (read, is_asked)
                    break
            elif told < read.invoked:
                if any(not isinstance(item, Item) or item.id == one.id for item in read.items):
                    lacked_since = None
                elif lacked_since is None:
                    lacked_since = read.returned
                is_due = lacked_since is not None and read.invoked - lacked_since >= history.settle
    return list(found.values())


def is_plain(history: History) -> bool:
    """Whether reads may be behind the primary, and nothing is ever rightly gone."""
    given = history.contract
    drops = given.ttl is not None or given.retained is not None or given.eviction
    return bool(given.staleness) and not (drops or history.faults or history.forgets or given.at_least_once)


def test_the_primary_is_asked_where_the_page_demands_it() -> None:
    """Reads that the verifier does not make are left out before both judge: neither would miss what they show."""
    for number in ASKED:
        history = flawed(AGREED_FROM + number)
        assert is_plain(history)
        asked = [is_asked for _, is_asked in asked_when_due(history)]
        assert asked, f"history {AGREED_FROM + number} demands nothing any more"
        assert all(asked), f"history {AGREED_FROM + number}"


@FAILS_OVER
def test_a_store_that_keeps_its_contract_is_never_accused(seed: int, fails_over: bool) -> None:
    expect_no_false_alarm(seed, HISTORIES, fails_over=fails_over)


def test_nobody_is_accused_of_more_if_clocks_are_apart(seed: int) -> None:
    expect_no_false_alarm_between_hosts(seed, HISTORIES // 2)


def test_nobody_is_accused_of_more_if_everything_takes_longer(seed: int) -> None:
    expect_no_false_alarm_if_slow(seed, HISTORIES // 2)


@pytest.mark.parametrize("number", ONCE_ACCUSED_IF_SLOW, ids=ONCE_ACCUSED_IF_SLOW.values())
def test_what_was_once_accused_wrongly_if_slow_is_not_again(number: int) -> None:
    history = as_read(slowed(correct(number), SLOWER_TIMES))
    assert compare(history, CheckerJudge()) == []


@pytest.mark.parametrize("number", ONCE_ACCUSED, ids=ONCE_ACCUSED.values())
def test_what_was_once_accused_wrongly_is_not_again(number: int) -> None:
    expect_no_false_alarm(number, 1)


@pytest.mark.parametrize("number", ONCE_ACCUSED_IN_FAILOVERS, ids=ONCE_ACCUSED_IN_FAILOVERS.values())
def test_what_was_once_accused_wrongly_in_a_failover_is_not_again(number: int) -> None:
    expect_no_false_alarm(number, 1, fails_over=True)


@pytest.mark.parametrize("number", ONCE_JUDGED_OTHERWISE, ids=ONCE_JUDGED_OTHERWISE.values())
def test_what_was_once_judged_otherwise_is_agreed_on(number: int) -> None:
    expect_agreement(number, 1)


@pytest.mark.parametrize("number", ONCE_OTHERWISE_IN_FAILOVERS, ids=ONCE_OTHERWISE_IN_FAILOVERS.values())
def test_what_was_once_judged_otherwise_in_a_failover_is_agreed_on(number: int) -> None:
    expect_agreement(number, 1, fails_over=True)


@FAILS_OVER
def test_flawed_stores_are_judged_as_the_reference_judges_them(seed: int, fails_over: bool) -> None:
    expect_agreement(seed, HISTORIES, other_kinds_max=1 + HISTORIES // OTHER_KINDS_PER, fails_over=fails_over)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_more_are_judged_alike(seed: int, part: int) -> None:
    each = max(HISTORIES, DRAWN_MIN) // PARTS
    first = seed + part * each
    for fails_over in (False, True):
        expect_no_false_alarm(first, each // 4, fails_over=fails_over)
        otherwise_max = OTHER_KINDS_MIN + each // OTHER_KINDS_PER
        expect_agreement(first, each // 4, other_kinds_max=otherwise_max, fails_over=fails_over)
    expect_no_false_alarm_between_hosts(first, each // 8)
    expect_no_false_alarm_if_slow(first, each // 8)
    expect_agreement(AGREED_FROM + part * AGREED // PARTS, AGREED // PARTS)
    expect_agreement(AGREED_FROM + part * AGREED // PARTS, AGREED // PARTS // 2, fails_over=True)
