"""A reader of EDN and a checker of list-append histories, written from their definitions and from nothing of soak's."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

_PART = re.compile(r'[\s,]*([\[\]{}()]|"(?:\\.|[^"\\])*"|:[^\s,\[\]{}()"]+|[^\s,\[\]{}()":]+)')


def read_edn(text: str) -> list[Any]:
    """Read every form of a text; raises `ValueError` on what is not well formed."""
    parts: list[str] = []
    position = 0
    end = len(text.rstrip(" \t\r\n,"))
    while position < end:
        found = _PART.match(text, position)
        if found is None:
            raise ValueError(f"no EDN at {position}: {text[position : position + 40]!r}")
        parts.append(found[1])
        position = found.end()
    forms = []
    while parts:
        forms.append(_form(parts))
    return forms


def _form(parts: list[str]) -> Any:
    part = parts.pop(0)
    if part in "[(":
        close = {"[": "]", "(": ")"}[part]
        items = []
        while parts[0] != close:
            items.append(_form(parts))
        parts.pop(0)
        return items
    if part == "{":
        made: dict[Any, Any] = {}
        while parts[0] != "}":
            key = _form(parts)
            if key in made:
                raise ValueError(f"key {key} stands twice")
            made[key] = _form(parts)
        parts.pop(0)
        return made
    if part.startswith('"'):
        escapes = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
        return re.sub(r"\\(.)", lambda found: escapes[found[1]], part[1:-1])
    if part.startswith(":"):
        return part
    if part in ("nil", "true", "false"):
        return {"nil": None, "true": True, "false": False}[part]
    return int(part)


class Operation(NamedTuple):
    invoked: int
    completed: float
    type: str
    f: str
    key: str
    value: Any


def operations(events: list[dict[str, Any]]) -> list[Operation]:
    """Pair invocations with completions, and insist on what Jepsen insists on."""
    assert [event[":index"] for event in events] == list(range(len(events)))
    times = [event[":time"] for event in events]
    assert times == sorted(times)
    assert times[0] >= 0
    pending: dict[int, tuple[int, list[Any]]] = {}
    crashed: set[int] = set()
    done = []
    for at, event in enumerate(events):
        process, kind = event[":process"], event[":type"]
        assert event[":f"] == ":txn"
        (mop,) = event[":value"]
        assert process not in crashed, "a process whose operation ended as :info must not be heard of again"
        if kind == ":invoke":
            assert process not in pending, "a process has one operation in flight at a time"
            pending[process] = (at, mop)
            continue
        invoked, asked = pending.pop(process)
        assert asked[:2] == mop[:2]
        if kind == ":info":
            crashed.add(process)
        done.append(Operation(invoked, at if kind == ":ok" else float("inf"), kind, mop[0], mop[1], mop[2]))
    assert not pending, "every invocation has an end"
    return done


def anomalies(history: list[Operation]) -> set[str]:
    """Say what is wrong with a list-append history, by name."""
    found: set[str] = set()
    for key in {operation.key for operation in history}:
        mine = [operation for operation in history if operation.key == key]
        appends = {operation.value: operation for operation in mine if operation.f == ":append"}
        assert len(appends) == sum(operation.f == ":append" for operation in mine), "elements are appended once"
        reads = [operation for operation in mine if operation.f == ":r" and operation.type == ":ok"]
        found |= _of_reads(reads, appends)
    return found


def _of_reads(reads: list[Operation], appends: dict[str, Operation]) -> set[str]:
    found: set[str] = set()
    for read in reads:
        elements = read.value
        if len(set(elements)) != len(elements):
            found.add("duplicate")
        assert set(elements) <= set(appends), "Elle gives up on an element that nobody has appended"
        if any(appends[element].type == ":fail" for element in elements):
            found.add("garbage")
        missing = [
            element
            for element, append in appends.items()
            if append.type == ":ok" and append.completed < read.invoked and element not in elements
        ]
        if missing:
            found.add("missing")
        known = [appends[element] for element in elements if element in appends and appends[element].type == ":ok"]
        for at, first in enumerate(known):
            if any(later.completed < first.invoked for later in known[at + 1 :]):
                found.add("order")
        if any(appends[element].invoked > read.completed for element in elements if element in appends):
            found.add("future")
    longest = max(reads, key=lambda read: len(read.value), default=None)
    for read in reads:
        if longest is not None and read.value != longest.value[: len(read.value)]:
            found.add("incompatible")
    return found
