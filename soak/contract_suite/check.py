"""The list of checks: each is an async function over a `Memory`, and is known by its name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

CheckBody = Callable[..., Awaitable[None]]


class Check(NamedTuple):
    """One thing that every memory has to do."""

    name: str
    run: CheckBody
    """Called with the memory, and with one of the cases under the name of the parameter, if it has any."""
    parameter: str = ""
    cases: tuple[Any, ...] = ()


CHECKS: dict[str, Check] = {}
"""Every check, in the order of the modules and of the functions in them; `soak.contract_suite.suite` loads them all."""


def check(**cases: Iterable[Any]) -> Callable[[CheckBody], CheckBody]:
    """Add a function to the suite. `check(last=[1, 5])` calls it once for each value of its parameter `last`."""

    def add(body: CheckBody) -> CheckBody:
        parameter = next(iter(cases), "")
        CHECKS[body.__name__] = Check(body.__name__, body, parameter, tuple(cases.get(parameter, ())))
        return body

    return add
