"""What a service has to do, one small check after the other: each returns, or raises what it found instead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from soak.checker.message import Message
from soak.checker.text import HARD_TEXTS, LOOKALIKES
from soak.conformance.visit import FindingError, Visit
from soak.stores import http_contract as wire

WRITERS = 8
TURNS_EACH = 8
LONG = 1_050
"""More than the page size or cap that a client library has by default."""
SERVER_ERROR = 500


class Check(NamedTuple):
    """One thing that is looked at."""

    name: str
    run: Callable[[Visit], Awaitable[None]]
    feature: str | None = None
    """The optional feature it belongs to; None: every service needs it."""


async def remembers(visit: Visit) -> None:
    session = visit.session("talk")
    said = visit.turns(session, 5)
    await visit.say(said)
    await visit.expect(session, said, advice="return id, role and content of every message as they were sent, in order")


async def is_empty_at_first(visit: Visit) -> None:
    await visit.expect(
        visit.session("nobody"), [], advice="answer 200 with no messages for a session nobody has written to, not 404"
    )


async def keeps_order(visit: Visit) -> None:
    session = visit.session("order")
    said = visit.turns(session, 50)
    await visit.say(said)
    await visit.expect(session, said, advice="order by a position that the database assigns, not by a clock")


async def gives_the_last(visit: Visit) -> None:
    session = visit.session("last")
    said = visit.turns(session, 12)
    await visit.say(said)
    for last in (1, 5, 12, 40):
        await visit.expect(session, said, last=last, advice=f"'last': {last} asks for the newest {last}, oldest first")


async def keeps_identical_turns(visit: Visit) -> None:
    session = visit.session("again")
    said = [visit.message(session, seq, "continue") for seq in range(1, 9)]
    await visit.say(said)
    await visit.expect(session, said, advice="two messages with the same content are two messages: key them by id")


async def keeps_hard_text(visit: Visit) -> None:
    for number, (kind, texts) in enumerate(HARD_TEXTS.items()):
        session = visit.session(f"hard-{number}")
        said = [visit.message(session, seq, text) for seq, text in enumerate(texts, start=1)]
        try:
            await visit.say(said)
        except wire.HttpRefusedError as error:
            raise FindingError(
                f"text with {kind} is refused ({error})", "keep it, or the soak counts it as failed; nothing is lost"
            ) from error
        await visit.expect(session, said, advice=f"text with {kind} must come back byte for byte")


async def keeps_sessions_apart(visit: Visit) -> None:
    for kind, names in LOOKALIKES.items():
        said = {
            name: [visit.message(visit.session(kind) + name, 1, f"I am {number}")] for number, name in enumerate(names)
        }
        for turns in said.values():
            await visit.say(turns)
        for name, turns in said.items():
            await visit.expect(
                visit.session(kind) + name,
                turns,
                advice=f"session ids that differ only in {kind} are different sessions: do not fold or trim them",
            )


async def takes_many_writers(visit: Visit) -> None:
    session = visit.session("crowd")
    by_writer = [visit.turns(session, TURNS_EACH, writer=writer) for writer in range(WRITERS)]
    await asyncio.gather(*(visit.say(turns) for turns in by_writer))
    read = [one for one in await visit.store.history(session) if isinstance(one, Message)]
    missing = sum(1 for turns in by_writer for message in turns if message not in read)
    if missing:
        raise FindingError(
            f"{missing} of {WRITERS * TURNS_EACH} messages that {WRITERS} writers said at the same time are not there",
            "append without reading and writing back the whole history",
        )
    for turns in by_writer:
        if [message for message in read if message in turns] != turns:
            raise FindingError(
                "messages of one writer stand in another order than it said them",
                "an append is over before it is acknowledged",
            )


async def keeps_long_sessions(visit: Visit) -> None:
    session = visit.session("long")
    said = visit.turns(session, LONG)
    await visit.say(said)
    await visit.expect(session, said, advice="read all pages of your database before you answer")


async def forgets(visit: Visit) -> None:
    session, other = visit.session("forget"), visit.session("keep")
    kept = visit.turns(other, 3)
    await visit.say(visit.turns(session, 3))
    await visit.say(kept)
    await visit.store.forget(session)
    await visit.expect(session, [], advice="nothing of a forgotten session may come back")
    await visit.expect(other, kept, advice="forgetting one session must leave the others alone")
    await visit.store.forget(visit.session("never there"))
    again = [visit.message(session, 4, "a new beginning")]
    await visit.say(again)
    await visit.expect(session, again, advice="a forgotten session can be used again")


async def refuses_nonsense(visit: Visit) -> None:
    for what, body in (("no JSON", b"{"), ("no session", visit.question(message={"id": "x"})), ("a list", b"[]")):
        answer = await visit.ask("POST", wire.APPEND, body, token=visit.store.address.token)
        if answer.status < 400:
            raise FindingError(
                f"an append with {what} is answered with {answer.status}", "answer 400 to what is no request"
            )
        if answer.status >= SERVER_ERROR and not wire.refuses(answer.status, answer.body):
            raise FindingError(
                f"an append with {what} is answered with {answer.status}, which leaves open whether it was applied",
                'answer 400, or add {"applied": false}',
            )


async def asks_for_the_token(visit: Visit) -> None:
    if visit.store.address.token is None:
        return
    question = visit.question(session=visit.session("stranger"))
    for token in (None, "not-the-token"):
        answer = await visit.ask("POST", wire.HISTORY, question, token=token)
        if answer.status not in {401, 403}:
            raise FindingError(
                f"a history asked for {'without a' if token is None else 'with a wrong'} token is answered "
                f"with {answer.status}",
                "answer 401: whoever can reach the service can read every memory",
            )


async def says_what_it_sends(visit: Visit) -> None:
    answer = await visit.ask("GET", wire.HEALTH, token=visit.store.address.token)
    if answer.content_type != "application/json":
        raise FindingError(
            f"{wire.HEALTH} is sent as {answer.content_type!r}", "send Content-Type: application/json with every answer"
        )


async def finds(visit: Visit) -> None:
    session = visit.session("search")
    said = visit.turns(session, 20)
    await visit.say(said)
    for message in (said[0], said[-1]):
        found = await visit.store.search(session, message.content, limit=20)
        if message not in found:
            raise FindingError("a search for the very words of a message does not find it", "index before you answer")
    found = await visit.store.search(session, said[7].content, limit=len(said) + 10)
    if sorted(map(str, found)) != sorted(map(str, said)):
        raise FindingError(
            f"a search with room for all {len(said)} messages of a session returns {len(found)}, or others",
            "return every message of the session once, as the history does, nearest first",
        )


async def finds_no_more_than_asked(visit: Visit) -> None:
    session = visit.session("limit")
    said = visit.turns(session, 12)
    await visit.say(said)
    for limit in (1, 5):
        found = await visit.store.search(session, said[3].content, limit=limit)
        if len(found) > limit:
            raise FindingError(
                f"a search for at most {limit} messages returns {len(found)}", "'limit' is the most that is wanted"
            )


async def finds_only_its_own(visit: Visit) -> None:
    session, other = visit.session("searcher"), visit.session("stranger")
    secret = visit.message(other, 1, "the code is four seven one one")
    await visit.say([secret, visit.message(session, 1, "what was the code again?")])
    if secret in await visit.store.search(session, secret.content, limit=10):
        raise FindingError("a search shows a message of another session", "filter by session before you rank")


async def finds_nothing_forgotten(visit: Visit) -> None:
    session = visit.session("forgotten")
    said = visit.turns(session, 3)
    await visit.say(said)
    await visit.store.forget(session)
    for message in said:
        if await visit.store.search(session, message.content, limit=10):
            raise FindingError(
                "a search shows what was forgotten", "erase it from what is searched, too, before you answer"
            )


async def cleans_up(visit: Visit) -> None:
    session = visit.session("litter")
    await visit.say(visit.turns(session, 2))
    await visit.store.clean_up()
    await visit.expect(session, [], advice="remove every session whose id begins with the namespace")


CHECKS: tuple[Check, ...] = (
    Check("answers are JSON and say so", says_what_it_sends),
    Check("what is appended is in the history", remembers),
    Check("a session nobody wrote to is empty", is_empty_at_first),
    Check("messages stand in the order they were said", keeps_order),
    Check("the last N are the newest N", gives_the_last),
    Check("identical turns are all kept", keeps_identical_turns),
    Check("hard text comes back unchanged", keeps_hard_text),
    Check("sessions that look alike are apart", keeps_sessions_apart),
    Check("writers at the same time lose nothing", takes_many_writers),
    Check(f"a session of {LONG} messages is read whole", keeps_long_sessions),
    Check("forgetting forgets that session and no other", forgets),
    Check("nonsense is refused", refuses_nonsense),
    Check("strangers are refused", asks_for_the_token),
    Check("search finds what was said", finds, feature="search"),
    Check("search returns no more than was asked for", finds_no_more_than_asked, feature="search"),
    Check("search sees its own session only", finds_only_its_own, feature="search"),
    Check("search shows nothing forgotten", finds_nothing_forgotten, feature="search"),
    # The last one: it removes what the others have left.
    Check("clean-up removes the namespace", cleans_up, feature="clean-up"),
)
