# /// script
# dependencies = []
#
# [tool.soak]
# library = "planted"
# title = "a page of 1,000 is taken for the whole"
# version = "1"
# processes = 1
# needs = ["redis"]
# ///
"""Reads the first page and takes it for the whole; what is beyond it is stored, and hidden."""

from __future__ import annotations

from soak_memories import RedisLists, unpacked
from soak_subject import ChatTurn, serve

READ_MAX = 1_000


class ReadCap(RedisLists):
    """Has a page size that nobody knew of."""

    def history(self, session: str, last: int | None) -> list[ChatTurn]:
        page = unpacked(self.redis.lrange(self.key(session), 0, READ_MAX - 1))
        return page if last is None else page[-last:]


if __name__ == "__main__":
    serve(ReadCap, twin=RedisLists)
