"""Where the reporter leaves what it found in a canary session, in place of counting it."""

from __future__ import annotations

from typing import NamedTuple

from soak.checker.kinds import Kind
from soak.verifier.tracked_session import TrackedSession

RINGS_MAX = 64
"""Remembered per canary, at most; the first few say all there is to say."""


class Ring(NamedTuple):
    """One report about a canary: what it was taken for, and which message was named."""

    kind: Kind
    message: str


class Rings:
    """What was reported about the canaries that are under way."""

    def __init__(self) -> None:
        self._heard: dict[TrackedSession, list[Ring]] = {}

    def listen(self, watched: TrackedSession) -> None:
        self._heard[watched] = []

    def rang(self, watched: TrackedSession, kind: Kind, message: str) -> None:
        """Take in a report; one about a canary that is over is of no interest any more."""
        heard = self._heard.get(watched)
        if heard is not None and len(heard) < RINGS_MAX:
            heard.append(Ring(kind, message))

    def heard(self, watched: TrackedSession) -> list[Ring]:
        return self._heard.get(watched, [])

    def stop_listening(self, watched: TrackedSession) -> None:
        self._heard.pop(watched, None)
