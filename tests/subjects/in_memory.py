# /// script
# dependencies = []
#
# [tool.soak]
# library = "dict"
# title = "a dict"
# processes = 1
# ///
"""A correct memory that lives as long as its one process."""

from __future__ import annotations

from collections import defaultdict

from soak_subject import ChatTurn, Surroundings, serve


class Dict:
    """Lists in a dict."""

    def __init__(self, _surroundings: Surroundings) -> None:
        self._said: dict[str, list[ChatTurn]] = defaultdict(list)

    def append(self, session: str, message: ChatTurn) -> None:
        self._said[session].append(message)

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        said = list(self._said.get(session, ()))
        return said if last is None else said[-last:]

    def search(self, session: str, text: str, limit: int) -> list[ChatTurn]:
        words = set(text.split())
        nearest = sorted(self._said.get(session, ()), key=lambda one: -len(words & set(one.content.split())))
        return nearest[:limit]

    def forget(self, session: str) -> None:
        self._said.pop(session, None)


if __name__ == "__main__":
    serve(Dict)
