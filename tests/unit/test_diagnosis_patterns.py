"""What the violations of one finding have in common is pointed at, and only if all of them show it."""

from __future__ import annotations

from typing import Any

import pytest

from soak.checker.patterns import (
    AllChangedInPlace,
    AllRepeatText,
    CutAt,
    DifferInCase,
    ExactlyRemain,
    OnlyFirst,
    OnlyLast,
    Pattern,
    Sign,
    Traits,
    patterns,
)


def sign(kind: str, session: str = "a-chat", found: float = 0.0, **traits: Any) -> Sign:
    return Sign(kind=kind, session=session, found_wall_seconds=found, traits=Traits(**traits))


def signs(kind: str, count: int = 3, **traits: Any) -> list[Sign]:
    return [sign(kind, f"s{number}-chat", float(number), **traits) for number in range(count)]


@pytest.mark.parametrize(
    ("kind", "traits", "pattern", "otherwise"),
    [
        ("lost", {"items": 100}, ExactlyRemain(count=100, reads=3), {"items": 99}),
        ("lost", {"is_first": True}, OnlyFirst(count=3), {}),
        ("rolled_back", {"is_last": True}, OnlyLast(count=3), {}),
        ("lost", {"repeats_text": True}, AllRepeatText(count=3), {}),
        ("corrupted", {"was_right": True}, AllChangedInPlace(count=3), {}),
        ("corrupted", {"cut_bytes": 4096}, CutAt(length=4096, unit="bytes", count=3), {"cut_bytes": 4095}),
        ("corrupted", {"cut_characters": 777}, CutAt(length=777, unit="characters", count=3), {}),
    ],
)
def test_a_pattern_is_pointed_at_if_all_show_it_and_not_if_one_does_not(
    kind: str, traits: dict[str, Any], pattern: Pattern, otherwise: dict[str, Any]
) -> None:
    alike = signs(kind, **traits)
    assert pattern in patterns(alike)
    assert pattern.sentence()
    odd = [*alike[:2], sign(kind, "odd-chat", 9.0, **otherwise)]
    assert not any(type(one) is type(pattern) for one in patterns(odd))


def test_what_one_read_shows_is_one_case() -> None:
    """All losses that one read confirms have the same number of messages beside them."""
    assert patterns([sign("lost", items=100) for _ in range(5)]) == []


def test_too_few_are_a_coincidence() -> None:
    assert patterns(signs("lost", 2, items=100, is_first=True, repeats_text=True)) == []
    assert patterns([]) == []


@pytest.mark.parametrize(("length", "is_told"), [(4096, True), (1000, True), (1234, False)])
def test_one_cut_is_told_only_at_a_length_that_people_choose(length: int, is_told: bool) -> None:
    found = patterns([sign("corrupted", cut_characters=length)])
    assert bool(found) == is_told


def test_sessions_that_are_mixed_up_and_differ_only_in_case_are_named() -> None:
    found = patterns([sign("leaked", "Ann-chat", other_session="ann-chat")])
    assert found == [DifferInCase(count=1, one="Ann-chat", other="ann-chat")]
    assert "Ann-chat and ann-chat" in found[0].sentence()
    assert patterns([sign("leaked", "Ann-chat", other_session="Bob-chat")]) == []
    assert patterns([sign("leaked", "Ann-chat", other_session="Ann-chat")]) == []
