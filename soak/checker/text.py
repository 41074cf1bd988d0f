"""What people and assistants say, derived from a message's name and the run's seed.

Nothing is stored: whoever knows the seed can write any message again and compare it byte for byte. Writing
one costs about a microsecond, because almost all of the text is picked out of tables made once.

The texts are hard on purpose: scripts of several planes, combining marks, right-to-left, JSON and code,
quotes, newlines, trailing blanks, identical short turns ("continue"), and now and then 32 KiB.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TypeGuard
from zlib import crc32

from xxhash import xxh3_64_intdigest

from soak.checker.message import Message, Stored, checksum_root

MIXES = ("chat", "short", "long", "hard")
"""What a session talks about. The name of the mix ends the session's name, blanks aside, so the text follows from the name."""

DEFAULT_MIX = "chat"
LONG_CHARACTERS = 32 * 1024
ROLES = ("user", "assistant")

_TABLE_BITS = 10
_TABLE_SIZE = 1 << _TABLE_BITS
_TABLE_MASK = _TABLE_SIZE - 1

_OPENINGS = (
    "My name is", "Please remember that I live in", "Could you look up", "As I said before,", "Actually,",
    "Sure! Here is what I know about", "Let me think about", "I moved to", "Don't forget:", "Tell me more about",
    "In short,", "You asked about", "The meeting is in", "We talked yesterday about", "I prefer", "My sister likes",
)  # fmt: skip
_TOPICS = (
    "Ada", "Zürich", "the invoice of March", "jazz from the fifties", "a vegan lasagne", "São Paulo", "the Q3 plan",
    "Łódź", "my flight to Tōkyō", "the red bicycle", "a cat named Ωmega", "naïve Bayes", "the garden", "Straße 7",
    "the blue folder", "chess", "a peanut allergy", "seat 14C", "the dentist", "an old Volvo", "北京", "मुंबई",
    "İstanbul", "Ålesund",
)  # fmt: skip
_CLOSINGS = (
    ".", "!", "?", " and that matters to me.", ", as far as I remember.", " - is that right?", " (since 2019).",
    "; please keep it in mind.", " …", ", or so they say.", " 🙂", " 👍🏽", "\n\nThanks!", " — noted.", " ok?", "  ",
)  # fmt: skip
_TURNS = ("continue", "yes", "no", "ok", "go on", "thanks", "continue", "?", "👍", "stop", "again", "continue")
_HARD = (
    "你好，请记住我的名字是小明。", "ありがとう。昨日の話の続きをお願いします。", "안녕하세요, 제 이름은 민수예요.",
    "مرحبا، اسمي ليلى وأسكن في القاهرة", "שלום, קוראים לי נועה", "สวัสดี ฉันชื่อมะลิ", "नमस्ते, मेरा नाम आशा है",
    "e\u0301 is not é, and ﬁ is not fi; Å ≠ Å ≠ A\u030a", "👩‍👩‍👧‍👦 🏳️‍🌈 🇨🇭 👍🏿 are one each", "Z\u0335\u0321a\u0336l\u0337g\u0338o\u0334",
    "zero\u200bwidth \u200djoiner \ufeffbom \u2028line\u2029paragraph", "tab\tcr\rlf\ncrlf\r\nend", "\u202eright to left\u202c",
    '{"role": "user", "content": "not a message, \\"just\\" text", "n": [1, 2.5e-3, null, true]}',
    "```python\ndef f(x: str = '\\'') -> None:\n\tprint(f\"{x!r}\")  # 'quotes'\n```", "<b>bold</b> & <script>alert('x')</script>",
    "'; DROP TABLE messages; --", "%s %d {0} {name} $1 :name ? \\ \\\\ \\n", "| a | b |\n|---|---|\n| 1 | 2 |", " leading and trailing ",
    "\x01\x02\x7f control", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 plane one", "NULL", "null", "", "0", "None", "nan", "\\u0041", "&amp;", "\U0010fffd last plane",
)  # fmt: skip


def _encoded(texts: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(text.encode() for text in texts)


# Texts are kept as UTF-8: a checksum is made of bytes, and a piece of a long text is cut out of bytes much faster.
_TALK_TEXTS = _encoded(
    [f"{opening} {topic}{closing}" for opening in _OPENINGS for topic in _TOPICS for closing in _CLOSINGS]
)
_FACT_TEXTS = _encoded(
    [
        f"{opening} {topic} and {other}{_CLOSINGS[(i + j + k) % len(_CLOSINGS)]}"
        for i, opening in enumerate(_OPENINGS)
        for j, topic in enumerate(_TOPICS)
        for k, other in enumerate(_TOPICS)
    ]
)
_TURN_TEXTS = _encoded(_TURNS)
_HARD_TEXTS = _encoded(_HARD)
_TALK_COUNT, _FACT_COUNT, _TURN_COUNT, _HARD_COUNT = map(len, (_TALK_TEXTS, _FACT_TEXTS, _TURN_TEXTS, _HARD_TEXTS))


def _talk(bits: int) -> bytes:
    return _TALK_TEXTS[bits % _TALK_COUNT]


def _fact(bits: int) -> bytes:
    return b"%b [%08x]" % (_FACT_TEXTS[bits % _FACT_COUNT], bits & 0xFFFFFFFF)


def _turn(bits: int) -> bytes:
    return _TURN_TEXTS[bits % _TURN_COUNT]


def _hard(bits: int) -> bytes:
    return _HARD_TEXTS[bits % _HARD_COUNT]


def _paragraphs(bits: int) -> bytes:
    return b"%b [%08x]" % (_long_text(bits & 0xFF, 400 + (bits >> 8 & 0x7FF)), bits & 0xFFFFFFFF)


def _huge(bits: int) -> bytes:
    return b"[%08x] %b" % (bits & 0xFFFFFFFF, _long_text(bits & 0x3FFF, LONG_CHARACTERS))


def _long_text(start: int, characters: int) -> bytes:
    return _LONG_TEXT[_LONG_BYTES_BEFORE[start] : _LONG_BYTES_BEFORE[start + characters]]


def _make_long_text() -> str:
    source = random.Random(20_000)
    parts: list[str] = []
    size = 0
    while size < LONG_CHARACTERS + 0x4000:
        sentence = _fact(source.getrandbits(40)).decode() if source.random() < 0.9 else source.choice(_HARD)
        parts.append(sentence)
        size += len(sentence) + 1
    return "\n".join(parts)


def _bytes_before(text: str) -> array[int]:
    """Return how many bytes stand before each character, and before the end."""
    return array("I", accumulate((len(character.encode()) for character in text), initial=0))


_LONG_TEXT_CHARACTERS = _make_long_text()
_LONG_TEXT = _LONG_TEXT_CHARACTERS.encode()
_LONG_BYTES_BEFORE = _bytes_before(_LONG_TEXT_CHARACTERS)

_Writer = Callable[[int], bytes]


def _table(shares: dict[_Writer, int]) -> tuple[_Writer, ...]:
    """Spread each kind of text over its share of the table's slots."""
    slots = [writer for writer, share in shares.items() for _ in range(share)]
    if len(slots) != _TABLE_SIZE:
        raise ValueError(f"shares add up to {len(slots)}, not {_TABLE_SIZE}")
    return tuple(slots)


_TABLES: dict[str, tuple[_Writer, ...]] = {
    "chat": _table({_talk: 300, _fact: 420, _turn: 120, _hard: 130, _paragraphs: 53, _huge: 1}),
    "short": _table({_talk: 600, _turn: 300, _hard: 124}),
    "long": _table({_fact: 300, _paragraphs: 700, _huge: 24}),
    "hard": _table({_hard: 1000, _huge: 24}),
}


class MessageGenerator:
    """Writes any message of one run, the same one every time it is asked."""

    __slots__ = ("_roots", "_seed", "run")

    def __init__(self, run: str, seed: int) -> None:
        self.run = run
        self._seed = seed & 0xFFFF_FFFF_FFFF_FFFF
        self._roots = tuple(checksum_root(run, role) for role in ROLES)

    def write(self, session: str, writer: int, seq: int) -> Message:
        key = f"{session}/{writer}/{seq}".encode("utf-8", "surrogatepass")
        bits = xxh3_64_intdigest(key, self._seed)
        content = _table_of(session)[bits & _TABLE_MASK](bits >> _TABLE_BITS)
        turn = (seq + 1) & 1
        checksum = crc32(content, crc32(key, self._roots[turn]))
        return Message(self.run, session, writer, seq, ROLES[turn], content.decode(), checksum)

    def is_mine(self, message: Message) -> bool:
        """Whether this is, to the last byte, the message that was written under its name."""
        # The same as comparing with `write`, without making a message only to throw it away.
        key = f"{message.session}/{message.writer}/{message.seq}".encode("utf-8", "surrogatepass")
        bits = xxh3_64_intdigest(key, self._seed)
        content = _table_of(message.session)[bits & _TABLE_MASK](bits >> _TABLE_BITS)
        turn = (message.seq + 1) & 1
        return (
            content.decode() == message.content
            and message.role == ROLES[turn]
            and message.checksum == crc32(content, crc32(key, self._roots[turn]))
            and message.run == self.run
        )

    def matches(self, items: Sequence[Stored], session: str) -> TypeGuard[Sequence[Message]]:
        """Whether each of these is, to the last byte, a message that was written to this session.

        The same as `is_mine` for each, with what a session's messages share worked out once: most of what a verifier
        does is this.
        """
        run, seed, roots, table = self.run, self._seed, self._roots, _table_of(session)
        encoded = str.encode
        prefixes: dict[int, bytes] = {}
        try:
            for item in items:
                if type(item) is not Message or item.session != session or item.run != run:
                    return False
                writer, seq = item.writer, item.seq
                if type(writer) is not int:
                    return False
                prefix = prefixes.get(writer)
                if prefix is None:
                    prefix = f"{session}/{writer}/".encode("utf-8", "surrogatepass")
                    prefixes[writer] = prefix
                key = prefix + str(seq).encode()
                bits = xxh3_64_intdigest(key, seed)
                content = table[bits & _TABLE_MASK](bits >> _TABLE_BITS)
                turn = (seq + 1) & 1
                if (
                    # Bytes are compared: cutting a long text out of characters would take most of the time.
                    content != encoded(item.content)
                    or item.checksum != crc32(content, crc32(key, roots[turn]))
                    or item.role != ROLES[turn]
                ):
                    return False
        except UnicodeEncodeError:
            return False  # half a character: nobody writes that
        return True


def _table_of(session: str) -> tuple[_Writer, ...]:
    return _TABLES.get(session.rpartition("-")[2].rstrip()) or _TABLES[DEFAULT_MIX]


LONG_CHARACTERS = 32 * 1024

HARD_TEXTS: dict[str, tuple[str, ...]] = {
    "cjk": ("你好，请记住我的名字是小明。", "ありがとう。昨日の話の続きをお願いします。", "안녕하세요, 제 이름은 민수예요."),
    "emoji": ("👩‍👩‍👧‍👦 🏳️‍🌈 🇨🇭 👍🏿", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈", "\U0010fffd"),
    "combining marks": ("e\u0301 is not \u00e9", "\u212b \u00c5 A\u030a", "\ufb01 is not fi", "Z\u0335\u0321a\u0336l\u0337g\u0338o"),
    "right to left": ("مرحبا، اسمي ليلى وأسكن في القاهرة", "שלום, קוראים לי נועה", "\u202eoverride\u202c"),
    "invisible": ("zero\u200bwidth", "\ufeffbom", "line\u2028paragraph\u2029", "\u00a0nbsp", "\u00ad"),
    "nul bytes": ("\x00", "before\x00after", "ends with\x00"),
    "control characters": ("\x01\x02\x1b[31m\x7f", "\x85\x9f"),
    "line ends": ("one\ntwo", "one\r\ntwo", "one\rtwo", "\n", "\t tab"),
    "blanks": (" leading", "trailing ", "  ", "two  between"),
    "empty": ("",),
    "quotes": ("'; DROP TABLE messages; --", 'say "hi"', "back\\slash \\n \\\\", "`tick`", "%s {0} {name} $1 :name ?"),
    "json": ('{"role": "user", "content": "not a message, \\"just\\" text", "n": [1, 2.5e-3, null, true]}', "[]", "null", '"'),
    "markup": ("<b>bold</b> & <script>alert('x')</script>", "&amp; &lt;", "```python\nprint('x')\n```"),
    "words that look like values": ("NULL", "None", "nan", "0", "1e5", "true", "-1", "0x1F", "2024-01-01"),
    "32 KiB": ("x" * LONG_CHARACTERS, "記" * LONG_CHARACTERS, "long " * (LONG_CHARACTERS // 5) + "end"),
}  # fmt: skip

LONE_SURROGATES = ("\ud800", "half an emoji \udc4d here")
"""No text at all by the rules of Unicode, and still what a broken client may send: to be kept or refused, not changed."""

LOOKALIKES: dict[str, tuple[str, ...]] = {
    "case": ("Ada", "ada", "ADA", "aDa"),
    "comma": ("ada,1", "ada1", "ada, 1", "ada"),
    "slash": ("ada/1", "ada\\1", "ada_1", "ada//1"),
    "colon": ("ada:1", "ada::1", "ada;1", "ada.1", "ada-1"),
    "normal form": ("caf\u00e9", "cafe\u0301", "cafe"),
    "blank": ("ada", "ada ", " ada", "a da", "ada\n", "ada\t"),
    "pattern": ("a*", "a?", "[a]", "a%", "a_", "{a}", "a"),
    "length": ("a" * 300, "a" * 299, "a" * 299 + "b", "a" * 64, "a" * 63),
    "tenant": ("ada-1", "bob-1", "ada:1", "bob:1", "ada/1", "bob/1"),
    "script": ("小明", "小名", "👍", "👎", "ß", "ss"),
}
"""Names of sessions that differ in one way only; each begins with the token of its test."""

RECORDED_TEXTS = (
    "My name is Ada and I live in Zürich.", "continue", "continue", "你好，请记住我的名字是小明。", "👩‍👩‍👧‍👦 👍🏿",
    "e\u0301 is not \u00e9", "", " two blanks ", "one\ntwo\r\nthree", '{"role": "user", "content": "x"}', "'; DROP TABLE x; --",
    "long " * 400,
)  # fmt: skip
"""What is said for a recording: a little of everything, and not much, for it is kept for ever."""
