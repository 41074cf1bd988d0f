"""The contract suite as pytest runs it: subclass it, name your store, and every check is a test on real servers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from soak.checker.contract import Contract
from soak.contract_suite.check import CheckBody
from soak.contract_suite.comparison import ContractBrokenError, NotTriedError, broken
from soak.contract_suite.memory import Memory
from soak.contract_suite.suite import CHECKS
from soak.errors import UsageError
from soak.pytest_plugin.compatibility import (
    data_of_an_earlier_version_is_readable,
    what_is_written_today_can_be_read_again,
)
from soak.pytest_plugin.options import marker_of
from soak.pytest_plugin.server import SoakServer
from soak.stores.protocol import MemoryStore, StoreContext, StoreSpec
from soak.stores.registry import find, open_store

TEST_SECONDS_MAX = 150.0
"""For one test, whatever the store does."""
RECORDINGS_FOLDER = "soak_recordings"


class MemoryContract:
    """What every conversation memory has to do.

    Set `store` to a class, to `"package.module:Class"` or to the name of a built-in store; or override `open_store` and
    say in `needs` and `contract` what the class would have said.
    """

    __test__ = False  # the suite itself; its subclasses are tests

    store: ClassVar[type | str | None] = None
    needs: ClassVar[tuple[str, ...] | None] = None
    """Kinds of servers; by default those that the store declares."""
    contract: ClassVar[Contract | None] = None
    """What is promised; by default what the store declares, and without that the strictest contract."""
    versions: ClassVar[tuple[str, ...] | None] = None
    """Server versions that the store is meant for; by default all that were chosen."""
    recordings: ClassVar[str | Path | None] = None
    """Folder with data of earlier versions; by default soak_recordings/NAME_OF_THE_CLASS beside the test file."""
    refused_texts: ClassVar[frozenset[str]] = frozenset()
    """Kinds of hard text that the store openly refuses (append raises) instead of keeping them."""

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if "__test__" not in vars(cls):
            cls.__test__ = True

    async def open_store(self, context: StoreContext) -> MemoryStore:
        """Return a ready store on these servers and in this namespace."""
        return await open_store(_named(type(self)), context)

    @classmethod
    def needed(cls) -> tuple[str, ...]:
        return cls.needs if cls.needs is not None else cls._spec().needs

    @classmethod
    def contract_for(cls, context: StoreContext) -> Contract:
        if cls.contract is not None:
            return cls.contract
        return Contract() if cls.store is None else cls._spec().contract_for(context)

    @classmethod
    def recordings_folder(cls) -> Path:
        beside = Path(inspect.getfile(cls)).parent
        return beside / (cls.recordings or Path(RECORDINGS_FOLDER) / cls.__name__)

    @classmethod
    def _spec(cls) -> StoreSpec:
        return find(_named(cls))


def _named(suite: type[MemoryContract]) -> type | str:
    if suite.store is None:
        raise UsageError(f"{suite.__name__} names no store: set `store`, or override `open_store` and set `needs`")
    return suite.store


def run_check(memory: Memory, work: Awaitable[None]) -> None:
    """Run a check to its end on a loop of its own, close what it opened, and tell pytest what came of it."""
    try:
        # The global event loop is left alone: other plugins may keep theirs there.
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(_bounded(memory, work))
    except NotTriedError as error:
        pytest.skip(str(error))
    except ContractBrokenError as error:
        # Without its causes: errors of client libraries would push the sentence out of sight.
        raise pytest.fail.Exception(str(error), pytrace=False) from None


async def _bounded(memory: Memory, work: Awaitable[None]) -> None:
    limit = asyncio.timeout(TEST_SECONDS_MAX)
    try:
        async with limit:
            await work
    except TimeoutError:
        if not limit.expired():
            raise
        broken(f"A user waits for more than {TEST_SECONDS_MAX:g} s: the store did not answer")
    finally:
        for server in memory.servers.values():
            if isinstance(server, SoakServer):
                await server.heal()
        await memory.close_all()


def _add_test(body: CheckBody, *arguments: str, cases: tuple[Any, ...] = ()) -> None:
    """Make a method of the suite of an async check. Its arguments are fixtures, or the parameter of its cases."""

    def test(self: MemoryContract, soak_memory: Memory, **values: Any) -> None:
        del self
        run_check(soak_memory, body(soak_memory, **values))

    names = ("self", "soak_memory", *arguments)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    test.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    test.__name__ = f"test_{body.__name__}"
    test.__qualname__ = f"{MemoryContract.__qualname__}.{test.__name__}"
    marked = getattr(pytest.mark, marker_of(body.__module__))(test)
    setattr(MemoryContract, test.__name__, pytest.mark.parametrize(arguments[0], cases)(marked) if cases else marked)


for _check in CHECKS.values():
    _add_test(_check.run, *filter(None, [_check.parameter]), cases=_check.cases)
_add_test(what_is_written_today_can_be_read_again, "soak_record")
_add_test(data_of_an_earlier_version_is_readable, "soak_recording")
