"""How an attempt to append or forget ended, as far as its caller can know."""

from __future__ import annotations

import enum


class Outcome(enum.IntEnum):
    """Three outcomes, not two: a reply that never came says nothing about the write."""

    OK = 0
    """The store acknowledged it."""
    FAILED = 1
    """It cannot have been applied: refused before sending, or an error known to mean "not executed"."""
    UNKNOWN = 2
    """Everything else. It may appear now, later, after the next restart, or never."""


class NotApplied(Exception):  # noqa: N818  the model's word for it, raised by users' own stores
    """Raised by a store's append when the write certainly did not and will not happen."""
