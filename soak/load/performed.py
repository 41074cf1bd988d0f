"""What came of one operation, as Locust is to show it.

Locust keeps a row for every error text it has ever seen. So there is a small, fixed set of texts, and one exception
object for each, made once and never raised.
"""

from __future__ import annotations

from typing import NamedTuple

from soak.checker.outcome import NotApplied
from soak.load.reading import Suspicion

KINDS_MAX = 64


class OperationFailedError(Exception):
    """An operation did not succeed, or what it read does not look right."""


class Performed(NamedTuple):
    """One operation on one store, ready to be reported."""

    operation: str
    store: str
    milliseconds: float
    error: OperationFailedError | None


SUSPICIONS = {one: OperationFailedError(f"suspicious read: {one.value}") for one in Suspicion}

_TIMEOUT = OperationFailedError("no answer in time")
_NOT_APPLIED = OperationFailedError("refused, not applied")
_OTHER = OperationFailedError("some other error")
_by_type: dict[type[BaseException], OperationFailedError] = {}


def failure_of(error: BaseException) -> OperationFailedError:
    """Give the one error object that stands for all errors of this kind."""
    if isinstance(error, TimeoutError):
        return _TIMEOUT
    if isinstance(error, NotApplied):
        return _NOT_APPLIED
    kind = type(error)
    known = _by_type.get(kind)
    if known is None:
        if len(_by_type) >= KINDS_MAX:
            return _OTHER
        known = _by_type[kind] = OperationFailedError(f"error: {kind.__name__}")
    return known
