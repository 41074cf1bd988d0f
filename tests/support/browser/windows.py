"""A real browser for tests, that notices whatever a page complains about and whom it asks."""

from __future__ import annotations

import contextlib
import socket
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.needs import installed

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SECONDS_MAX = 60.0
INTERRUPTED = "ERR_NETWORK_CHANGED"
"""Chromium drops what is under way whenever a network interface comes or goes, such as that of a container."""


@contextlib.contextmanager
def browsing() -> Iterator[Any]:
    """Start Chromium. For one module at a time: while it runs, no event loop of a test can."""
    chromium = installed("chromium")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  most tests need no browser

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


class Window:
    """A page that is open, with all that went wrong in it."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self._context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page = self._context.new_page()
        self.page.set_default_timeout(SECONDS_MAX * 1000)
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self._interruptions = 0
        self.page.on("console", self._on_console)
        self.page.on("requestfailed", self._on_failure)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def go(self, address: str) -> None:
        """Open an address, as soon as somebody listens there."""

        def is_there() -> bool:
            self._interruptions = 0
            try:
                self.page.goto(address)
            except Exception as error:
                if INTERRUPTED not in str(error) and "interrupted by another navigation" not in str(error):
                    raise
                return False
            return not self._interruptions

        self.until(lambda: listens(address))
        self.until(is_there)

    def _on_console(self, told: Any) -> None:
        if told.type == "error" and INTERRUPTED not in told.text and "ERR_CONNECTION_REFUSED" not in told.text:
            self.complaints.append(told.text)

    def _on_failure(self, request: Any) -> None:
        self._interruptions += INTERRUPTED in (request.failure or "")

    def text(self, selector: str) -> str:
        found: str = self.page.locator(selector).inner_text()
        return found

    def until(self, holds: Callable[[], object], seconds: float = SECONDS_MAX) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"it did not happen in time:\n{self.page.locator('body').inner_text()}"
            self.page.wait_for_timeout(100)  # which lets the browser's events in

    def close(self) -> None:
        self._context.close()


def listens(address: str) -> bool:
    """Whether anybody takes connections there: a browser that finds nobody shows a page of its own instead."""
    parts = urllib.parse.urlsplit(address)
    with contextlib.suppress(OSError), socket.create_connection((parts.hostname, parts.port), timeout=5):
        return True
    return False


@contextlib.contextmanager
def window(browser: Any, **options: Any) -> Iterator[Window]:
    opened = Window(browser, **options)
    try:
        yield opened
    finally:
        opened.close()
