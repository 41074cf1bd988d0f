"""All checks on one service, one after the other, each with what was found and what to do about it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator

import aiohttp
import msgspec

from soak.checker.outcome import NotApplied
from soak.conformance.checks import CHECKS, Check
from soak.conformance.visit import FindingError, Visit
from soak.errors import SoakError
from soak.servers.kinds import HTTP
from soak.stores import http_contract as wire
from soak.stores.http import HttpStore
from soak.stores.protocol import StoreContext

CHECK_SECONDS_MAX = 120.0
"""For one check, however many requests it makes."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """How one check went."""

    check: str
    outcome: str
    """`ok`, `wrong`, or `absent` where an optional feature is not offered."""
    found: str = ""
    advice: str = ""


async def examine(address: str, *, timeout_seconds: float) -> AsyncIterator[Finding]:
    """Visit the service; raises `SoakError` if it is not there or speaks something else."""
    context = StoreContext(
        servers={HTTP.name: address}, namespace=f"soak_c_{secrets.token_hex(4)}", timeout_seconds=timeout_seconds
    )
    store = await HttpStore.open(context)
    try:
        visit = Visit(store, context.namespace, timeout_seconds)
        for check in CHECKS:
            if check.feature is not None and check.feature not in store.health.features:
                yield Finding(
                    check=check.name,
                    outcome="absent",
                    advice=f"optional: name {check.feature!r} among the features of {wire.HEALTH} if you offer it",
                )
                continue
            yield await _run(check, visit)
    finally:
        await store.close()


async def _run(check: Check, visit: Visit) -> Finding:
    try:
        async with asyncio.timeout(CHECK_SECONDS_MAX):
            await check.run(visit)
    except FindingError as finding:
        return Finding(check=check.name, outcome="wrong", found=finding.found, advice=finding.advice)
    except (wire.HttpAnswerError, TimeoutError, aiohttp.ClientError, NotApplied, SoakError) as error:
        found = " ".join(str(error).split()) or (
            "no answer in time" if isinstance(error, TimeoutError) else repr(error)
        )
        return Finding(check=check.name, outcome="wrong", found=found, advice=_advice(error))
    return Finding(check=check.name, outcome="ok")


def _advice(error: Exception) -> str:
    if isinstance(error, wire.HttpRefusedError):
        return "the contract knows no reason to refuse this; see 'soak conformance --openapi'"
    if isinstance(error, wire.HttpAnswerError):
        return "answer as 'soak conformance --openapi' says"
    if isinstance(error, TimeoutError):
        return "answer faster, or give a longer --timeout"
    if isinstance(error, SoakError):
        return "see the service's own log"
    return "send the whole answer, and keep the connection open until it is sent"
