"""The Locust user that has a browser: it thinks longer, and is shown apart from the others."""

from __future__ import annotations

from typing import Any, ClassVar

from locust.exception import StopUser
from locust.runners import MasterRunner, WorkerRunner

from soak.browsing.chromium import find_chromium
from soak.load.locust_user import ChatUser
from soak.load.participant import Participant
from soak.load.plan import Plan
from soak.load.running import RunningLoad
from soak.settings import LoadSettings


class BrowserUser(ChatUser):
    """A participant that types into the chat's page. Nothing but the way to the memory is different."""

    type_prefix: ClassVar[str] = "browser:"

    def participant_of(self, load: RunningLoad) -> Participant | None:
        del load
        return None  # a browser takes seconds to start: whoever spawns us must not wait for that

    def on_start(self) -> None:
        if self._load is None:
            raise StopUser
        browsers = self._load.browsers.get()
        browsers.is_ready.wait()
        self._participant = browsers.participant()

    def plan_of(self, load: RunningLoad) -> Plan:
        return load.browsers.plan


def add_browser_users(environment: Any, load: LoadSettings, runner: Any) -> None:
    """Put them beside the other users, so many of them; raises `UsageError` where they cannot be had."""
    if load.browser_users and (not isinstance(runner, MasterRunner) or environment.parsed_options.processes):
        find_chromium(load.browser)
    # A worker is told by its master how many it has; it must only know what they are.
    if load.browser_users or isinstance(runner, WorkerRunner):
        BrowserUser.fixed_count = load.browser_users
        environment.user_classes.append(BrowserUser)
