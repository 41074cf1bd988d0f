"""How the clock of a host stands to the ledger's: brackets that are intersected, drift, and clocks that are set."""

from __future__ import annotations

import random

import pytest

from soak.ledger.clock import DRIFT_PPM_MAX, Bracket, LedgerClock

SECOND = 1_000_000


class Clock:
    """A host and a ledger whose clocks differ and drift, and the way between them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, offset_us: int = 0, drift_ppm: float = 0.0) -> None:
        self.true_us = 0.0
        self.offset_us = offset_us
        self.drift_ppm = drift_ppm
        self.source = random.Random(7)
        monkeypatch.setattr("soak.ledger.clock.now_us", self.now_us)
        self.ledger = LedgerClock(self.ask)

    def now_us(self) -> int:
        return int(self.true_us)

    @property
    def real_offset_us(self) -> float:
        return self.offset_us + self.true_us * self.drift_ppm / 1e6

    async def ask(self) -> tuple[int, int]:
        """Take a while there and a while back, most of it on one side now and then."""
        self.true_us += self.source.expovariate(1 / 300) + self.source.choice([0, 0, 0, 20_000])
        there = int(self.true_us + self.real_offset_us)
        self.true_us += self.source.expovariate(1 / 300) + self.source.choice([0, 0, 0, 20_000])
        return divmod(there, SECOND)

    async def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.true_us += SECOND
            await self.ledger.measure()

    def is_right(self) -> bool:
        reading = self.ledger.reading()
        return reading is not None and abs(reading.offset_us - self.real_offset_us) <= reading.error_us + 1


@pytest.mark.parametrize("offset_us", [5_000, -5_000, SECOND, -300 * SECOND])
@pytest.mark.parametrize("drift_ppm", [0, 200, -200])
async def test_the_offset_is_within_its_error_whatever_the_way_takes(
    monkeypatch: pytest.MonkeyPatch, offset_us: int, drift_ppm: int
) -> None:
    clock = Clock(monkeypatch, offset_us=offset_us, drift_ppm=drift_ppm)
    for _ in range(120):
        await clock.run(1)
        assert clock.is_right()
    reading = clock.ledger.reading()
    assert reading is not None
    assert reading.error_us < 5_000, "the quickest exchanges count, not the average"
    assert len(clock.ledger.brackets) == 1, "drift was taken for a step"


async def test_a_clock_that_was_set_is_measured_anew_and_what_was_known_before_is_kept_beside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    await clock.run(20)
    clock.offset_us = -40_000
    await clock.run(3)
    assert clock.is_right()
    now, before = clock.ledger.brackets
    assert now.high < before.low


async def test_while_nobody_measures_the_error_grows_with_the_drift_that_is_possible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch, drift_ppm=-DRIFT_PPM_MAX)
    await clock.run(5)
    first = clock.ledger.reading()
    clock.true_us += 100 * SECOND
    later = clock.ledger.reading()
    assert first is not None
    assert later is not None
    assert later.error_us - first.error_us == pytest.approx(100 * DRIFT_PPM_MAX, rel=0.1)
    assert clock.is_right()


def test_brackets_that_meet_are_narrowed_to_what_both_allow() -> None:
    one, other = Bracket(0, 100, 5), Bracket(90, 300, 6)
    assert one.meets(other)
    assert one.narrowed(other) == Bracket(90, 100, 6)
    assert not one.meets(Bracket(101, 300, 6))
