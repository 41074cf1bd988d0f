"""Faults over HTTP: anybody may list them; only permitted requests inject or announce one."""

from __future__ import annotations

from typing import Protocol

import msgspec
from aiohttp import web

from soak.api.connections import read_body
from soak.api.http import error, json_response
from soak.api.permission import Permission
from soak.daemon.announced_faults import PATH as WINDOWS_PATH
from soak.daemon.announced_faults import AnnouncedWindows, Announcement, UnknownWindowError
from soak.errors import ExitCode, SoakError, UsageError
from soak.faults.catalogue import fault_named, listing
from soak.faults.fault import Fault
from soak.faults.presets import Possible
from soak.faults.window import Injected
from soak.json_input import decode_json
from soak.servers.kinds import KINDS
from soak.suggestion import did_you_mean

PATH = "/faults"
HOLD_SECONDS_MAX = 3_600.0


class FaultOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault, asked for by hand."""

    fault: str
    target: str
    hold_seconds: float = 5.0
    parameters: dict[str, str | float] = {}
    """What is not given has its default."""


class InjectsByHand(Protocol):
    """Whoever carries out what is asked."""

    async def by_hand(self, fault: Fault, target: str, hold_seconds: float) -> Injected: ...


class FaultRoutes:
    """Answers GET and POST on one path."""

    def __init__(self, permission: Permission) -> None:
        self._permission = permission
        self.hand: InjectsByHand | None = None
        """None while nothing may be broken: the soak starts, or by settings."""
        self.refusal = "the soak is not running yet"
        self.possible: Possible = {}
        self.hint = ""
        """What would make more possible."""

    def routes(self) -> list[web.RouteDef]:
        return [web.get(PATH, self._list), web.post(PATH, self._inject)]

    async def _list(self, _request: web.Request) -> web.Response:
        return json_response(listing(self.possible))

    async def _inject(self, request: web.Request) -> web.Response:
        if (refusal := self._permission.refusal(request)) is not None:
            return refusal
        try:
            order = decode_json(await read_body(request), type=FaultOrder)
            hand, fault = self._checked(order)
            return json_response(await hand.by_hand(fault, order.target, order.hold_seconds))
        except msgspec.MsgspecError as problem:
            return error(400, f"invalid request: {problem}")
        except UsageError as problem:
            return error(409, str(problem))
        except SoakError as problem:
            return error(500, str(problem), ExitCode.INCONCLUSIVE)

    def _checked(self, order: FaultOrder) -> tuple[InjectsByHand, Fault]:
        if self.hand is None:
            raise UsageError(self.refusal)
        fault = fault_named(order.fault, order.parameters)
        if order.target not in self.possible:
            has = f"it has {', '.join(self.possible) or 'none'}"
            hint = has if order.target in KINDS else did_you_mean(order.target, self.possible, has)
            raise UsageError(f"this soak has no server {order.target!r}; {hint}")
        if (reason := self.possible[order.target].get(fault.name)) is not None:
            raise UsageError(f"{fault.name} cannot be injected: {reason}{self.hint}")
        if not 0.0 <= order.hold_seconds <= HOLD_SECONDS_MAX:
            raise UsageError(f"a fault is held for 0 to {HOLD_SECONDS_MAX:g} seconds, not {order.hold_seconds:g}")
        return self.hand, fault


class AnnouncedRoutes:
    """Answers on the path of the windows."""

    def __init__(self, permission: Permission, windows: AnnouncedWindows) -> None:
        self._permission = permission
        self._windows = windows

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get(WINDOWS_PATH, self._list),
            web.post(WINDOWS_PATH, self._begin),
            web.delete(f"{WINDOWS_PATH}/{{id}}", self._end),
        ]

    async def _list(self, _request: web.Request) -> web.Response:
        return json_response(self._windows.windows)

    async def _begin(self, request: web.Request) -> web.Response:
        if (refusal := self._permission.refusal(request)) is not None:
            return refusal
        try:
            announcement = msgspec.json.decode(await request.read(), type=Announcement)
            return json_response(await self._windows.begin(announcement), status=201)
        except msgspec.MsgspecError as problem:
            return error(400, f"invalid request: {problem}")
        except UsageError as problem:
            return error(409, str(problem))
        except SoakError as problem:
            return error(503, str(problem), ExitCode.UNREACHABLE)

    async def _end(self, request: web.Request) -> web.Response:
        if (refusal := self._permission.refusal(request)) is not None:
            return refusal
        try:
            return json_response(await self._windows.end(request.match_info["id"]))
        except UnknownWindowError as problem:
            return error(404, str(problem))
        except UsageError as problem:
            return error(409, str(problem))
        except SoakError as problem:
            return error(503, str(problem), ExitCode.UNREACHABLE)
