"""What a user would have seen, in one sentence: the difference between what was said and what is remembered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NoReturn

from soak.checker.contract import Duplicates, Order
from soak.checker.message import Garbled, Message
from soak.masking import mask

SHOWN_CHARACTERS_MAX = 60
LINE_CHARACTERS_MAX = 200
"""Of a list of messages; what is wrong with it stands in the line above."""


class ContractBrokenError(Exception):
    """The memory does not keep its contract: the first line says what a user would have seen."""


class NotTriedError(Exception):
    """The check cannot be made here; the text says why."""


def broken(seen: str, *details: str, cause: BaseException | None = None) -> NoReturn:
    """Say that the contract is broken."""
    raise ContractBrokenError(mask("\n".join((seen, *details)))) from cause


def not_tried(reason: str) -> NoReturn:
    """Say that a check cannot be made here."""
    raise NotTriedError(reason)


def compare(
    who: str,
    said: Sequence[Message],
    read: Sequence[object],
    *,
    order: Order = Order.REALTIME,
    duplicates: Duplicates = Duplicates.EXACTLY_ONCE,
) -> None:
    """Fail unless the history holds exactly what was said; `who` begins the sentence: "A user who comes back"."""
    what = difference(said, read, order=order, duplicates=duplicates)
    if what is not None:
        broken(f"{who} {what}", f"said: {_listed(said)}", f"read: {_listed(read)}")


def difference(said: Sequence[Message], read: Sequence[object], *, order: Order, duplicates: Duplicates) -> str | None:
    """Return what is wrong, as the rest of a sentence about a user, or None."""
    if list(read) == list(said):
        return None
    found = [item for item in read if isinstance(item, Message)]
    if len(found) < len(read):
        place, item = next((place, item) for place, item in enumerate(read, 1) if not isinstance(item, Message))
        return f"finds something that is no message in place {place} of {len(read)}: {shown(item)} (undecodable)"
    return (
        _foreign(said, found)
        or _missing(said, found)
        or _changed(said, found)
        or _rearranged(said, found, order, duplicates)
    )


def _foreign(said: Sequence[Message], found: Sequence[Message]) -> str | None:
    names, sessions = {message.name for message in said}, {message.session for message in said}
    stranger = next((item for item in found if item.name not in names), None)
    if stranger is None:
        return None
    if sessions and stranger.session not in sessions:
        return f"reads words of another conversation ({stranger.session!r}): {shown(stranger)} (leaked)"
    return f"reads words that nobody said here, or that should be gone: {shown(stranger)} (phantom)"


def _missing(said: Sequence[Message], found: Sequence[Message]) -> str | None:
    names = {item.name for item in found}
    missing = [message for message in said if message.name not in names]
    if not missing:
        return None
    return f"misses {len(missing)} of {len(said)} messages, the first of them {shown(missing[0])} (lost)"


def _changed(said: Sequence[Message], found: Sequence[Message]) -> str | None:
    by_name = {message.name: message for message in said}
    changed = next((item for item in found if item != by_name[item.name]), None)
    return None if changed is None else f"said {shown(by_name[changed.name])} and reads {shown(changed)} (corrupted)"


def _rearranged(said: Sequence[Message], found: Sequence[Message], order: Order, duplicates: Duplicates) -> str | None:
    counted = Counter(item.name for item in found)
    twice = next((item for item in found if counted[item.name] > 1), None)
    if twice is None:
        return _disorder(said, found, order)
    if duplicates is Duplicates.AT_LEAST_ONCE:
        return _disorder(said, list(dict.fromkeys(found)), order)
    return f"reads the same words {counted[twice.name]} times: {shown(twice)} (duplicated)"


def _disorder(said: Sequence[Message], found: Sequence[Message], order: Order) -> str | None:
    if order is Order.NONE:
        return None
    if order is Order.PER_WRITER:
        writers = {message.writer for message in said}
        pairs = [
            pair
            for writer in writers
            for pair in zip(
                [message for message in said if message.writer == writer],
                [message for message in found if message.writer == writer],
                strict=True,
            )
        ]
    else:
        pairs = list(zip(said, found, strict=True))
    wrong = next((pair for pair in pairs if pair[0] != pair[1]), None)
    if wrong is None:
        return None
    return f"reads {shown(wrong[1])} where {shown(wrong[0])} was said (reordered)"


def shown(item: object) -> str:
    if isinstance(item, Message):
        return f"#{item.seq} of writer {item.writer} {_short(item.content)}"
    if isinstance(item, Garbled):
        return f"{item.raw[:SHOWN_CHARACTERS_MAX]!r} ({item.reason})"
    return _short(item)


def _short(value: object) -> str:
    text = ascii(value) if not isinstance(value, str) else repr(value).encode("utf-8", "backslashreplace").decode()
    if len(text) <= SHOWN_CHARACTERS_MAX:
        return text
    length = f" ({len(value)} characters)" if isinstance(value, str) else ""
    return f"{text[:SHOWN_CHARACTERS_MAX]}…{length}"


def _listed(items: Sequence[object]) -> str:
    if not items:
        return "nothing"
    line = f"{len(items)} messages: {', '.join(shown(item) for item in items[:8])}"
    is_whole = len(items) <= 8 and len(line) <= LINE_CHARACTERS_MAX
    return line if is_whole else f"{line[:LINE_CHARACTERS_MAX]}…"
