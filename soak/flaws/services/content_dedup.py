# /// script
# dependencies = []
#
# [tool.soak]
# library = "planted"
# title = "the same words are not stored twice"
# version = "1"
# processes = 1
# needs = ["redis"]
# ///
"""Drops a message that is there already, against double sends."""

from __future__ import annotations

import hashlib

from soak_memories import RedisLists
from soak_subject import ChatTurn, serve


class ContentDedup(RedisLists):
    """Knows by the hash of role and content what was said before."""

    def append(self, session: str, message: ChatTurn) -> None:
        digest = hashlib.sha256(f"{message.role}:{message.content}".encode()).hexdigest()
        if self.redis.sadd(self.key(session) + ":seen", digest):
            super().append(session, message)


if __name__ == "__main__":
    serve(ContentDedup, twin=RedisLists)
