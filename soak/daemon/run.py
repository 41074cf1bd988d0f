"""One soak from its beginning to its end: servers, ledger, verifier and load, then the drain and the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import secrets
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from soak import join, log
from soak.api.permission import Permission
from soak.api.status import SoakStatus
from soak.configuration import Configuration
from soak.daemon.announced_faults import AnnouncedWindows
from soak.daemon.bed import make_testbed, ways_through_proxies
from soak.daemon.board import StatusBoard
from soak.daemon.children import Child, child_environment, load_command, verifier_command
from soak.daemon.fault_controller import FaultController, check_named, needs_power_cuts, needs_proxies
from soak.daemon.fault_routes import AnnouncedRoutes, FaultRoutes
from soak.daemon.folder import DataFolder, violations_not_hidden
from soak.daemon.http import HttpServer
from soak.daemon.notify import Notifier, keep_notified
from soak.daemon.opening import open_run
from soak.daemon.outcome_builder import OutcomeBuilder, OutcomeWriter
from soak.daemon.plan import LEDGER
from soak.daemon.processes import ChildrenFile
from soak.daemon.recorder import SeriesRecorder
from soak.daemon.run_identity import RunIdentity, begin, remember, write_heartbeats
from soak.daemon.runbook import Runbook
from soak.daemon.status_page import StatusPage
from soak.daemon.stop import LeftError, StopRequest, await_verdict, end_load, reason_to_abort, write_end_of_load
from soak.daemon.unplanned_faults import UnplannedFaults
from soak.daemon.view import View
from soak.errors import DamagedRecordError, ExitCode, SoakError, UsageError
from soak.faults.catalogue import ALL
from soak.faults.window import heal_leftovers
from soak.join import JoinInfo
from soak.ledger.run import RunJournal
from soak.ledger.shards import WHOLE, Shard
from soak.page.standing import Measure
from soak.proc.lock import DataFolderLock
from soak.report import outcome as outcomes
from soak.report.outcome import RunOutcome
from soak.servers.server import LifecycleEvent
from soak.tasks import end_tasks

if TYPE_CHECKING:
    from soak.daemon.otlp import OtlpExporter

REFRESH_SECONDS = 1.0
TOKEN_BYTES = 32
FIRST_MESSAGE_SECONDS_MAX = 30.0
FIRST_MESSAGE_POLL_SECONDS = 0.25
SERVERS_STOP_SECONDS_MAX = 30.0
NOTES_MAX = 20
ERRORS_SAID_MAX = 32

_log = log.get_logger("soak.daemon")


async def run_soak(
    configuration: Configuration, view: View, *, with_load: bool = True, is_fresh: bool = False
) -> RunOutcome:
    """Run one soak in its data folder, or resume the one that is there; raises `SoakError` where it cannot begin."""
    settings = configuration.settings
    folder = DataFolder(settings.data_dir)
    with DataFolderLock(folder.path):
        folder.prepare()
        log.configure(settings.log, file=folder.logs / "daemon.log", to_stderr=settings.log.format != "auto")
        register = ChildrenFile(folder.children_file)
        killed = register.end_leftovers()
        beginning = _begin(configuration, folder, is_fresh=is_fresh)
        if killed:
            line = f"killed {killed} processes that an earlier daemon left behind"
            beginning = dataclasses.replace(beginning, notes=(*beginning.notes, line))
        stop = StopRequest(view.say)
        with stop.listening(), violations_not_hidden(folder, beginning.run):
            daemon = Daemon(folder, beginning, register, stop, view, with_load=with_load)
            return await (daemon.conclude() if beginning.is_concluded else daemon.run())


def _begin(configuration: Configuration, folder: DataFolder, *, is_fresh: bool) -> RunIdentity:
    try:
        return begin(configuration, folder, is_fresh=is_fresh)
    except DamagedRecordError:
        with violations_not_hidden(folder):
            raise


class Daemon:
    """Runs one soak: starts and stops its parts, and passes on what happens."""

    def __init__(
        self,
        folder: DataFolder,
        beginning: RunIdentity,
        register: ChildrenFile,
        stop: StopRequest,
        view: View,
        *,
        with_load: bool,
    ) -> None:
        self._configuration = beginning.configuration
        self._settings = beginning.configuration.settings
        self._folder = folder
        self._beginning = beginning
        self._stop = stop
        self._view = view
        self._notifier = Notifier()
        self._info: JoinInfo | None = None
        self._journal: RunJournal | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._errors_said: set[str] = set()
        self._faults = UnplannedFaults(self._say)
        self._talking = asyncio.Event()
        """The first message was acknowledged, or none is to be expected."""
        self._testbed = make_testbed(
            self._settings,
            beginning.plan,
            folder.path,
            on_event=self._on_server_event,
            say=self._say,
            proxied=needs_proxies(self._settings.faults),
            power_cuts=needs_power_cuts(self._settings.faults),
        )
        self._children = {child.name: child for child in self._make_children(register, with_load=with_load)}
        under_test = [kind for kind in beginning.plan.kinds if kind != LEDGER]
        self._announced = AnnouncedWindows(folder.announced_file, beginning.run, under_test, self._say)
        self._board = StatusBoard(
            beginning, folder, self._settings.duration, self._testbed, self._children, self._faults, self._announced
        )
        self._ending = OutcomeBuilder(beginning, folder, self._testbed, self._children, self._board)
        self._outcomes = OutcomeWriter(folder, beginning.run)
        self._recorder = SeriesRecorder(folder.series_file, beginning.run, beginning.plan.names)
        self._token = secrets.token_hex(TOKEN_BYTES)
        self._permission = Permission(self._token)
        self._faults_page = FaultRoutes(self._permission)
        self._conducting = FaultController(
            self._settings.faults,
            beginning,
            self._testbed,
            self._faults_page,
            self._say,
            duration_seconds=self._settings.duration,
        )
        self._page = self._make_page()
        announced_page = AnnouncedRoutes(self._permission, self._announced)
        runbook = Runbook(self._settings.http.runbook)
        routes = [*self._faults_page.routes(), *announced_page.routes(), *self._page.routes(), *runbook.routes()]
        self._http = HttpServer(self._settings.http, self._board, routes)
        self._otlp = self._make_exporter()

    # The course of a run ------------------------------------------------------------------------------------

    async def run(self) -> RunOutcome:
        """Start, soak, drain; whatever happens, nothing is left running."""
        try:
            await self._http.start()
            self._board.http_address = self._http.address
            try:
                await self._stop.unless_asked(self._start())
                self._launch()
                await self._stop.requested.wait()
                outcome = await self._stop.unless_urgent(self._drain())
                self._page.end(outcome)
                await self._let_scrapers_know(outcome)
            except LeftError:
                outcome = self._ending.left(self._stop.reason)
                self._page.end(outcome)
                if not self._board.has_run:
                    await self._let_scrapers_know(outcome)
        finally:
            await self._close()
        await self._ending.settle(outcome)
        if self._info is not None or self._beginning.resumed is not None:
            self._outcomes.write_last(outcome)
        self._notifier.send(STATUS=f"run {outcome.run} is over: {outcome.verdict}")
        self._notifier.close()
        return outcome

    async def conclude(self) -> RunOutcome:
        """Report a run whose daemon was killed after the verdict and before its own report."""
        self._say(f"run {self._beginning.run} has its verdict; its daemon was killed before it reported it")
        if self._beginning.plan.given:
            self._ending.notes.append(
                f"what the run wrote may still be on its servers, under the namespace {self._beginning.namespace}; "
                "'soak clean' removes it"
            )
        if (previous := outcomes.read(self._folder.path)) is not None:
            self._ending.setup = previous.setup
        outcome = self._ending.outcome(self._folder.result(self._beginning.run))
        await self._board.close()
        await self._ending.settle(outcome)
        self._outcomes.write_last(outcome)
        self._view.close()
        return outcome

    async def _start(self) -> None:
        beginning = self._beginning
        check_named(self._settings.faults, beginning.plan, self._settings.testbed.allow_faults)
        for child in self._children.values():
            if child.name != "load" or beginning.ending is None:
                child.start()  # it imports its modules while servers start, and waits for the run to be published
        for note in beginning.notes:
            self._say(note)
        stores = ", ".join(beginning.plan.names)
        self._say(f"{'resuming run' if beginning.resumed else 'run'} {beginning.run} on {stores}")
        self._announced.take_up(is_resumed=beginning.resumed is not None)
        self._say_who_idles()
        self._say(f"page {self._http.address}/, metrics at {self._http.address}/metrics")
        self._view.offer(
            f"Control link (single use, 10 minutes): {self._http.address}/#code={self._permission.new_code()}"
        )
        self._spawn(self._refresh(), "refresh")
        self._spawn(self._board.consumption.measure(), "consumption")
        if self._otlp is not None:
            self._spawn(self._otlp.send_forever(), "OTLP")
        self._spawn(keep_notified(self._notifier, self._board.snapshot), "service manager")
        servers = dict(beginning.plan.given)
        if beginning.plan.embedded:
            self._say(f"starting servers: {', '.join(beginning.plan.embedded)}")
        servers |= await self._testbed.start(beginning.plan.kinds)
        for line in ways_through_proxies(self._testbed, beginning.plan):
            self._say(line)
        for left in await heal_leftovers(self._testbed):
            self._say(f"healed {left.fault} of {left.target}, which an earlier daemon left behind")
            if left.target in beginning.plan.given:
                self._faults.healed_since(ALL[left.fault], left.target)
        self._testbed.namespace = beginning.namespace
        self._conducting.prepare()
        opened = await open_run(
            self._configuration,
            beginning,
            servers,
            patroni=[url for server in self._testbed.nodes.values() for url in server.patroni_addresses],
            http_address=self._http.address,
            token=self._token,
            say=self._say,
        )
        self._journal = self._announced.journal = opened.journal
        self._ending.setup = opened.setup
        self._spawn(self._faults.write_to(opened.journal), "faults")
        if beginning.resumed:
            under_test = [kind for kind in beginning.plan.embedded if kind != LEDGER]
            self._faults.restarted_with_daemon(under_test, beginning.last_alive_us)
            # Before the verifier starts: it may be about to give its verdict, and must not accuse what this excuses.
            await self._faults.flush()
        remember(self._folder, beginning, opened.info.header, beginning.ending)
        join.publish(self._folder.path, opened.info)
        self._info = opened.info
        beating = write_heartbeats(self._folder.heartbeat_file, beginning.run, beginning.active_seconds)
        self._spawn(beating, "heartbeat")

    def _launch(self) -> None:
        """Watch load and verifier, which begin now that the run is published: acknowledged messages count."""
        self._board.running()
        self._spawn(self._recorder.record(self._board.snapshot), "recorder")
        self._spawn(self._outcomes.write_forever(self._ending.so_far), "telling")
        for child in self._children.values():
            if child.is_started:
                self._spawn(self._watch(child), f"watch {child.name}")
        if self._beginning.ending is not None:
            self._stop.ask(f"{self._beginning.ending}, before the daemon was killed")
            return
        self._say("running; Ctrl-C drains and gives the verdict")
        self._break_servers()
        self._spawn(self._await_first_message(), "first message")
        if self._settings.duration is not None:
            self._spawn(self._end_in_time(), "duration")

    def _break_servers(self) -> None:
        """Allow faults by hand from now on, and scheduled ones after the first message."""
        if self._journal is None:
            return
        self._board.conductor = self._conducting.begin(
            self._journal, on_problem=self._note_problem, abort=self._stop.ask
        )
        if self._conducting.plan is not None and self._conducting.plan.rules:
            self._spawn(self._follow_schedule(), "schedule of faults")

    async def _follow_schedule(self) -> None:
        await self._talking.wait()
        await self._conducting.follow()

    async def _drain(self) -> RunOutcome:
        self._board.phase = "draining"
        self._notifier.send(STOPPING="1")
        self._say(f"draining: {self._stop.reason}")
        await self._conducting.finish()
        self._board.problems += await self._announced.end_all()
        if (load := self._children.get("load")) is not None:
            await end_load(load, self._settings)
        verifier = self._children["verifier"]
        if self._journal is not None and not verifier.gave_up and self._ending.failure is not ExitCode.UNREACHABLE:
            if self._info is not None:
                ending = self._beginning.ending or self._stop.reason
                remember(self._folder, self._beginning, self._info.header, ending)
            self._note_problem(await write_end_of_load(self._journal, self._faults, self._stop.reason))
            self._note_problem(await await_verdict(verifier, self._settings, self._say))
        result = self._folder.result(self._beginning.run)
        if result is not None:
            await self._recorder.end(result.by_store, result.ended_wall_seconds)
            await self._ending.clean_up(self._info, is_violation=result.verdict == "violation")
        return self._ending.outcome(result)

    async def _let_scrapers_know(self, outcome: RunOutcome) -> None:
        """Wait until Prometheus, if it scrapes us, has seen the end; otherwise it would look like a crash."""
        self._board.ended(outcome.verdict)
        if self._otlp is not None:
            await self._otlp.send()
        if longest := self._http.scrapes.expected_seconds():
            self._say(f"{outcome.verdict}; waiting at most {longest:.0f}s for a Prometheus scrape, Ctrl-C skips it")
        with contextlib.suppress(LeftError):
            await self._stop.unless_urgent(self._http.scrapes.until_next())

    async def _close(self) -> None:
        self._notifier.send(STOPPING="1")
        await self._conducting.finish()
        await asyncio.gather(*(child.end_now() for child in self._children.values()))
        await end_tasks(self._tasks)
        if self._journal is not None:
            await self._journal.close()
        try:
            async with asyncio.timeout(SERVERS_STOP_SECONDS_MAX):
                await self._testbed.stop()
        except (OSError, SoakError) as error:
            _log.warning("server_stop_failed", error=error)
        await self._board.close()
        await self._http.close()
        self._view.close()
        if self._info is None and self._beginning.resumed is None:
            # It never began: the servers started for it hold no data of a run.
            await self._ending.remove_servers()

    def _say_who_idles(self) -> None:
        """Say so where there are fewer load processes than verifiers: each of them belongs to one."""
        shards, processes = self._settings.verifier.shards, self._settings.load.processes
        if "load" in self._children and processes < shards:
            self._say(
                f"{shards} verifiers share the run, and only {processes} of them {'has' if processes == 1 else 'have'} "
                f"something to read: give the load --processes {shards}"
            )

    # What it is made of -------------------------------------------------------------------------------------

    def _make_children(self, register: ChildrenFile, *, with_load: bool) -> list[Child]:
        settings, path = self._settings, self._folder.path
        shards = [Shard(index, settings.verifier.shards) for index in range(1, settings.verifier.shards + 1)]
        here = shards[: len(shards) - settings.verifier.shards_elsewhere]
        commands = {shard.name: verifier_command(path, shard) for shard in here}
        if with_load:
            commands["load"] = load_command(settings, path)
        finals = {shard.name: partial(self._has_result, shard) for shard in here}
        return [
            Child(
                name,
                command,
                environment=child_environment(settings, path),
                log_path=self._folder.logs / f"{name}.log",
                settings=settings.supervision,
                register=register,
                is_final=finals.get(name, lambda: False),
                ended_by=self._ended_load if name == "load" else (lambda: ""),
                on_event=self._say,
            )
            for name, command in commands.items()
        ]

    def _ended_load(self) -> str:
        return self._conducting.claim_load_end()

    def _make_page(self) -> StatusPage:
        verifier = self._settings.verifier
        return StatusPage(
            self._folder,
            self._permission,
            Measure(
                minimum_verified=verifier.minimum_verified,
                unverified_seconds_max=verifier.unverified_age_max,
                tests_alarm=bool(verifier.canary),
            ),
            self._recorder,
            stop=self._stop.ask,
            why_no_faults=lambda: "" if self._faults_page.hand is not None else self._faults_page.refusal,
        )

    def _make_exporter(self) -> OtlpExporter | None:
        if self._settings.otlp.endpoint is None:
            return None
        try:
            from soak.daemon.otlp import OtlpExporter  # noqa: PLC0415  needs an extra
        except ModuleNotFoundError:
            raise UsageError("otlp.endpoint needs opentelemetry-proto; install soak[otlp]") from None
        return OtlpExporter(self._settings.otlp, self._beginning.run, self._http.metrics_text)

    def _has_result(self, shard: Shard = WHOLE) -> bool:
        return self._folder.result(self._beginning.run, shard) is not None

    # What happens meanwhile ---------------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        _log.info("message", text=text)
        self._view.say(text)

    def _note_problem(self, problem: str | None) -> None:
        if problem is not None:
            self._board.problems.append(problem)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._on_task_done)
        self._tasks.append(task)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        # A task that fails must not leave a soak that looks alive.
        _log.error("daemon_task_failed", task=task.get_name(), exc_info=error)
        self._note_problem(
            f"internal error in {task.get_name()} ({type(error).__name__}: {error}), see logs/daemon.log"
        )
        self._ending.failure = ExitCode.INTERNAL
        self._stop.ask("internal error")

    async def _refresh(self) -> None:
        while True:
            snapshot = await self._board.snapshot()
            if self._info is not None:
                join.keep_published(self._folder.path, self._info)
            self._view.show(snapshot)
            await self._page.show(snapshot)
            self._say_new_errors(snapshot)
            abort = reason_to_abort(snapshot, self._settings.faults) if snapshot.phase == "running" else None
            if abort is not None and not self._stop.requested.is_set():
                self._note_problem(abort.reason if abort.is_problem else None)
                self._ending.failure = abort.failure
                self._stop.ask(abort.reason)
            await asyncio.sleep(REFRESH_SECONDS)

    def _say_new_errors(self, snapshot: SoakStatus) -> None:
        for line in snapshot.store_errors():
            if line not in self._errors_said and len(self._errors_said) < ERRORS_SAID_MAX:
                self._errors_said.add(line)
                self._say(line)

    async def _await_first_message(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FIRST_MESSAGE_SECONDS_MAX):
                while not self._has_begun(await self._board.snapshot()):  # noqa: ASYNC110  asked over HTTP
                    await asyncio.sleep(FIRST_MESSAGE_POLL_SECONDS)
        self._talking.set()

    def _has_begun(self, snapshot: SoakStatus) -> bool:
        # A load that is somebody else's may come at any time; the verifier has to be there before anything is broken.
        return snapshot.totals.acknowledged > 0 if "load" in self._children else snapshot.verifier is not None

    async def _end_in_time(self) -> None:
        """End when the duration is over. It begins with the first acknowledged message, not with the load's imports."""
        await self._talking.wait()
        self._board.start_clock()
        await asyncio.sleep(self._board.remaining_seconds() or 0.0)
        self._stop.ask("the duration is over")

    async def _watch(self, child: Child) -> None:
        await child.ended.wait()
        if child.gave_up:
            self._note_problem(f"the {child.name} died too often: {child.last_words or child.log_path}")
            if child.last_exit in (ExitCode.USAGE, ExitCode.UNREACHABLE, ExitCode.INTERNAL):
                self._ending.failure = ExitCode(child.last_exit)
        self._stop.ask(f"the {child.name} has ended")

    def _on_server_event(self, event: LifecycleEvent) -> None:
        if event.what == "gave_up":
            self._note_problem(f"server {event.kind} does not start any more: {event.detail}")
            self._ending.failure = ExitCode.UNREACHABLE
            self._stop.ask(f"server {event.kind} is lost")
            return
        self._say(f"server {event.kind} {event.what}: {event.detail}")
        if event.what == "repaired":
            # Unavailability, and no loss by itself; but nobody may take it for a server that comes back.
            if len(self._ending.notes) < NOTES_MAX:
                self._ending.notes.append(event.detail)
            return
        if event.kind == LEDGER:
            return  # no window: the ledger is not under test, and its absence excuses nothing
        if event.what == "died":
            self._faults.died(event)
        else:
            self._faults.came_back(event)
