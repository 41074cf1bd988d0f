# ruff: noqa: E501  a change stands on one line
"""Every check of the model and every excuse it knows, each with the small change to the code that takes it away.

A change is a piece of source text and what stands in its place. Only the code of functions is swapped, so that whoever
has imported one by its name runs the changed one too.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import types
from collections.abc import Iterator
from dataclasses import dataclass

from soak.model.kinds import Kind


@dataclass(frozen=True)
class Mutant:
    """A check taken away (then `kinds` are those it finds), or an excuse widened or removed."""

    what: str
    module: str
    old: str
    new: str
    kinds: tuple[Kind, ...] = ()
    by: tuple[str, ...] = ()
    """What is known to notice it, asked first."""

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        module = importlib.import_module(self.module)
        source = inspect.getsource(module)
        if source.count(self.old) != 1:
            raise LookupError(f"{self.what}: the check has moved; {self.module} holds {self.old!r} not exactly once")
        changed = types.ModuleType(module.__name__)
        changed.__dict__.update({"__file__": module.__file__})
        exec(compile(source.replace(self.old, self.new), f"{module.__file__} ({self.what})", "exec"), changed.__dict__)  # noqa: S102  it is ours
        swapped = list(_functions(module, changed))
        originals = [(mine, mine.__code__) for mine, _ in swapped]
        for mine, other in swapped:
            mine.__code__ = other.__code__
        try:
            yield
        finally:
            for mine, code in originals:
                mine.__code__ = code


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


JUDGE, ORDER, RETENTION = "soak.model.judge", "soak.model.order", "soak.model.retention"
IDENTITY, ABSENCE, ABSORB = "soak.model.identity", "soak.model.absence", "soak.model.absorb"
BOOK, WINDOW, FAULTS, LOOK = "soak.model.book", "soak.model.window", "soak.model.faults", "soak.model.second_look"
PARTIAL, INTAKE = "soak.model.partial", "soak.verifier.intake"
SEARCH, SEARCHER = "soak.model.search", "soak.verifier.searcher"

MUTANTS = [
    # -- what an item is --
    Mutant("undecodable", JUDGE, "        if finding is not None:\n            findings.append(finding)", "        if finding is not None and finding.kind is not Kind.UNDECODABLE:\n            findings.append(finding)", (Kind.UNDECODABLE,), ("garble",)),
    Mutant("leaked: another session", IDENTITY, "item.session != book.session or item.run", "item.run", (Kind.LEAKED,), ("leak of another session",)),
    Mutant("leaked: another run", IDENTITY, "item.session != book.session or item.run != author.run", "item.session != book.session", (Kind.LEAKED,), ("leak of another run",)),
    Mutant("phantom: never sent", IDENTITY, "not 0 < item.seq <= writer.leased", "not 0 < item.seq", (Kind.PHANTOM,), ("never sent",)),
    Mutant("phantom: refused", IDENTITY, "if item.seq in writer.failed:", "if False:", (Kind.PHANTOM,), ("refused and there",)),
    Mutant("corrupted", IDENTITY, "if item != expected:", "if False:", (Kind.CORRUPTED,), ("corrupt",)),
    # -- the fast way must not wave through what the slow way would find --
    Mutant("the digest of the verified part", JUDGE, "if book.hashed and digest_of(items[: book.hashed]) != book.digest:", "if False:", (), ("corrupt",)),
    Mutant("names behind the digest", JUDGE, "return names_of(behind) == book.last_names(len(behind)) and author", "return author", (), ("swap what only a glance has seen",)),
    Mutant("the content of what is new", JUDGE, "if not author.are_mine(items, book.session):", "if any(type(item) is not Message or item.session != book.session for item in items):", (), ("corrupt unseen",)),
    Mutant("a smaller number than the last", JUDGE, "if seq <= largest.get(number, seq):", "if False:", (), ("duplicate unseen",)),
    Mutant("a refused one among the new", JUDGE, "if seq > writer.leased or (writer.failed and seq in writer.failed):", "if False:", (), ("refused and there",)),
    Mutant("what the fast way lacks", JUDGE, "if fresh is None or _lacks_any(book, read, fresh):", "if fresh is None:", (), ("lose unseen",)),
    Mutant("the order in time of what is new", JUDGE, "if fresh and rules.contract.order is Order.REALTIME and realtime_findings(book, fresh, rules):", "if False:", (), ("swap unseen of two writers",)),
    # -- order and number --
    Mutant("duplicated", JUDGE, "        if count > 1:\n            where", "        if count > 99:\n            where", (Kind.DUPLICATED,), ("duplicate",)),
    Mutant("repeats are allowed", JUDGE, "if rules.contract.duplicates is Duplicates.AT_LEAST_ONCE:", "if False:", (), ("at least once/1",)),
    Mutant("no order is promised", JUDGE, "if rules.contract.order is not Order.NONE:\n        findings.extend", "if True:\n        findings.extend", (), ("no order/1",)),
    Mutant("reordered: one writer", ORDER, "elif book.writers[writer].bears_order(seq):", "elif False:", (Kind.REORDERED,), ("swap unseen of one writer",)),
    Mutant("an unknown write bears no order", ORDER, "elif book.writers[writer].bears_order(seq):", "else:", (), ("strict/0",)),
    Mutant("reordered: in time", ORDER, "if attempt.ended + rules.clock_epsilon_us < latest:", "if False:", (Kind.REORDERED,), ("swap unseen of two writers",)),
    Mutant("overlapping appends may stand either way", ORDER, "if attempt.ended + rules.clock_epsilon_us < latest:", "if attempt.sent < latest:", (), ("hide unseen",)),
    Mutant("unknown outcomes have no time", ORDER, "if attempt is None or attempt.outcome != Outcome.OK:", "if attempt is None:", (), ("hide in the middle",)),
    Mutant("only where order in time is promised", ORDER, "    if rules.contract.order is Order.REALTIME:\n        for place, detail in realtime", "    if True:\n        for place, detail in realtime", (), ("interleaved writers",)),
    Mutant("non_monotonic: appeared in front", ORDER, "wrong = {place: (Kind.NON_MONOTONIC, detail) for place, detail in appeared}", "wrong = {}", (Kind.NON_MONOTONIC,), ("appear in the middle",)),
    Mutant("a late unknown write may appear anywhere", ORDER, "            if book.writers[other[0]].bears_order(other[1])\n", "            if True\n", (), ("unknown one in front",)),
    Mutant("a trim that a crash has undone", ORDER, "            and other[1] not in book.writers[other[0]].excused\n", "", (), ("last 6 and crash/114",)),
    # -- what is missing --
    Mutant("absence", RETENTION, "        if missing:\n            absent[number] = missing", "        if False:\n            absent[number] = missing", (Kind.LOST, Kind.ROLLED_BACK), ("lose unseen",)),
    Mutant("what is excused is not missed", RETENTION, "missing = acked.minus(here).minus(book_of_writer.excused)", "missing = acked.minus(here)", (), ("corrupt unseen",)),
    Mutant("lost", ABSENCE, "_put(resolution.lost, number, still.minus(seen))", "pass", (Kind.LOST,), ("lose unseen",)),
    Mutant("rolled_back", ABSENCE, "_put(resolution.rolled_back, number, still.both(seen))", "pass", (Kind.ROLLED_BACK,), ("lose seen",)),
    Mutant("stale", ABSENCE, "_put(resolution.stale, number, back.minus(seen))", "pass", (Kind.STALE,), ("hide unseen",)),
    Mutant("non_monotonic: gone and back", ABSENCE, "_put(resolution.non_monotonic, number, back.both(seen))", "pass", (Kind.NON_MONOTONIC,), ("hide seen",)),
    Mutant("absence is believed only at last", ABSENCE, "        if is_final:\n            _put", "        if True:\n            _put", (), ("hide from two quick reads",)),
    Mutant("a stale read is no loss yet", LOOK, "if look.final_us is None or not look.is_calm or look.read.invoked - suspicion.returned < look.final_us:", "if look.final_us is None or not look.is_calm:", (), ("hide from two quick reads",)),
    Mutant("while a fault is about nothing is final", LOOK, "look.final_us is None or not look.is_calm or", "look.final_us is None or", (), ("hide during a fault",)),
    Mutant("the primary has the last word", LOOK, "absent = {number: seqs.both(missing_there.get(number, NOTHING)) for number, seqs in absent.items()}", "pass", (), ("hide from the replica for long",)),
    Mutant("staleness within the promise", LOOK, "return lag_seconds * 1e6 > allowed + rules.clock_epsilon_us or kind is not Kind.STALE or allowed == 0", "return True", (), ("lose behind a replica",)),
    Mutant("staleness beyond the promise", LOOK, "return lag_seconds * 1e6 > allowed + rules.clock_epsilon_us or kind is not Kind.STALE or allowed == 0", "return kind is not Kind.STALE or allowed == 0", (Kind.STALE,), ("hide longer than promised",)),
    Mutant("what was missed before is told once", LOOK, "or finding.place[1] not in told.get(finding.place[0], NOTHING)", "or True", (), ("hide in the middle",)),
    # -- faults --
    Mutant("a crash excuses a tail", FAULTS, "return contract.crash_loss_seconds", "return 0.0", (), ("last 6 and crash/6",)),
    Mutant("a pause excuses nothing", FAULTS, "return _CLASSES.get(self.kind, FaultClass.HARMLESS)", "return _CLASSES.get(self.kind, FaultClass.CRASH)", (Kind.LOST,), ("lose a tail in a pause",)),
    Mutant("a power cut has a clause of its own", FAULTS, "return contract.power_loss_seconds", "return contract.crash_loss_seconds", (Kind.LOST,), ("lose a tail in a power cut",)),
    Mutant("the tail is no longer than promised", FAULTS, "if not any(gone - reach <= attempt.ended <= back + clock_epsilon_us for gone, back in window.moments):", "if False:", (Kind.LOST,), ("lose too much in a crash",)),
    Mutant("a hole is no tail", FAULTS, "return window.survivor_sent <= attempt.ended + clock_epsilon_us", "return True", (Kind.LOST,), ("lose a hole in a crash",)),
    Mutant("nothing after the recovery", FAULTS, "window.ended is None or attempt.ended > window.ended + clock_epsilon_us", "window.ended is None", (Kind.LOST,), ("lose what was said after the recovery of a cache",)),
    Mutant("what survived was not taken by it", LOOK, "survived = window.ended is not None and last_seen > window.ended", "survived = False", (Kind.ROLLED_BACK,), ("lose what had survived",)),
    Mutant("what was missed before was not taken by it", LOOK, "begun = window.started <= suspicion.returned", "begun = True", (Kind.LOST,), ("lose before the crash",)),
    Mutant("a crash may undo a forget", BOOK, "and since <= forgetting.ended <= until:", "and False:", (), ("crash 1 s/12",)),
    Mutant("a crash may undo that a life was prolonged", BOOK, "self.span = self.span._replace(last_sent=self.span.first_sent)", "pass", (), ("sliding and crash/87",)),
    # -- forgets --
    Mutant("resurrected: after a forget", JUDGE, "if forgotten and place[1] in book.writers[place[0]].gone:", "if False:", (Kind.RESURRECTED,), ("come back after a forget",)),
    Mutant("resurrected: seen by a participant", PARTIAL, "if must_be_forgotten(book, read.invoked, rules):", "if False:", (Kind.RESURRECTED,), ("show a participant what was forgotten",)),
    Mutant("a forget excuses what was before", BOOK, "book.excuse(book.acked.minus(later))", "pass", (), ("swap of two writers",)),
    Mutant("a forget excuses nothing that comes after", BOOK, "if forgetting.outcome is not Outcome.OK or attempt.sent <= forgetting.ended:", "if True:", (Kind.LOST,), ("lose what was said after a forget",)),
    Mutant("what raced with a forget may be there", BOOK, "book.gone = united(book.gone, book.acked.minus(racing).minus(book.unknown))", "book.gone = united(book.gone, book.acked.minus(book.unknown))", (), ("no order/4",)),
    Mutant("an unknown write may come after a forget", BOOK, "book.gone = united(book.gone, book.acked.minus(racing).minus(book.unknown))", "book.gone = united(book.gone, book.acked.minus(racing))", (), ("crash 1 s/16",)),
    Mutant("a forget in doubt excuses all", RETENTION, "allowed = book.forget_in_doubt or rules", "allowed = rules", (), ("crash 1 s/12",)),
    Mutant("a stale read may show what was forgotten", RETENTION, "return at > forgetting.ended + staleness + rules.clock_epsilon_us", "return at > forgetting.ended", (), ("stale and sliding/10",)),
    Mutant("a failed forget does not undo an earlier one", BOOK, "self.forgetting = self.forgotten_before\n            return", "self.forgetting = None\n            return", (), ("per writer/65",)),
    Mutant("a second forget while one is in doubt", BOOK, "return  # an earlier one may still happen at any time, whatever became of this one", "pass", (), ("sliding and crash/17",)),
    Mutant("times of what raced with a forget", ABSORB, "    if book.is_being_forgotten:", "    if False:", (), ("stale/55",)),
    Mutant("a late arrival may be erased", ABSORB, "        if may_be_erased:", "        if False:", (), ("stale/540",)),
    Mutant("outcomes are taken in the order they ended", INTAKE, "if attempt.ended <= outcome.ended])\n            attempts = [attempt for attempt in attempts if attempt.ended > outcome.ended]", "])\n            attempts = []", (), ("expire never after a forget",)),
    Mutant("times of what is let go while it is being forgotten", BOOK, "if self.is_being_forgotten and len(waiting) < len(self.pending):", "if False:", (), ("absolute/32",)),
    Mutant("times of what is excused while it is being forgotten", BOOK, "            if self.is_being_forgotten:\n                self.recent", "            if False:\n                self.recent", (), ("race with two forgets",)),
    Mutant("a stale read shows what a forget has erased", ABSORB, "read.invoked - staleness_us <= forgetting.ended", "read.invoked <= forgetting.ended", (), ("late view of what a forget erased",)),
    # -- lives and windows of the store --
    Mutant("a forget begins a new life", BOOK, "self.span = self.span._replace(first_ended=_NEVER)", "pass", (), ("life after a forget",)),
    Mutant("an unknown append may begin a new life", INTAKE, "must_have_expired(book, attempt.sent, rules) and not any(one.unknown for one in book.writers)", "must_have_expired(book, attempt.sent, rules)", (), ("absolute/28",)),
    Mutant("a forget in doubt may end an absolute life", RETENTION, "if rules.contract.expiry is Expiry.ABSOLUTE and book.forget_in_doubt:", "if False:", (), ("life after a late forget",)),
    Mutant("an unknown append may prolong a life", RETENTION, "not book.closed or any(writer.unknown for writer in book.writers)", "not book.closed", (), ("life by a late append",)),
    Mutant("resurrected: overdue", JUDGE, "        elif overdue:", "        elif False:", (Kind.RESURRECTED,), ("expire never",)),
    Mutant("may have expired", RETENTION, "is_dateless or may_have_expired(book, read.returned, rules)", "is_dateless", (), ("absolute/1",)),
    Mutant("expired too early", RETENTION, "at >= _earliest_end(book.span, rules)", "True", (Kind.LOST,), ("expire too early",)),
    Mutant("sliding or absolute: earliest", RETENTION, "base = span.last_sent if rules.contract.expiry is Expiry.SLIDING else span.first_sent", "base = span.last_sent", (), ("absolute/2",)),
    Mutant("sliding or absolute: latest", RETENTION, "base = span.last_ended if rules.contract.expiry is Expiry.SLIDING else span.first_ended", "base = span.last_ended + 10**9", (Kind.RESURRECTED,), ("expire never",)),
    Mutant("a session under way is not overdue", RETENTION, "or not book.closed or any(writer.unknown for writer in book.writers)", "or any(writer.unknown for writer in book.writers)", (), ("stale and sliding/20",)),
    Mutant("a new life", INTAKE, "if may_have_expired(book, attempt.ended, rules):", "if False:", (), ("sliding/3",)),
    Mutant("under way when a life ended", INTAKE, "if book.span is not None and attempt.sent <= book.span.reborn:", "if False:", (), ("sliding/518",)),
    Mutant("eviction is allowed", RETENTION, "book.forget_in_doubt or rules.contract.eviction_allowed or", "book.forget_in_doubt or", (), ("eviction/0",)),
    Mutant("older than the last so many", RETENTION, "        if trimmed:", "        if False:", (), ("last 6 and crash/19",)),
    Mutant("among the last so many", RETENTION, "            old = missing.minus(Intervals([oldest, max(oldest, missing.largest)]))", "            old = missing", (Kind.LOST,), ("lose the newest of the kept",)),
    Mutant("fewer than the last so many", RETENTION, "and len(read.items) >= rules.contract.retained_messages", "", (Kind.LOST,), ("keep too few",)),
    Mutant("a late acknowledgement bears its order", BOOK, "book.unknown = book.unknown.minus(Intervals([seq, seq]))", "pass", (Kind.REORDERED,), ("swap what was in flight for long",)),
    Mutant("times of a late acknowledgement", BOOK, "            self.recent = [*self.recent, attempt]\n        if self.forgetting", "        if self.forgetting", (), ("cache/713",)),
    # -- reads of the last so many --
    Mutant("window: too many", WINDOW, "if last is not None and len(seen) > last:", "if False:", (Kind.WINDOW,), ("read too many",)),
    Mutant("window: one twice", WINDOW, "if repeated and contract.duplicates is Duplicates.EXACTLY_ONCE:", "if False:", (Kind.DUPLICATED,), ("read twice the same",)),
    Mutant("window: another order", WINDOW, "if indexes != sorted(indexes):", "if False:", (Kind.REORDERED,), ("read in another order",)),
    Mutant("window: a hole", WINDOW, "    if holes:", "    if False:", (Kind.WINDOW,), ("read with a hole",)),
    Mutant("window: too few", WINDOW, "if older and (last is None or size < last):", "if False:", (Kind.WINDOW,), ("read too few",)),
    Mutant("window: the oldest", WINDOW, "if newer and last is not None and start == 0 and size >= last and len(newer) >= last:", "if False:", (Kind.WINDOW,), ("read the oldest",)),
    Mutant("window: what did not fit", WINDOW, "if older and (last is None or size < last):", "if older:", (), ("read an earlier end",)),
    Mutant("window: stale", WINDOW, "for place in newer\n    ]", "for place in newer[:0]\n    ]", (Kind.STALE,), ("read an earlier end",)),
    Mutant("window: unknown ones took up a place", WINDOW, "place not in unsure or place in counts]", "place not in unsure]", (), ("at least once/324",)),
    Mutant("window: no order, no end", WINDOW, "if repeated or contract.order is Order.NONE:", "if repeated:", (), ("no order/3",)),
    # -- what is on its way --
    Mutant("an outcome on its way is waited for", JUDGE, "settled = min(settled, at + seq - first)", "pass", (), ("seen in flight and refused",)),
    Mutant("an unknown write that is seen counts", ABSORB, "        writer.acked.update(late)", "        pass", (), ("lose an unknown one that was seen",)),
    # -- searches --
    Mutant("search: what stands in the answer", SEARCH, "        if finding is not None:\n            findings.append(finding)", "        pass", (Kind.LEAKED,), ("find something of another session",)),
    Mutant("search: one twice", SEARCH, "    find_duplicates(book, places, counts, rules, findings)\n", "", (Kind.DUPLICATED,), ("find one twice",)),
    Mutant("search: forgotten or expired", SEARCH, "    find_resurrected(book, list(counts), places, read, rules, findings)\n", "", (Kind.RESURRECTED,), ("find what was forgotten",)),
    Mutant("search: too many", SEARCH, "    if len(read.items) > limit:", "    if False:", (Kind.WINDOW,), ("find too many",)),
    Mutant("search: by a participant", "soak.verifier.examiner", "findings = judge_search(book, read, asked, limit, self.rules, self._author)", "findings = []", (Kind.RESURRECTED,), ("let a participant find what was forgotten",)),
    Mutant("unfindable", SEARCH, "return Fate.UNFINDABLE, Finding(Kind.UNFINDABLE, name_of(book, place), place, detail, at)", "return Fate.OVER, None", (Kind.UNFINDABLE,), ("index never",)),
    Mutant("what a search misses is suspected", SEARCHER, "            self._suspect(watched, place, wide, limit)", "            pass", (Kind.UNFINDABLE,), ("index never",)),
    Mutant("each message has its turn", SEARCHER, "        watched.searched = turn + turns\n", "", (Kind.UNFINDABLE,), ("index never, one of many",)),
    Mutant("what a participant misses is asked for", SEARCHER, "[:WANTED_MAX]", "[:0]", (Kind.UNFINDABLE,), ("let a participant not find one",)),
    Mutant("an approximate search promises nothing", SEARCH, "return rules.contract.search is Searches.EXACT", "return True", (), ("index never, as an approximate one may",)),
    Mutant("a later search shows it", SEARCH, "return Fate.FOUND, _late(missed, again.rules)", "return Fate.FOUND, None", (Kind.STALE,), ("index late",)),
    Mutant("a search within the promised lag", SEARCH, "return Late(Kind.STALE, missed.place, lag, detail, breaks_freshness(lag, Kind.STALE, rules))", "return Late(Kind.STALE, missed.place, lag, detail, True)", (), ("index as late as is promised",)),
    Mutant("a narrow search proves nothing", SEARCHER, "elif not is_missed(wide, asked, limit):", "elif not is_missed(near, asked, NEAREST):", (), ("search about right",)),
    Mutant("equal words may be left out", SEARCH, "return equals < max(1, len(read.items)) or equals < min(limit, NEAREST)", "return True", (), ("search among equals",)),
    Mutant("few equal words leave room", SEARCH, "return equals < max(1, len(read.items)) or equals < min(limit, NEAREST)", "return equals < max(1, len(read.items))", (), ("search among equals",)),
    Mutant("a search is believed only at last", SEARCH, "or apart < again.final_us", "", (), ("index late for two quick searches",)),
    Mutant("while a fault is about no search is final", SEARCH, "again.final_us is None or not again.is_calm or", "again.final_us is None or", (), ("index late because of a fault",)),
    Mutant("what is gone is not unfindable", SEARCH, "if at is None or not is_missed(again.search, asked, again.limit):", "if not is_missed(again.search, asked, again.limit):", (), ("lose what is being looked for",)),
    Mutant("a crash may take a vector", SEARCH, "if not is_due(book, place, again.search, again.rules) or _may_be_taken(again):", "if not is_due(book, place, again.search, again.rules):", (), ("lose vectors in a crash that may take them",)),
    Mutant("a crash takes no older vector", SEARCH, "if any(gone - reach <= acknowledged <= back + epsilon for gone, back in window.moments):", "if True:", (Kind.UNFINDABLE,), ("lose older vectors in a crash",)),
    Mutant("a crash takes nothing that was missed before", SEARCH, "if allowed == 0.0 or window.started > again.missed.returned + epsilon:", "if allowed == 0.0:", (Kind.UNFINDABLE,), ("lose vectors before a crash",)),
    Mutant("half of a forget", SEARCH, "if book.forget_in_doubt or may_have_expired", "if may_have_expired", (), ("forget half",)),
    Mutant("half of an unknown append", SEARCH, "(writer.unknown, writer.excused, writer.gone, writer.failed)", "(writer.excused, writer.gone, writer.failed)", (), ("say half",)),
]  # fmt: skip
