"""What a fact is: a typed value, with the sentence that states it and the test that makes it true.

`holds` decides by the evidence alone, never by the text. A sentence is shown only with a fact that holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from soak.checker.clues import Clues
from soak.checker.faults import FaultWindow
from soak.checker.outcome import Attempt
from soak.checker.read import MessageId

When = Callable[[int], str]
"""Writes a moment of the run as people read it."""


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class FaultRef(msgspec.Struct, frozen=True):
    """Which fault: no server has two that begin at once."""

    server: str
    kind: str
    started: int

    def window(self, clues: Clues) -> FaultWindow | None:
        return next((window for window in clues.faults if ref_of(window) == self), None)

    def said(self, when: When, ended: int | None = None) -> str:
        until = "" if ended is None else f", until {when(ended)}"
        return f"{self.server} had a fault ({self.kind}) at {when(self.started)}{until}"


def ref_of(window: FaultWindow) -> FaultRef:
    return FaultRef(window.target, window.kind, window.started)


class Fact(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=_snake):
    """Something that is so, by the evidence. Times are microseconds of CLOCK_MONOTONIC."""

    def holds(self, clues: Clues) -> bool:
        """Whether the evidence says so."""
        raise NotImplementedError

    def sentence(self, when: When) -> str:
        """Say it in one short sentence."""
        raise NotImplementedError


def overlap(since: int, until: int | None, start: int, end: int) -> bool:
    """Whether two times have a moment in common; an end of None is still to come."""
    return since <= end and (until is None or until >= start)


def seconds(us: int, digits: int = 1) -> str:
    return f"{us / 1e6:.{digits}f} s"


def attempt_of(clues: Clues, place: MessageId) -> Attempt | None:
    return next((other for other in clues.others if (other.writer, other.seq) == place), None)
