"""Where soak meets Locust: options, joining a run, starting and ending the load with Locust's tests.

Works in every mode Locust has: alone, with its web page, `--headless`, `--processes`, `--master` and `--worker`.
Load runs in local and worker processes; a master only finds, or starts, the run and collects its workers' goodbyes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
from typing import Any

import gevent
from gevent.event import Event
from locust.runners import MasterRunner, WorkerRunner

from soak import join
from soak.errors import ExitCode, SoakError
from soak.join import JoinInfo
from soak.load import options as locust_options
from soak.load.embedded import EmbeddedFailedError, EmbeddedSoak, find_run, wait_for_run
from soak.load.leaving import Signals, Watch, leave
from soak.load.locust_page import MemoryPage
from soak.load.locust_stats import prune_for_ever
from soak.load.locust_user import FAREWELL_SECONDS_MAX, RunningLoad, add_browser_users
from soak.proc.collector import spare_the_collector
from soak.proc.spawn import die_with_parent

STOP_TIMEOUT_SECONDS = 3.0
"""Time for a turn under way to end by itself when a test stops, unless --stop-timeout says otherwise."""
NO_PAGE = "the stores of the run"
"""For Locust's start page, which asks for a host, where the soak's page is not served."""
RUN_LOOK_SECONDS = 2.0
POLL_SECONDS = 0.05

DRAIN_MESSAGE = "soak-drain"
FAREWELL_MESSAGE = "soak-farewell"

_log = logging.getLogger("soak.load")


def register(events: Any) -> None:
    """Listen to Locust's events; called once by a locustfile."""
    events.init_command_line_parser.add_listener(_on_command_line)
    events.init.add_listener(_on_init)


def _on_command_line(parser: Any, **_details: object) -> None:
    with _one_line_errors():
        locust_options.add_options(parser)


def _on_init(environment: Any, runner: Any, **_details: object) -> None:
    if runner is None:
        return
    with _one_line_errors():
        LocustProcess(environment, runner).begin()


@contextlib.contextmanager
def _one_line_errors() -> Any:
    """Locust would print a traceback and go on: say what is wrong in one line and end with its code."""
    try:
        yield
    except SoakError as error:
        code = error.code if isinstance(error, EmbeddedFailedError) else int(error.exit_code)
        # What the embedded soak said begins so already.
        sys.stderr.write(f"soak: {str(error).removeprefix('soak: ')}\n")
        sys.exit(code)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


class LocustProcess:
    """One Locust process taking part in a run, from its start to its exit code."""

    def __init__(self, environment: Any, runner: Any) -> None:
        self._environment = environment
        self._runner = runner
        self._options = environment.parsed_options
        self._settings = locust_options.settings()
        self._data_dir = locust_options.data_dir(self._options)
        self._is_master = isinstance(runner, MasterRunner)
        self._is_worker = isinstance(runner, WorkerRunner)
        self._is_supervised = os.environ.get("SOAK_SUPERVISED") == "1"
        self._embedded: EmbeddedSoak | None = None
        self._load: RunningLoad | None = None
        self._farewells: set[str] = set()
        self._is_finished = Event()
        self._signals = Signals(environment, self._hurry)
        self._watch: Watch | None = None

    def begin(self) -> None:
        """Check the options, find or start the run, and listen to the rest of Locust's events."""
        environment, events = self._environment, self._environment.events
        if self._is_worker and self._options.processes:
            die_with_parent(signal.SIGTERM)
        self._signals.install()
        if not environment.stop_timeout:
            environment.stop_timeout = STOP_TIMEOUT_SECONDS
        self._watch = Watch(environment, is_supervised=self._is_supervised)
        add_browser_users(environment, locust_options.load_settings(self._options), self._runner)
        if not self._is_worker:
            # A worker looks for the run when its test starts: if it waited here, the master's start would go unheard.
            info = self._find_or_start()
            locust_options.chosen_stores(self._options, info.header.stores)
            if not environment.host:
                # Locust's start page asks for a host. Stores have addresses of their own, so it shows the soak's.
                environment.host = info.http_address or NO_PAGE
        self._listen(events)
        if environment.web_ui is not None:
            page = MemoryPage(environment.web_ui, self._data_dir)
            page.install()
            gevent.spawn(page.watch_for_ever)
        for forever in (self._watch_load, self._watch_run, lambda: prune_for_ever(self._runner)):
            gevent.spawn(forever).link_exception(self._on_greenlet_death)
        # The hub has not run since the imports began and its clock has not moved: --run-time would end too early.
        gevent.get_hub().loop.update_now()

    def _listen(self, events: Any) -> None:
        # Locust fires `quitting` in reverse order: what is added last, here, comes before its own listeners.
        events.quitting.add_listener(self._on_quitting)
        if self._is_master:
            self._runner.register_message(FAREWELL_MESSAGE, self._on_farewell)
            events.test_start.add_listener(self._on_master_start)
            events.test_stopping.add_listener(self._on_master_stopping)
            return
        events.test_start.add_listener(self._on_test_start)
        events.test_stop.add_listener(self._on_test_stop)
        events.spawning_complete.add_listener(spare_the_collector)
        if self._is_worker:
            self._runner.register_message(DRAIN_MESSAGE, self._on_drain)

    # Joining ------------------------------------------------------------------------------------------------

    def _find_or_start(self) -> JoinInfo:
        while self._is_supervised and join.find_opened(self._data_dir) is None:
            gevent.sleep(join.OPENED_POLL_SECONDS)
        info = find_run(self._data_dir, self._settings)
        if info is not None:
            _log.info("joined run %s (%s)", info.header.run, ", ".join(info.header.stores))
            return info
        _log.info("no soak is running in %s: starting an embedded one for as long as Locust runs", self._data_dir)
        self._embedded = EmbeddedSoak(self._data_dir, locust_options.requested_stores(self._options))
        try:
            info = self._embedded.wait_until_ready()
        except BaseException:
            self._embedded.kill()
            raise
        _log.info("started run %s (%s)", info.header.run, ", ".join(info.header.stores))
        return info

    # A test starts and stops --------------------------------------------------------------------------------

    def _on_test_start(self, **_details: object) -> None:
        try:
            load_settings = locust_options.load_settings(self._options)
            info = wait_for_run(self._data_dir, self._settings)
            stores = locust_options.chosen_stores(self._options, info.header.stores)
            self._load = RunningLoad.start(info, self._settings.ledger, load_settings, stores)
            self._environment.soak_load = self._load
        except SoakError as error:
            self._refuse_test(str(error), int(error.exit_code))
        except TimeoutError:
            self._refuse_test("ledger or stores did not answer in time; are they running?", int(ExitCode.UNREACHABLE))

    def _refuse_test(self, why: str, code: int) -> None:
        _log.error("%s", why)
        if self._environment.web_ui is not None:
            gevent.spawn(self._runner.stop)  # the person at the page may mend it and start again
            return
        self._environment.process_exit_code = code
        gevent.spawn(leave, self._environment)

    def _on_test_stop(self, **_details: object) -> None:
        load, self._load = self._load, None
        self._environment.soak_load = None
        if load is not None and not load.stop():
            _log.error("the ledger did not take the last outcomes in time; they count as unknown")

    # A master collects its workers' goodbyes ----------------------------------------------------------------

    def _on_master_start(self, **_details: object) -> None:
        self._farewells.clear()

    def _on_master_stopping(self, **_details: object) -> None:
        self._runner.send_message(DRAIN_MESSAGE)
        deadline = time.monotonic() + self._environment.stop_timeout + FAREWELL_SECONDS_MAX
        while self._workers_left() and time.monotonic() < deadline:
            gevent.sleep(POLL_SECONDS)

    def _workers_left(self) -> bool:
        clients = self._runner.clients
        present = [*clients.ready, *clients.spawning, *clients.running]
        dead = 0 if self._watch is None else self._watch.dead_workers
        return sum(client.id not in self._farewells for client in present) > dead

    def _on_farewell(self, msg: Any, **_details: object) -> None:
        self._farewells.add(msg.node_id)

    def _on_drain(self, **_details: object) -> None:
        self._runner.stop()
        self._runner.send_message(FAREWELL_MESSAGE)

    # The end ------------------------------------------------------------------------------------------------

    def _on_quitting(self, **_details: object) -> None:
        """Drain, then ask the embedded soak for its verdict. Whoever comes second waits for the first."""
        if self._signals.is_quitting.is_set():
            self._is_finished.wait()
            return
        self._signals.is_quitting.set()
        try:
            if self._is_master:
                self._runner.quit()
            else:
                self._runner.stop()
            self._ask_for_verdict()
        finally:
            if self._is_supervised and self._environment.process_exit_code is None:
                # A refused write is what a soak is for: to the supervisor only our own failures count.
                self._environment.process_exit_code = 0
            self._is_finished.set()

    def _ask_for_verdict(self) -> None:
        if self._embedded is None:
            return
        _log.info("the load has ended; waiting for the embedded soak's verdict")
        code = self._embedded.stop()
        if code != 0:
            self._environment.process_exit_code = code if code > 0 else int(ExitCode.INTERNAL)

    def _hurry(self) -> None:
        if self._embedded is not None:
            self._embedded.hurry()

    # Meanwhile ----------------------------------------------------------------------------------------------

    def _watch_load(self) -> None:
        assert self._watch is not None  # noqa: S101  made in `begin`
        self._watch.watch_for_ever(self._signals.is_quitting)

    def _watch_run(self) -> None:
        """End when the run ends: a load without servers and without a verifier tests nothing."""
        assert self._watch is not None  # noqa: S101  made in `begin`
        if join.find(self._data_dir) is None:
            return  # the run is on another machine
        while not self._signals.is_quitting.wait(timeout=RUN_LOOK_SECONDS):
            if self._embedded is not None and self._embedded.ended_with is not None:
                self._watch.give_up("the embedded soak has ended", self._embedded.ended_with, at_once=True)
                return
            if join.find(self._data_dir) is None:
                why = f"the soak in {self._data_dir} has ended"
                self._watch.give_up(why, ExitCode.UNREACHABLE, at_once=True)
                return

    def _on_greenlet_death(self, greenlet: Any) -> None:
        assert self._watch is not None  # noqa: S101  made in `begin`
        why = f"a greenlet of soak has died ({type(greenlet.exception).__name__})"
        self._watch.give_up(why, ExitCode.INTERNAL, at_once=self._is_supervised)
