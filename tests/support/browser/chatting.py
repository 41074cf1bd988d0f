"""A chat as a process of its own, that can be killed and started again at the same address."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from soak.servers.ports import free_port
from tests.support.browser.windows import Window
from tests.support.checking import new_folder
from tests.support.paths import ROOT

STARTING_SECONDS_MAX = 60.0


class RunningChat:
    """`soak chat` with these words, on a port that it keeps."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.address = f"http://127.0.0.1:{free_port()}"
        port = self.address.rpartition(":")[2]
        self._command = [sys.executable, "-m", "soak", "chat", *words, "--port", port, "--data-dir", str(folder)]
        self._folder = folder
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self._command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._folder,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(self._folder)},
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert re.search(rf"chat over \S+ at {re.escape(self.address)}/\n", said), said + self.process.stdout.read()

    def kill(self) -> None:
        """End it at one moment, with no chance to write anything."""
        assert self.process is not None
        self.process.kill()
        self.close()

    def close(self) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.wait(STARTING_SECONDS_MAX)


@contextlib.contextmanager
def chatting(*words: str) -> Iterator[RunningChat]:
    """Run a chat in a folder of its own; nothing of it is left in the end."""
    with new_folder() as folder:
        chat = RunningChat(folder, *words)
        try:
            yield chat
        finally:
            chat.close()


class Talk:
    """A conversation on the page, as a person has it."""

    def __init__(self, window: Window, address: str, *, name: str = "") -> None:
        self.window = window
        self.page: Any = window.page
        window.go(f"{address}/c/{name}" if name else f"{address}/")
        self.until_looked()

    def until_looked(self) -> None:
        self.page.locator("#log:not([data-state=loading])").wait_for(state="attached")

    def type(self, text: str) -> None:
        self.page.get_by_label("Your message").fill(text)
        self.page.get_by_role("button", name="Send").click()

    def say(self, text: str) -> str:
        """Say something, wait until it and its answer are remembered, and return the answer.

        Where the page says that nobody knows, as on a machine that stood still for seconds, it is tried again, as a
        person would.
        """
        before = len(self.bubbles("assistant", "remembered"))
        self.type(text)

        def is_answered() -> bool:
            again = self.page.get_by_role("button", name="Try again")
            if again.count():
                again.last.click()
            return len(self.bubbles("assistant", "remembered")) > before

        self.window.until(is_answered)
        return self.bubbles("assistant", "remembered")[-1]

    def bubbles(self, role: str = "", state: str = "") -> list[str]:
        """Return what is said on the page, byte for byte, of one role or in one state."""
        found: list[str] = self.page.eval_on_selector_all(
            ".bubble" + (f"[data-role='{role}']" if role else "") + (f"[data-state='{state}']" if state else ""),
            "all => all.map((one) => one.querySelector('.content').textContent)",
        )
        return found

    def states(self) -> list[str]:
        found: list[str] = self.page.eval_on_selector_all(".bubble", "all => all.map((one) => one.dataset.state)")
        return found
