"""How a Locust process ends: once, in order, and at once when asked twice.

- Locust handles SIGTERM only once its start-up is over, and never while a load shape runs: here it is handled from the
  beginning, and the first to come does the work.
- Locust's exit code 0 hides dead workers and dead greenlets: here they are looked for, and make the code non-zero.
- A forked worker outlives a killed master by a minute: here the kernel signals it at once.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from typing import Any

import gevent
import locust.log
import psutil
from gevent.event import Event
from locust.runners import STATE_RUNNING, STATE_SPAWNING

from soak.errors import ExitCode
from soak.proc.tree import is_alive

LOOK_SECONDS = 1.0
_LOADING_STATES = (STATE_SPAWNING, STATE_RUNNING)
HANDOVER_SECONDS = 0.3
"""Locust's own handler, where there is one, has begun to quit by then."""
EXIT_SECONDS_MAX = 5.0
ONE_REQUEST_SECONDS = 0.5
"""Signals closer than this are one request: the kernel announces the death of a parent once per thread it had."""

_log = logging.getLogger("soak.load")


def leave(environment: Any) -> None:
    """Let Locust's main greenlet come to its end, from where it quits in its usual order."""
    environment.runner.quit()
    if environment.web_ui is not None:
        environment.web_ui.stop()


class Signals:
    """Drains on the first SIGTERM or SIGINT and leaves at once on the second."""

    def __init__(self, environment: Any, hurry: Any) -> None:
        self._environment = environment
        self._hurry = hurry
        self._first_seconds = 0.0
        self.is_quitting = Event()
        """Set as soon as anyone has begun to quit."""

    def install(self) -> None:
        gevent.signal_handler(signal.SIGTERM, self._on_terminate)
        signal.signal(signal.SIGINT, self._on_interrupt)

    def _on_interrupt(self, number: int, _frame: object) -> None:
        self._leave_at_once_when_repeated(number)
        raise KeyboardInterrupt

    def _on_terminate(self) -> None:
        self._leave_at_once_when_repeated(signal.SIGTERM)
        if self.is_quitting.wait(timeout=HANDOVER_SECONDS):
            return
        environment = self._environment
        environment.events.quitting.fire(environment=environment, reverse=True)
        leave(environment)
        # Locust's main greenlet may wait for something that never comes now, such as workers.
        gevent.sleep(EXIT_SECONDS_MAX)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(environment.process_exit_code or 0)

    def _leave_at_once_when_repeated(self, number: int) -> None:
        now = time.monotonic()
        self._first_seconds = self._first_seconds or now
        if now - self._first_seconds > ONE_REQUEST_SECONDS:
            self._hurry()
            os._exit(128 + number)


class Watch:
    """Notices what Locust does not: dead worker processes, dead greenlets, failing participants."""

    def __init__(self, environment: Any, *, is_supervised: bool) -> None:
        self._environment = environment
        self._is_supervised = is_supervised
        self._workers = _forked_workers(environment.parsed_options)
        self._failures = 0
        self._said: set[str] = set()
        environment.events.user_error.add_listener(self._on_user_error)

    def watch_for_ever(self, is_quitting: Event) -> None:
        """Run as a greenlet next to the runner."""
        while not is_quitting.wait(timeout=LOOK_SECONDS):
            trouble = self._trouble()
            if trouble is not None and trouble not in self._said:
                self._said.add(trouble)
                self.give_up(trouble, ExitCode.INTERNAL, at_once=self._is_supervised)

    def give_up(self, why: str, code: int, *, at_once: bool) -> None:
        """Log what is wrong and set the exit code; supervised, leave now to be started again."""
        _log.error("%s", why)
        self._environment.process_exit_code = int(code)
        if at_once:
            gevent.spawn(leave, self._environment)

    @property
    def dead_workers(self) -> int:
        return sum(not is_alive(worker) for worker in self._workers)

    @property
    def _is_loading(self) -> bool:
        """Whether participants are wanted: a master ends its workers a while before Locust says it quits."""
        runner = self._environment.runner
        return runner is not None and runner.state in _LOADING_STATES

    def _trouble(self) -> str | None:
        if self._is_loading and self.dead_workers:
            return "a worker process has died; its participants are missing from the load"
        if self._failures:
            return "a participant failed for a reason of its own; the log has the traceback"
        if locust.log.unhandled_greenlet_exception:
            return "a greenlet of Locust has died; the log has the traceback"
        return None

    def _on_user_error(self, **_details: object) -> None:
        self._failures += 1


def _forked_workers(options: Any) -> list[psutil.Process]:
    if options.processes and not options.worker:
        return list(psutil.Process().children())
    return []
