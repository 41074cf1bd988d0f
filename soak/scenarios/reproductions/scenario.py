"""What a published result is, and how it is shown again: by a short `soak check` with one fault.

The soak is held to a contract that tolerates no loss. So a result that says "this loses" is a violation, and one that
says "this does not" is a pass.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import msgspec

from soak.errors import ExitCode
from soak.json_input import decode_json
from soak.scenarios.runner import NoAnswerError, answer_of
from soak.scenarios.scenario import Scenario

SOAK_SECONDS = 30
SEED_DEFAULT = 7
SEED_MAX = 2**63 - 1
LOAD = (
    *("--users", "12", "--think", "100ms"),
    *("--set", "verifier.settle=1s", "--set", "verifier.hot_interval=300ms"),
)
UNDER_WAY_SECONDS = 1.0
"""Messages that were acknowledged within so short a time were under way together."""
UNDER_WAY_SHARE_MAX = 0.01
"""No more of the acknowledged messages can have been under way: each user has one at a time."""


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What was published, and where."""

    claim: str
    source: str
    number: str = "none given"
    """The number that was published with it."""
    loses: bool
    """Whether it is bad: something is lost, or whatever else it is that `counts` says."""
    counts: str = "lost"
    """What is counted: `lost`, or the kind of violation."""
    is_of_window: bool = False
    """Whether it is about what was acknowledged while the fault was under way, and not in the whole soak."""
    under_way_seconds: float = 0.0
    """What does not lose may still lose what was under way: a few messages, acknowledged within so short a time."""


class Reproduced(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen here."""

    name: str
    verdict: str = ""
    counts: str = "lost"
    acknowledged: int = 0
    lost: int = 0
    """How much was lost, or was whatever else is counted."""
    lost_seconds: float | None = None
    """How much acknowledged time was lost in the worst of the faults; None where time does not matter."""
    span_seconds: float = 0.0
    """In the worst of the faults, the time between the first and the last acknowledgement of what was lost."""
    unacknowledged: int = 0
    """What was read and is gone, besides; nobody had acknowledged it."""
    is_of_window: bool = False
    faults: int = 0
    seed: str = ""
    reason: str = ""
    """Why nothing was shown."""
    seconds: float = 0.0

    @property
    def share(self) -> float:
        return self.lost / self.acknowledged if self.acknowledged else 0.0

    @property
    def measured(self) -> str:
        """What was measured, in a few words."""
        if self.reason:
            return f"not shown: {self.reason}"
        words = f"{self.lost:,} of {self.acknowledged:,} {self.counts}"
        if self.is_of_window:
            words = f"{self.lost:,} of the {self.acknowledged:,} acknowledged during the fault {self.counts}"
        if not self.lost and self.faults:
            words += f" in {self.faults} fault{'' if self.faults == 1 else 's'}"
        if self.lost and self.counts == "lost":
            words += f" ({self.share:.0%})" + ("" if self.lost_seconds is None else f", {self._time_words}")
        return words + (
            f"; {self.unacknowledged:,} were read, not acknowledged, and are gone" if self.unacknowledged else ""
        )

    @property
    def _time_words(self) -> str:
        worst = f"up to {self.lost_seconds:.1f} s"
        return worst if self.span_seconds >= UNDER_WAY_SECONDS else f"acknowledged within {self.span_seconds:.2f} s"

    @property
    def outcome(self) -> str:
        return f"{self.measured} ({self.seconds:.0f} s)"

    def agrees_with(self, published: Published) -> bool:
        if self.reason:
            return False
        is_short = bool(published.under_way_seconds) and self.span_seconds <= published.under_way_seconds
        was_under_way = is_short and self.share <= UNDER_WAY_SHARE_MAX
        is_lost = bool(self.lost) and (published.loses or not was_under_way)
        return is_lost == published.loses


class ReproductionScenario(Scenario[tuple[str, ...], Published, Reproduced], frozen=True, kw_only=True):
    """One published result. Its load is what `soak check` is called with."""

    result = Reproduced

    soak_seconds: int = SOAK_SECONDS
    seed: int = SEED_DEFAULT

    @property
    def command(self) -> str:
        """What a person types to see it, and the violations with it."""
        return shlex.join(["soak", "check", *self._words])

    @property
    def again(self) -> str:
        """What a person types to have it compared with what was published."""
        return f"soak reproduce {self.name} --seed {self.seed}"

    @property
    def _words(self) -> tuple[str, ...]:
        stores = [word for store in self.stores for word in ("--store", store)]
        limits = ("--duration", f"{self.soak_seconds}s", "--seed", str(self.seed))
        return (*stores, *LOAD, *limits, *self.load)

    async def run(self, folder: Path) -> Reproduced:
        first = await self._soak(folder / "data")
        # On a busy machine a group may not form in time, which shows nothing; a result that differs is never repeated.
        return await self._soak(folder / "again") if first.reason else first

    async def _soak(self, data_dir: Path) -> Reproduced:
        words = ("check", "--json", "--data-dir", str(data_dir), *self._words)
        try:
            answer = decode_json(await answer_of("soak", *words, seconds_max=self.seconds_max / 2), dict[str, Any])
        except NoAnswerError as error:
            return self.not_made(" ".join(str(error).split()))
        return self._read(answer)

    def _read(self, answer: dict[str, Any]) -> Reproduced:
        if answer["exit_code"] not in {ExitCode.PASS, ExitCode.VIOLATION}:
            return self.not_made("; ".join(answer.get("reasons", [])) or answer["verdict"])
        result = answer["result"]
        recoveries = result["recoveries"]
        if not recoveries:
            return self.not_made("no fault was measured")
        # Of several stores the first is the one that the result is about.
        store, published = self.stores[0], self.expectation
        own = [one for one in recoveries if one["store"] == store]
        acknowledged = next(one["acknowledged"] for one in result["by_store"] if one["store"] == store)
        unacknowledged = sum(one["unacknowledged"] for one in own)
        lost = sum(one["lost"] + one["tolerated"] for one in own) - unacknowledged
        if published.counts != "lost":
            kinds = [one for one in result.get("violations_by", []) if one["store"] == store]
            lost, unacknowledged = sum(one["count"] for one in kinds if one["kind"] == published.counts), 0
        if published.is_of_window:
            acknowledged, lost = (sum(one[key] for one in own) for key in ("acknowledged_during", "lost_during"))
        return Reproduced(
            name=self.name,
            verdict=answer["verdict"],
            counts=published.counts,
            acknowledged=acknowledged,
            lost=lost,
            lost_seconds=max(one["point_seconds"] + one["after_seconds"] for one in own),
            span_seconds=max(one["span_seconds"] for one in own),
            unacknowledged=unacknowledged,
            is_of_window=published.is_of_window,
            faults=len(own),
            seed=str(result["seed"]),
        )

    def not_made(self, reason: str, *, is_unreachable: bool = False) -> Reproduced:  # noqa: ARG002
        return Reproduced(name=self.name, reason=reason)
