# ruff: noqa: E501  a change stands on one line
"""Every check of the checker and every excuse it knows, each with the small change to the code that takes it away.

A change is keyed by a function and a pattern in it: a piece of its text, with white space of any kind between the
words, and what stands in its place. Only the code of functions is swapped, so that whoever has imported one by its name
runs the changed one too.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass

from soak.checker.kinds import Kind


@dataclass(frozen=True)
class Mutant:
    """A check taken away (then `kinds` are those it finds), or an excuse widened or removed."""

    what: str
    module: str
    function: str
    """By its name in the module: `judge`, `SessionChecker.observe`."""
    pattern: str
    new: str
    kinds: tuple[Kind, ...] = ()
    by: tuple[str, ...] = ()
    """What is known to notice it, asked first."""

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        module = importlib.import_module(self.module)
        changed = types.ModuleType(module.__name__)
        changed.__dict__.update({"__file__": module.__file__})
        source = self._changed(inspect.getsource(module))
        exec(compile(source, f"{module.__file__} ({self.what})", "exec"), changed.__dict__)  # noqa: S102  it is ours
        swapped = list(_functions(module, changed))
        originals = [(mine, mine.__code__) for mine, _ in swapped]
        for mine, other in swapped:
            mine.__code__ = other.__code__
        try:
            yield
        finally:
            for mine, code in originals:
                mine.__code__ = code

    def _changed(self, source: str) -> str:
        """Return the source of the module with the pattern replaced, which has to stand once in the function."""
        first, last = _lines_of(ast.parse(source), self.function.split("."))
        lines = source.splitlines(keepends=True)
        body = "".join(lines[first - 1 : last])
        pattern = r"\s+".join(re.escape(word) for word in self.pattern.split())
        body, count = re.subn(pattern, lambda _: self.new, body)
        if count != 1:
            raise LookupError(f"{self.what}: {self.function} holds {self.pattern!r} {count} times, not once")
        return "".join([*lines[: first - 1], body, *lines[last:]])


def _lines_of(tree: ast.AST, names: list[str]) -> tuple[int, int]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == names[0]:
            if len(names) > 1:
                return _lines_of(node, names[1:])
            return node.lineno, node.end_lineno or node.lineno
    raise LookupError(f"there is no function {'.'.join(names)}")


def _functions(
    module: types.ModuleType | type, changed: types.ModuleType | type
) -> Iterator[tuple[types.FunctionType, types.FunctionType]]:
    """Pair the functions of a module, and of its classes, with those of its changed copy."""
    for name, mine in vars(module).items():
        other = vars(changed).get(name)
        if isinstance(mine, property) and isinstance(other, property):
            mine, other = mine.fget, other.fget  # noqa: PLW2901  what matters of them
        elif isinstance(mine, staticmethod) and isinstance(other, staticmethod):
            mine, other = mine.__func__, other.__func__  # noqa: PLW2901  what matters of them
        if isinstance(mine, types.FunctionType) and isinstance(other, types.FunctionType):
            if mine.__code__.co_freevars == other.__code__.co_freevars == ():
                yield mine, other
        elif isinstance(mine, type) and isinstance(other, type) and mine.__module__ == module.__name__:
            yield from _functions(mine, other)


JUDGE, ORDER, RETENTION = "soak.checker.judge", "soak.checker.order", "soak.checker.retention"
IDENTITY, ABSENCE, ABSORB = "soak.checker.judge", "soak.checker.second_look", "soak.checker.absorb"
LIFETIME = "soak.checker.retention"
ERASURE, FORGETS = "soak.checker.retention", "soak.checker.expected_session"
BOOK, WINDOW, FAULTS, LOOK = (
    "soak.checker.expected_session",
    "soak.checker.order",
    "soak.checker.faults",
    "soak.checker.second_look",
)
PARTIAL, SESSION = "soak.checker.partial", "soak.checker.session"
SEARCH, SEARCHER, EXAMINER = "soak.checker.partial", "soak.verifier.searcher", "soak.verifier.examiner"

MUTANTS = [
    # -- what an item is --
    Mutant("undecodable", JUDGE, "_identify", "if finding is not None:\n            findings.append(finding)", "if finding is not None and finding.kind is not Kind.UNDECODABLE:\n            findings.append(finding)", (Kind.UNDECODABLE,), ("garble",)),
    Mutant("leaked: another session", IDENTITY, "identify", "item.session != expected.session or item.run", "item.run", (Kind.LEAKED,), ("leak of another session",)),
    Mutant("leaked: another run", IDENTITY, "identify", "item.session != expected.session or item.run != author.run", "item.session != expected.session", (Kind.LEAKED,), ("leak of another run",)),
    Mutant("phantom: never sent", IDENTITY, "identify", "not 0 < item.seq <= writer.leased", "not 0 < item.seq", (Kind.PHANTOM,), ("never sent",)),
    Mutant("phantom: refused", IDENTITY, "identify", "if item.seq in writer.failed:", "if False:", (Kind.PHANTOM,), ("refused and there",)),
    Mutant("corrupted", IDENTITY, "identify", "if item != written:", "if False:", (Kind.CORRUPTED,), ("corrupt",)),
    # -- the fast way must not wave through what the slow way would find --
    Mutant("the digest of the verified part", JUDGE, "_is_unchanged", "if expected.hashed and digest_of(items[: expected.hashed]) != expected.digest:", "if False:", (), ("corrupt",)),
    Mutant("names behind the digest", JUDGE, "_is_unchanged", "return names_of(behind) == expected.last_names(len(behind)) and author", "return author", (), ("swap what only a glance has seen",)),
    Mutant("the content of what is new", JUDGE, "_clean_growth", "if not author.matches(items, expected.session):", "if any(type(item) is not Message or item.session != expected.session for item in items):", (), ("corrupt unseen",)),
    Mutant("a smaller number than the last", JUDGE, "_clean_growth", "if first <= largest.get(number, first):", "if False:", (), ("duplicate unseen",)),
    Mutant("a refused one among the new", JUDGE, "_clean_growth", "if last > writer.leased or (writer.failed and writer.failed.touches(first, last)):", "if False:", (), ("refused and there",)),
    Mutant("what the fast way lacks", JUDGE, "_judge_growth", "_lacks_any(expected, read, fresh)", "False", (), ("lose unseen",)),
    Mutant("the order in time of what is new", JUDGE, "_clean_growth", "if fresh and rules.contract.order is Order.REALTIME and not is_in_time_order(expected, fresh, rules):", "if False:", (), ("swap unseen of two writers",)),
    # -- order and number --
    Mutant("duplicated", JUDGE, "find_duplicates", "if count > 1:\n            where", "if count > 99:\n            where", (Kind.DUPLICATED,), ("duplicate",)),
    Mutant("repeats are allowed", JUDGE, "find_duplicates", "if rules.contract.duplicates is Duplicates.AT_LEAST_ONCE:", "if False:", (), ("at least once/1",)),
    Mutant("no order is promised", JUDGE, "_explain", "if rules.contract.order is not Order.NONE:\n        findings.extend", "if True:\n        findings.extend", (), ("no order/1",)),
    Mutant("reordered: one writer", ORDER, "_writer_order", "elif expected.writers[writer].bears_order(seq):", "elif False:", (Kind.REORDERED,), ("swap unseen of one writer",)),
    Mutant("an unknown write bears no order", ORDER, "_writer_order", "elif expected.writers[writer].bears_order(seq):", "else:", (), ("strict/0",)),
    Mutant("reordered: in time", ORDER, "realtime_findings", "attempt.ended + rules.clock_epsilon_us < latest", "False", (Kind.REORDERED,), ("swap unseen of two writers",)),
    Mutant("overlapping appends may stand either way", ORDER, "realtime_findings", "attempt.ended + rules.clock_epsilon_us < latest", "attempt.sent < latest", (), ("hide unseen",)),
    Mutant("unknown outcomes have no time", ORDER, "realtime_findings", "attempt.outcome == Outcome.OK and", "True and", (), ("hide in the middle",)),
    Mutant("only where order in time is promised", ORDER, "order_findings", "if rules.contract.order is Order.REALTIME:\n        inverted", "if True:\n        inverted", (), ("interleaved writers",)),
    Mutant("non_monotonic: appeared in front", ORDER, "order_findings", "wrong = {place: (Kind.NON_MONOTONIC, detail) for place, detail in appeared}", "wrong = {}", (Kind.NON_MONOTONIC,), ("appear in the middle",)),
    Mutant("a late unknown write may appear anywhere", ORDER, "_changed_order", "if expected.writers[other[0]].bears_order(other[1])", "if True", (), ("unknown one in front",)),
    Mutant("a trim that a crash has undone", ORDER, "_changed_order", "and other[1] not in expected.writers[other[0]].excused", "", (), ("last 6 and crash/114",)),
    # -- what is missing --
    Mutant("absence", RETENTION, "_missing", "gone[number] = missing", "pass", (Kind.LOST, Kind.ROLLED_BACK), ("lose unseen",)),
    Mutant("what is excused is not missed", RETENTION, "_missing", ".minus(writer.excused)", "", (), ("corrupt unseen",)),
    Mutant("lost", ABSENCE, "resolve", "_put(resolution.lost, number, still.minus(seen))", "pass", (Kind.LOST,), ("lose unseen",)),
    Mutant("rolled_back", ABSENCE, "resolve", "_put(resolution.rolled_back, number, still.both(seen))", "pass", (Kind.ROLLED_BACK,), ("lose seen",)),
    Mutant("stale", ABSENCE, "resolve", "_put(resolution.stale, number, back.minus(seen))", "pass", (Kind.STALE,), ("hide unseen",)),
    Mutant("non_monotonic: gone and back", ABSENCE, "resolve", "_put(resolution.non_monotonic, number, back.both(seen))", "pass", (Kind.NON_MONOTONIC,), ("hide seen",)),
    Mutant("absence is believed only at last", ABSENCE, "resolve", "if is_final:\n            _put", "if True:\n            _put", (), ("hide from two quick reads",)),
    Mutant("a stale read is no loss yet", LOOK, "is_last_word", "if look.final_us is None or not look.is_calm or look.read.invoked - suspicion.returned < look.final_us:", "if look.final_us is None or not look.is_calm:", (), ("hide from two quick reads",)),
    Mutant("while a fault is about nothing is final", LOOK, "is_last_word", "look.final_us is None or not look.is_calm or", "look.final_us is None or", (), ("hide during a fault",)),
    Mutant("the primary has the last word", LOOK, "look_again", "absent = {n: seqs.both(look.primary_judged.absent.get(n, NOTHING)) for n, seqs in absent.items()}", "pass", (), ("hide from the replica for long",)),
    Mutant("staleness within the promise", LOOK, "breaks_freshness", "return lag_seconds * 1e6 > allowed + rules.clock_epsilon_us or kind is not Kind.STALE or allowed == 0", "return True", (), ("lose behind a replica",)),
    Mutant("staleness beyond the promise", LOOK, "breaks_freshness", "return lag_seconds * 1e6 > allowed + rules.clock_epsilon_us or kind is not Kind.STALE or allowed == 0", "return kind is not Kind.STALE or allowed == 0", (Kind.STALE,), ("hide longer than promised",)),
    Mutant("what was missed before is told once", LOOK, "without_missed", "or finding.place[1] not in missed.get(finding.place[0], NOTHING)", "or True", (), ("hide in the middle",)),
    # -- faults --
    Mutant("a crash excuses a tail", FAULTS, "allowed_loss_seconds", "Excuse.CRASH: contract.crash_loss_seconds,", "Excuse.CRASH: 0.0,", (), ("last 6 and crash/6",)),
    Mutant("a pause excuses nothing", FAULTS, "allowed_loss_seconds", "Excuse.NOTHING: 0.0,", "Excuse.NOTHING: contract.crash_loss_seconds,", (Kind.LOST,), ("lose a tail in a pause",)),
    Mutant("a power cut has a clause of its own", FAULTS, "allowed_loss_seconds", "Excuse.POWER: contract.power_loss_seconds,", "Excuse.POWER: contract.crash_loss_seconds,", (Kind.LOST,), ("lose a tail in a power cut",)),
    Mutant("the tail is no longer than promised", FAULTS, "is_excused", "not any(gone - reach <= applied <= back + clock_epsilon_us for gone, back in window.moments)", "False", (Kind.LOST,), ("lose too much in a crash",)),
    Mutant("a hole is no tail", FAULTS, "is_excused", "return window.survivor_sent <= applied + clock_epsilon_us", "return True", (Kind.LOST,), ("lose a hole in a crash",)),
    Mutant("one log keeps the earlier of two", LOOK, "_lost", "if is_hole and allowed_loss_seconds(window, look.rules.contract) is not None:", "if False:", (Kind.ROLLED_BACK,), ("test_checker_failovers::test_what_stood_in_one_log_with_a_survivor_is_a_hole_whichever_primary_acknowledged_it",)),
    Mutant("one log: a cache may lose anything", LOOK, "_lost", "if is_hole and allowed_loss_seconds(window, look.rules.contract) is not None:", "if is_hole:", (), ("test_checker_failovers::test_one_log_proves_nothing_where_none_is_promised",)),
    Mutant("one log: each message once", "soak.checker.session", "StoreJudging.__init__", "staleness is not None and contract.duplicates is Duplicates.EXACTLY_ONCE", "True", (), ("test_checker_failovers::test_one_log_proves_nothing_where_none_is_promised",)),
    Mutant("one log: shown by one read", "soak.checker.session", "SessionChecker._suspect", "one.is_before_whole = expected.last_read == expected.last_whole", "one.is_before_whole = True", (), ("test_checker_failovers::test_two_messages_that_two_reads_have_shown_may_be_of_two_primaries",)),
    Mutant("one log: clocks of two hosts", LOOK, "_is_hole", "attempt.ended + rules.clock_epsilon_us < before.sent", "attempt.ended < before.sent", (), ("test_checker_failovers::test_clocks_that_may_be_apart_do_not_tell_which_of_two_was_first",)),
    Mutant("clocks: a forget", ERASURE, "end_forget", "sent, ended = sent - clock_epsilon_us, ended + clock_epsilon_us", "pass", (), ("test_checker_clocks::test_what_clocks_do_not_tell_is_not_held_against_anybody",)),
    Mutant("clocks: survived a fault", LOOK, "_lost", "witnessed) > window.ended + epsilon", "witnessed) > window.ended", (), ("test_checker_clocks::test_what_clocks_do_not_tell_is_not_held_against_anybody",)),
    Mutant("clocks: begun before it was missed", LOOK, "_lost", "window.started - epsilon <= suspicion.returned", "window.started <= suspicion.returned", (), ("test_checker_clocks::test_what_clocks_do_not_tell_is_not_held_against_anybody",)),
    Mutant("clocks: older than what is missing", RETENTION, "_part_trimmed", "times[number, seq].sent - epsilon_us", "times[number, seq].sent", (), ("test_checker_clocks::test_what_clocks_do_not_tell_is_not_held_against_anybody",)),
    Mutant("clocks: acknowledged before a read that lacked it", "soak.checker.session", "SessionChecker._shown_late", "if lag * 1e6 <= rules.clock_epsilon_us:", "if False:", (), ("test_checker_clocks::test_what_clocks_do_not_tell_is_not_held_against_anybody",)),
    Mutant("an old primary is behind", "soak.checker.session", "StoreJudging.is_shadowed", "if self.faults.failing_over_since(self.targets, invoked, returned):", "if False:", (), ("test_checker_failovers::test_reads_of_the_old_primary_are_tolerated_unless_the_contract_is_strict",)),
    Mutant("nothing after the recovery", FAULTS, "is_excused", "or applied > window.ended + clock_epsilon_us", "", (Kind.LOST,), ("lose what was said after the recovery of a cache",)),
    Mutant("what survived was not taken by it", LOOK, "_lost", "survived = window.ended is not None and max(last_seen, witnessed) > window.ended + epsilon", "survived = False", (Kind.ROLLED_BACK,), ("lose what had survived",)),
    Mutant("what was missed before was not taken by it", LOOK, "_lost", "begun = window.started - epsilon <= suspicion.returned", "begun = True", (Kind.LOST,), ("lose before the crash",)),
    Mutant("times are thinned out, and never cut", "soak.checker.absorb", "absorb", "expected.recent = thinned(expected.recent, expected.recent[-RECENT_MAX // 2].ended)", "expected.recent = expected.recent[-RECENT_MAX // 2 :]", (), ("test_checker_remembered::test_of_a_session_with_more_messages_than_are_remembered_a_crash_may_still_take_the_tail",)),
    Mutant("a crash may undo a forget", ERASURE, "undo", "forgets.is_certain and since <= forgets.ended <= until", "False", (), ("crash 1 s/12",)),
    Mutant("a crash may undo that a life was prolonged", ERASURE, "undo", "expected.span = span._replace(last_sent=max([begun, *kept]))", "pass", (), ("sliding and crash/583",)),
    # -- forgets --
    Mutant("resurrected: over when it is gone", "soak.checker.events", "heal_after", "heal(expected, Kind.RESURRECTED, lambda place: place not in shown, events)", "pass", (), ("test_checker_heals::test_what_came_back_after_a_forget_is_over_once_a_read_does_not_show_it",)),
    Mutant("window: over with a right one", "soak.checker.session", "SessionChecker.observe_tail", "heal(self.book, Kind.WINDOW, lambda _: True, events)", "pass", (), ("test_checker_heals::test_a_wrong_window_is_over_with_the_next_right_one",)),
    Mutant("window: over with a clean read of what is closed", "soak.checker.events", "heal_after", "if is_clean and expected.closed:", "if is_clean:", (), ("test_checker_heals::test_a_wrong_window_is_over_with_the_next_right_one",)),
    Mutant("window: of what is closed, only by a clean read", "soak.checker.events", "heal_after", "if is_clean and expected.closed:", "if expected.closed:", (), ("test_checker_heals::test_a_wrong_window_of_a_closed_session_is_over_with_a_clean_read_of_all",)),
    Mutant("resurrected: after a forget", JUDGE, "find_resurrected", "if forgotten and place[1] in expected.writers[place[0]].gone:", "if False:", (Kind.RESURRECTED,), ("come back after a forget",)),
    Mutant("resurrected: seen by a participant", PARTIAL, "judge_seen", "if must_be_forgotten(expected, read.invoked, rules):", "if False:", (Kind.RESURRECTED,), ("show a participant what was forgotten",)),
    Mutant("a forget excuses what was before", ERASURE, "_erase", "writer.excuse(writer.acked.minus(later))", "pass", (), ("come back after a forget",)),
    Mutant("a forget excuses nothing that comes after", FORGETS, "Forgets.may_erase", "self.may_happen > 0 or self.is_undone or sent <= self.ended", "True", (Kind.LOST,), ("lose what was said after a forget",)),
    Mutant("what raced with a forget may be there", ERASURE, "_erase", "writer.acked.minus(racing).minus(writer.unknown)", "writer.acked.minus(writer.unknown)", (), ("no order/4",)),
    Mutant("an unknown write may come after a forget", ERASURE, "_erase", "writer.acked.minus(racing).minus(writer.unknown)", "writer.acked.minus(racing)", (), ("crash 1 s/16",)),
    Mutant("a forget in doubt excuses all", RETENTION, "absences", "expected.forget_in_doubt or", "", (), ("corrupt",)),
    Mutant("a stale read may show what was forgotten", RETENTION, "must_be_forgotten", "return at > forgets.ended + staleness", "return at > forgets.ended", (), ("stale and sliding/10",)),
    Mutant("a failed forget does not undo an earlier one", ERASURE, "end_forget", "forgets if forgets.ended or forgets.is_in_doubt else None", "forgets if forgets.is_in_doubt else None", (), ("per writer/65",)),
    Mutant("a second forget while one is in doubt", ERASURE, "end_forget", "forgets.may_happen = forgets.may_happen or (sent if outcome is Outcome.UNKNOWN else 0)", "forgets.may_happen = sent if outcome is Outcome.UNKNOWN else 0", (), ("test_checker_races::test_a_forget_that_may_still_happen_is_not_forgotten_over_a_second_one",)),
    Mutant("a late arrival may be erased", ABSORB, "_note_late_arrivals", "if may_be_erased and expected.forgets is not None:", "if False:", (), ("stale/540",)),
    Mutant("times of what is excused while it is being forgotten", BOOK, "ExpectedSession.acknowledge", "self._remember(attempt)\n            return False", "return False", (), ("race with two forgets",)),
    Mutant("a stale read shows what a forget has erased", ABSORB, "_may_show_the_forgotten", "read.invoked - staleness_us <= ended", "read.invoked <= ended", (), ("late view of what a forget erased",)),
    # -- lives and windows of the store --
    Mutant("a forget begins a new life", ERASURE, "_erase", "expected.span = _span_behind(expected, expected.span, known, behind)", "pass", (), ("life after a forget",)),
    Mutant("an unknown append may begin a new life", LIFETIME, "_restarted", "first_sent = min([attempt.sent, *(one.sent for one in unknown)])", "first_sent = attempt.sent", (), ("test_checker_late_outcomes::test_an_unknown_append_that_was_seen_late_may_have_begun_a_life_or_the_next",)),
    Mutant("an unknown append dates no beginning", RETENTION, "begin_no_later", "Lifespan(attempt.sent, begun, 0, attempt.ended)", "Lifespan(attempt.sent, attempt.ended, 0, attempt.ended)", (), ("test_checker_late_outcomes::test_an_unknown_append_that_was_seen_long_ago_does_not_date_the_end_of_a_life",)),
    Mutant("under way when a life ended", RETENTION, "prolong", "if expected.span is not None and attempt.sent - rules.clock_epsilon_us <= expected.span.reborn:", "if False:", (), ("test_checker_late_outcomes::test_what_is_told_late_and_belongs_to_a_life_that_is_over_is_not_expected_in_the_next",)),
    Mutant("what belongs to an old life begins no new one", RETENTION, "prolong", "if attempt.ended < expected.span.reborn:", "if False:", (), ("test_checker_late_outcomes::test_what_is_told_late_and_belongs_to_a_life_that_is_over_is_not_expected_in_the_next",)),
    Mutant("a life after a doubtful one is claimed", RETENTION, "_restarted", "if dated and attempt.sent > until:", "if False:", (), ("test_checker_late_outcomes::test_what_is_sent_when_an_old_life_must_be_over_is_expected_also_if_another_had_begun_before",)),
    Mutant("a fault may undo the beginning of a doubtful life", RETENTION, "undo", "if span is not None and span.old_until:", "if False:", (), ("test_checker_late_outcomes::test_a_fault_may_have_undone_what_began_an_old_life",)),
    Mutant("shown behind a forget, behind one in flight", ABSORB, "_end_excuses", "(*judgement.fresh, *runs_of(judgement.unsettled))", "judgement.fresh", (), ("test_checker_forgets::test_what_raced_with_a_forget_and_is_shown_behind_something_in_flight_is_expected",)),
    Mutant("seen in flight before a forget", RETENTION, "_erase", "if one.since < forgets.sent]", "if False]", (), ("test_checker_forgets::test_what_was_seen_before_a_forget_and_stands_behind_it_is_resurrected_whatever_comes_late",)),
    Mutant("in the order in which it was missed", ORDER, "_changed_order", "for one in expected.suspicions or ()", "for one in ()", (Kind.REORDERED,), ("test_checker_late_outcomes::test_what_was_missed_and_comes_back_in_another_order_is_reordered",)),
    Mutant("in the order in which it was veiled", ORDER, "_changed_order", "in expected.veiled or ()", "in ()", (Kind.REORDERED,), ("test_checker_forgets::test_what_vanishes_while_a_forget_is_on_its_way_and_comes_back_in_another_order_is_reordered",)),
    Mutant("what a participant saw has survived", "soak.checker.session", "SessionChecker.observe_participant", "self._note_survivors(self._seen_unknown(read))", "pass", (Kind.LOST,), ("test_checker_late_outcomes::test_an_unknown_write_that_a_participant_saw_before_a_crash_proves_a_hole_if_it_survived",)),
    Mutant("what is erased begins no life", "soak.checker.session", "SessionChecker.attempted", "and not is_erased", "", (Kind.ROLLED_BACK,), ("test_checker_forgets::test_what_was_seen_and_forgotten_begins_no_new_life_when_its_outcome_comes",)),
    Mutant("what is erased may not begin a life", RETENTION, "_span_behind", ".minus(one.gone)", "", (Kind.ROLLED_BACK,), ("test_checker_forgets::test_an_unknown_write_that_was_seen_behind_one_in_flight_and_forgotten_begins_no_new_life",)),
    Mutant("seen in flight while a forget was on its way", RETENTION, "_keep_what_is_left", "for one in in_flight", "for one in ()", (Kind.PHANTOM,), ("test_checker_forgets::test_what_was_seen_in_flight_while_a_forget_was_on_its_way_is_a_phantom_if_it_is_refused",)),
    Mutant("verified without an outcome, which comes late", BOOK, "ExpectedSession.acknowledge", "self.is_order_open = seq in book.standing", "pass", (Kind.REORDERED,), ("test_checker_late_outcomes::test_an_acknowledgement_that_comes_late_puts_a_verified_message_in_order_again",)),
    Mutant("the answer of the primary is judged", LOOK, "proven_by", "one.at >= 0 and one.kind is not Kind.NON_MONOTONIC", "False", (), ("test_checker_late_outcomes::test_what_the_primary_shows_wrong_when_it_is_asked_is_reported",)),
    Mutant("a forget in doubt may end an absolute life", LIFETIME, "expiry_overdue", "forgets.in_doubt_since <= until:", "False:", (), ("life after a late forget",)),
    Mutant("an unknown append may prolong a life", LIFETIME, "expiry_overdue", "or _may_be_prolonged(expected, rules)", "", (), ("life by a late append",)),
    Mutant("resurrected: overdue", JUDGE, "find_resurrected", "elif overdue and expected.writers[place[0]].may_stand(place[1]):", "elif False:", (Kind.RESURRECTED,), ("expire never",)),
    Mutant("may have expired", RETENTION, "absences", "or may_have_expired(expected, read.returned, rules)", "", (), ("absolute/1",)),
    Mutant("expired too early", LIFETIME, "has_run_out", "at >= earliest_end(expected.span, rules)", "True", (Kind.LOST,), ("expire too early",)),
    Mutant("sliding or absolute: earliest", LIFETIME, "earliest_end", "base = span.last_sent if rules.contract.expiry is Expiry.SLIDING else span.first_sent", "base = span.last_sent", (), ("absolute/12",)),
    Mutant("sliding or absolute: latest", LIFETIME, "_latest_end", "base = span.first_ended if is_begin_known else span.last_ended", "base = span.last_ended + 10**9", (Kind.RESURRECTED,), ("expire never",)),
    Mutant("a session under way is not overdue", LIFETIME, "expiry_overdue", "or not expected.closed", "", (), ("stale and sliding/144",)),
    Mutant("a new life", LIFETIME, "prolong", "has_run_out(expected, attempt.ended, rules)", "False", (), ("sliding/3",)),
    Mutant("eviction is allowed", RETENTION, "absences", "expected.forget_in_doubt or rules.contract.eviction_allowed or", "expected.forget_in_doubt or", (), ("eviction/0",)),
    Mutant("older than the last so many", RETENTION, "absences", "return Absences(*_part_trimmed(expected, gone, names, rules.clock_epsilon_us))", "return Absences(gone, {})", (), ("last 6/8",)),
    Mutant("among the last so many", RETENTION, "_part_trimmed", "(absent if has_older else trimmed)", "trimmed", (Kind.LOST,), ("lose the newest of the kept",)),
    Mutant("fewer than the last so many", RETENTION, "absences", "if taken < rules.contract.retained_messages:", "if False:", (Kind.LOST,), ("keep too few",)),
    Mutant("a late acknowledgement bears its order", BOOK, "ExpectedSession.acknowledge", "book.unknown = book.unknown.minus(Intervals([seq, seq]))", "pass", (Kind.REORDERED,), ("swap what was in flight for long",)),
    # -- reads of the last so many --
    Mutant("window: too many", WINDOW, "judge_window", "if last is not None and len(seen) > last:", "if False:", (Kind.WINDOW,), ("read too many",)),
    Mutant("window: one twice", PARTIAL, "_repeated", "if count > 1", "if False", (Kind.DUPLICATED,), ("read twice the same",)),
    Mutant("window: another order", WINDOW, "judge_window", "if indexes != sorted(indexes):", "if False:", (Kind.REORDERED,), ("read in another order",)),
    Mutant("window: a hole", WINDOW, "_judge_gaps", "if holes:", "if False:", (Kind.WINDOW,), ("read with a hole",)),
    Mutant("window: too few", WINDOW, "_judge_gaps", "if older and (last is None or size < last):", "if False:", (Kind.WINDOW,), ("read too few",)),
    Mutant("window: the oldest", WINDOW, "_judge_gaps", "if newer and last is not None and start == 0 and size >= last and len(newer) >= last:", "if False:", (Kind.WINDOW,), ("read the oldest",)),
    Mutant("window: what did not fit", WINDOW, "_judge_gaps", "if older and (last is None or size < last):", "if older:", (), ("read an earlier end",)),
    Mutant("window: stale", WINDOW, "_judge_gaps", "for place in newer\n    ]", "for place in newer[:0]\n    ]", (Kind.STALE,), ("read an earlier end",)),
    Mutant("window: unknown ones took up a place", WINDOW, "judge_window", "place not in unsure or place in seen]", "place not in unsure]", (), ("test_checker_window::test_an_unknown_write_that_was_seen_took_up_a_place",)),
    Mutant("window: no order, no end", WINDOW, "judge_window", "contract.duplicates is Duplicates.AT_LEAST_ONCE or contract.order is Order.NONE", "contract.duplicates is Duplicates.AT_LEAST_ONCE", (), ("no order/3",)),
    # -- what is on its way --
    Mutant("an outcome on its way is waited for", JUDGE, "_settle", "return _parted(fresh, at, seq)", "continue", (), ("seen in flight and refused",)),
    Mutant("an unknown write that is seen counts", ABSORB, "_note_late_arrivals", "writer.acked.update(late)", "pass", (), ("lose an unknown one that was seen",)),
    # -- searches --
    Mutant("search: what stands in the answer", SEARCH, "judge_search", "if finding is not None:\n            findings.append(finding)", "pass", (Kind.LEAKED,), ("find something of another session",)),
    Mutant("search: one twice", SEARCH, "judge_search", "find_duplicates(expected, places, counts, rules, findings)", "", (Kind.DUPLICATED,), ("find one twice",)),
    Mutant("search: forgotten or expired", SEARCH, "judge_search", "find_resurrected(expected, list(counts), places, read, rules, findings)", "", (Kind.RESURRECTED,), ("find what was forgotten",)),
    Mutant("search: too many", SEARCH, "judge_search", "if len(read.items) > limit:", "if False:", (Kind.WINDOW,), ("find too many",)),
    Mutant("search: by a participant", EXAMINER, "Examiner._judge_observation", "observed = checker.observe_search(seen, asked, last or 0)", "return", (Kind.RESURRECTED,), ("let a participant find what was forgotten",)),
    Mutant("unfindable", SEARCH, "search_again", "return SearchFate.UNFINDABLE, Finding(Kind.UNFINDABLE, name_of(expected, place), place, detail, at)", "return SearchFate.OVER, None", (Kind.UNFINDABLE,), ("index never",)),
    Mutant("what a search misses is suspected", "soak.checker.session", "SessionChecker.observe_wide_search", "expected.missed = [*known, missed]", "pass", (Kind.UNFINDABLE,), ("index never",)),
    Mutant("each message has its turn", SEARCHER, "Searcher._choose", "book.searched = turn + turns", "pass", (Kind.UNFINDABLE,), ("index never, one of many",)),
    Mutant("what a participant misses is asked for", SEARCHER, "Searcher._choose", "[:WANTED_MAX]", "[:0]", (Kind.UNFINDABLE,), ("let a participant not find one",)),
    Mutant("an approximate search promises nothing", SEARCH, "is_promised", "return rules.contract.search is Searches.EXACT", "return True", (), ("index never, as an approximate one may",)),
    Mutant("a later search shows it", SEARCH, "search_again", "return SearchFate.FOUND, _late(missed, again.rules)", "return SearchFate.FOUND, None", (Kind.STALE,), ("index late",)),
    Mutant("a search within the promised lag", SEARCH, "_late", "return Late(Kind.STALE, missed.place, lag, detail, breaks_freshness(lag, Kind.STALE, rules))", "return Late(Kind.STALE, missed.place, lag, detail, True)", (), ("index as late as is promised",)),
    Mutant("a narrow search proves nothing", "soak.checker.session", "SessionChecker.observe_wide_search", "if not is_missed(wide, self.store.author.write(expected.session, *place), limit):", "if False:", (), ("search about right",)),
    Mutant("equal words may be left out", SEARCH, "is_missed", "return equals < max(1, len(read.items)) or equals < min(limit, NEAREST)", "return True", (), ("search among equals",)),
    Mutant("few equal words leave room", SEARCH, "is_missed", "return equals < max(1, len(read.items)) or equals < min(limit, NEAREST)", "return equals < max(1, len(read.items))", (), ("search among equals",)),
    Mutant("a search is believed only at last", SEARCH, "search_again", "or apart < again.final_us", "", (), ("index late for two quick searches",)),
    Mutant("while a fault is about no search is final", SEARCH, "search_again", "again.final_us is None or not again.is_calm or", "again.final_us is None or", (), ("index late because of a fault",)),
    Mutant("what is gone is not unfindable", SEARCH, "search_again", "if at is None or not is_missed(again.search, asked, again.limit):", "if not is_missed(again.search, asked, again.limit):", (), ("lose what is being looked for",)),
    Mutant("a crash may take a vector", SEARCH, "search_again", "if not is_due(expected, place, again.search, again.rules) or _may_be_taken(again):", "if not is_due(expected, place, again.search, again.rules):", (), ("lose vectors in a crash that may take them",)),
    Mutant("a crash takes no older vector", SEARCH, "_may_be_taken", "if any(gone - reach <= acknowledged <= back + epsilon for gone, back in window.moments):", "if True:", (Kind.UNFINDABLE,), ("lose older vectors in a crash",)),
    Mutant("a crash takes nothing that was missed before", SEARCH, "_may_be_taken", "if allowed == 0.0 or window.started > again.missed.returned + epsilon:", "if allowed == 0.0:", (Kind.UNFINDABLE,), ("lose vectors before a crash",)),
    Mutant("half of a forget", SEARCH, "is_due", "if expected.forget_in_doubt or may_have_expired", "if may_have_expired", (), ("forget half",)),
    Mutant("half of an unknown append", SEARCH, "is_due", "(writer.unknown, writer.excused, writer.gone, writer.failed)", "(writer.excused, writer.gone, writer.failed)", (), ("say half",)),
    # -- what is seen before its outcome is known --
    Mutant("phantom: a dirty read", JUDGE, "_explain", "find_dirty(expected, findings)", "pass", (Kind.PHANTOM,), ("seen in flight and refused",)),
    Mutant("rolled_back: seen in flight", RETENTION, "_missing", "gone.setdefault(number, Intervals()).add(seq)", "pass", (Kind.ROLLED_BACK,), ("take back what was seen in flight",)),
    Mutant("what was seen in flight and is missed counts as seen", ABSORB, "_count_missed_as_seen", "writer.acked.update(late)", "pass", (), ("test_checker_against_reference::test_what_was_once_accused_wrongly_is_not_again",)),
    Mutant("order of what is in flight", JUDGE, "_judge_growth", "or not _begins_as_seen(expected, fresh)", "", (Kind.REORDERED,), ("swap two that are in flight",)),
    Mutant("what a participant saw in flight", PARTIAL, "vanished_from", "(number, seq) not in shown", "False", (Kind.ROLLED_BACK,), ("show a participant what is taken back",)),
    Mutant("what a participant saw in flight, where a primary can be asked", PARTIAL, "vanished_from", "if contract.staleness_us is None and not asks_primary:", "if contract.staleness_us is None:", (Kind.ROLLED_BACK,), ("test_checker_late_outcomes::test_what_a_participant_saw_in_flight_is_rolled_back_if_the_primary_lacks_it",)),
    Mutant("what the primary showed in flight", SESSION, "SessionChecker.observe", "self._suspect_vanished(primary, seen, events, by_primary=True)", "pass", (Kind.ROLLED_BACK,), ("test_checker_late_outcomes::test_what_only_the_primary_showed_in_flight_is_rolled_back_if_it_lacks_it_later",)),
    Mutant("the primary is behind nothing", LOOK, "_lost", "0 if suspicion.by_primary else look.rules.contract.staleness_us", "look.rules.contract.staleness_us", (Kind.ROLLED_BACK,), ("test_checker_late_outcomes::test_what_only_the_primary_showed_in_flight_is_rolled_back_if_it_lacks_it_later",)),
    Mutant("survivors that the primary shows", SESSION, "SessionChecker.observe", "self._note_survivors_in(primary)", "pass", (Kind.LOST,), ("test_checker_late_outcomes::test_what_the_primary_shows_when_it_is_asked_proves_a_hole_also_under_eventual",)),
    Mutant("an unknown write that was shown, in a read under way", RETENTION, "_missing", "if writer.unknown and expected.last_returned <= read.invoked:", "if False:", (Kind.ROLLED_BACK,), ("test_checker_late_outcomes::test_an_unknown_write_that_was_shown_is_rolled_back_if_the_next_read_was_under_way_when_that_was_judged",)),
    Mutant("an unknown write in front, however late", ORDER, "order_findings", "+ _late_in_front(expected, unique, rules)", "", (Kind.REORDERED,), ("test_checker_late_outcomes::test_an_unknown_write_may_never_stand_in_front_of_what_was_acknowledged_before_it_was_sent",)),
    Mutant("times are kept while a forget is on its way", SESSION, "SessionChecker._absorb", "is_forgotten or expected.is_in_doubt", "expected.is_in_doubt", (), ("test_checker_forgets::test_what_was_said_behind_a_forget_is_expected_however_late_its_outcome_comes",)),
    Mutant("reads that raise around a fault", SESSION, "SessionChecker.observe_failure", "known is not None and faults.happened(self.store.targets, known.last, returned)", "False", (), ("test_checker_races::test_a_fault_between_two_reads_that_raise_starts_their_count_again",)),
    Mutant("stale: the outcome came late", BOOK, "ExpectedSession.acknowledge", "attempt.ended <= self.last_read", "False", (Kind.STALE,), ("hide what the ledger tells late",)),
    Mutant("an unknown write may not stand in front", ORDER, "realtime_findings", "if attempt is None:", "if attempt is None or attempt.outcome != Outcome.OK:", (Kind.REORDERED,), ("unknown one in front of what was acknowledged before",)),
    # -- who survived, and when --
    Mutant("survivors until it took effect", FAULTS, "FaultWindow.survivors_until", "self.down and self.injected is not None", "False", (Kind.LOST,), ("lose a hole between announcement and crash",)),
    Mutant("an unknown write is dated by the read that showed it", LOOK, "_lost", "_excuses(window, dated, look)", "(attempt is None or attempt.outcome != Outcome.OK or _excuses(window, dated, look))", (Kind.ROLLED_BACK,), ("lose an unknown one seen long before a crash",)),
    Mutant("a read that may be behind dates nothing for certain", LOOK, "_lost", "dated = max(earliest, min(applied, window.ended))", "pass", (), ("test_checker_against_reference::test_what_was_once_accused_wrongly_is_not_again",)),
    Mutant("a server that restarted by itself is noticed first", LOOK, "is_last_word", "look.sampled_since is not None and look.sampled_since < suspicion.returned", "False", (), ("crash that is noticed late",)),
    Mutant("the primary is asked about what a replica lacks", "soak.checker.session", "SessionChecker.needs_primary", "return any(lacks_still(one, look.judgement) and is_last_word(look, one) for one in suspicions)", "return False", (), ("test_checker_against_reference::test_the_primary_is_asked_where_the_page_demands_it",)),
    Mutant("a replica under fault may be late", "soak.checker.session", "StoreJudging.is_shadowed", "self.faults.casts_shadow(self.targets, invoked, returned)", "False", (), ("replica behind after a fault",)),
    Mutant("the shadow of a fault ends", FAULTS, "FaultHistory.casts_shadow", "window.started <= until and since <= self._shadow_end(window)", "window.started <= until", (Kind.NON_MONOTONIC,), ("replica behind after it has caught up",)),
    Mutant("what raced with a forget and stayed is expected", ABSORB, "_end_excuses", "writer.excused = writer.excused.minus(Intervals([first, last]))", "pass", (Kind.ROLLED_BACK,), ("lose what a forget had left",)),
    Mutant("a refused forget excuses nothing", RETENTION, "absences", "expected.forgets.is_awaited(read.returned)", "False", (Kind.LOST,), ("lose during a refused forget",)),
    Mutant("a newer one of another writer", RETENTION, "_part_trimmed", "has_older |= first_ended is not None and first_ended < sent", "pass", (Kind.LOST,), ("lose the newest of several writers",)),
    # -- reads that raise --
    Mutant("undecodable: reads that raise", SESSION, "SessionChecker.observe_failure", "failing.count < FAILURES_MIN", "True", (Kind.UNDECODABLE,), ("raise for one session",)),
    Mutant("where nobody is answered it is unavailability", SESSION, "SessionChecker.observe_failure", "(known is not None and others_answered < known.last)", "False", (), ("raise for all",)),
    # -- forgets and outcomes that come late --
    Mutant("what a forget was seen to have left", ERASURE, "_keep_what_is_left", "is_behind = shows_since < expected.last_whole", "is_behind = False", (Kind.ROLLED_BACK,), ("test_checker_forgets::test_what_a_read_showed_behind_a_forget_is_expected_also_if_the_outcome_came_later",)),
    Mutant("what vanished behind a forget", ERASURE, "_keep_what_is_left", "if shows_since < at and seq not in expected.writers[number].gone", "if False", (Kind.ROLLED_BACK,), ("test_checker_forgets::test_what_vanished_behind_a_forget_whose_outcome_came_later_is_missed",)),
    Mutant("what a read behind it may be behind of", SESSION, "SessionChecker._end_forget", "if not self.store.is_shadowed(one[2], one[2])", "if True", (), ("test_checker_forgets::test_what_a_replica_showed_in_the_shadow_of_a_fault_was_not_seen_behind_a_forget",)),
    Mutant("the next forget settles one that was undone", FORGETS, "Forgets.happened", "self.is_undone = self.is_undone and sent < self.sent", "pass", (Kind.RESURRECTED,), ("test_checker_forgets::test_a_forget_that_a_fault_may_have_undone_is_settled_by_the_next_one",)),
    Mutant("an unknown append may begin the life behind a forget", ERASURE, "_span_behind", "or (one.writer, one.seq) in unseen", "or False", (), ("test_checker_forgets::test_an_unknown_append_from_before_a_forget_may_have_begun_the_life_behind_it_and_nothing_older",)),
    Mutant("a life that a fault may have taken", ERASURE, "undo", "span = expected.span = span._replace(first_ended=NEVER)", "pass", (), ("test_checker_forgets::test_a_life_that_a_fault_may_have_taken_ends_with_what_was_said_after_it",)),
    Mutant("seen in flight behind a forget", BOOK, "ExpectedSession._was_seen_behind_forget", "place in self.unsettled_names()", "False", (Kind.ROLLED_BACK,), ("test_checker_forgets::test_what_raced_with_a_forget_and_was_seen_in_flight_behind_it_is_expected",)),
    Mutant("seen behind a forget and missed", BOOK, "ExpectedSession._was_seen_behind_forget", "return any(_is_in(one.seen, *place) for one in behind if not (one.by_other or one.seen_in_shadow))", "return False", (Kind.ROLLED_BACK,), ("test_checker_forgets::test_what_was_seen_behind_a_forget_and_is_missed_is_not_excused_by_it_when_its_outcome_comes",)),
    Mutant("an outcome that comes late may have begun a life", RETENTION, "prolong", "if _latest_end(own, rules) >= expected.span.first_sent:", "if False:", (), ("test_checker_late_outcomes::test_what_is_told_late_may_have_begun_the_life_in_which_the_next_was_said",)),
    Mutant("no two share a moment", BOOK, "ExpectedSession.doubt", "while at in moments:", "while False:", (), ("test_checker_late_outcomes::test_outcomes_of_what_a_participant_saw_behind_a_forget_come_in_any_order",)),
    Mutant("the primary showed what a fault had left", "soak.checker.session", "SessionChecker._suspect", "one.witnessed = [of for of in answered if of[1] in Intervals(one.absent.get(of[0], []))]", "pass", (Kind.ROLLED_BACK,), ("test_checker_late_outcomes::test_what_the_primary_showed_in_flight_after_a_fault_was_not_taken_by_that",)),
    Mutant("what the primary lacked was missing", ABSENCE, "look_again", "if suspicion.is_lacked_by_primary and", "if False and", (Kind.STALE,), ("test_checker_late_outcomes::test_what_the_primary_lacked_was_missing_also_within_the_bound_of_a_replica",)),
    Mutant("what the primary showed was there", ABSENCE, "look_again", "if suspicion.is_lacked_by_primary and", "if", (), ("test_checker_late_outcomes::test_what_the_primary_lacked_was_missing_also_within_the_bound_of_a_replica",)),
    Mutant("a participant saw what a fault had left", ABSENCE, "_lost", "max(last_seen, witnessed)", "last_seen", (Kind.LOST,), ("test_checker_late_outcomes::test_what_a_participant_saw_after_a_fault_was_not_taken_by_that",)),
    Mutant("a participant saw it before the fault", ABSENCE, "_lost", "max(last_seen, witnessed)", "(witnessed or last_seen) and window.ended * 2", (), ("test_checker_late_outcomes::test_what_a_participant_saw_after_a_fault_was_not_taken_by_that",)),
    Mutant("room in a window", ORDER, "judge_window", "if last and len(seen) < last else []", "if False else []", (Kind.STALE,), ("test_checker_window::test_where_nobody_knows_which_are_the_last_nothing_may_be_missing_while_there_is_room",)),
    Mutant("a window without room", ORDER, "judge_window", "if last and len(seen) < last else []", "", (), ("test_checker_window::test_where_nobody_knows_which_are_the_last_nothing_may_be_missing_while_there_is_room",)),
    Mutant("an order in flight makes no room", RETENTION, "_part_superseded", "*expected.unsettled_names()", "", (), ("test_checker_races::test_what_was_shown_in_flight_behind_another_does_not_make_room_for_that",)),
    Mutant("an order in an old life", ERASURE, "_end_life", "expected.glanced = expected.unsettled_names() if is_applied_once else None", "expected.glanced = None", (Kind.REORDERED,), ("test_checker_late_outcomes::test_two_orders_are_compared_although_an_append_between_the_reads_has_begun_a_new_life",)),
    Mutant("a life that was seen has begun", RETENTION, "begin_no_later", "(one.writer, one.seq) == mine", "False", (Kind.LOST,), ("test_checker_late_outcomes::test_a_life_that_an_unknown_append_began_is_over_when_a_read_had_shown_that_long_before",)),
    Mutant("seen and rightly gone", ABSORB, "_stand_and_excuse", "writer.acked.add(one.seq)", "pass", (Kind.LOST,), ("test_checker_late_outcomes::test_a_life_that_an_unknown_append_began_is_over_when_a_read_had_shown_that_long_before",)),
    Mutant("lateness that was just found", RETENTION, "_missing", "expected.overlooked or ()", "()", (Kind.STALE,), ("test_checker_late_outcomes::test_lateness_stays_suspected_when_a_read_in_a_shadow_was_under_way_as_the_outcome_came",)),
    Mutant("what was answered before a tail prolonged a life", ERASURE, "undo", "max([begun, *kept])", "begun", (Kind.ROLLED_BACK,), ("test_checker_late_outcomes::test_what_was_answered_before_the_tail_of_a_fault_has_prolonged_a_life",)),
    Mutant("a fault may undo what an earlier one left", ERASURE, "_kept_sent", "each.since <= one.ended and one.sent <= each.until for each in by_any", "each.since <= one.ended and one.sent <= each.until for each in by_any[:1]", (), ("test_checker_late_outcomes::test_what_an_earlier_fault_may_have_taken_has_not_prolonged_a_life",)),
    Mutant("a forget before a tail is not undone", ERASURE, "undo", "and not _was_answered_behind(expected, since)", "", (Kind.ROLLED_BACK,), ("test_checker_forgets::test_a_forget_had_happened_before_a_tail_if_what_was_answered_before_that_stands_behind_it",)),
    Mutant("what was erased began no life", ERASURE, "_span_behind", "and one.seq not in expected.writers[one.writer].gone", "", (Kind.LOST,), ("test_checker_forgets::test_what_a_read_showed_in_flight_and_a_forget_erased_has_not_begun_the_life_behind_it",)),
    Mutant("an unknown write of an old life", ERASURE, "_end_life", "one.since < until", "False", (Kind.ROLLED_BACK,), ("test_checker_late_outcomes::test_an_unknown_append_that_was_seen_in_an_old_life_has_not_begun_the_next",)),
    Mutant("an unknown write that may be of the next life", ERASURE, "_end_life", "one.since < until", "True", (), ("test_checker_late_outcomes::test_an_unknown_append_that_was_seen_late_may_have_begun_a_life_or_the_next",)),
    Mutant("refused in the next life", ERASURE, "_end_life", "expected.glimpsed = [*(expected.glimpsed or ()), *((one.writer, one.seq, one.since) for one in others)] or None", "pass", (Kind.PHANTOM,), ("test_checker_late_outcomes::test_what_was_seen_in_flight_in_an_old_life_and_refused_is_a_phantom",)),
    Mutant("an order behind a forget", ORDER, "_changed_order", "if expected.glanced is not None:", "if False:", (Kind.REORDERED,), ("test_checker_late_outcomes::test_two_orders_behind_a_forget_are_compared_also_where_reads_may_be_behind_for_ever",)),
    Mutant("what nobody acknowledged is rolled back", ABSENCE, "look_again", "if _is_unacknowledged(look, one)", "if False", (Kind.ROLLED_BACK,), ("test_checker_late_outcomes::test_what_nobody_acknowledged_and_a_read_in_a_shadow_showed_is_rolled_back_and_not_lost",)),
    Mutant("veiled while a forget is under way", ABSORB, "_veil", "or is_awaited", "", (Kind.RESURRECTED,), ("test_checker_late_outcomes::test_what_was_forgotten_and_shown_is_resurrected_also_if_a_forget_in_doubt_may_have_taken_it_since",)),
    Mutant("seen behind a forget before it was sent again", BOOK, "ExpectedSession._is_around_forget", "sent <= returned", "True", (Kind.STALE,), ("test_checker_late_outcomes::test_what_a_read_lacked_before_a_forget_was_sent_and_one_before_its_outcome_shows_was_late",)),
    Mutant("a place where no order is promised", RETENTION, "_part_superseded", "rules.contract.order is not Order.NONE", "True", (), ("test_checker_races::test_where_no_order_is_promised_the_place_of_a_message_does_not_say_how_old_it_is",)),
    Mutant("phantom: refused after it has gone", BOOK, "ExpectedSession.fail", "seen += [at for number, other, at in self.glimpsed or () if (number, other) == (writer, seq)]", "pass", (Kind.PHANTOM,), ("test_checker_late_outcomes::test_what_was_seen_in_flight_is_a_phantom_if_it_is_refused_after_it_has_gone",)),
    Mutant("a refusal is waited for no longer than any outcome", ABSORB, "_note_glimpsed", "if read.invoked - one[2] <= IN_FLIGHT_GRACE_US", "if True", (), ("test_checker_late_outcomes::test_a_refusal_that_comes_when_nobody_waits_for_it_any_more_says_nothing",)),
    Mutant("an acknowledgement that dates a loss is waited for", LOOK, "look_again", "awaited = [one for one in lost if _is_outcome_awaited(look, suspicion, one)]", "awaited: list[Lost] = []", (Kind.ROLLED_BACK,), ("test_checker_late_outcomes::test_nothing_is_excused_by_when_it_was_seen_while_its_acknowledgement_may_come",)),
    Mutant("an unreadable row explains a late acknowledgement", BOOK, "ExpectedSession._note_lateness", "if self.unexplained:", "if False:", (), ("test_checker_late_outcomes::test_an_unreadable_row_explains_what_is_acknowledged_only_afterwards",)),
    Mutant("the time of an unknown write that was seen", ABSORB, "_note_late_arrivals", "and one.sent > expected.latest_sent", "and False", (Kind.REORDERED,), ("test_checker_late_outcomes::test_an_unknown_write_that_a_read_has_shown_bears_its_time_for_the_next_one",)),
    Mutant("a sliding life by a message's own send", RETENTION, "_part_expired", "if contract.expiry is not Expiry.SLIDING or not is_only_by_age:", "if True:", (Kind.LOST,), ("test_checker_late_outcomes::test_a_sliding_life_lasts_as_long_as_the_own_send_of_a_message_whatever_a_fault_may_undo",)),
    Mutant("what is refused is not missed", RETENTION, "_missing", ".minus(writer.failed)", "", (), ("test_checker_late_outcomes::test_a_read_under_way_does_not_lack_what_is_refused_meanwhile",)),
    Mutant("what is seen in a shadow has survived nothing", LOOK, "_lost", "or suspicion.seen_in_shadow", "", (), ("test_checker_late_outcomes::test_what_a_replica_showed_in_the_shadow_of_a_later_fault_has_not_survived_the_earlier_one",)),
    Mutant("window: older ones in its place", PARTIAL, "_judge_window", "missed = _older_instead(seen, acked & set(whole) - unsure, known, rules)", "pass", (Kind.STALE,), ("test_checker_late_outcomes::test_a_window_is_wrong_although_the_next_full_read_does_not_show_all_of_it",)),
    Mutant("times of a late acknowledgement", BOOK, "ExpectedSession.acknowledge", "book.unknown = book.unknown.minus(Intervals([seq, seq])) self._remember(attempt)", "book.unknown = book.unknown.minus(Intervals([seq, seq]))", (), ("test_checker_late_outcomes::test_an_acknowledgement_that_nobody_waited_for_any_more_dates_a_message",)),
    Mutant("outcomes are taken in the order they ended", "soak.verifier.intake", "Intake._take_records", "if attempt.ended <= outcome.ended])", "])", (), ("test_checker_forgets::test_outcomes_of_one_batch_are_taken_in_the_order_in_which_they_ended",)),
    Mutant("an unreadable row stands for what was there", JUDGE, "_garbled_in_place", "place = _missing_in_place(expected, finding.at, places, shown)", "place = None", (), ("test_checker_late_outcomes::test_a_row_that_cannot_be_read_stands_for_what_the_last_read_showed_there",)),
    Mutant("resurrected: shown behind the first of two forgets", JUDGE, "find_resurrected", "if expected.revived is not None:", "if expected.revived is not None and must_be_forgotten(expected, expected.last_whole, rules):", (Kind.RESURRECTED,), ("test_checker_late_outcomes::test_what_a_read_showed_behind_a_forget_is_resurrected_though_another_forget_followed",)),
    Mutant("resurrected: seen before the forget", RETENTION, "_erase", "if is_applied_once:", "if False:", (Kind.RESURRECTED,), ("test_checker_late_outcomes::test_what_was_seen_without_an_outcome_and_forgotten_must_not_be_there_again",)),
    Mutant("a store that retries may add a copy", RETENTION, "_erase", "if is_applied_once:", "if True:", (), ("test_checker_late_outcomes::test_what_was_seen_without_an_outcome_and_forgotten_must_not_be_there_again",)),
    Mutant("phantom: only the primary showed it", "soak.checker.session", "SessionChecker.observe", "self._glimpse(primary)", "pass", (Kind.PHANTOM,), ("test_checker_late_outcomes::test_what_the_primary_alone_showed_in_flight_is_a_phantom_if_it_is_refused",)),
    Mutant("late only: another reader saw it", LOOK, "_returned", "if not (suspicion.by_other and look.rules.contract.staleness_us):", "if True:", (), ("test_checker_against_reference::test_what_was_once_accused_wrongly_in_a_failover_is_not_again",)),
    Mutant("non_monotonic: the primary has it", LOOK, "look_again", "late += _returned(look, suspicion, was_seen, look.read.invoked)", "late += _late(look, was_seen, look.read.invoked, Kind.STALE)", (Kind.NON_MONOTONIC,), ("test_checker_late_outcomes::test_what_a_replica_showed_and_hides_while_the_primary_has_it_is_non_monotonic",)),
]  # fmt: skip
