"""The checks of the contract suite on one web service, each with what was found and what to do about it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple

import aiohttp
import msgspec

from soak.checker.contract import Contract
from soak.checker.outcome import NotApplied
from soak.conformance import http_checks
from soak.contract_suite import content, order, searching, sessions, workloads
from soak.contract_suite.comparison import ContractBrokenError
from soak.contract_suite.memory import Memory
from soak.errors import SoakError
from soak.servers.kinds import HTTP
from soak.stores import http_contract as wire
from soak.stores.http import HttpStore
from soak.stores.protocol import StoreContext

CHECK_SECONDS_MAX = 120.0
"""For one check, however many requests it makes."""
LASTS = (1, 5, 12, 40)

Examine = Callable[[Memory], Awaitable[None]]


class ConformanceCheck(NamedTuple):
    """One line of the report: checks of the suite, and what to do where one of them fails."""

    name: str
    advice: str
    checks: tuple[Examine, ...] = ()
    http: Callable[[HttpStore, float], Awaitable[None]] | None = None
    """A check of the HTTP answers themselves, besides or in place of those of the suite."""
    feature: str | None = None
    """The optional feature it belongs to; None: every service needs it."""


async def _keeps_windows(memory: Memory) -> None:
    for last in LASTS:
        await content.the_last_n_are_the_newest_n(memory, last)


async def _keeps_hard_text(memory: Memory) -> None:
    await memory.hold("A user who writes hard text", workloads.hard_text)


async def _keeps_sessions_apart(memory: Memory) -> None:
    await memory.hold("A user whose id differs little from another's", workloads.lookalike_sessions)


CHECKS: tuple[ConformanceCheck, ...] = (
    ConformanceCheck(
        "answers are JSON and say so",
        "send Content-Type: application/json with every answer",
        http=http_checks.says_what_it_sends,
    ),
    ConformanceCheck(
        "what is appended is in the history",
        "return id, role and content of every message as they were sent, in order",
        (content.a_conversation_comes_back_as_it_was,),
    ),
    ConformanceCheck(
        "a session nobody wrote to is empty",
        "answer 200 with no messages for a session nobody has written to, not 404",
        (content.a_session_nobody_wrote_to_is_empty,),
    ),
    ConformanceCheck(
        "messages stand in the order they were said",
        "order by a position that the database assigns, not by a clock",
        (order.turns_stand_in_the_order_they_were_said,),
    ),
    ConformanceCheck(
        "the last N are the newest N", "'last': N asks for the newest N messages, oldest first", (_keeps_windows,)
    ),
    ConformanceCheck(
        "identical turns are all kept",
        "two messages with the same content are two messages: key them by id",
        (content.identical_turns_are_all_kept,),
    ),
    ConformanceCheck(
        "hard text comes back unchanged",
        "text must come back byte for byte; what you refuse, the soak counts as failed, and nothing is lost",
        (_keeps_hard_text,),
    ),
    ConformanceCheck(
        "sessions that look alike are apart",
        "session ids that differ in any character are different sessions: do not fold or trim them",
        (_keeps_sessions_apart,),
    ),
    ConformanceCheck(
        "writers at the same time lose nothing",
        "append without reading and writing back the whole history; an append is over before it is acknowledged",
        (order.concurrent_writers_lose_nothing,),
    ),
    ConformanceCheck(
        f"a session of {workloads.LONG_TURNS} messages is read whole",
        "read all pages of your database before you answer",
        (content.a_conversation_of_a_thousand_turns_is_read_whole,),
    ),
    ConformanceCheck(
        "forgetting forgets that session and no other",
        "nothing of a forgotten session may come back, the others stay, and it can be used again",
        (sessions.a_forgotten_session_is_gone_and_stays_gone, sessions.a_forgotten_session_begins_anew),
    ),
    ConformanceCheck(
        "nonsense is refused",
        'answer 400 to what is no request, or add {"applied": false}',
        http=http_checks.refuses_nonsense,
    ),
    ConformanceCheck(
        "strangers are refused",
        "answer 401: everybody who can reach the service can read every memory",
        http=http_checks.asks_for_the_token,
    ),
    ConformanceCheck(
        "search finds what was said",
        "index before you answer, and return every message of the session once, as the history does, nearest first",
        (
            searching.what_was_said_is_found_by_its_own_words,
            searching.a_search_and_a_read_show_the_same_messages,
        ),
        feature="search",
    ),
    ConformanceCheck(
        "search returns no more than was asked for",
        "'limit' is the most that is wanted",
        (searching.a_search_returns_no_more_than_was_asked_for,),
        feature="search",
    ),
    ConformanceCheck(
        "search sees its own session only",
        "filter by session before you rank",
        (searching.a_search_sees_one_session_of_one_namespace,),
        feature="search",
    ),
    ConformanceCheck(
        "search shows nothing forgotten",
        "erase it from what is searched, too, before you answer",
        (searching.nothing_of_a_forgotten_session_is_found,),
        feature="search",
    ),
    # The last one: it removes what the others have left.
    ConformanceCheck(
        "clean-up removes the namespace",
        "remove every session whose id begins with the namespace",
        (http_checks.cleans_up,),
        feature="clean-up",
    ),
)


class ConformanceResult(msgspec.Struct, frozen=True, kw_only=True):
    """How one check went."""

    check: str
    outcome: str
    """`ok`, `wrong`, or `absent` where an optional feature is not offered."""
    found: str = ""
    advice: str = ""


async def examine(
    address: str, *, timeout_seconds: float, checks: Sequence[ConformanceCheck] = CHECKS
) -> AsyncIterator[ConformanceResult]:
    """Make these checks on the service; raises `SoakError` if it is not there or speaks something else."""

    async def open_store(context: StoreContext) -> HttpStore:
        service = msgspec.structs.replace(context, servers={HTTP.name: address}, timeout_seconds=timeout_seconds)
        return await HttpStore.open(service)

    # No server of it can be broken: checks that would want to are not among these.
    memory = Memory(open_store, lambda _context: Contract(), {})
    store = await open_store(memory.context())
    try:
        for check in checks:
            if check.feature is not None and check.feature not in store.health.features:
                advice = f"optional: name {check.feature!r} among the features of {wire.HEALTH} if you offer it"
                yield ConformanceResult(check=check.name, outcome="absent", advice=advice)
            else:
                # Sessions of its own for each check.
                memory.token = secrets.token_hex(3)
                yield await _make(check, memory, store, timeout_seconds)
    finally:
        await memory.close_all()
        await store.close()


async def _make(check: ConformanceCheck, memory: Memory, store: HttpStore, timeout_seconds: float) -> ConformanceResult:
    try:
        async with asyncio.timeout(CHECK_SECONDS_MAX):
            if check.http is not None:
                await check.http(store, timeout_seconds)
            for one in check.checks:
                await one(memory)
    except ContractBrokenError as error:
        advice = check.advice if error.__cause__ is None else advice_for(error.__cause__)
        return ConformanceResult(check=check.name, outcome="wrong", found=_first_line(str(error)), advice=advice)
    except (wire.HttpAnswerError, TimeoutError, aiohttp.ClientError, NotApplied, SoakError) as error:
        found = _first_line(str(error)) or ("no answer in time" if isinstance(error, TimeoutError) else repr(error))
        return ConformanceResult(check=check.name, outcome="wrong", found=found, advice=advice_for(error))
    return ConformanceResult(check=check.name, outcome="ok")


def _first_line(text: str) -> str:
    return " ".join(next(iter(text.splitlines()), "").split())


def advice_for(error: BaseException) -> str:
    """Say what to do about a request that was not answered as the contract says."""
    if isinstance(error, wire.HttpRefusedError):
        return "the contract knows no reason to refuse this; see 'soak conformance --openapi'"
    if isinstance(error, wire.HttpAnswerError):
        return "answer as 'soak conformance --openapi' says"
    if isinstance(error, TimeoutError):
        return "answer faster, or give a longer --timeout"
    if isinstance(error, SoakError):
        return "see the service's own log"
    return "send the whole answer, and keep the connection open until it is sent"
