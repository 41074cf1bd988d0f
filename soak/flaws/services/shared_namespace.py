# /// script
# dependencies = []
#
# [tool.soak]
# library = "planted"
# title = "two tenants, one drawer"
# version = "1"
# processes = 1
# needs = ["redis"]
# ///
"""Keys are made of the conversation's number; every tenant counts from one."""

from __future__ import annotations

from soak_memories import RedisLists
from soak_subject import serve


class SharedNamespace(RedisLists):
    """Was written when there was one tenant, and drops who is asking."""

    def key(self, session: str) -> str:
        _tenant, _, number = session.partition("-")
        return super().key(number)


if __name__ == "__main__":
    serve(SharedNamespace, twin=RedisLists)
