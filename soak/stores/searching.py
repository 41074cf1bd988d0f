"""Whether a memory can be searched, and how: by a method that is optional, and may be off where it is there."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence

from soak.checker.message import Stored

Search = Callable[[str, str, int], Awaitable[Sequence[Stored]]]
"""Of a session's messages at most so many, those nearest to a text first."""


def search_of(store: object) -> Search | None:
    """Return the search of a store; None if it has none, or one that is of another kind, or says that it cannot."""
    search = getattr(store, "search", None)
    if search is None or not getattr(store, "can_search", True):
        return None
    # A class of the user's may have a method of this name that was never meant for us.
    if not inspect.iscoroutinefunction(inspect.unwrap(search)):
        return None
    try:
        inspect.signature(search).bind("session", "text", 1)
    except (TypeError, ValueError):
        return None
    found: Search = search
    return found
