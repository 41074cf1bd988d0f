"""What the violations of one finding have in common. A pattern names a number only if every one of them shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from soak.checker.facts.contents import is_power_of_two

SHOWN_BY_MIN = 3
"""So many cases make a pattern; fewer are a coincidence."""

ROUND_LENGTHS = frozenset({100, 250, 255, 500, 1_000, 2_000, 4_000, 5_000, 8_000, 10_000, 16_000, 32_000, 65_535})


class Traits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one violation is compared by; in the journal, so it is small."""

    items: int | None = None
    """How many elements the read that confirmed it returned."""
    is_first: bool = False
    """It is the first message of its writer."""
    is_last: bool = False
    """It was the last message that its writer had acknowledged."""
    repeats_text: bool = False
    """A message with the same role and content stands in the session."""
    cut_characters: int | None = None
    cut_bytes: int | None = None
    """The length at which its content is cut, if it is cut."""
    was_right: bool = False
    """An earlier read had returned it as it was written."""
    other_session: str = ""
    """The other session that it belongs to, or stands in."""


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """One violation of a finding, as far as patterns go by it."""

    kind: str
    session: str
    found_wall_seconds: float
    traits: Traits

    @property
    def read(self) -> tuple[str, float]:
        """What was found by one read is one case."""
        return self.session, self.found_wall_seconds


class Pattern(msgspec.Struct, frozen=True, kw_only=True, tag_field="pattern"):
    """Something that every violation of a finding shows."""

    def holds(self, signs: Sequence[Sign]) -> bool:
        """Whether they all show it, and are enough of them."""
        raise NotImplementedError

    def sentence(self) -> str:
        """Say it in one short sentence."""
        raise NotImplementedError


class ExactlyRemain(Pattern, frozen=True, kw_only=True, tag="exactly_remain"):
    """Whatever is gone, the same number remains."""

    count: int
    reads: int

    def holds(self, signs: Sequence[Sign]) -> bool:
        is_constant = {sign.traits.items for sign in signs} == {self.count}
        return is_constant and self.count > 0 and SHOWN_BY_MIN <= self.reads == _cases(signs)

    def sentence(self) -> str:
        return f"exactly {self.count:,} messages remain, in each of {self.reads:,} reads"


class CutAt(Pattern, frozen=True, kw_only=True, tag="cut_at"):
    """Every content is cut at one length."""

    length: int
    unit: Literal["characters", "bytes"]
    count: int

    def holds(self, signs: Sequence[Sign]) -> bool:
        lengths = {_cut(sign, self.unit) for sign in signs}
        if lengths != {self.length} or self.count != len(signs):
            return False
        return is_power_of_two(self.length) or self.length in ROUND_LENGTHS or self.count >= SHOWN_BY_MIN

    def sentence(self) -> str:
        power = ", a power of two" if is_power_of_two(self.length) else ""
        each = "it is" if self.count == 1 else f"each of {self.count:,} is"
        return f"{each} cut after {self.length:,} {self.unit}{power}"


class OnlyFirst(Pattern, frozen=True, kw_only=True, tag="only_first"):
    """Only the first message of a writer is hit."""

    count: int

    def holds(self, signs: Sequence[Sign]) -> bool:
        is_so = all(sign.traits.is_first for sign in signs)
        return is_so and self.count == len(signs) and len({sign.session for sign in signs}) >= SHOWN_BY_MIN

    def sentence(self) -> str:
        return f"each of the {self.count:,} is the first message of its writer"


class OnlyLast(Pattern, frozen=True, kw_only=True, tag="only_last"):
    """Only the last message of a writer is hit."""

    count: int

    def holds(self, signs: Sequence[Sign]) -> bool:
        is_so = all(sign.traits.is_last for sign in signs)
        return is_so and self.count == len(signs) and len({sign.session for sign in signs}) >= SHOWN_BY_MIN

    def sentence(self) -> str:
        return f"each of the {self.count:,} was the last that its writer had had acknowledged"


class AllChangedInPlace(Pattern, frozen=True, kw_only=True, tag="all_changed_in_place"):
    """Every message had been right, and was changed later."""

    count: int

    def holds(self, signs: Sequence[Sign]) -> bool:
        return all(sign.traits.was_right for sign in signs) and SHOWN_BY_MIN <= self.count == len(signs)

    def sentence(self) -> str:
        return f"each of the {self.count:,} had been read as it was written, and was changed in place later"


class AllRepeatText(Pattern, frozen=True, kw_only=True, tag="all_repeat_text"):
    """Every message says what another one says."""

    count: int

    def holds(self, signs: Sequence[Sign]) -> bool:
        return all(sign.traits.repeats_text for sign in signs) and SHOWN_BY_MIN <= self.count == len(signs)

    def sentence(self) -> str:
        return f"each of the {self.count:,} says the same as another message of its session"


class DifferInCase(Pattern, frozen=True, kw_only=True, tag="differ_in_case"):
    """Sessions are mixed up whose ids differ only in case."""

    count: int
    one: str
    other: str

    def holds(self, signs: Sequence[Sign]) -> bool:
        pairs = [(sign.session, sign.traits.other_session) for sign in signs]
        is_so = all(one != other and one.casefold() == other.casefold() for one, other in pairs)
        return is_so and self.count == len(signs) > 0 and (self.one, self.other) in pairs

    def sentence(self) -> str:
        return f"each time the two session ids differ only in case: {self.one} and {self.other}"


_ABSENT = frozenset({"lost", "rolled_back"})


def patterns(signs: Sequence[Sign]) -> list[Pattern]:
    """Return what all violations of a finding have in common: of one store, kind and cause."""
    if not signs:
        return []
    count, first = len(signs), signs[0]
    possible: list[Pattern] = [
        AllChangedInPlace(count=count),
        DifferInCase(count=count, one=first.session, other=first.traits.other_session),
        *(
            CutAt(length=length, unit=unit, count=count)
            for unit in ("characters", "bytes")
            if (length := _cut(first, unit)) is not None
        ),
    ]
    if first.kind in _ABSENT:
        possible += [OnlyFirst(count=count), OnlyLast(count=count), AllRepeatText(count=count)]
    if first.kind in {*_ABSENT, "window"} and first.traits.items is not None:
        possible.append(ExactlyRemain(count=first.traits.items, reads=_cases(signs)))
    return [pattern for pattern in possible if pattern.holds(signs)]


def _cases(signs: Sequence[Sign]) -> int:
    return len({sign.read for sign in signs})


def _cut(sign: Sign, unit: Literal["characters", "bytes"]) -> int | None:
    return sign.traits.cut_characters if unit == "characters" else sign.traits.cut_bytes
