"""A history in the words of Jepsen and Elle: list-append operations in EDN, one a line.

Every operation is an `:invoke` and what became of it: `:ok`, `:fail`, or `:info` when nobody knows. A process has one
operation in flight at a time, and one whose operation ended as `:info` is never heard of again. A key is a session, an
element is `writer/seq`. Appends of one writer are one process; each read, and each append whose times are not its own,
is a process of its own, which says nothing about the order of two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from soak.checker.outcome import Outcome
from soak.report.history import BEGINNING, END, AppendOperation, ReadOperation, SessionHistory

_TYPES = {Outcome.OK: ":ok", Outcome.FAILED: ":fail", Outcome.UNKNOWN: ":info"}
NANOSECONDS = 1000
"""In a microsecond, which is what times are measured in: an event was somewhere in that microsecond.

An operation begins with the microsecond of its invocation and ends with that of its completion, so that of two events
in the same microsecond neither is said to have come first.
"""


class EdnEvent(NamedTuple):
    """One line of a history."""

    time: int
    process: int
    type: str
    value: str


def jepsen_lines(histories: Iterable[SessionHistory]) -> Iterator[str]:
    """Return the lines of a history, in the order of time."""
    events: list[EdnEvent] = []
    processes = iter(range(2**62))
    for history in histories:
        _add_appends(events, history, processes)
        _add_reads(events, history, processes)
    events.sort(key=lambda event: event.time)
    origin = next((event.time for event in events if event.time > BEGINNING), 0)
    latest = max((event.time for event in events if event.time < END * NANOSECONDS), default=0)
    for index, event in enumerate(events):
        time = min(max(event.time, origin), latest + 1) - origin
        yield (
            f"{{:index {index}, :type {event.type}, :process {event.process}, :time {time}, :f :txn, "
            f":value [{event.value}]}}"
        )


def _add_appends(events: list[EdnEvent], history: SessionHistory, processes: Iterator[int]) -> None:
    # Between the clocks of several hosts nothing orders two appends of one writer either, once they are widened.
    is_one_clock = history.clock_epsilon_us == 0
    timed = [append for append in history.appends if append.is_timed and is_one_clock]
    alone = [append for append in history.appends if not (append.is_timed and is_one_clock)]
    for number in sorted({append.writer for append in timed}):
        mine = sorted((append for append in timed if append.writer == number), key=lambda append: append.seq)
        _add_sequence(events, history.session, mine, processes)
    for append in alone:
        _add_sequence(events, history.session, [append], processes, history.clock_epsilon_us)


def _add_sequence(
    events: list[EdnEvent], session: str, appends: list[AppendOperation], processes: Iterator[int], epsilon_us: int = 0
) -> None:
    process: int | None = None
    free_from = -1
    for at, append in enumerate(appends):
        if process is None:
            process = next(processes)
        value = f"[:append {quoted(session)} {quoted(append.element)}]"
        sent = BEGINNING if append.sent == BEGINNING else max(1, append.sent - epsilon_us)
        invoked = max(sent * NANOSECONDS, free_from + 1)
        events.append(EdnEvent(invoked, process, ":invoke", value))
        if append.ended is None:
            # It may still be applied at any time; its sender goes on as another process.
            events.append(EdnEvent(END * NANOSECONDS, process, ":info", value))
            process, free_from = None, -1
            continue
        ended = (append.ended + epsilon_us) * NANOSECONDS + NANOSECONDS - 1
        following = appends[at + 1] if at + 1 < len(appends) else None
        if following is not None and ended >= following.sent * NANOSECONDS:
            # It had ended when the next one was sent, in the same microsecond.
            ended = following.sent * NANOSECONDS + NANOSECONDS // 2
        free_from = max(ended, invoked + 1)
        events.append(EdnEvent(free_from, process, _TYPES[append.outcome], value))


def _add_reads(events: list[EdnEvent], history: SessionHistory, processes: Iterator[int]) -> None:
    key = quoted(history.session)
    for read in history.reads:
        process = next(processes)
        invoked, returned = _widened(read, history.clock_epsilon_us)
        elements = " ".join(quoted(element) for element in read.elements)
        events.append(EdnEvent(invoked, process, ":invoke", f"[:r {key} nil]"))
        events.append(EdnEvent(returned, process, ":ok", f"[:r {key} [{elements}]]"))


def _widened(read: ReadOperation, epsilon_us: int) -> tuple[int, int]:
    invoked = BEGINNING if read.invoked == BEGINNING else max(1, read.invoked - epsilon_us)
    return invoked * NANOSECONDS, (read.returned + epsilon_us) * NANOSECONDS + NANOSECONDS - 1


def quoted(text: str) -> str:
    """Write a string of EDN."""
    escaped = text.encode("utf-8", "backslashreplace").decode().replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'
