"""Choosing a store by name: built in, or a class of the user's own."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from soak.checker.contract import Contract
from soak.errors import ServerUnreachableError, UsageError
from soak.stores.protocol import StoreContext
from soak.stores.registry import find, open_store, specs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTEXT = StoreContext(servers={"redis": "redis://:s3cret@127.0.0.1:1/0"}, namespace="n")

WHOLE = """
    async def append(self, session, message): ...
    async def history(self, session, last=None): return []
    async def forget(self, session): ...
    async def close(self): ...
"""
MODULE = f"""
from soak.stores import MemoryStore

class Plain:
    '''A plain one.

    And more.
    '''
{WHOLE}
class TakesContext:
    def __init__(self, context): self.context = context
{WHOLE}
class Opens:
    needs = ("redis",)
    def __init__(self, opened): self.opened = opened
    @classmethod
    async def open(cls, context): return cls("opened in " + context.namespace)
{WHOLE}
class Away:
    @classmethod
    async def open(cls, context): raise ConnectionRefusedError("redis://:s3cret@127.0.0.1:1/0 refused\\nindeed")
{WHOLE}
class Broken:
    def __init__(self): raise RuntimeError("s3cret is broken")
{WHOLE}
class NeedsPostgres:
    needs = ("postgres",)
{WHOLE}
class NeedsRedis:
    needs = ("redis")
{WHOLE}
class Lacks:
    async def append(self, session, message): ...
    async def close(self): ...

class Inherits(MemoryStore):
    async def append(self, session, message): ...
    async def history(self, session, last=None): return []
    async def close(self): ...

class NotAsync:
    def append(self, session, message): ...
    async def history(self, session, last=None): return []
    def forget(self, session): ...
    async def close(self): ...

number = 7
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the name of a module that lies in the current folder."""
    (tmp_path / "mystores.py").write_text(MODULE)
    (tmp_path / "bad_syntax.py").write_text("def (:\n")
    (tmp_path / "bad_import.py").write_text("import no_such_library_at_all\n")
    (tmp_path / "bad_start.py").write_text("raise RuntimeError('not today')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "mystores"
    sys.modules.pop("mystores", None)


def test_the_built_in_stores_say_what_they_are() -> None:
    assert list(specs()) == [
        "redis-list", "redis-stream", "redis-zset", "redis-hash", "postgres", "postgres-replica", "pgvector", "chroma",
        "http", "sqlite",
    ]  # fmt: skip
    for spec in specs().values():
        assert spec.needs
        assert spec.description
        assert isinstance(spec.contract_for(CONTEXT), Contract)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("redis-lst", "did you mean redis-list?"),
        ("postgre", "did you mean postgres?"),
        ("qdrant", "package.module:Class"),
        ("", "package.module:Class"),
    ],
)
def test_an_unknown_store_is_answered_with_what_was_probably_meant(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        find(name)
    assert hint in str(caught.value)
    assert "redis-stream" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("no_such_module_here:Store", "No module named 'no_such_module_here'"),
        ("bad_import:Store", "no_such_library_at_all"),
        ("bad_syntax:Store", "SyntaxError"),
        ("bad_start:Store", "RuntimeError: not today (bad_start.py:1)"),
        (":Store", "ValueError"),
        ("mystores:Missing", "'Missing'"),
        ("mystores:Plian", "module mystores has no class 'Plian'; did you mean Plain?"),
        ("mystores:number", "no class"),
        ("mystores:", "''"),
        ("mystores:Lacks", "methods history, forget"),
        ("mystores:Inherits", "method forget"),
        ("mystores:NotAsync", "methods append, forget with 'async def'"),
    ],
)
def test_what_is_wrong_with_a_class_is_said_in_one_line(module: str, name: str, cause: str) -> None:
    with pytest.raises(UsageError) as caught:
        find(name)
    assert cause in str(caught.value)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_class_in_the_current_folder_is_found_and_described(module: str) -> None:
    spec = find("mystores:Plain")
    assert (spec.name, spec.needs, spec.description) == ("mystores:Plain", (), "A plain one.")
    assert spec.contract_for(CONTEXT) == Contract()


async def test_a_class_is_made_in_the_way_it_offers(module: str) -> None:
    assert inspect.iscoroutinefunction((await open_store("mystores:Plain", CONTEXT)).append)
    assert (await open_store("mystores:TakesContext", CONTEXT)).context is CONTEXT  # type: ignore[attr-defined]
    assert (await open_store("mystores:Opens", CONTEXT)).opened == "opened in n"  # type: ignore[attr-defined]


async def test_a_server_that_a_users_store_cannot_reach_is_one_line_without_the_password(module: str) -> None:
    with pytest.raises(ServerUnreachableError) as caught:
        await open_store("mystores:Away", CONTEXT)
    assert "refused indeed" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_class_that_cannot_be_made_is_a_usage_error(module: str) -> None:
    line = 1 + MODULE.splitlines().index("class Broken:") + 1
    with pytest.raises(UsageError, match=rf"RuntimeError: \*\*\* is broken \(mystores\.py:{line}\)"):
        await open_store("mystores:Broken", CONTEXT)


def test_a_need_without_the_comma_of_a_tuple_is_one_need(module: str) -> None:
    assert find("mystores:NeedsRedis").needs == ("redis",)


@pytest.mark.parametrize("name", ["mystores:NeedsPostgres", "postgres", "postgres-replica"])
async def test_a_store_whose_server_is_not_configured_says_which(module: str, name: str) -> None:
    with pytest.raises(UsageError, match="needs the address of a postgres server"):
        await open_store(name, CONTEXT)


@pytest.mark.parametrize(
    ("imported", "unneeded"),
    [
        ("soak.stores.registry", {"redis", "asyncpg", "aiohttp"}),
        ("soak.cli", {"redis", "asyncpg", "aiohttp", "pydantic", "rich"}),
        ("soak.load.locust_events", {"aiohttp", "structlog"}),
    ],
)
def test_a_process_imports_only_the_clients_of_its_own_stores(imported: str, unneeded: set[str]) -> None:
    program = f"import sys, {imported}; print(*{unneeded} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "\n"
