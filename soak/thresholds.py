"""Thresholds: what a run is to stay below, as `append_p99 = "50ms"` or `errors = "1%"`.

A plain name is about operations outside of faults; `_in_fault` at its end is about those inside.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from soak.duration import format_latency, parse_seconds

SEARCH = "search"
OPERATIONS = ("append", "read", SEARCH, "forget")
STATISTICS = ("p50", "p95", "p99", "max")
IN_FAULT = "_in_fault"
ERRORS, RECOVERY_TIME, STALENESS = "errors", "recovery_time", "staleness"
NAMES = (
    *(f"{operation}_{statistic}" for operation in OPERATIONS for statistic in STATISTICS),
    *(f"{operation}_{statistic}{IN_FAULT}" for operation in OPERATIONS for statistic in STATISTICS),
    ERRORS,
    ERRORS + IN_FAULT,
    RECOVERY_TIME,
    *(f"{STALENESS}_{statistic}" for statistic in STATISTICS),
)
_NO_TIME = "is no time; write one with its unit, such as 50ms or 2s"
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")

Limits = dict[str, str | dict[str, str]]
"""By name; or by store, and then by name."""


class Threshold(NamedTuple):
    """The most that one quantity may be, on one store or on each."""

    store: str
    """Empty: on each store that has samples."""
    name: str
    text: str

    @property
    def limit(self) -> float:
        """Seconds; of errors, the share."""
        return parse_limit(self.name, self.text)

    @property
    def in_fault(self) -> bool:
        return self.name.endswith(IN_FAULT)

    @property
    def quantity(self) -> str:
        """An operation, `errors`, `recovery_time` or `staleness`."""
        return next(one for one in (*OPERATIONS, ERRORS, RECOVERY_TIME, STALENESS) if self.name.startswith(one))

    @property
    def statistic(self) -> str:
        return self.name.removesuffix(IN_FAULT).rpartition("_")[2]


def is_share(name: str) -> bool:
    return name.startswith(ERRORS)


def parse_limit(name: str, text: object) -> float:
    """Read what a threshold allows; raises `ValueError` with a line that says what to write."""
    if is_share(name):
        found = _PERCENT.fullmatch(str(text).strip())
        if found is None or float(found[1]) > 100:
            raise ValueError("is no share; write one such as 1% or 0.5%")
        return float(found[1]) / 100
    if not isinstance(text, str) or not text.strip()[-1:].isalpha():
        # k6 takes a bare number for milliseconds, and the other settings here for seconds.
        raise ValueError(_NO_TIME)
    try:
        return parse_seconds(text)
    except ValueError:
        raise ValueError(_NO_TIME) from None


def format_value(name: str, value: float) -> str:
    """Write what was measured against a limit."""
    return f"{value * 100:.3g}%" if is_share(name) else format_latency(value)


def check_limits(given: Any) -> Limits:
    """Check every name and limit, which stays as it is written; raises `ValidationError` with all that is wrong."""
    if not isinstance(given, Mapping):
        raise ValueError('is a section; write append_p99 = "50ms" in it')  # noqa: TRY004  pydantic wants a ValueError
    checked: Limits = {}
    wrong: list[InitErrorDetails] = []
    for name, value in given.items():
        if not isinstance(value, Mapping):
            checked[name] = _checked((name,), value, wrong)
        elif name in NAMES:
            _note(wrong, (name,), value, "is a threshold and no store; write a limit such as 50ms")
        else:
            checked[name] = {key: _checked((name, key), limit, wrong) for key, limit in value.items()}
    if wrong:
        raise ValidationError.from_exception_data("thresholds", wrong)
    return checked


def _checked(path: tuple[str, ...], limit: object, wrong: list[InitErrorDetails]) -> str:
    name = path[-1]
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.4)
        _note(wrong, path, limit, f"names no threshold; did you mean {near[0] if near else NAMES[2]}?")
        return ""
    try:
        parse_limit(name, limit)
    except ValueError as error:
        _note(wrong, path, limit, str(error))
    return str(limit).strip()


def _note(wrong: list[InitErrorDetails], path: tuple[str, ...], given: object, why: str) -> None:
    # A custom error and not a text: what was given may have braces, which would be read as a template.
    wrong.append({"type": PydanticCustomError("threshold", "{why}", {"why": why}), "loc": path, "input": given})


def read_flags(texts: list[str]) -> dict[str, Any]:
    """Read thresholds as flags have them: `append_p99=50ms`, or `redis-list.append_p99=50ms` for one store."""
    limits: dict[str, Any] = {}
    for text in texts:
        key, _, limit = text.partition("=")
        store, _, name = key.strip().rpartition(".")
        (limits.setdefault(store, {}) if store else limits)[name] = limit.strip()
    return limits


def thresholds_in(limits: Limits) -> Iterator[Threshold]:
    for name, value in limits.items():
        if isinstance(value, str):
            yield Threshold("", name, value)
        else:
            yield from (Threshold(name, below, text) for below, text in value.items())
