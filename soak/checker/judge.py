"""Judging one read of a whole session against what the book says. Values in, values out.

`judge` answers in two steps. The fast one: the verified part has the same digest as last time, so only what is new
is looked at. The explaining one runs when that disagrees, and compares name by name.

Absence is only a suspicion here: it becomes `lost`, `rolled_back`, `stale` or `non_monotonic` by a second read
(`soak.checker.second_look`). One read proves everything else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import islice

from xxhash import xxh3_128_hexdigest

from soak.checker.contract import Duplicates, Order
from soak.checker.expected_session import IN_FLIGHT_GRACE_US, ExpectedSession, digest_of, name_of, names_in, runs_of
from soak.checker.intervals import Intervals
from soak.checker.kinds import Kind
from soak.checker.message import MISMADE, Garbled, Message, Stored, garbled, is_well_made
from soak.checker.order import is_in_time_order, order_findings
from soak.checker.read import Finding, Judgement, MessageId, Read, Rules, Run, names_of
from soak.checker.retention import absences, expiry_overdue, may_have_expired, must_be_forgotten
from soak.checker.text import MessageGenerator

_ADDRESS = re.compile(rb" at 0x[0-9a-f]+")


def identify(  # noqa: PLR0911  one answer a line reads better than one variable
    expected: ExpectedSession, item: Stored, author: MessageGenerator, index: int
) -> tuple[MessageId | None, Finding | None]:
    """Tell which message of the session an item is, and what is wrong with it taken by itself."""
    if not isinstance(item, Message):
        return None, _undecodable(garbled(item, f"a {type(item).__name__}, not a message"), index)
    if not is_well_made(item):
        return None, _undecodable(garbled(item, MISMADE), index)
    name = str(item.name)
    if item.session != expected.session or item.run != author.run:
        detail = f"belongs to session {item.session!r} of run {item.run!r}"
        if item.is_intact:
            return None, Finding(Kind.LEAKED, f"{item.run}:{name}", None, detail, index)
        return None, Finding(Kind.UNDECODABLE, f"{item.run}:{name}", None, "its name does not fit its checksum", index)
    place = (item.writer, item.seq)
    writer = expected.find_writer(item.writer)
    if writer is None or not 0 < item.seq <= writer.leased:
        return None, Finding(Kind.PHANTOM, name, None, "no intent to send it was ever recorded", index)
    if item.seq in writer.failed:
        return place, Finding(Kind.PHANTOM, name, place, "its store had refused it", index)
    written = author.write(item.session, item.writer, item.seq)
    if item != written:
        return place, Finding(Kind.CORRUPTED, name, place, difference(written, item), index)
    return place, None


def difference(expected: Message, got: Message) -> str:
    """Say in one line where two messages of one name part."""
    if expected.role != got.role:
        return f"role is {got.role!r}, not {expected.role!r}"
    if expected.content == got.content:
        return "checksum differs, role and content are right"
    want, have = expected.content, got.content
    at = next((i for i, (a, b) in enumerate(zip(want, have, strict=False)) if a != b), min(len(want), len(have)))
    if at == len(have):
        return f"content is cut after {len(have)} of {len(want)} characters"
    # Escaped: texts that differ only in how their characters are composed look the same.
    return f"content differs from character {at}: {have[at : at + 12]!a} in place of {want[at : at + 12]!a}"


def _undecodable(item: Garbled, index: int) -> Finding:
    # Where a thing lies in memory is another place at every read: it is the same thing all the same.
    mark = xxh3_128_hexdigest(_ADDRESS.sub(b"", item.raw))[:12]
    return Finding(Kind.UNDECODABLE, f"bytes:{mark}", None, item.reason, index)


MISPLACED = frozenset({Kind.LEAKED, Kind.PHANTOM, Kind.RESURRECTED})
"""What takes no place among the last N."""

FINDINGS_MAX = 1_000
"""Findings of one read, at most; a session that is wrong all over needs no more."""


def judge(expected: ExpectedSession, read: Read, rules: Rules, author: MessageGenerator) -> Judgement:
    """Compare one whole read with the book."""
    try:
        if _is_unchanged(expected, read.items, author):
            # The digest comes first: on its way each text is encoded once, for all who ask for its bytes afterwards.
            digest = b"" if expected.length else digest_of(read.items)
            judgement = _judge_growth(expected, read, read.items[expected.length :], rules, author, digest)
            if judgement is not None:
                return judgement
    except TypeError:
        # A store of the user's made a message of things no message is made of; the slow way tells which.
        pass
    return _explain(expected, read, rules, author)


# -- the fast way: the verified part is as it was --


def judge_tail(
    expected: ExpectedSession, read: Read, last: int, rules: Rules, author: MessageGenerator
) -> Judgement | None:
    """Judge a read of the last so many messages; None as soon as anything looks odd, and a whole read is due.

    It is believed only when it joins on to the verified part without a seam. Where it overlaps, names are enough: the
    contents were compared before, and are again by every whole read.
    """
    items = read.items
    try:
        overlap = _overlap(expected, items)
        if not overlap or len(items) > last or (len(items) < last and len(items) < expected.length):
            return None
        return _judge_growth(expected, read, items[overlap:], rules, author)
    except TypeError:
        return None


def _overlap(expected: ExpectedSession, items: Sequence[Stored]) -> int:
    """Return how many items, from the first on, are the end of the verified part; 0 if they do not join on."""
    if not expected.length:
        return 0
    names = expected.last_names(len(items))
    writer, seq = names[-1] if names else (0, 0)
    for index in range(len(items) - 1, -1, -1):
        item = items[index]
        if type(item) is Message and item.seq == seq and item.writer == writer and item.session == expected.session:
            return index + 1 if names_of(items[: index + 1]) == names[-index - 1 :] else 0
    return 0


def _is_unchanged(expected: ExpectedSession, items: Sequence[Stored], author: MessageGenerator) -> bool:
    """Whether the verified part is as it was: by its digest, and by name and content where there is none yet."""
    if expected.length > len(items):
        return False
    if expected.hashed and digest_of(items[: expected.hashed]) != expected.digest:
        return False
    behind = items[expected.hashed : expected.length]
    if not behind:
        return True
    return names_of(behind) == expected.last_names(len(behind)) and author.matches(behind, expected.session)


def _judge_growth(
    expected: ExpectedSession,
    read: Read,
    items: Sequence[Stored],
    rules: Rules,
    author: MessageGenerator,
    digest: bytes = b"",
) -> Judgement | None:
    """Judge what stands behind an unchanged verified part; None as soon as anything looks odd."""
    if expected.forgets is not None or rules.contract.retained_messages is not None:
        return None
    known = expected.incidents
    if known is not None and (expected.is_news_pending or known.veiled is not None or known.suspicions is not None):
        return None
    if may_have_expired(expected, read.returned, rules):
        return None
    fresh = _clean_growth(expected, items, rules, author)
    if fresh is None or _lacks_any(expected, read, fresh) or not _begins_as_seen(expected, fresh):
        return None
    settled, unsettled = _settle(expected, fresh, read)
    return Judgement([], {}, {}, settled, replaces=False, unsettled=unsettled, spoiled=set(), digest=digest)


def _begins_as_seen(expected: ExpectedSession, fresh: list[Run]) -> bool:
    """Whether what the last read showed behind the verified part, outcome or not, stands there as it did."""
    if expected.unsettled is None:
        return True
    seen = expected.unsettled_names()
    return list(islice(names_in(fresh), len(seen))) == seen


def _lacks_any(expected: ExpectedSession, read: Read, fresh: list[Run]) -> bool:
    new: dict[int, Intervals] = {}
    for number, first, last in fresh:
        new.setdefault(number, Intervals()).add_run(first, last)
    for number, acked in read.acked.items():
        writer = expected.writers[number]
        if acked.bounds == writer.standing.bounds:
            continue
        missing = acked.minus(writer.standing).minus(writer.excused)
        if number in new:
            missing = missing.minus(new[number])
        if missing:
            return True
    return False


def _clean_growth(
    expected: ExpectedSession, items: Sequence[Stored], rules: Rules, author: MessageGenerator
) -> list[Run] | None:
    """Return the names if each item is a message as it was written, in an order that may be; else None."""
    if rules.contract.order is Order.NONE:
        return None
    if not author.matches(items, expected.session):
        return None
    writers = expected.writers
    fresh = _runs_in(items)
    largest = {number: writer.standing.largest for number, writer in enumerate(writers)}
    for number, first, last in fresh:
        # A smaller number is a duplicate, or out of order, or a late unknown one: all worth a closer look.
        if first <= largest.get(number, first):
            return None
        writer = writers[number]
        if last > writer.leased or (writer.failed and writer.failed.touches(first, last)):
            return None
        largest[number] = last
    if fresh and rules.contract.order is Order.REALTIME and not is_in_time_order(expected, fresh, rules):
        return None
    return fresh


def _runs_in(items: Sequence[Message]) -> list[Run]:
    """Fold the names of messages into runs, as `runs_of` does, without a name for each."""
    runs: list[Run] = []
    current: int | None = None
    first = last = 0
    for item in items:
        seq = item.seq
        if seq == last + 1 and item.writer == current:
            last = seq
            continue
        if current is not None:
            runs.append((current, first, last))
        current, first, last = item.writer, seq, seq
    if current is not None:
        runs.append((current, first, last))
    return runs


def _settle(expected: ExpectedSession, fresh: list[Run], read: Read) -> tuple[list[Run], list[MessageId]]:
    """Part the new names into those to be taken as verified, and the rest, which waits for an outcome on its way.

    The verified part ends before the first message without an outcome: where that belongs is known only with its times.
    """
    for at, (number, first, last) in enumerate(fresh):
        writer = expected.writers[number]
        if not writer.acked.covers(first, last):
            for seq in range(first, last + 1):
                if writer.is_in_flight(seq) and not _waited_enough(expected, (number, seq), read):
                    return _parted(fresh, at, seq)
    return fresh, []


def _parted(runs: list[Run], at: int, seq: int) -> tuple[list[Run], list[MessageId]]:
    """Part what stands before a message of one of the runs from the message and all behind it."""
    number, first, last = runs[at]
    before = [*runs[:at], (number, first, seq - 1)] if seq > first else runs[:at]
    return before, list(names_in([(number, seq, last), *runs[at + 1 :]]))


def _waited_enough(expected: ExpectedSession, place: MessageId, read: Read) -> bool:
    """Whether this one has been seen for so long that its outcome will never come: its worker is dead."""
    since = next((one.since for one in expected.unsettled or () if (one.writer, one.seq) == place), None)
    return since is not None and read.invoked - since > IN_FLIGHT_GRACE_US


# -- the explaining way: name by name --


def _explain(expected: ExpectedSession, read: Read, rules: Rules, author: MessageGenerator) -> Judgement:
    findings: list[Finding] = []
    places = _identify(expected, read, author, findings)
    counts = Counter(place for place in places if place is not None)
    names = list(counts)
    find_duplicates(expected, places, counts, rules, findings)
    find_resurrected(expected, names, places, read, rules, findings)
    find_dirty(expected, findings)
    unique = [place for place in names if counts[place] == 1]
    if rules.contract.order is not Order.NONE:
        findings.extend(order_findings(expected, unique, places, rules))
    misplaced = sum(finding.kind in MISPLACED and finding.at >= 0 for finding in findings)
    if rules.contract.duplicates is Duplicates.EXACTLY_ONCE:
        misplaced += counts.total() - len(counts)
    absent, excused, is_undecided = absences(expected, read, names, rules, len(read.items) - misplaced)
    spoiled = {finding.place for finding in findings if finding.kind is Kind.CORRUPTED and finding.place is not None}
    spoiled |= _garbled_in_place(expected, findings, places, absent)
    known = [place for place in names if _is_expected(expected, place)]
    settled, unsettled = _settle(expected, runs_of(known), read)
    return Judgement(
        findings[:FINDINGS_MAX],
        absent,
        excused,
        settled,
        replaces=True,
        unsettled=unsettled,
        spoiled=spoiled,
        is_undecided=is_undecided,
    )


def _garbled_in_place(
    expected: ExpectedSession, findings: list[Finding], places: list[MessageId | None], absent: dict[int, Intervals]
) -> set[MessageId]:
    """Take out of what is absent what has something unreadable in its place: that is one wrong, not two."""
    explained: set[MessageId] = set()
    # A late unknown write may stand anywhere, so it says nothing about what belongs next to it.
    places = [
        place if place is not None and expected.writers[place[0]].bears_order(place[1]) else None for place in places
    ]
    rows = [finding for finding in findings if finding.kind is Kind.UNDECODABLE]
    for finding in rows:
        if len(explained) < len(rows) - expected.explained:
            # What the last read showed comes first: what that one lacked already may be rightly gone.
            shown = {
                number: Intervals.of(filter(partial(expected.shows, number), seqs)) for number, seqs in absent.items()
            }
            place = _missing_in_place(expected, finding.at, places, shown)
            place = place or _missing_in_place(expected, finding.at, places, absent)
            if place is not None:
                explained.add(place)
                rest = absent[place[0]].minus(Intervals([place[1], place[1]]))
                absent[place[0]] = rest
                if not rest:
                    del absent[place[0]]
    return explained


def _missing_in_place(
    expected: ExpectedSession, at: int, places: list[MessageId | None], absent: dict[int, Intervals]
) -> MessageId | None:
    """Return a missing message that may have stood at this position."""
    return _missing_at(at, places, absent) or _missing_anywhere(expected, absent)


def _missing_at(at: int, places: list[MessageId | None], absent: dict[int, Intervals]) -> MessageId | None:
    """Return the missing message that belongs between the neighbours of this position, if there is one."""
    for number, seqs in absent.items():
        before = next((p[1] for p in reversed(places[:at]) if p is not None and p[0] == number), 0)
        after = next((p[1] for p in places[at + 1 :] if p is not None and p[0] == number), seqs.largest + 1)
        for first, last in seqs.runs():
            seq = max(first, before + 1)
            if seq <= last and seq < after:
                return number, seq
    return None


def _missing_anywhere(expected: ExpectedSession, absent: dict[int, Intervals]) -> MessageId | None:
    """Return a missing message that may have stood at any position: a late unknown write."""
    for number, seqs in absent.items():
        for seq in seqs.both(expected.writers[number].unknown):
            return number, seq
    return None


def _is_expected(expected: ExpectedSession, place: MessageId) -> bool:
    writer = expected.writers[place[0]]
    return place[1] not in writer.failed and place[1] not in writer.gone


def _identify(
    expected: ExpectedSession, read: Read, author: MessageGenerator, findings: list[Finding]
) -> list[MessageId | None]:
    """Say for each item which message of this session it is; None, and a finding, where it is none."""
    places: list[MessageId | None] = []
    for index, item in enumerate(read.items):
        place, finding = identify(expected, item, author, index)
        places.append(place)
        if finding is not None:
            findings.append(finding)
    return places


def find_duplicates(
    expected: ExpectedSession,
    places: list[MessageId | None],
    counts: Counter[MessageId],
    rules: Rules,
    findings: list[Finding],
) -> None:
    """Find what stands more than once where that is not allowed."""
    if rules.contract.duplicates is Duplicates.AT_LEAST_ONCE:
        return
    for place, count in counts.items():
        if count > 1:
            where = [index for index, other in enumerate(places) if other == place]
            detail = f"stands {count} times, at {', '.join(map(str, where[:8]))}"
            findings.append(Finding(Kind.DUPLICATED, name_of(expected, place), place, detail, where[1]))


def find_dirty(expected: ExpectedSession, findings: list[Finding]) -> None:
    """Find what an earlier read had shown and its store has refused since, whether it still stands there or not."""
    shown = {finding.place for finding in findings if finding.kind is Kind.PHANTOM}
    for number, seq, at in expected.dirty or ():
        if (number, seq) not in shown:
            detail = f"a read at {at / 1e6:.3f} s showed it, and its store refused it"
            findings.append(Finding(Kind.PHANTOM, name_of(expected, (number, seq)), (number, seq), detail, -1))


def find_resurrected(
    expected: ExpectedSession,
    names: list[MessageId],
    places: list[MessageId | None],
    read: Read,
    rules: Rules,
    findings: list[Finding],
) -> None:
    """Find what is there although it was forgotten, or its time was over."""
    index_of = {place: index for index, place in enumerate(places) if place is not None}
    forgotten = must_be_forgotten(expected, read.invoked, rules)
    overdue = expiry_overdue(expected, read, rules)
    reported: set[MessageId] = set()
    for place in names:
        if forgotten and place[1] in expected.writers[place[0]].gone:
            detail = "was acknowledged as forgotten before the read"
        elif overdue and expected.writers[place[0]].may_stand(place[1]):
            detail = f"should have expired {overdue / 1e6:.1f} s before the read"
        else:
            continue
        reported.add(place)
        findings.append(Finding(Kind.RESURRECTED, name_of(expected, place), place, detail, index_of[place]))
    if expected.revived is not None:
        detail = "a read showed it that was invoked after it had been acknowledged as forgotten"
        again = [one for one in expected.revived if one not in reported]
        findings.extend(Finding(Kind.RESURRECTED, name_of(expected, place), place, detail, -1) for place in again)
