"""Settings of a server that a caller wants other than ours; checked before anything is started."""

from __future__ import annotations

import re
from collections.abc import Mapping

from soak.errors import UsageError

_NAME = re.compile(r"[a-z][a-z0-9_.-]*")
_SAVE_POINTS = re.compile(r"\s*(\d+\s+\d+\s*)*")


def checked(server: str, options: Mapping[str, str], ours: frozenset[str]) -> dict[str, str]:
    """Return the options if each can stand in a configuration file and none is about where the server lives."""
    for name, value in options.items():
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"{name!r} is no name of a {server} setting; write it as the server's manual does")
        if name in ours:
            raise UsageError(f"the {server} setting {name} is chosen by the testbed; leave it out of the options")
        if "\n" in value or "\r" in value or "\0" in value:
            raise UsageError(f"the value of the {server} setting {name} holds a line break; write it in one line")
        if name == "save" and _SAVE_POINTS.fullmatch(value) is None:
            raise UsageError(
                f"{value!r} is no list of save points; write pairs of seconds and changes, such as '900 1'"
            )
    return dict(options)
