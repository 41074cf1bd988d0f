"""What a store raises is shown once per kind, in one line that leads to the mistake and gives nothing away."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import asyncpg
import pytest
import redis.exceptions

from soak import store_errors
from soak.checker.outcome import NotApplied
from soak.store_errors import (
    BROKEN_SECONDS,
    KINDS_MAX,
    TEXT_CHARACTERS_MAX,
    ErrorNature,
    StoreErrors,
    is_broken,
    nature_of,
)
from soak.stores.redis_client import ConnectionLostError
from soak.verifier.tally import StoreTally, Tally

NOW = 1_800_000_000.0


class Mine:
    """A store with mistakes in it."""

    def typo(self) -> None:
        self.row.append(1)  # type: ignore[attr-defined]

    def bad_row(self) -> object:
        return json.loads("{")

    def says(self, text: str) -> None:
        raise ValueError(text)


def raised(call: Any, *arguments: object) -> Exception:
    try:
        call(*arguments)
    except Exception as error:  # noqa: BLE001  whatever it is
        return error
    raise AssertionError("it raised nothing")


def noted(error: BaseException, count: int = 1) -> StoreErrors:
    errors = StoreErrors()
    for number in range(count):
        errors.note("mine", "append", error, NOW + number)
    return errors


def test_a_mistake_is_one_line_with_its_place_and_its_count() -> None:
    errors = StoreErrors()
    assert errors.note("mine", "append", raised(Mine().typo), NOW)
    assert not errors.note("mine", "append", raised(Mine().typo), NOW + 5)
    (error,) = errors.listed()
    place = f"test_store_errors_kinds.py:{Mine.typo.__code__.co_firstlineno + 1}"
    assert error.line == f"mine: append raised AttributeError: 'Mine' object has no attribute 'row' ({place})"
    assert (error.count, error.first_wall_seconds, error.last_wall_seconds) == (2, NOW, NOW + 5)


def test_the_place_is_the_store_s_own_line_and_not_that_of_a_library_it_calls() -> None:
    (error,) = noted(raised(Mine().bad_row)).listed()
    line = Mine.bad_row.__code__.co_firstlineno + 1
    assert (error.type, error.place) == ("JSONDecodeError", f"test_store_errors_kinds.py:{line}")


def test_a_line_of_a_compiled_driver_is_not_taken_for_the_store_s_own() -> None:
    driver: dict[str, Any] = {}
    source = "def query():\n    raise ConnectionResetError"
    exec(compile(source, "asyncpg/protocol/protocol.pyx", "exec"), driver)  # noqa: S102  as Cython names its frames

    def append() -> None:
        driver["query"]()

    (error,) = noted(raised(append)).listed()
    assert error.place == f"test_store_errors_kinds.py:{append.__code__.co_firstlineno + 1}"


def test_other_operations_types_and_places_are_other_kinds() -> None:
    errors = StoreErrors()
    for operation in ("append", "history"):
        for call in (Mine().typo, Mine().bad_row):
            assert errors.note("mine", operation, raised(call), NOW)
    assert len(errors.listed("mine")) == 4
    assert errors.listed("other") == []


def test_kinds_are_bounded_and_further_ones_are_counted() -> None:
    errors = StoreErrors()
    for number in range(KINDS_MAX + 5):
        errors.note("mine", f"operation {number}", raised(Mine().typo), NOW)
    assert (len(errors.listed()), errors.of_other_kinds) == (KINDS_MAX, {"mine": 5})


@pytest.mark.parametrize("secret_text", ["redis://:hunter2@h:1/0", "host=h password=hunter2 user=u", "x?token=hunter2"])
def test_a_text_is_one_bounded_line_without_control_characters_or_passwords(secret_text: str) -> None:
    (error,) = noted(raised(Mine().says, f"a\n\x1b[2J  b {secret_text}\n" + "x" * 10_000)).listed()
    assert error.text.startswith("a \\x1b[2J b ")
    assert len(error.text) <= TEXT_CHARACTERS_MAX
    assert "hunter2" not in error.line
    assert error.line.isprintable()


def test_an_exception_that_cannot_be_shown_is_counted_all_the_same() -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    (error,) = noted(OddError()).listed()
    assert error.line == "mine: append raised OddError: its text cannot be shown"


def test_a_group_of_exceptions_is_what_is_in_it() -> None:
    (error,) = noted(ExceptionGroup("several", [ExceptionGroup("inner", [raised(Mine().typo)])])).listed()
    assert error.type == "AttributeError"


def test_errors_of_several_processes_add_up() -> None:
    mine, theirs = noted(raised(Mine().typo), 3), noted(raised(Mine().typo), 4)
    mine.merge(theirs.listed())
    (error,) = mine.listed()
    assert error.count == 7


@pytest.mark.parametrize(
    ("error", "nature"),
    [
        (TypeError(), ErrorNature.DEFECT),
        (KeyError(), ErrorNature.DEFECT),
        (AssertionError(), ErrorNature.DEFECT),
        (NotImplementedError(), ErrorNature.DEFECT),
        (NotApplied(), ErrorNature.UNAVAILABLE),
        (TimeoutError(), ErrorNature.UNAVAILABLE),
        (ConnectionResetError(), ErrorNature.UNAVAILABLE),
        (asyncio.IncompleteReadError(b"", 1), ErrorNature.UNAVAILABLE),
        (redis.exceptions.ConnectionError(), ErrorNature.UNAVAILABLE),
        (asyncpg.TooManyConnectionsError(), ErrorNature.UNAVAILABLE),
        (ConnectionLostError(), ErrorNature.UNAVAILABLE),
        (asyncpg.UndefinedColumnError(), ErrorNature.OTHER),
        (RuntimeError(), ErrorNature.OTHER),
    ],
)
def test_a_programming_error_is_told_from_a_server_that_is_away(error: Exception, nature: ErrorNature) -> None:
    assert nature_of(error) is nature


def test_programming_errors_come_first() -> None:
    errors = noted(ConnectionResetError(), 100)
    errors.note("mine", "append", raised(Mine().typo), NOW)
    assert [one.nature for one in errors.listed()] == [ErrorNature.DEFECT, ErrorNature.UNAVAILABLE]


@pytest.mark.parametrize(
    ("error", "count", "successes", "seconds", "expected"),
    [
        (TypeError(), 3, 0, BROKEN_SECONDS, True),
        (TypeError(), 2, 0, BROKEN_SECONDS, False),
        (TypeError(), 3, 1, BROKEN_SECONDS, False),
        (TypeError(), 3, 0, BROKEN_SECONDS / 2, False),
        (ConnectionRefusedError(), 9_000, 0, 3_600.0, False),
        (NotApplied(), 9_000, 0, 3_600.0, False),
        (RuntimeError(), 9_000, 0, 3_600.0, False),
    ],
)
def test_only_a_programming_error_each_time_makes_a_store_broken(
    error: Exception, count: int, successes: int, seconds: float, *, expected: bool
) -> None:
    (found,) = noted(error, count).listed()
    assert is_broken(found, successes, found.first_wall_seconds + seconds) is expected


def test_a_store_is_broken_only_by_what_it_cannot_do_without() -> None:
    def broken(tally: StoreTally, operation: str) -> bool:
        whole = Tally(stores={"mine": tally})
        for _ in range(store_errors.BROKEN_ERRORS_MIN):
            whole.store_errors.note("mine", operation, TypeError(), time.time() - 60)
        return bool(whole.broken_stores())

    assert broken(StoreTally(), "append")
    assert broken(StoreTally(), "history")
    assert not broken(StoreTally(), "search")
    assert not broken(StoreTally(), "forget")
    wrote, read = StoreTally(), StoreTally()
    wrote.attempts["ok"] = 1
    read.latency["sweep"].counts[0] = 1
    assert not broken(wrote, "append")
    assert broken(wrote, "history")
    assert not broken(read, "history")
