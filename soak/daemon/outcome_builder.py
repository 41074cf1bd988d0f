"""What a run comes to: its outcome, also when it was left early, and what is removed after it."""

from __future__ import annotations

from collections.abc import Mapping

from soak import log
from soak.daemon.board import StatusBoard
from soak.daemon.children import Child
from soak.daemon.clean_up import clean_up, outlives_us
from soak.daemon.folder import DataFolder
from soak.daemon.plan import LEDGER
from soak.daemon.run_identity import RunIdentity
from soak.errors import ExitCode, SoakError
from soak.join import JoinInfo
from soak.masking import mask
from soak.report.outcome import Outcome, Setup, conclude, so_far
from soak.servers.kinds import KINDS
from soak.servers.servers import Servers
from soak.verifier.result import Result

_log = log.get_logger("soak.daemon")


class OutcomeBuilder:
    """Gathers what an outcome is made of while the run goes on."""

    def __init__(
        self,
        beginning: RunIdentity,
        folder: DataFolder,
        testbed: Servers,
        children: Mapping[str, Child],
        board: StatusBoard,
    ) -> None:
        self.failure = ExitCode.INCONCLUSIVE
        """What it is if there is no verdict."""
        self.notes: list[str] = []
        """What a person should read beside the verdict."""
        self.setup: Setup | None = None
        self._beginning = beginning
        self._folder = folder
        self._testbed = testbed
        self._children = children
        self._board = board

    def outcome(self, result: Result | None) -> Outcome:
        known = result if result is not None else self._folder.result_so_far(self._beginning.run)
        # What was found stays found, also where nobody could look at the rest.
        is_certain = result is not None or (known is not None and known.verdict == "violation")
        verdict, code, reasons = conclude(known if is_certain else None, self._board.problems, self.failure)
        if verdict != "violation" and (found := self._folder.violations_on_record(self._beginning.run)):
            # The verifier never came to count them, or what it counted cannot be read.
            verdict, code = "violation", ExitCode.VIOLATION
            reasons = [f"{found} violations of the contract are on record", *reasons]
        return self._outcome_of(known, verdict, code, reasons)

    def so_far(self, result: Result | None) -> Outcome:
        verdict, code, reasons = so_far(result, self._board.problems)
        return self._outcome_of(result, verdict, code, reasons)

    def left(self, reason: str) -> Outcome:
        """Return what it is when somebody would not wait for the end."""
        if (result := self._folder.result(self._beginning.run)) is not None:
            return self.outcome(result)  # the verdict was there already; only what comes after it was cut short
        where = "before everything was verified" if self._board.has_run else "before it began"
        self._board.problems.insert(0, f"left {where}, as asked by {reason}")
        if self._board.has_run:
            self.notes.append(f"resume it with: soak run --data-dir {self._folder.path}")
        return self.outcome(None)

    def _outcome_of(self, result: Result | None, verdict: str, code: ExitCode, reasons: list[str]) -> Outcome:
        return Outcome(
            run=self._beginning.run,
            verdict=verdict,
            exit_code=int(code),
            reasons=reasons,
            data_dir=str(self._folder.path),
            finished=result is not None and result.finished,
            child_restarts={child.name: child.restarts for child in self._children.values()},
            server_restarts={kind: server.restarts for kind, server in self._testbed.nodes.items()},
            notes=list(self.notes),
            result=result,
            setup=self.setup,
        )

    async def clean_up(self, info: JoinInfo | None, *, is_violation: bool) -> None:
        """Remove what the run wrote on servers that outlive it; after a violation, say how."""
        given = self._beginning.plan.given
        lasting = [spec.name for spec in self._beginning.plan.specs if outlives_us(spec, given)]
        if info is None or not lasting:
            return
        if is_violation:
            stores = " ".join(f"--store {name}" for name in lasting)
            flags = {kind: KINDS[kind].flag.removeprefix("--") for kind in given if kind != LEDGER}
            servers = " ".join(f"--{flag} {mask(given[kind])}" for kind, flag in flags.items())
            self.notes.append(
                "what the run wrote is kept for you to look at; remove it with: "
                f"soak clean --namespace {self._beginning.namespace} {stores} {servers}".rstrip()
            )
            return
        for name in lasting:
            if problem := await clean_up(name, info.store_context()):
                self.notes.append(problem)

    async def settle(self, outcome: Outcome) -> None:
        """Let go of what a run that is over does not need."""
        _log.info("over", run=outcome.run, verdict=outcome.verdict, reasons=outcome.reasons)
        if outcome.finished:
            self._folder.forget_run()
            if outcome.verdict == "pass":
                await self.remove_servers()

    async def remove_servers(self) -> None:
        try:
            await self._testbed.discard()
        except (OSError, SoakError) as error:
            _log.warning("the data of servers is not removed", error=error)
        self._folder.remove_servers()
