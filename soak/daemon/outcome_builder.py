"""The outcome of a run: built at its end and while it runs, kept in the data folder, and the clean-up after it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping

import structlog

from soak import log
from soak.daemon.board import StatusBoard
from soak.daemon.children import Child
from soak.daemon.folder import DataFolder
from soak.daemon.plan import LEDGER
from soak.daemon.run_identity import RunIdentity
from soak.errors import ExitCode, SoakError
from soak.join import JoinInfo
from soak.masking import mask
from soak.report import outcome as outcomes
from soak.report.outcome import RunOutcome, RunSetup, conclude, so_far
from soak.servers.kinds import KINDS
from soak.servers.servers import Servers
from soak.stores import registry
from soak.stores.protocol import StoreContext, StoreSpec
from soak.verifier.result import Result

CLEAN_UP_SECONDS_MAX = 120.0


def outlives_us(spec: StoreSpec, given: Iterable[str]) -> bool:
    """Return whether what this store wrote stays when the embedded servers are gone."""
    return not spec.needs or any(kind in given for kind in spec.needs)


async def clean_up(name: str, context: StoreContext) -> str | None:
    """Remove a store's namespace; returns what went wrong, if something did."""
    try:
        async with asyncio.timeout(CLEAN_UP_SECONDS_MAX):
            store = await registry.open_store(name, context)
            try:
                remove = getattr(store, "clean_up", None)
                if remove is None:
                    return f"{name} has no clean_up; what it wrote under {context.namespace} stays"
                await remove()
            finally:
                await store.close()
    except SoakError as error:
        return f"{name}: {context.namespace} is not removed: {error}"
    except TimeoutError:
        return f"{name}: {context.namespace} is not removed: it took longer than {CLEAN_UP_SECONDS_MAX:g}s"
    except Exception as error:  # noqa: BLE001  a user's store may raise anything; the verdict is not changed by it
        return f"{name}: {context.namespace} is not removed: {type(error).__name__}: {error}"
    return None


_log = log.get_logger("soak.daemon")


class OutcomeBuilder:
    """Collects what the outcome is made of while the run goes on."""

    def __init__(
        self,
        beginning: RunIdentity,
        folder: DataFolder,
        testbed: Servers,
        children: Mapping[str, Child],
        board: StatusBoard,
    ) -> None:
        self.failure = ExitCode.INCONCLUSIVE
        """The exit code if there is no verdict."""
        self.notes: list[str] = []
        """Shown beside the verdict."""
        self.setup: RunSetup | None = None
        self._beginning = beginning
        self._folder = folder
        self._testbed = testbed
        self._children = children
        self._board = board

    def outcome(self, result: Result | None) -> RunOutcome:
        known = result if result is not None else self._folder.result_so_far(self._beginning.run)
        # A violation stays a violation, even if the rest could not be verified.
        is_certain = result is not None or (known is not None and known.verdict == "violation")
        verdict, code, reasons = conclude(known if is_certain else None, self._board.problems, self.failure)
        if verdict != "violation" and (found := self._folder.violations_on_record(self._beginning.run)):
            # The verifier did not count them, or its count cannot be read.
            verdict, code = "violation", ExitCode.VIOLATION
            reasons = [f"{found} violations of the contract are on record", *reasons]
        return self._outcome_of(known, verdict, code, reasons)

    def so_far(self, result: Result | None) -> RunOutcome:
        verdict, code, reasons = so_far(result, self._board.problems)
        return self._outcome_of(result, verdict, code, reasons)

    def left(self, reason: str) -> RunOutcome:
        """Return the outcome of a run that was quit before its end."""
        if (result := self._folder.result(self._beginning.run)) is not None:
            return self.outcome(result)  # the verdict was there already; only what comes after it was cut short
        where = "before everything was verified" if self._board.has_run else "before it began"
        self._board.problems.insert(0, f"quit {where} ({reason})")
        if self._board.has_run:
            self.notes.append(f"resume it with: soak run --data-dir {self._folder.path}")
        return self.outcome(None)

    def _outcome_of(self, result: Result | None, verdict: str, code: ExitCode, reasons: list[str]) -> RunOutcome:
        return RunOutcome(
            run=self._beginning.run,
            verdict=verdict,
            exit_code=int(code),
            reasons=reasons,
            data_dir=str(self._folder.path),
            finished=result is not None and result.finished,
            child_restarts={child.name: child.restarts for child in self._children.values()},
            server_restarts={kind: server.restarts for kind, server in self._testbed.nodes.items()},
            faults_scheduled=self._board.faults_scheduled,
            faults_skipped=self._board.faults_skipped,
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
                "the data of the run is kept on the server for inspection; remove it with: "
                f"soak clean --namespace {self._beginning.namespace} {stores} {servers}".rstrip()
            )
            return
        for name in lasting:
            if problem := await clean_up(name, info.store_context()):
                self.notes.append(problem)

    async def settle(self, outcome: RunOutcome) -> None:
        """Remove what a finished run does not need."""
        _log.info("run_finished", run=outcome.run, verdict=outcome.verdict, reasons=outcome.reasons)
        if outcome.finished:
            self._folder.forget_run()
            if outcome.verdict == "pass":
                await self.remove_servers()

    async def remove_servers(self) -> None:
        try:
            await self._testbed.discard()
        except (OSError, SoakError) as error:
            _log.warning("server_data_not_removed", error=error)
        self._folder.remove_servers()


INTERVAL_SECONDS = 5.0
LOOK_SECONDS = 0.5
"""How often it is looked whether a violation was found since."""

_log = structlog.get_logger("soak.daemon")


class OutcomeWriter:
    """Keeps the outcome in the data folder up to date; nothing is written after the last one."""

    def __init__(self, folder: DataFolder, run: str) -> None:
        self._folder = folder
        self._run = run
        self._writing = threading.Lock()
        self._is_over = False

    async def write_forever(self, make: Callable[[Result | None], RunOutcome]) -> None:
        """Write the outcome so far every few seconds, and as soon as another violation is found."""
        written_at, last = float("-inf"), None
        while True:
            so_far = await asyncio.to_thread(self._folder.result_so_far, self._run)
            found = so_far.totals.violations if so_far is not None else None
            if found != last or time.monotonic() - written_at >= INTERVAL_SECONDS:
                written_at, last = time.monotonic(), found
                await asyncio.to_thread(self._write, make(so_far))
            await asyncio.sleep(LOOK_SECONDS)

    def write_last(self, outcome: RunOutcome) -> None:
        """Write the final outcome. A late thread with an earlier one writes nothing after it."""
        self._write(outcome, is_last=True)

    def _write(self, outcome: RunOutcome, *, is_last: bool = False) -> None:
        with self._writing:
            if self._is_over:
                return
            self._is_over = is_last
            try:
                outcomes.write(self._folder.path, outcome)
            except OSError as error:
                _log.warning("outcome_not_written", error=str(error))
