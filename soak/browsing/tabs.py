"""Tabs of one Chromium, each in a profile of its own, as many people would have them.

After any error in a tab it is closed, and the next use opens a new one. A Chromium that died is started again, a
limited number of times.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self
from urllib.parse import quote

from playwright.async_api import Browser, BrowserContext, Page, Playwright, async_playwright
from playwright.async_api import Error as PlaywrightError

from soak.checker.outcome import NotApplied

STARTS_MAX = 8
STARTS_WINDOW_SECONDS = 300.0
ARGUMENTS = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Its shared memory in files: that of a container is too small for it.
    "--disable-dev-shm-usage",
)


class NoBrowserError(NotApplied):
    """Chromium does not start, has just died, or has died too often: nothing was sent."""


class Tab:
    """One page, used by one at a time."""

    def __init__(self, context: BrowserContext, page: Page) -> None:
        self.page = page
        self.place: str | None = None
        """The conversation it shows."""
        self.lock = asyncio.Lock()
        self._context = context

    async def go(self, address: str, conversation: str) -> None:
        """Open a conversation again: what the page shows afterwards is what the memory shows now."""
        self.place = None
        await self.page.goto(f"{address}/c/{quote(conversation, safe='')}")
        await self.page.locator("#log:not([data-state=loading])").wait_for(state="attached")
        self.place = conversation

    async def close(self) -> None:
        with contextlib.suppress(PlaywrightError):
            await self._context.close()


class Tabs:
    """Gives each user a tab of their own, and always the same one."""

    def __init__(
        self, playwright: Playwright, executable: Path, tabs_max: int, step_seconds: float, starts_max: int
    ) -> None:
        self._playwright = playwright
        self._executable = executable
        self._tabs_max = tabs_max
        self._step_milliseconds = step_seconds * 1000
        self._browser: Browser | None = None
        self._starting = asyncio.Lock()
        self._starts: deque[float] = deque(maxlen=starts_max)
        self._tabs: OrderedDict[str, Tab] = OrderedDict()
        """By user, the most recently used last."""

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls, executable: Path, *, tabs_max: int, step_seconds: float, starts_max: int = STARTS_MAX
    ) -> AsyncIterator[Self]:
        """Start Chromium, for as long as the block lasts."""
        async with async_playwright() as playwright:
            tabs = cls(playwright, executable, tabs_max, step_seconds, starts_max)
            await tabs._running()
            try:
                yield tabs
            finally:
                await tabs._end()

    @contextlib.asynccontextmanager
    async def tab(self, owner: str) -> AsyncIterator[Tab]:
        """Use the owner's tab. If that ends with an error, the next use begins with a new one."""
        found = self._tabs.get(owner)
        if found is None or found.page.is_closed():
            found = await self._new_tab(owner)
        self._tabs.move_to_end(owner)
        async with found.lock:
            try:
                yield found
            except BaseException:
                await self._drop(owner, found)
                raise

    async def _new_tab(self, owner: str) -> Tab:
        browser = await self._running()
        try:
            context = await browser.new_context()
            context.set_default_timeout(self._step_milliseconds)
            tab = Tab(context, await context.new_page())
        except PlaywrightError as error:
            raise NoBrowserError(f"no tab can be opened: {_first_line(error)}") from error
        if (before := self._tabs.get(owner)) is not None and not before.page.is_closed():
            await tab.close()  # two asked at the same moment
            return before
        self._tabs[owner] = tab
        await self._close_idle()
        return tab

    async def _close_idle(self) -> None:
        idle = [owner for owner, tab in self._tabs.items() if not tab.lock.locked()]
        for owner in idle[: max(0, len(self._tabs) - self._tabs_max)]:
            await self._tabs.pop(owner).close()

    async def _drop(self, owner: str, tab: Tab) -> None:
        if self._tabs.get(owner) is tab:
            del self._tabs[owner]
        await tab.close()

    async def _running(self) -> Browser:
        async with self._starting:
            if self._browser is not None and self._browser.is_connected():
                return self._browser
            now = time.monotonic()
            starts_max = self._starts.maxlen
            if len(self._starts) == starts_max and now - self._starts[0] < STARTS_WINDOW_SECONDS:
                raise NoBrowserError(f"Chromium has died {starts_max} times within {STARTS_WINDOW_SECONDS:.0f} s")
            self._starts.append(now)
            self._tabs.clear()
            try:
                self._browser = await self._playwright.chromium.launch(
                    executable_path=self._executable, args=list(ARGUMENTS)
                )
            except PlaywrightError as error:
                raise NoBrowserError(f"Chromium does not start: {_first_line(error)}") from error
            return self._browser

    async def _end(self) -> None:
        if self._browser is not None:
            with contextlib.suppress(PlaywrightError):
                await self._browser.close()


def _first_line(error: PlaywrightError) -> str:
    return (str(error).splitlines() or ["it does not say why"])[0]
