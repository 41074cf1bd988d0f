"""Memories that cannot work at all: a typo in the method that is called first."""

from __future__ import annotations

from collections.abc import Sequence

from soak.checker.message import Message, Stored


class TypoInAppend:
    """Keeps messages in a dictionary, by a name that it does not have."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Message]] = {}

    async def append(self, session: str, message: Message) -> None:
        self._row.setdefault(session, []).append(message)  # type: ignore[attr-defined]

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        rows = self._rows.get(session, [])
        return rows if last is None else rows[-last:]

    async def forget(self, session: str) -> None:
        self._rows.pop(session, None)

    async def close(self) -> None:
        """Hold nothing that needs closing."""


class TypoInHistory(TypoInAppend):
    """Takes everything, and can give nothing back."""

    async def append(self, session: str, message: Message) -> None:
        self._rows.setdefault(session, []).append(message)

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        del session, last
        return self._rows.get(sesion, [])  # type: ignore[name-defined]  # noqa: F821  the typo
