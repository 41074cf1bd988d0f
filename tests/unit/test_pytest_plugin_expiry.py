"""A machine that is too slow for a time to live is given a longer one, and at last says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from soak.checker.contract import Contract, Expiry
from soak.checker.text import MessageGenerator
from soak.contract_suite import expiry
from soak.contract_suite.comparison import ContractBrokenError, NotTriedError
from soak.contract_suite.expiry import REQUIRE_VARIABLE, TTL_SECONDS_MAX


class SlowMemory:
    """Remembers everything, and takes its time to tell."""

    def __init__(self, read_seconds: float, own_ttl: float | None = None) -> None:
        self.servers: dict[str, object] = {}
        self.tried: list[float] = []
        self._read_seconds = read_seconds
        self._own_ttl = own_ttl
        self._said: dict[str, list[Any]] = {}

    @property
    def contract(self) -> Contract:
        return self.contract_with(ttl_seconds=3600.0)

    def contract_with(self, *, ttl_seconds: float) -> Contract:
        return Contract(ttl_seconds=self._own_ttl or ttl_seconds, expiry=Expiry.SLIDING)

    async def open(self, *, ttl_seconds: float) -> None:
        self.tried.append(ttl_seconds)

    def session(self, name: str) -> str:
        return name

    def turns(self, session: str, count: int) -> list[Any]:
        return [MessageGenerator("run", 1).write(session, 0, seq) for seq in range(1, count + 1)]

    async def say(self, _store: None, said: list[Any]) -> None:
        for message in said:
            self._said.setdefault(message.session, []).append(message)

    async def recall(self, _store: None, session: str) -> list[Any]:
        await asyncio.sleep(self._read_seconds)
        return self._said[session]

    def kept(self, said: list[Any]) -> list[Any]:
        return said


def checks() -> list[Any]:
    return [expiry.nothing_expires_before_its_time, expiry.time_counts_from_where_the_contract_says]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "TTL_SECONDS", 0.2)
    monkeypatch.setattr(expiry, "PATIENCE_FACTORS", (1, 6, 40))


@pytest.mark.parametrize("check", checks())
def test_it_tries_again_with_a_longer_time(check: Any) -> None:
    memory = SlowMemory(read_seconds=0.1)
    asyncio.run(check(memory))
    assert memory.tried[:2] == pytest.approx([0.2, 1.2])


@pytest.mark.parametrize("check", checks())
@pytest.mark.parametrize("own_ttl", [None, 0.2])
def test_who_is_never_in_time_is_passed_over_here_and_fails_where_everything_is_required(
    check: Any, own_ttl: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "PATIENCE_FACTORS", (1, 1))
    monkeypatch.delenv(REQUIRE_VARIABLE, raising=False)
    memory = SlowMemory(read_seconds=0.1, own_ttl=own_ttl)
    with pytest.raises(NotTriedError, match="too slow"):
        asyncio.run(check(memory))
    assert memory.tried == [0.2, 0.2]
    monkeypatch.setenv(REQUIRE_VARIABLE, "1")
    with pytest.raises(ContractBrokenError, match=r"too slow to .* within"):
        asyncio.run(check(memory))


def test_the_longest_time_is_one_that_the_suite_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert expiry.TTL_SECONDS * max(expiry.PATIENCE_FACTORS) <= TTL_SECONDS_MAX
    assert list(expiry.PATIENCE_FACTORS) == sorted(expiry.PATIENCE_FACTORS)
