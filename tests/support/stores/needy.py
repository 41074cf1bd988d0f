"""A store that needs a server that does not exist."""

from __future__ import annotations

from soak.stores import Message


class Needy:
    """Names its server wrong."""

    needs = ("rediss",)

    async def append(self, session: str, message: Message) -> None: ...

    async def history(self, session: str, last: int | None = None) -> list[Message]: ...  # type: ignore[empty-body]

    async def forget(self, session: str) -> None: ...

    async def close(self) -> None: ...
