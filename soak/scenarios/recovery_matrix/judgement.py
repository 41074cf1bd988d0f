"""What one fault took of what was acknowledged, as the checker judges it, and what came of a cell.

Pure: no clock, no socket.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import msgspec

from soak.checker.contract import Contract
from soak.checker.events import LOSSES, Confirmed, Gone
from soak.checker.expected_session import ExpectedSession
from soak.checker.faults import FaultHistory, FaultWindow, age_at, allowed_loss_seconds
from soak.checker.outcome import Attempt, Outcome
from soak.checker.read import Read, Rules
from soak.checker.second_look import Lost
from soak.checker.session import SessionChecker, StoreJudging
from soak.checker.telemetry import ServerSample
from soak.checker.text import MessageGenerator
from soak.contracts.guarantees import Loss, guarantees_of
from soak.contracts.presets import PRESETS
from soak.errors import ExitCode, SoakError
from soak.scenarios.servers import as_given


class DerivedContract(msgspec.Struct, frozen=True, kw_only=True):
    """The contract of one cell, and where it comes from."""

    contract: Contract
    origin: str


def promise_of(sample: ServerSample, own: Contract, preset: str | None) -> DerivedContract:
    """Return what the server that gave this sample can promise, or the preset that it is held to instead.

    Clauses that no configuration decides stay the store's own.
    """
    given = guarantees_of(sample)
    if preset is not None:
        declared = msgspec.structs.replace(own, **PRESETS[preset].clauses())
        return DerivedContract(contract=declared, origin=f"held to {preset}, and configured to {given.words}")
    if not (given.crash.is_known and given.power.is_known):
        raise SoakError(f"{sample.server} does not say how it keeps its data, so it cannot be held to anything")
    return DerivedContract(contract=as_given(own, given), origin=given.words)


STORE = "matrix"

Reads = Mapping[str, Read]
"""A whole read of each session, by its name."""


class RecoveryMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and what the contract says to it."""

    acknowledged: int
    unknown: int
    """Writes whose reply never came."""
    surfaced: int
    """Those of them that are there: nobody may count on it, and it is no fault."""
    lost: int
    holes: int
    """Lost, although something that was sent after their acknowledgement is still there."""
    beyond: int
    """Lost, and not excused by the contract."""
    recovery_point_seconds: float
    """How long before the fault the oldest lost message had been acknowledged."""
    promised_seconds: float | None
    """Acknowledged tail that this fault may take; None: anything."""
    complaints: list[str]
    """Why this is beyond the contract; empty: it is inside."""

    @property
    def is_inside(self) -> bool:
        return not self.complaints

    @property
    def promised(self) -> str:
        return Loss(seconds=self.promised_seconds).words


def judge(
    attempts: Mapping[str, Sequence[Attempt]],
    rounds: Sequence[Reads],
    window: FaultWindow,
    contract: Contract,
    author: MessageGenerator,
    settle_us: int,
) -> RecoveryMeasurement:
    """Hand what was written, by session, and every round of reads to the checker, and count what it says.

    The window ends when the server is down and its last reply was read: what is acknowledged later is acknowledged by
    the server that came back, so this fault excuses none of it.
    """
    window = msgspec.structs.replace(window, injected=window.ended, down=True, swept=[])
    faults = FaultHistory({STORE: [window.target]})
    faults.begin(window)
    judging = StoreJudging(
        rules=Rules(contract=contract), author=author, faults=faults, targets=[window.target], settle_us=settle_us
    )
    checkers = {session: _checker(judging, session, tried) for session, tried in attempts.items()}
    losses: list[Lost] = []
    strange = 0
    for reads in rounds:
        for session, read in reads.items():
            for event in checkers[session].observe(read).events:
                if isinstance(event, Gone):
                    losses += event.losses
                elif isinstance(event, Confirmed) and event.kind not in LOSSES:
                    strange += len(event.wrong)
        # Who survived is known only when all sessions have been read once.
        faults.mark_swept(STORE)
    tried = [attempt for each in attempts.values() for attempt in each]
    unknown = [one for one in tried if one.outcome == Outcome.UNKNOWN]
    surfaced = sum(
        one.seq in checkers[session].book.writers[one.writer].standing
        for session, each in attempts.items()
        for one in each
        if one.outcome == Outcome.UNKNOWN
    )
    lost = [one.attempt for one in losses if one.attempt is not None]
    holes = [one for one in lost if one.ended < window.survivor_sent]
    beyond = [one.attempt for one in losses if one.excused_by is None and one.attempt is not None]
    too_old = [one for one in beyond if one.ended >= window.survivor_sent]
    promised_seconds = allowed_loss_seconds(window, contract)
    return RecoveryMeasurement(
        acknowledged=len(tried) - len(unknown) - sum(one.outcome == Outcome.FAILED for one in tried),
        unknown=len(unknown),
        surfaced=surfaced,
        lost=len(lost),
        holes=len(holes),
        beyond=len(beyond),
        recovery_point_seconds=max((0, *(age_at(window, one) for one in lost))) / 1e6,
        promised_seconds=promised_seconds,
        complaints=[
            *_hole([one for one in beyond if one.ended < window.survivor_sent]),
            *_tail(too_old, window, promised_seconds),
            *_strange(strange),
        ],
    )


def _checker(judging: StoreJudging, session: str, attempts: Sequence[Attempt]) -> SessionChecker:
    checker = SessionChecker(judging, ExpectedSession(session=session, store=STORE))
    for attempt in attempts:
        checker.book.lease(attempt.writer, attempt.seq)
        checker.apply(attempt)
    return checker


def _hole(holes: Sequence[Attempt]) -> list[str]:
    if not holes:
        return []
    return [f"{len(holes):,} lost out of the middle: something that was sent after their acknowledgement is there"]


def _tail(too_old: Sequence[Attempt], window: FaultWindow, promised_seconds: float | None) -> list[str]:
    if not too_old:
        return []
    oldest_seconds = max(age_at(window, attempt) for attempt in too_old) / 1e6
    promised = Loss(seconds=promised_seconds).words
    return [f"{len(too_old):,} lost up to {oldest_seconds:.2f} s before the fault, and promised is: {promised}"]


def _strange(items: int) -> list[str]:
    return [f"{items:,} items read back are not as they were written, or are there twice"] if items else []


class RecoveryVerdict(enum.Enum):
    """Whether a server kept what its configuration promises."""

    INSIDE = "inside"
    NOT_MADE = "not made"
    BEYOND = "BEYOND"


_BADNESS = {RecoveryVerdict.INSIDE: 0, RecoveryVerdict.NOT_MADE: 1, RecoveryVerdict.BEYOND: 2}


class RecoveryCell(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one cell."""

    configuration: str
    fault: str
    server: str = ""
    """Name and version, as the server reports them."""
    origin: str = ""
    """What the contract was derived from, in words."""
    measured: RecoveryMeasurement | None = None
    """None: the cell could not be made."""
    recovery_seconds: float = 0.0
    """From the fault to the first write and read that succeeded."""
    repairs: list[str] = []
    """What had to be done about its data by hand before it started again, if anything."""
    not_made: str = ""
    """Why the cell could not be made."""
    is_unreachable: bool = False
    """It could not be made because a server cannot be started or does not answer."""
    repeats: int = 1
    """This is the worst of so many."""
    seconds: float = 0.0

    @property
    def verdict(self) -> RecoveryVerdict:
        if self.measured is None:
            return RecoveryVerdict.NOT_MADE
        return RecoveryVerdict.INSIDE if self.measured.is_inside else RecoveryVerdict.BEYOND

    @property
    def outcome(self) -> str:
        if self.measured is None:
            return f"not made: {self.not_made}"
        lost = f"{self.measured.lost:,} of {self.measured.acknowledged:,} lost"
        return f"{lost}, {self.verdict.value} ({self.seconds:.0f} s)"

    @property
    def reasons(self) -> list[str]:
        """Why it is not inside."""
        return [self.not_made] if self.measured is None else self.measured.complaints


def worst_of(results: Sequence[RecoveryCell]) -> RecoveryCell:
    """Return the worst of several tries at one cell, with the longest recovery of them all."""
    worst = max(results, key=_badness)
    return msgspec.structs.replace(
        worst,
        recovery_seconds=max(result.recovery_seconds for result in results),
        repairs=[repair for result in results for repair in result.repairs],
        repeats=len(results),
        seconds=sum(result.seconds for result in results),
    )


def _badness(result: RecoveryCell) -> tuple[int, int, float, int]:
    measured = result.measured
    if measured is None:
        return _BADNESS[result.verdict], 0, 0.0, 0
    return _BADNESS[result.verdict], measured.beyond, measured.recovery_point_seconds, measured.lost


def exit_code_of(results: Sequence[RecoveryCell]) -> ExitCode:
    """Return what the command answers with: a loss beyond a promise outweighs what could not be tried."""
    verdicts = {result.verdict for result in results}
    if RecoveryVerdict.BEYOND in verdicts:
        return ExitCode.VIOLATION
    if results and all(result.is_unreachable for result in results):
        return ExitCode.UNREACHABLE
    return ExitCode.INCONCLUSIVE if RecoveryVerdict.NOT_MADE in verdicts or not results else ExitCode.PASS
