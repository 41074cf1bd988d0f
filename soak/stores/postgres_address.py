"""How a PostgreSQL server is called in messages: never with its password."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import asyncpg

from soak.errors import ServerUnreachableError, SoakError, UsageError
from soak.servers.kinds import KINDS, POSTGRES
from soak.stores.protocol import StoreContext

_LOGIN_ERRORS = (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError)


def address_of(context: StoreContext, kind: str) -> tuple[str, str]:
    """Return the URL of a configured server, and the form of it that may be shown."""
    url = context.servers.get(kind)
    if url is None:
        raise UsageError(f"no {kind} server is configured; give its address in {KINDS[kind].setting}")
    try:
        parts = urlsplit(url)
        port = parts.port or POSTGRES.port
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme not in POSTGRES.schemes:
        raise UsageError(
            f"the address of the {kind} server is not understood; write one like postgresql://user:password@127.0.0.1:5432/database"
        )
    host = parts.hostname or parse_qs(parts.query).get("host", ["localhost"])[0]
    return url, f"{host}:{port}{parts.path}"


def unreachable(address: str, error: BaseException) -> SoakError:
    """Say why the server cannot be used, and what to do."""
    cause = error.__cause__ or error
    if isinstance(cause, _LOGIN_ERRORS):
        return ServerUnreachableError(
            f"the PostgreSQL server at {address} refuses the login ({cause}); check user and password in its address"
        )
    if isinstance(cause, asyncpg.InvalidCatalogNameError):
        return ServerUnreachableError(
            f"the PostgreSQL server at {address} has no such database; create it or correct the address"
        )
    reason = _one_line(cause)
    return ServerUnreachableError(
        f"the PostgreSQL server at {address} cannot be used ({reason}); check that it runs and its address is right"
    )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
