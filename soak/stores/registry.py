"""Which stores there are, by name, and how any of them is opened, a user's own included."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from soak.checker.outcome import NotApplied
from soak.errors import ServerUnreachableError, SoakError, UsageError
from soak.store_errors import describe
from soak.stores.protocol import MemoryStore, StoreContext, StoreSpec
from soak.suggestion import did_you_mean

OPEN_SECONDS_MAX = 60.0
"""How long a store may take to open, whatever it does."""

_METHODS = ("append", "history", "forget", "close")
_BUILT_IN = {
    "redis-list": "soak.stores.redis_stores:RedisListStore",
    "redis-stream": "soak.stores.redis_stores:RedisStreamStore",
    "redis-zset": "soak.stores.redis_stores:RedisZsetStore",
    "redis-hash": "soak.stores.redis_stores:RedisHashStore",
    "postgres": "soak.stores.postgres:PostgresStore",
    "postgres-replica": "soak.stores.postgres:PostgresReplicaStore",
    "pgvector": "soak.stores.pgvector:PgvectorStore",
    "chroma": "soak.stores.chroma:ChromaStore",
    "http": "soak.stores.http:HttpStore",
    "sqlite": "soak.stores.sqlite:SqliteStore",
}
"""Imported when they are asked for: each brings a client library, and a process needs that of its own stores only."""
NAMES = tuple(_BUILT_IN)
_CLIENT_ERRORS = {
    "asyncpg": ("PostgresError",),
    "redis.exceptions": ("ConnectionError", "TimeoutError", "AuthenticationError"),
}
"""What client libraries raise for a server that does not answer."""


def specs() -> dict[str, StoreSpec]:
    """Return the built-in stores by name."""
    return {name: find(name) for name in NAMES}


def find(name: str | type) -> StoreSpec:
    """Return the store of this name: built in, `package.module:Class` or a class; `UsageError` says what is wrong."""
    if isinstance(name, type):
        shown = f"{name.__module__}:{name.__qualname__}"
        _check_methods(shown, name)
        return _spec(shown, name)
    if name in _BUILT_IN:
        module, _, class_name = _BUILT_IN[name].partition(":")
        return _spec(name, getattr(importlib.import_module(module), class_name))
    if ":" not in name:
        hint = did_you_mean(name, NAMES, "give package.module:Class for one of your own.")
        raise UsageError(f"there is no store {name!r}; {hint} Built in: {', '.join(NAMES)}")
    factory = _load(name)
    _check_methods(name, factory)
    return _spec(name, factory)


async def open_store(store: str | type, context: StoreContext) -> MemoryStore:
    """Make the store ready for use, connected; raises `SoakError` with one line that holds no secret."""
    spec = find(store)
    name = spec.name
    missing = [kind for kind in spec.needs if kind not in context.servers]
    if missing:
        raise UsageError(f"store {name} needs the address of a {missing[0]} server; none is configured")
    try:
        async with asyncio.timeout(max(OPEN_SECONDS_MAX, 3 * context.timeout_seconds)):
            return await _make(spec.factory, context)
    except SoakError:
        raise
    except Exception as error:
        if _is_unreachable(error):
            reason = _without_secrets(_one_line(error), context)
            raise ServerUnreachableError(
                f"store {name} cannot reach its server ({reason}); check that it runs and that its address is right"
            ) from error
        reason = _without_secrets(describe(error), context)
        raise UsageError(f"store {name} cannot be opened ({reason}); mend the class or its settings") from error


def _is_unreachable(error: Exception) -> bool:
    loaded = [(sys.modules[module], names) for module, names in _CLIENT_ERRORS.items() if module in sys.modules]
    kinds = [getattr(module, name) for module, names in loaded for name in names]
    return isinstance(error, (OSError, NotApplied, *kinds))


async def _make(factory: type, context: StoreContext) -> MemoryStore:
    opener = getattr(factory, "open", None)
    made: Any
    if opener is not None:
        made = opener(context)
        if inspect.isawaitable(made):
            made = await made
    elif _takes_argument(factory):
        made = factory(context)
    else:
        made = factory()
    return cast("MemoryStore", made)


def _takes_argument(factory: type) -> bool:
    try:
        inspect.signature(factory).bind(None)
    except (TypeError, ValueError):
        return False
    return True


def _load(name: str) -> type:
    module_name, _, class_name = name.partition(":")
    if module_name.endswith(".py"):
        right = ".".join(Path(module_name).with_suffix("").parts)
        raise UsageError(f"store {name}: write the module, not its file; did you mean {right}:{class_name}?")
    here = str(Path.cwd())
    if here not in sys.path:
        # An installed command has its own folder on the path, not the user's current one.
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise UsageError(
            f"store {name} cannot be imported ({describe(error)}); check its name and PYTHONPATH"
        ) from error
    factory = getattr(module, class_name, None)
    if not isinstance(factory, type):
        what = "has no class" if factory is None else "has something that is no class called"
        hint = did_you_mean(class_name, [word for word, value in vars(module).items() if isinstance(value, type)])
        line = f"store {name} cannot be used: module {module_name} {what} {class_name!r}"
        raise UsageError(f"{line}; {hint}" if hint else line)
    return factory


def _check_methods(name: str, factory: type) -> None:
    # A class that inherits from the protocol without writing a method would acknowledge and do nothing.
    absent = [
        method
        for method in _METHODS
        if not callable(getattr(factory, method, None)) or getattr(factory, method) is getattr(MemoryStore, method)
    ]
    if absent:
        raise UsageError(f"store {name} lacks {_listed(absent)}; see soak.stores.MemoryStore for what each has to do")
    not_async = [
        method for method in _METHODS if not inspect.iscoroutinefunction(inspect.unwrap(getattr(factory, method)))
    ]
    if not_async:
        raise UsageError(f"store {name} must define {_listed(not_async)} with 'async def'")


def _listed(methods: list[str]) -> str:
    return ("method " if len(methods) == 1 else "methods ") + ", ".join(methods)


def _spec(name: str, factory: type) -> StoreSpec:
    needs = getattr(factory, "needs", ())
    # One name without the comma of a tuple: it is clear what is meant.
    needs = (needs,) if isinstance(needs, str) else needs
    described = getattr(factory, "description", None) or (inspect.getdoc(factory) or "a store of your own")
    return StoreSpec(name=name, factory=factory, needs=tuple(needs), description=str(described).strip().splitlines()[0])


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _without_secrets(text: str, context: StoreContext) -> str:
    for url in context.servers.values():
        try:
            password = urlsplit(url).password
        except ValueError:
            continue
        for form in {password, unquote(password)} if password else ():
            text = text.replace(form, "***")
    return text
