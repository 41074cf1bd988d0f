"""The contract suite: subclass it, name your store, and pytest runs every check on real servers."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, ClassVar

from soak.checker.contract import Contract
from soak.errors import UsageError
from soak.pytest_plugin.checks.compatibility import Compatibility
from soak.pytest_plugin.checks.content import Content
from soak.pytest_plugin.checks.durability import Durability
from soak.pytest_plugin.checks.expiry import Expiring
from soak.pytest_plugin.checks.failures import Failures
from soak.pytest_plugin.checks.forgetting import Forgetting
from soak.pytest_plugin.checks.isolation import Isolation
from soak.pytest_plugin.checks.order import Ordering
from soak.pytest_plugin.checks.searching import Searching
from soak.pytest_plugin.checks.windows import Windows
from soak.stores.protocol import MemoryStore, StoreContext, StoreSpec
from soak.stores.registry import find, open_store

RECORDINGS_FOLDER = "soak_recordings"


class MemoryContract(
    Content, Ordering, Windows, Isolation, Forgetting, Searching, Expiring, Failures, Durability, Compatibility
):
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
