"""Texts that stores are known to spoil, by what is special about them."""
# ruff: noqa: E501, RUF001  texts that are easily confused are the point of it

from __future__ import annotations

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
