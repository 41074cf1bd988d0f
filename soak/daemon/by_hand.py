"""Faults over HTTP: listed for everybody, done only for whoever can read the run's file on this machine.

A page in a browser on this machine can send requests to 127.0.0.1, too. It cannot read the token, may not set our
header without being asked about it first, and says where it comes from; each of the three is enough to refuse it.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Callable
from typing import Protocol

import msgspec
from aiohttp import web

from soak.errors import ExitCode, SoakError, UsageError
from soak.faults.catalogue import ALL
from soak.faults.presets import Possible
from soak.faults.window import Injected

PATH = "/faults"
TOKEN_HEADER = "X-Soak-Token"  # noqa: S105  the name of a header
HOLD_SECONDS_MAX = 3_600.0


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault, asked for by hand."""

    fault: str
    target: str
    hold_seconds: float = 5.0


class FaultListing(msgspec.Struct, frozen=True, kw_only=True):
    """A fault, what it does, and where it can happen."""

    fault: str
    description: str
    targets: dict[str, str | None]
    """By server: why it cannot happen to it here; None: it can."""


class Hand(Protocol):
    """Whoever carries out what is asked."""

    async def by_hand(self, name: str, target: str, hold_seconds: float) -> Injected: ...


class FaultsPage:
    """Answers GET and POST on one path."""

    def __init__(self, token: str, address: Callable[[], str]) -> None:
        self._token = token
        self._address = address
        self.hand: Hand | None = None
        """None while nothing may be broken: the soak starts, or by settings."""
        self.refusal = "the soak is not running yet"
        self.possible: Possible = {}
        self.hint = ""
        """What would make more possible."""

    def routes(self) -> list[web.RouteDef]:
        return [web.get(PATH, self._list), web.post(PATH, self._inject)]

    async def _list(self, _request: web.Request) -> web.Response:
        return _json(listing(self.possible))

    async def _inject(self, request: web.Request) -> web.Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        try:
            order = msgspec.json.decode(await request.read(), type=Order)
            return _json(await self._checked(order).by_hand(order.fault, order.target, order.hold_seconds))
        except msgspec.MsgspecError as error:
            return _error(400, f"this is no fault to inject: {error}")
        except UsageError as error:
            return _error(409, str(error))
        except SoakError as error:
            return _error(500, str(error), ExitCode.INCONCLUSIVE)

    def _checked(self, order: Order) -> Hand:
        if self.hand is None:
            raise UsageError(self.refusal)
        if order.fault not in ALL:
            raise UsageError(f"there is no fault {order.fault!r}; 'soak faults' lists them")
        if (reason := self.possible.get(order.target, {}).get(order.fault)) is not None:
            raise UsageError(f"{order.fault} cannot be injected: {reason}{self.hint}")
        if not 0.0 <= order.hold_seconds <= HOLD_SECONDS_MAX:
            raise UsageError(f"a fault is held for 0 to {HOLD_SECONDS_MAX:g} seconds, not {order.hold_seconds:g}")
        return self.hand

    def _refusal(self, request: web.Request) -> web.Response | None:
        if request.remote is None or not ipaddress.ip_address(request.remote).is_loopback:
            return _error(403, "faults are injected from this machine only")
        origin = request.headers.get("Origin")
        if origin is not None and origin != self._address():
            return _error(403, "faults are not injected for another site")
        given = request.headers.get(TOKEN_HEADER, "")
        if not self._token or not hmac.compare_digest(given.encode(), self._token.encode()):
            return _error(401, f"the header {TOKEN_HEADER} has to hold the token from run.json in the data folder")
        if request.content_type != "application/json":
            return _error(415, "send the fault as application/json")
        return None


def listing(possible: Possible) -> list[FaultListing]:
    """Tell of every fault what it does, and where it can happen."""
    return [
        FaultListing(
            fault=name,
            description=fault.description,
            targets={target: faults[name] for target, faults in possible.items() if name in faults},
        )
        for name, fault in ALL.items()
    ]


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def _error(status: int, text: str, code: ExitCode = ExitCode.USAGE) -> web.Response:
    body = msgspec.json.encode({"error": text, "exit_code": int(code)})
    return web.Response(body=body, status=status, content_type="application/json")
