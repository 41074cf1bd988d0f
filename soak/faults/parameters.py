"""What can be set of a fault: each parameter has a unit, a range, a default and a line of help.

A fault declares its parameters as attributes of its class: `delay = Time(0.2, "…")`. An object of the class has the
values: `Latency(delay="500ms").delay` is 0.5. People write values with their unit; the ledger keeps them as written.
"""

from __future__ import annotations

import abc
import math
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

import msgspec

from soak.duration import format_seconds_exactly, parse_seconds
from soak.errors import UsageError
from soak.suggestion import did_you_mean

Given = str | float
"""A value as somebody wrote it: with its unit, or a bare number in the base unit."""
Value = TypeVar("Value")
Number = TypeVar("Number", bound=float)

_SIZES = {"": 1, "b": 1, "kb": 1_000, "mb": 1_000_000, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


class ParameterListing(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter for those who offer it: a page, a shell, a program. Values are written as people write them."""

    name: str
    unit: str
    """`time`, `share`, `count`, `bytes`, `bytes per second`, `choice` or `pair`."""
    default: str
    least: str | None = None
    most: str | None = None
    choices: tuple[str, ...] = ()
    help: str


class Parameter(abc.ABC, Generic[Value]):
    """One parameter of a fault; on an object of the fault, its value."""

    unit: ClassVar[str]
    name: str

    def __init__(self, default: Value, help: str) -> None:  # noqa: A002  as argparse calls it
        self.default = default
        self.help = help

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, fault: None, owner: type) -> Self: ...
    @overload
    def __get__(self, fault: object, owner: type) -> Value: ...
    def __get__(self, fault: object | None, owner: type) -> Self | Value:
        # Only where no value was given: one that was is an attribute of the object.
        return self if fault is None else self.default

    @abc.abstractmethod
    def read(self, given: Given) -> Value:
        """Return the value that was meant; raises `ValueError` with what to write instead."""

    @abc.abstractmethod
    def text(self, value: Any) -> str:
        """Write a value so that `read` returns the same."""

    @property
    @abc.abstractmethod
    def range(self) -> str:
        """What it may be, in words."""

    def listing(self) -> ParameterListing:
        return ParameterListing(name=self.name, unit=self.unit, default=self.text(self.default), help=self.help)


class _Number(Parameter[Number]):
    def __init__(self, default: Number, help: str, *, least: Number, most: Number) -> None:  # noqa: A002
        super().__init__(default, help)
        self.least, self.most = least, most

    @property
    def range(self) -> str:
        return f"from {self.text(self.least)} to {self.text(self.most)}"

    @abc.abstractmethod
    def number(self, given: Given) -> Number:
        """Return the number that was written, in or out of range."""

    def read(self, given: Given) -> Number:
        value = self.number(given)
        if not (math.isfinite(float(value)) and self.least <= value <= self.most):
            raise ValueError(f"it may be {self.range}{self._unit_hint(given)}")
        return value

    def _unit_hint(self, given: Given) -> str:
        """Say what may be missing in a value that is out of range."""
        del given
        return ""

    def listing(self) -> ParameterListing:
        return msgspec.structs.replace(super().listing(), least=self.text(self.least), most=self.text(self.most))


class Time(_Number[float]):
    """A time, in seconds where no unit is written."""

    unit = "time"

    def number(self, given: Given) -> float:
        try:
            return parse_seconds(given)
        except ValueError:
            raise ValueError(f"it is a time: write one like {self.text(self.default)}, {self.range}") from None

    def _unit_hint(self, given: Given) -> str:
        return f"; without a unit it is in seconds: {given}ms?" if str(given).strip().isdigit() else ""

    def text(self, value: float) -> str:
        return format_seconds_exactly(value)


class Share(_Number[float]):
    """A share of the whole, between 0 and 1; 25% is 0.25."""

    unit = "share"

    def number(self, given: Given) -> float:
        text = str(given).strip()
        try:
            return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            raise ValueError(f"it is a share: write one like 0.25 or 25%, {self.range}") from None

    def text(self, value: float) -> str:
        return f"{value:g}"


class Count(_Number[int]):
    """A number of things."""

    unit = "count"

    def number(self, given: Given) -> int:
        try:
            return int(str(given))
        except ValueError:
            raise ValueError(f"it is a whole number, {self.range}") from None

    def text(self, value: int) -> str:
        return str(value)


class Bytes(_Number[int]):
    """A number of bytes; 4KiB is 4096."""

    unit = "bytes"

    def number(self, given: Given) -> int:
        found = _SIZE.fullmatch(self.bare(str(given).strip().lower()))
        if found is None or found[2] not in _SIZES:
            raise ValueError(f"it is in {self.unit}: write one like {self.text(self.default)}, {self.range}")
        return round(float(found[1]) * _SIZES[found[2]])

    def bare(self, text: str) -> str:
        """Return what stands before the part that only says which unit it is."""
        return text

    def text(self, value: int) -> str:
        for name, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
            if value and value % size == 0:
                return f"{value // size}{name}"
        return f"{value}B"


class Rate(Bytes):
    """Bytes in a second; 64KiB/s is 65536."""

    unit = "bytes per second"

    def bare(self, text: str) -> str:
        return text.removesuffix("/s")

    def text(self, value: int) -> str:
        return f"{super().text(value)}/s"


class OneOf(Parameter[str]):
    """One of a few words; the first is the default."""

    unit = "choice"

    def __init__(self, *choices: str, help: str) -> None:  # noqa: A002
        super().__init__(choices[0], help)
        self.choices = choices

    @property
    def range(self) -> str:
        return " or ".join(self.choices)

    def read(self, given: Given) -> str:
        if given not in self.choices:
            raise ValueError(did_you_mean(str(given), self.choices, f"it is {self.range}"))
        return str(given)

    def text(self, value: str) -> str:
        return value

    def listing(self) -> ParameterListing:
        return msgspec.structs.replace(super().listing(), choices=self.choices)


class WordPair(Parameter[tuple[str, str]]):
    """Two words; the order does not matter."""

    unit = "pair"

    def __init__(self, one: str, other: str, help: str) -> None:  # noqa: A002
        super().__init__((one, other), help)

    @property
    def range(self) -> str:
        return "two words, like " + self.text(self.default)

    def read(self, given: Given) -> tuple[str, str]:
        words = [word.strip() for word in re.split(r"[+,]", str(given))]
        if len(words) != 2 or not all(words) or words[0] == words[1]:
            raise ValueError(f"it is {self.range}")
        return words[0], words[1]

    def text(self, value: tuple[str, str]) -> str:
        return "+".join(value)


def parameters_of(of: type) -> dict[str, Parameter[Any]]:
    """Return the parameters that a class declares, with those of its bases first."""
    declared = {name: value for base in reversed(of.__mro__) for name, value in vars(base).items()}
    return {name: value for name, value in declared.items() if isinstance(value, Parameter)}


def read_parameters(fault: str, known: Mapping[str, Parameter[Any]], given: Mapping[str, Given]) -> dict[str, Any]:
    """Return the values that were meant; raises `UsageError` for one that the fault does not have or cannot be."""
    values = {}
    for name, value in given.items():
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise UsageError(f"{fault} has no parameter {name!r}; {did_you_mean(name, known, has)}")
        try:
            values[name] = known[name].read(value)
        except ValueError as error:
            raise UsageError(f"{fault}: {name} cannot be {value!r}; {error}") from None
    return values
