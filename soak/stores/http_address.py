"""The address of a memory behind HTTP: where it is, and the token that opens it."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from soak.errors import UsageError
from soak.servers.kinds import HTTP

SCHEMES = HTTP.schemes


@dataclass(frozen=True)
class HttpAddress:
    """Without the token this is what may be shown."""

    base: str
    """Ends without a slash."""
    token: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.base

    @property
    def is_encrypted(self) -> bool:
        return self.base.startswith("https:")

    def url(self, path: str) -> str:
        return self.base + path

    def with_token(self) -> str:
        """Return it as one text, the way addresses of all servers are handed on: the token stands as a password."""
        if self.token is None:
            return self.base
        parts = urlsplit(self.base)
        return urlunsplit(parts._replace(netloc=f":{quote(self.token, safe='')}@{parts.netloc}"))


def parse_address(text: str) -> HttpAddress:
    """Read `https://[:token@]host[:port][/path]`; raises `UsageError` with what is wrong, without the token."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"the address of the http store is not understood ({error}); {_EXAMPLE}") from None
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise UsageError(f"the address of the http store is none of a web service; {_EXAMPLE}")
    if parts.username:
        raise UsageError("the http store logs in with a bearer token, not with a user; give it in servers.http_token")
    if parts.query or parts.fragment:
        raise UsageError(f"the address of the http store ends with its path, not with ? or #; {_EXAMPLE}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    where = host if port is None else f"{host}:{port}"
    token = unquote(parts.password) if parts.password else None
    return HttpAddress(urlunsplit((parts.scheme, where, parts.path.rstrip("/"), "", "")), token)


_EXAMPLE = "write one like https://chat.staging.example/memory"
