"""Keeping passwords out of everything that is shown: the host stays, the password becomes three stars.

Every line that is logged goes through it, also one that quotes what a stranger has sent. So its time must be in
proportion to the text: a pattern that looks for the end of an address from each letter again would take seconds for a
long word, and all that time nobody else is answered.
"""

from __future__ import annotations

import re

_TOKEN_WITH_ADDRESS = re.compile(r"\S+")
_USER_IN_URL = re.compile(r"[a-z][a-z0-9+.-]{0,31}://[^\s/:@]*(?=:)", re.IGNORECASE)
_PASSWORD_IN_PAIR = re.compile(r"(?P<before>(?:\b|_)(?:password|passwd|auth|token)=['\"]?)[^&\s'\"]+", re.IGNORECASE)
"""In the query of an address, or between the words of a libpq connection string."""


def mask(text: str) -> str:
    """Replace the password of every address in a text."""
    if "://" in text and "@" in text:
        text = _TOKEN_WITH_ADDRESS.sub(_without_password, text)
    return _PASSWORD_IN_PAIR.sub(r"\g<before>***", text)


def _without_password(token: re.Match[str]) -> str:
    """Replace all between the user of the first address in a word and the last @ in it."""
    word = token[0]
    host = word.rfind("@")
    if host < 0 or "://" not in word:
        return word
    user = _USER_IN_URL.search(word, 0, host)
    return word if user is None else f"{word[: user.end()]}:***{word[host:]}"
