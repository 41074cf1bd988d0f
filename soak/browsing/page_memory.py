"""A memory whose every word goes through the chat's page: typed, sent, and read off the screen.

What is typed is compared with what the box holds, and only where a text box cannot hold it (it makes one line end of
another) it is handed to the page as it is. Until the button is pressed nothing was sent; after that, only what the page
shows counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from soak.browsing.tabs import Tab, Tabs
from soak.chat.memory import WriteState
from soak.checker.message import Garbled, Message, Stored
from soak.checker.outcome import NotApplied
from soak.stores.http_contract import from_wire, to_wire

SHOWN = 200
"""Messages that the page shows before more are asked for."""

_UNREADABLE = "unreadable"
_IN_MEMORY = (WriteState.REMEMBERED, _UNREADABLE)
_FATE = """(id) => {
  const bubble = [...document.querySelectorAll(".bubble")].findLast((one) => one.dataset.id === id);
  return bubble && !["sending", "speaking"].includes(bubble.dataset.state) && bubble.dataset.state;
}"""
_BUBBLES = """() => [...document.querySelectorAll(".bubble")].map((one) => ({
  id: one.dataset.id, role: one.dataset.role, state: one.dataset.state,
  content: one.querySelector(".content").textContent,
}))"""
_FORGOTTEN = "() => document.getElementById('log').dataset.forgotten"


class PageError(Exception):
    """The page does not say that it is remembered, nor that it is not."""


class UnsentError(NotApplied):
    """The button was not pressed: nothing was sent."""


class PageMemory:
    """Conversations on the pages of one chat service."""

    def __init__(self, tabs: Tabs, address: str) -> None:
        self._tabs = tabs
        self._address = address

    async def append(self, session: str, message: Message) -> None:
        """Say it on the page. The user's words are typed; those of the assistant are given to it as a script."""
        async with self._tab(session, message.writer) as tab:
            sent = to_wire(message)
            told = {"id": sent.id, "role": sent.role, "content": sent.content}
            if message.role == "user":
                await self._stage(tab, session, told)
                await tab.page.locator("#send").click()
            else:
                await self._at(tab, session)
                await tab.page.evaluate("(message) => { window.soak.answer(message); }", told)
            fate = await (await tab.page.wait_for_function(_FATE, arg=sent.id)).json_value()
        _judge(fate)

    async def history(self, session: str, last: int | None = None) -> Sequence[Stored]:
        """Open the page again and read what it shows."""
        async with self._tab(session) as tab:
            await tab.go(self._address, session)
            page = tab.page
            if (last is None or last > SHOWN) and await page.locator("#whole").is_visible():
                await page.locator("#whole").click()
                await page.locator("#log:not([data-state=loading])").wait_for(state="attached")
            state = await page.locator("#log").get_attribute("data-state")
            bubbles = await page.evaluate(_BUBBLES)
        if state != "loaded":
            raise PageError("the page cannot reach its memory")
        # What the page shows as lost, or as on its way, is not in the memory.
        items = [_stored(bubble) for bubble in bubbles if bubble["state"] in _IN_MEMORY]
        return items if last is None else items[max(0, len(items) - last) :]

    async def forget(self, session: str) -> None:
        """Press the button, and the other one that asks whether this is meant."""
        async with self._tab(session) as tab:
            try:
                await self._at(tab, session)
                page = tab.page
                await page.evaluate("() => { delete document.getElementById('log').dataset.forgotten; }")
                await page.locator("#forget").click()
                await page.locator("#forget-now").wait_for()
            except Exception as error:
                raise UnsentError(str(error)) from error
            await page.locator("#forget-now").click()
            fate = await (await page.wait_for_function(_FORGOTTEN)).json_value()
        _judge(fate)

    async def close(self) -> None:
        """Leave the tabs open; their owner closes them."""

    def _tab(self, session: str, writer: int = 0) -> AbstractAsyncContextManager[Tab]:
        return self._tabs.tab(f"{self._address} {session} {writer}")

    async def _stage(self, tab: Tab, session: str, message: dict[str, str]) -> None:
        try:
            await self._at(tab, session)
            box = tab.page.locator("#text")
            await box.fill(message["content"])
            await tab.page.evaluate("(message) => { window.soak.stage(message); }", message)
        except Exception as error:
            raise UnsentError(str(error)) from error

    async def _at(self, tab: Tab, session: str) -> None:
        """Be on the page of the session; what is there already need not be opened again."""
        if tab.place != session:
            try:
                await tab.go(self._address, session)
            except Exception as error:
                raise UnsentError(str(error)) from error


def _judge(fate: Any) -> None:
    if fate == WriteState.NOT_REMEMBERED:
        raise NotApplied("the page says that it is not remembered")
    if fate != WriteState.REMEMBERED:
        raise PageError(f"the page says: {fate}")


def _stored(bubble: dict[str, str]) -> Stored:
    if bubble["state"] == _UNREADABLE:
        return Garbled(raw=msgspec.json.encode(bubble), reason="the page says that it cannot be read")
    wire = {name: bubble[name] for name in ("id", "role", "content")}
    return from_wire(msgspec.json.encode(wire))
