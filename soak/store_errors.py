"""Exceptions that a store raises, counted once per kind: operation, type, and place in the store's code.

An outage makes a store raise thousands of times, and a typo on every call. One line for each kind says what is wrong;
the number says how often. Texts are one line, bounded, and hold no password.
"""

from __future__ import annotations

import enum
import sysconfig
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path, PurePath
from types import TracebackType

import msgspec

import soak
from soak.checker.outcome import NotApplied
from soak.masking import mask

KINDS_MAX = 16
"""Kinds of error of one store; further ones are only counted."""
STORES_MAX = 64
TEXT_CHARACTERS_MAX = 200
MASKED_CHARACTERS_MAX = 1_000
"""Of a text, how much is searched for passwords before it is cut."""
PLACE_CHARACTERS_MAX = 80
BROKEN_ERRORS_MIN = 3
BROKEN_SECONDS = 2.0
"""A store that has raised so often, for so long, and has never succeeded, is broken."""

_PACKAGE = Path(soak.__file__).resolve().parent
_STANDARD_LIBRARY = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib"))
_HARNESS = tuple(str(_PACKAGE / name) for name in ("load", "verifier", "checker", "ledger"))
_LIBRARIES = ("site-packages", "dist-packages")
_DEFECTS = (
    TypeError,
    AttributeError,
    NameError,
    LookupError,
    ValueError,
    AssertionError,
    ImportError,
    ArithmeticError,
    NotImplementedError,
    SyntaxError,
)
_UNAVAILABLE = (NotApplied, OSError, EOFError, TimeoutError)
_DRIVERS = frozenset(
    {
        "aiohttp",
        "aioredis",
        "asyncpg",
        "chromadb",
        "httpcore",
        "httpx",
        "psycopg",
        "psycopg2",
        "redis",
        "requests",
        "sqlalchemy",
        "sqlite3",
        "urllib3",
    }
)
_SQL_MISTAKE = "42"
"""The class of SQLSTATE for statements that cannot be right: syntax, an unknown table or column, no permission."""


class ErrorNature(enum.Enum):
    """What an exception says about the store."""

    DEFECT = "defect"
    """A programming error: repeating the call does not help."""
    UNAVAILABLE = "unavailable"
    """Refused, timed out, or the connection failed."""
    OTHER = "other"


class StoreError(msgspec.Struct, frozen=True, array_like=True):
    """One kind of exception of one store, and how often it was raised."""

    store: str
    operation: str
    type: str
    text: str
    """Of the first one."""
    place: str
    """File and line in the store's own code; empty: not known."""
    nature: ErrorNature
    count: int
    first_wall_seconds: float
    last_wall_seconds: float

    @property
    def line(self) -> str:
        error = f"{self.type}: {self.text}" if self.text else self.type
        return f"{self.store}: {self.operation} raised {error}" + (f" ({self.place})" if self.place else "")

    @property
    def key(self) -> str:
        return _key(self.operation, self.type, self.place)

    def merged(self, other: StoreError) -> StoreError:
        is_later = other.first_wall_seconds >= self.first_wall_seconds
        return msgspec.structs.replace(
            self if is_later else other,
            count=self.count + other.count,
            first_wall_seconds=min(self.first_wall_seconds, other.first_wall_seconds),
            last_wall_seconds=max(self.last_wall_seconds, other.last_wall_seconds),
        )


def describe(error: BaseException) -> str:
    """Say in one line what was raised: type, text without passwords, and place in the store's code."""
    text, place = _text_of(error), _bounded(_place_of(error.__traceback__), PLACE_CHARACTERS_MAX)
    return type(error).__name__ + (f": {text}" if text else "") + (f" ({place})" if place else "")


class StoreErrors(msgspec.Struct):
    """What the stores of a run have raised."""

    kinds: dict[str, dict[str, StoreError]] = {}
    """By store, then by operation, type and place."""
    of_other_kinds: dict[str, int] = {}
    """By store, exceptions of further kinds."""

    def __bool__(self) -> bool:
        return bool(self.kinds or self.of_other_kinds)

    def note(self, store: str, operation: str, error: BaseException, at_wall_seconds: float) -> bool:
        """Count an exception that a store raised; returns whether it is of a new kind."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        name = _bounded(type(error).__name__, PLACE_CHARACTERS_MAX)
        place = _bounded(_place_of(error.__traceback__), PLACE_CHARACTERS_MAX)
        kinds = self.kinds.get(store, {})
        # In an outage every call raises the same: its text is made only once.
        if (known := kinds.get(key := _key(operation, name, place))) is not None:
            kinds[key] = msgspec.structs.replace(known, count=known.count + 1, last_wall_seconds=at_wall_seconds)
            return False
        return self.add(
            StoreError(
                store=store,
                operation=operation,
                type=name,
                text=_text_of(error),
                place=place,
                nature=nature_of(error),
                count=1,
                first_wall_seconds=at_wall_seconds,
                last_wall_seconds=at_wall_seconds,
            )
        )

    def add(self, error: StoreError) -> bool:
        """Count errors of one kind; returns whether the kind is new."""
        if error.store not in self.kinds and len(self.kinds) >= STORES_MAX:
            return False
        kinds = self.kinds.setdefault(error.store, {})
        if (known := kinds.get(error.key)) is not None:
            kinds[error.key] = known.merged(error)
            return False
        if len(kinds) >= KINDS_MAX:
            self.of_other_kinds[error.store] = self.of_other_kinds.get(error.store, 0) + error.count
            return False
        kinds[error.key] = error
        return True

    def merge(self, others: Iterable[StoreError]) -> None:
        for error in others:
            self.add(error)

    def listed(self, store: str | None = None) -> list[StoreError]:
        """Return all kinds, defects first, then the most frequent; of one store if it is named."""
        stores = self.kinds.values() if store is None else [self.kinds.get(store, {})]
        natures = list(ErrorNature)
        every = [error for kinds in stores for error in kinds.values()]
        return sorted(every, key=lambda error: (natures.index(error.nature), -error.count, error.first_wall_seconds))


def is_broken(error: StoreError, successes: int, now_wall_seconds: float) -> bool:
    """Whether a store cannot do this at all: a programming error each time, and never a success."""
    return (
        error.nature is ErrorNature.DEFECT
        and not successes
        and error.count >= BROKEN_ERRORS_MIN
        and now_wall_seconds - error.first_wall_seconds >= BROKEN_SECONDS
    )


def nature_of(error: BaseException) -> ErrorNature:
    """Return what an exception says about the store that raised it."""
    if isinstance(error, _UNAVAILABLE):
        return ErrorNature.UNAVAILABLE
    if isinstance(error, _DEFECTS):
        return ErrorNature.DEFECT
    if str(getattr(error, "sqlstate", None) or "").startswith(_SQL_MISTAKE):
        return ErrorNature.OTHER
    module = type(error).__module__
    is_driver = module.partition(".")[0] in _DRIVERS or module.startswith("soak.stores")
    return ErrorNature.UNAVAILABLE if is_driver else ErrorNature.OTHER


def _key(operation: str, name: str, place: str) -> str:
    return f"{operation}/{name}/{place}"


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  an exception of the user's may raise when it is shown
        return "its text cannot be shown"
    # Masked before it is cut: half a password would not be recognized.
    one_line = " ".join(text[:MASKED_CHARACTERS_MAX].split())
    return _bounded(mask(one_line), TEXT_CHARACTERS_MAX)


def _bounded(text: str, characters_max: int) -> str:
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= characters_max else text[: characters_max - 1] + "…"


def _place_of(traceback: TracebackType | None) -> str:
    """Return the innermost line of the store's own code; if there is none, the outermost outside soak."""
    frames: list[tuple[_Origin, str, int]] = []
    while traceback is not None:
        name = traceback.tb_frame.f_code.co_filename
        frames.append((_origin_of(name), name, traceback.tb_lineno))
        traceback = traceback.tb_next
    for wanted, candidates in (
        (_Origin.OWN, frames[::-1]),
        (_Origin.STORES, frames[::-1]),
        (_Origin.LIBRARY, frames),
    ):
        for origin, name, line in candidates:
            if origin is wanted:
                return f"{PurePath(name).name}:{line}"
    return ""


class _Origin(enum.Enum):
    OWN = enum.auto()
    STORES = enum.auto()
    LIBRARY = enum.auto()
    HARNESS = enum.auto()


@lru_cache(maxsize=1024)
def _origin_of(name: str) -> _Origin:
    if name.startswith(_HARNESS) or name.startswith("<frozen"):
        return _Origin.HARNESS
    if name.startswith(str(_PACKAGE)):
        return _Origin.STORES
    # A compiled driver names its source, such as protocol.pyx, without saying where that is.
    if not name.endswith(".py") or any(part in _LIBRARIES for part in PurePath(name).parts):
        return _Origin.LIBRARY
    return _Origin.HARNESS if name.startswith(_STANDARD_LIBRARY) else _Origin.OWN
