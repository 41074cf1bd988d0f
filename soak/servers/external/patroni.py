"""A PostgreSQL under Patroni that was given: how a change of its leader is asked for, over Patroni's REST API.

Any member answers for the whole group. Where the API wants a login for what changes something, that stands in its
address.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from soak.errors import ServerUnreachableError, UsageError
from soak.json_input import decode_json
from soak.servers.backend import ServerBackend
from soak.servers.kinds import ServerKind
from soak.servers.patroni_settings import rest_addresses
from soak.servers.postgres import PostgresServer
from soak.servers.state import Pinned

AGREE_SECONDS_MAX = 180.0
"""An old leader may have to be rewound, or copied anew, before it follows."""
_CHANGE_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.2
_ASK_AGAIN_SECONDS = 1.0
_LEADER = "leader"
_FOLLOWS = frozenset({"running", "streaming"})


class Member(msgspec.Struct, frozen=True):
    """One node, as Patroni says it stands."""

    name: str
    role: str = ""
    state: str = ""
    timeline: int | str = 0


class Members(msgspec.Struct, frozen=True):
    """All nodes of a group."""

    members: list[Member] = []

    @property
    def leaders(self) -> list[str]:
        return [one.name for one in self.members if one.role == _LEADER]


class GivenPatroni(PostgresServer):
    """Several PostgreSQL whose leader Patroni names, and that soak has not started."""

    def __init__(
        self, kind: ServerKind, pinned: Pinned, backend: ServerBackend, *, addresses: Sequence[str] = ()
    ) -> None:
        """`addresses`: where Patroni answers; without them, at its usual port of each host."""
        super().__init__(kind, pinned, backend, fresh=False)
        self._addresses = list(addresses) or rest_addresses(backend.url or "")
        self._has_answered = False
        """Several hosts need not be under Patroni: where it was not needed, nobody waits for it."""

    async def members(self) -> Members:
        """Ask for all nodes; raises `ServerUnreachableError` if nobody answers, or nobody that is a Patroni."""
        problem = "it has no address"
        for address in self._addresses:
            try:
                text = await _exchange(f"{address}/cluster", None, self.backend.answer_seconds_max)
                if (found := decode_json(text, Members)).members:
                    self._has_answered = True
                    return found
                problem = "no member is named"
            except msgspec.MsgspecError:
                problem = "what answers is no Patroni"
            except ServerUnreachableError as error:
                problem = str(error)
        where = ", ".join(map(_without_login, self._addresses))
        raise ServerUnreachableError(
            f"Patroni of {self.title} does not answer at {where} ({problem}); set testbed.patroni"
        )

    async def replace_leader(self, path: str, body: Callable[[Members], Mapping[str, object]]) -> None:
        """Ask for another leader, and return when there is one; raises `UsageError` if that is refused to the end."""
        before = await self.members()
        deadline = time.monotonic() + AGREE_SECONDS_MAX
        while True:
            try:
                await self._post(path, body(await self.members()))
                break
            except UsageError:
                # For a while after a change no other node is good enough.
                if time.monotonic() >= deadline:
                    raise
                await asyncio.sleep(_ASK_AGAIN_SECONDS)

        async def is_replaced() -> bool:
            leaders = (await self.members()).leaders
            return bool(leaders) and leaders != before.leaders

        await self._until(is_replaced, "name another leader")

    async def until_agreed(self) -> None:
        """Wait until one node is the leader, and all others follow on its timeline."""
        await self._until(self.agrees, "agree on its leader")

    async def agrees(self) -> bool:
        found = await self.members()
        is_settled = all(one.state in _FOLLOWS for one in found.members)
        return is_settled and len(found.leaders) == 1 and len({one.timeline for one in found.members}) == 1

    async def telemetry(self) -> dict[str, str]:
        found = await super().telemetry()
        if not self._has_answered:
            return found
        try:
            members = (await self.members()).members
        except ServerUnreachableError:
            return found
        leaders = {"primary": ", ".join(one.name for one in members if one.role == _LEADER)}
        return {
            **found,
            **leaders,
            **{one.name: f"{one.role}, {one.state}, timeline {one.timeline}" for one in members},
        }

    async def _post(self, path: str, body: Mapping[str, object]) -> None:
        problem: ServerUnreachableError | None = None
        for address in self._addresses:
            try:
                await _exchange(f"{address}{path}", body, _CHANGE_SECONDS_MAX)
            except ServerUnreachableError as error:
                problem = error
            else:
                return
        raise problem or ServerUnreachableError(f"{self.title} has no Patroni to ask")

    async def _until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        deadline = time.monotonic() + AGREE_SECONDS_MAX
        while True:
            try:
                if await holds():
                    return
            except ServerUnreachableError:
                pass  # asked again
            if time.monotonic() >= deadline:
                raise ServerUnreachableError(f"{self.title} did not {what} within {AGREE_SECONDS_MAX:.0f} s")
            await asyncio.sleep(_POLL_SECONDS)


def switch_over(found: Members) -> dict[str, object]:
    """Return what Patroni is asked for a planned change."""
    return {"leader": _only_leader(found)}


def fail_over(found: Members) -> dict[str, object]:
    """Return what it is asked for a failover by hand: to a node that commits wait for, if there is one."""
    _only_leader(found)
    others = [one for one in found.members if one.role != _LEADER and one.state in _FOLLOWS]
    if not others:
        raise UsageError("Patroni names no node that follows the leader")
    return {"candidate": min(others, key=lambda one: (one.role != "sync_standby", one.name)).name}


def _only_leader(found: Members) -> str:
    if len(found.leaders) != 1:
        raise UsageError(f"Patroni names {len(found.leaders) or 'no'} leaders")
    return found.leaders[0]


async def _exchange(url: str, body: Mapping[str, object] | None, seconds: float) -> bytes:
    """Ask, or post; raises `ServerUnreachableError` without an answer, and `UsageError` if a post is refused."""
    import aiohttp  # noqa: PLC0415  costly, and most servers need none of it

    parts = urlsplit(url)
    request: dict[str, Any] = {"method": "GET"} if body is None else {"method": "POST", "json": dict(body)}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds)) as client,
            client.request(url=url, allow_redirects=False, **request) as answer,
        ):
            text = await answer.read()
            if not answer.ok and body is not None:
                raise UsageError(f"Patroni refuses {parts.path}: {text.decode('utf-8', 'replace').strip()[:200]}")
            return text
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise ServerUnreachableError(f"{type(error).__name__} at {parts.hostname}:{parts.port}") from error


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
