"""What belongs to one conversation is seen in no other."""

from __future__ import annotations

import pytest

from soak.checker.text import LOOKALIKES
from soak.pytest_plugin import administration
from soak.pytest_plugin.checks.check import check
from soak.pytest_plugin.comparison import broken
from soak.pytest_plugin.memory import Memory
from soak.pytest_plugin.server import SoakServer

_ALL_OF_OURS = "soak_t_"


class Isolation:
    """Sessions and namespaces."""

    @pytest.mark.parametrize("kind", LOOKALIKES)
    @check
    async def test_sessions_that_look_alike_are_apart(self, soak_memory: Memory, kind: str) -> None:
        sessions = [f"{soak_memory.token}{name}" for name in LOOKALIKES[kind]]
        store = await soak_memory.open()
        said = {
            session: [soak_memory.message(session, 1, f"I am number {number}")]
            for number, session in enumerate(sessions)
        }
        for turns in said.values():
            await soak_memory.say(store, turns)
        for session, turns in said.items():
            who = f"A user whose id ({_short(session)}) differs from another's only in {kind}"
            await soak_memory.expect(who, store, session, turns)
        await store.forget(sessions[0])
        for session in sessions[1:]:
            who = f"A user whose id ({_short(session)}) differs only in {kind} from one who asked to be forgotten"
            await soak_memory.expect(who, store, session, said[session])

    @check
    async def test_namespaces_are_apart(self, soak_memory: Memory) -> None:
        session = soak_memory.session("tenant")
        ours = await soak_memory.open()
        theirs = await soak_memory.open(namespace=soak_memory.other_namespace())
        said = soak_memory.turns(session, 3)
        await soak_memory.say(ours, said)
        await soak_memory.expect("A user of another tenant, with the same id", theirs, session, [])
        answer = [soak_memory.message(session, 1, "something else", writer=1)]
        await soak_memory.say(theirs, answer)
        await soak_memory.expect("A user of one tenant", ours, session, said)
        await theirs.forget(session)
        await soak_memory.expect("A user whose namesake at another tenant asked to be forgotten", ours, session, said)

    @check
    async def test_everything_it_keeps_lies_under_its_namespace(self, soak_memory: Memory) -> None:
        # On a server that others use, others may write at the same time.
        ours = [server for server in soak_memory.servers.values() if server.protected is None]
        before = {server: await _outside(soak_memory, server) for server in ours}
        store = await soak_memory.open()
        await soak_memory.say(store, soak_memory.turns(soak_memory.session("tidy"), 2))
        for server in ours:
            strays = await _outside(soak_memory, server) - before[server]
            if strays:
                broken(
                    f"Users of staging meet the words of a test run: {len(strays)} names on the {server.kind} server "
                    f"do not begin with the namespace, such as {min(strays)!r}"
                )


async def _outside(memory: Memory, server: SoakServer) -> set[str]:
    found: set[str] = await memory.there(administration.names_outside(server.kind, server.url, _ALL_OF_OURS))
    return found


def _short(session: str) -> str:
    return ascii(session if len(session) <= 40 else f"{session[:20]}…{session[-4:]}")
