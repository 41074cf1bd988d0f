"""Messages for trying out a memory, in sessions that nobody else uses."""

from __future__ import annotations

import secrets

from soak.checker.message import Message, checksum

ROLES = ("user", "assistant")


class Speaker:
    """Names sessions and messages. Should a store mix them up, they are not mistaken for those of another trial."""

    def __init__(self, run: str) -> None:
        self._run = run
        self.token = secrets.token_hex(3)

    def session(self, name: str) -> str:
        return f"{name}-{self.token}"

    def message(self, session: str, seq: int, content: str, *, writer: int = 0, role: str | None = None) -> Message:
        """Return something to say: the seq-th message of this writer."""
        bare = Message(self._run, session, writer, seq, role or ROLES[(seq + 1) % 2], content, 0)
        return Message(self._run, session, writer, seq, bare.role, content, checksum(bare))

    def turns(self, session: str, count: int, *, writer: int = 0, first: int = 1) -> list[Message]:
        """Return several things to say, all different."""
        return [
            self.message(session, seq, f"remember the number {seq} of writer {writer}", writer=writer)
            for seq in range(first, first + count)
        ]
