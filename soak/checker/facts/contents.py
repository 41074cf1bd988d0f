"""Facts about what stands in the place of a message."""

from __future__ import annotations

import unicodedata
from typing import Literal

from soak.checker.clues import Clues
from soak.checker.facts.fact import Fact, When
from soak.checker.kinds import Kind

DIFFERENCE_CHARACTERS_MAX = 4


class ChangedInPlace(Fact, frozen=True, kw_only=True):
    """A read returned it as it was written, a later answer otherwise."""

    right_until: int
    wrong_since: int

    def holds(self, clues: Clues) -> bool:
        is_same = (self.right_until, self.wrong_since) == (clues.last_seen, clues.read_invoked)
        return is_same and 0 < self.right_until < self.wrong_since and clues.kind is Kind.CORRUPTED

    def sentence(self, when: When) -> str:
        right, wrong = when(self.right_until), when(self.wrong_since)
        return f"it was right until {right}, then changed in place: the answer at {wrong} has it otherwise"


class RightBefore(Fact, frozen=True, kw_only=True):
    """It had been read as it was written; when is not known."""

    wrong_since: int

    def holds(self, clues: Clues) -> bool:
        return clues.was_seen and clues.kind is Kind.CORRUPTED and self.wrong_since == clues.read_invoked

    def sentence(self, when: When) -> str:
        return f"an earlier read had returned it as it was written; the answer at {when(self.wrong_since)} did not"


class NeverRight(Fact, frozen=True, kw_only=True):
    """No read had returned it as it was written."""

    def holds(self, clues: Clues) -> bool:
        is_wrong = clues.kind is Kind.CORRUPTED and clues.place is not None
        return is_wrong and not clues.was_seen and not clues.last_seen and not clues.history_unknown

    def sentence(self, when: When) -> str:
        return "no earlier read of the verifier had returned it as it was written"


class NotAMessage(Fact, frozen=True, kw_only=True):
    """Something stands in the session that is no message."""

    def holds(self, clues: Clues) -> bool:
        return clues.kind is Kind.UNDECODABLE

    def sentence(self, when: When) -> str:
        return "what was read is no message that soak wrote"


class ReplacedInPlace(Fact, frozen=True, kw_only=True):
    """Something that is no message is read where an earlier read had shown a message."""

    writer: int
    seq: int

    def holds(self, clues: Clues) -> bool:
        place = (self.writer, self.seq)
        return clues.kind is Kind.UNDECODABLE and place in clues.replaced and not clues.is_present(place)

    def sentence(self, when: When) -> str:
        return f"{self.writer}/{self.seq}, which an earlier read had shown, is not in this one"


class RoleDiffers(Fact, frozen=True, kw_only=True):
    """The role is another one."""

    expected: str
    got: str

    def holds(self, clues: Clues) -> bool:
        return (self.expected, self.got) == (clues.expected_role, clues.got_role) and self.expected != self.got

    def sentence(self, when: When) -> str:
        return f"its role is {self.got!a}, not {self.expected!a}"


class TextDiffers(Fact, frozen=True, kw_only=True):
    """The content is another one from some character on."""

    at: int
    expected: str
    got: str

    def holds(self, clues: Clues) -> bool:
        return clues.expected is not None and clues.got is not None and self == text_difference(clues)

    def sentence(self, when: When) -> str:
        is_plain = (self.got + self.expected).isascii() and (self.got + self.expected).isprintable()
        got, expected = (repr(text) if is_plain else written_out(text) for text in (self.got, self.expected))
        if not self.expected:
            return f"it goes on after its end, at character {self.at}: {got}"
        return f"from character {self.at} on it says {got} in place of {expected}"


class TextCut(Fact, frozen=True, kw_only=True):
    """The content ends early."""

    characters: int
    bytes: int
    of_characters: int

    def holds(self, clues: Clues) -> bool:
        want, have = clues.expected, clues.got
        if want is None or have is None or len(have) >= len(want) or not want.startswith(have):
            return False
        return (len(have), len(encoded(have)), len(want)) == (self.characters, self.bytes, self.of_characters)

    def sentence(self, when: When) -> str:
        size = f"{self.characters:,} of {self.of_characters:,} characters ({self.bytes:,} bytes of UTF-8)"
        lengths = {"characters": self.characters, "bytes": self.bytes}
        powers = [f"{length:,} {unit}" for unit, length in lengths.items() if is_power_of_two(length)]
        return f"it is cut after {size}" + (f"; {powers[0]} is a power of two" if powers else "")


class SameInNormalForm(Fact, frozen=True, kw_only=True):
    """The two texts differ only in how their characters are composed."""

    form: Literal["NFC", "NFKC"]

    def holds(self, clues: Clues) -> bool:
        want, have = clues.expected, clues.got
        if want is None or have is None or want == have:
            return False
        return unicodedata.normalize(self.form, want) == unicodedata.normalize(self.form, have)

    def sentence(self, when: When) -> str:
        return f"both texts have the same Unicode normal form {self.form}"


def text_difference(clues: Clues) -> TextDiffers | None:
    """Return where the content that was read parts from the one that was written."""
    want, have = clues.expected, clues.got
    if want is None or have is None or want == have:
        return None
    at = next((i for i, (a, b) in enumerate(zip(want, have, strict=False)) if a != b), min(len(want), len(have)))
    end = at + DIFFERENCE_CHARACTERS_MAX
    return TextDiffers(at=at, expected=_writable(want[at:end]), got=_writable(have[at:end]))


def written_out(text: str) -> str:
    """Write a short text so that every difference can be seen: escaped where it is not ASCII, with its code points."""
    points = " ".join(f"U+{ord(character):04X}" for character in text)
    return f"{text!a} ({points})"


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def is_power_of_two(number: int) -> bool:
    return number >= 16 and number & (number - 1) == 0


def _writable(text: str) -> str:
    """Return a text that can be written into a file: half a character is escaped."""
    return text.encode("utf-8", "backslashreplace").decode()
