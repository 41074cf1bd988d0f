"""The ledger needs a server of its own: on the one under test it would be lost together with what it records."""

from __future__ import annotations

from collections.abc import Mapping

from redis.exceptions import RedisError

from soak.errors import UsageError
from soak.ledger.connection import reaching

REDIS_SCHEMES = ("redis://", "rediss://", "unix://")


async def check_ledger_is_apart(ledger_url: str, servers: Mapping[str, str]) -> None:
    """Refuse a ledger on a server under test, by whatever address, database or proxy it is reached."""
    ledger = await _identity(ledger_url)
    for kind, url in servers.items():
        if ledger and url.startswith(REDIS_SCHEMES) and await _identity(url) == ledger:
            raise UsageError(
                f"the ledger is on the server under test ({kind}): both addresses lead to the same process "
                f"(run_id {ledger[:8]}…); give the ledger a server of its own with --ledger, or leave it out to have "
                "one started"
            )


async def _identity(url: str) -> str:
    """Return what a server calls this life of its process; empty if it does not tell."""
    async with reaching(url) as redis:
        try:
            told = await redis.info("server")
        except (RedisError, AttributeError, TypeError, ValueError, LookupError):
            return ""  # managed services may refuse to tell
    return str(told.get("run_id", "")) if isinstance(told, dict) else ""
