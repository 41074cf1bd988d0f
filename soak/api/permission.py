"""Who may change something over HTTP: users who can read the run's file on this machine, and those they let in.

Any web page open in a browser on this machine can send requests to 127.0.0.1, too. Three things give it away, and each
is enough to refuse it: it cannot read the token; the browser sends our header only after a preflight, which fails; and
the browser names the page's origin. DNS rebinding is refused by the header Host, which then has a foreign name.

Our own page gets the token for a code that works once: `soak run` shows a link with one at the terminal, `soak page`
prints another. The code stands behind the # of the link, which no browser sends to any server.
"""

from __future__ import annotations

import hmac
import secrets
import time

from aiohttp import web

from soak.api.http import error, is_cross_site, is_literal, is_loopback

TOKEN_HEADER = "X-Soak-Token"  # noqa: S105  the name of a header
CODE_BYTES = 16
CODE_SECONDS_MAX = 600.0
CODES_MAX = 16


class Permission:
    """Holds the token of a run, and the codes that can still be exchanged for it."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._codes: dict[str, float] = {}
        """By code, until when it is good."""

    def refusal(self, request: web.Request) -> web.Response | None:
        """Return the answer that refuses a request; None if it may change something."""
        if (refusal := stranger(request)) is not None:
            return refusal
        given = request.headers.get(TOKEN_HEADER, "")
        if not self._token or not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token.encode()):
            return error(401, f"the header {TOKEN_HEADER} has to hold the token from run.json in the data folder")
        return None

    def new_code(self) -> str:
        """Make a code that works once, for ten minutes; if there are too many, the oldest is dropped."""
        now = time.monotonic()
        self._codes = {code: until for code, until in self._codes.items() if until > now}
        while len(self._codes) >= CODES_MAX:
            del self._codes[next(iter(self._codes))]
        code = secrets.token_hex(CODE_BYTES)
        self._codes[code] = now + CODE_SECONDS_MAX
        return code

    def token_for(self, code: str) -> str | None:
        """Exchange a code for the token; None if it is unknown, used or too old."""
        until = self._codes.pop(code, None)
        return self._token if until is not None and until > time.monotonic() else None


def stranger(request: web.Request) -> web.Response | None:
    """Refuse requests from other machines and other sites."""
    if request.remote is None or not is_loopback(request.remote):
        return error(403, "refused: only allowed from the machine that soak runs on")
    if not is_literal(request.host):
        return error(403, "refused: use the address 127.0.0.1, or localhost, not a name")
    if is_cross_site(request):
        return error(403, "refused: the request comes from another site")
    if request.method == "POST" and request.content_type != "application/json":
        return error(415, "send it as application/json")
    return None
