"""Keeping passwords out of everything that is shown: the host stays, the password becomes three stars."""

from __future__ import annotations

import re

_PASSWORD_IN_URL = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^\s/:@]*):\S*@", re.IGNORECASE)
_PASSWORD_IN_QUERY = re.compile(r"(?P<before>[?&](?:password|passwd|auth|token)=)[^&\s'\"]+", re.IGNORECASE)


def mask(text: str) -> str:
    """Replace the password of every address in a text."""
    return _PASSWORD_IN_QUERY.sub(r"\g<before>***", _PASSWORD_IN_URL.sub(r"\g<before>:***@", text))
