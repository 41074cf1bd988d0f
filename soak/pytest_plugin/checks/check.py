"""How a check is written: an async method that pytest runs as a plain one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from soak.pytest_plugin.memory import Memory

Suite = TypeVar("Suite")
Parameters = ParamSpec("Parameters")


def check(
    body: Callable[Concatenate[Suite, Memory, Parameters], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[Suite, Memory, Parameters], None]:
    """Let an async test be run without any other plugin, whatever mode such a plugin is in."""

    @functools.wraps(body)
    def test(self: Suite, soak_memory: Memory, *args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        soak_memory.run(body(self, soak_memory, *args, **kwargs))

    return cast("Callable[Concatenate[Suite, Memory, Parameters], None]", test)
