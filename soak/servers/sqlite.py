"""A SQLite file. No process serves it: all who use it open it, and what can happen to it happens in them."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path

import psutil

from soak.errors import ServerUnreachableError
from soak.proc.tree import with_children
from soak.servers.backend import HandsOffBackend
from soak.servers.inspect import inspect_server
from soak.servers.process_backend import ProcessSite
from soak.servers.server import Server
from soak.sqlite_address import SqliteAddress, parse_sqlite
from soak.stores.sqlite_file import connect

FILE_NAME = "memory.db"
LOCK_SECONDS_MAX = 10.0
"""How long the lock is waited for: under load its writers take turns without a queue."""
NO_PROCESS = "it is a file, and no process serves it"


class FileBackend(HandsOffBackend):
    """A file of our own in the data folder. It is there from the first start on, until it is discarded."""

    def __init__(self, site: ProcessSite, synchronous: str) -> None:
        super().__init__(f"SQLite for {site.name}", site.folder, {})
        self.address = SqliteAddress(self.working_folder / FILE_NAME, synchronous)

    @property
    def working_folder(self) -> Path:
        return self.folder / "data"

    @property
    def no_power_cut(self) -> str | None:
        return NO_PROCESS

    def refuses(self, what: str) -> str | None:
        return None if what == "stopped" else NO_PROCESS

    async def launch(self) -> None:
        self.working_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        await asyncio.to_thread(_touch, self.address, self.answer_seconds_max)

    async def how_it_ended(self) -> str | None:
        return None if self.address.path.exists() else f"{self.address.path} is gone"

    async def end(self, seconds: float) -> None:
        """Leave it: whoever has it open closes it."""


class SqliteServer(Server):
    """The file as the others see it: an address, and settings that can be read back."""

    _held: sqlite3.Connection | None = None

    @property
    def address(self) -> SqliteAddress:
        return parse_sqlite(self.own_url)

    def address_at(self, port: int) -> str:
        del port
        return self.backend.address.url if isinstance(self.backend, FileBackend) else ""

    async def start_proxy(self, host: str = "") -> None:
        """Put nothing before it: there is no connection."""
        del host
        self.no_proxy = NO_PROCESS

    async def answers(self) -> bool:
        try:
            await self.read_configuration()
        except ServerUnreachableError:
            return False
        return True

    async def read_configuration(self) -> dict[str, str]:
        sample = await inspect_server(self.kind, self.own_url, timeout_seconds=self.backend.answer_seconds_max)
        return dict(sample.configuration)

    async def hold_write_lock(self) -> None:
        """Hold the write lock, once those who have it let go of it; the kernel releases it if we die."""
        if self._held is not None:
            return
        try:
            self._held = await asyncio.to_thread(_lock, self.address, LOCK_SECONDS_MAX)
        except sqlite3.Error as error:
            raise ServerUnreachableError(f"{self.title} could not be locked ({error})") from error

    async def release_write_lock(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            await asyncio.to_thread(held.close)  # which rolls back

    def writers(self) -> list[psutil.Process]:
        """Return the processes of the load that have the file open for writing, the youngest last."""
        children = with_children([os.getpid()]) - {psutil.Process()}
        writers = [one for one in children if _writes(one, self.address.path.resolve())]
        return sorted(writers, key=psutil.Process.create_time)


def _touch(address: SqliteAddress, seconds: float) -> None:
    connect(address, timeout_seconds=seconds).close()


def _lock(address: SqliteAddress, seconds: float) -> sqlite3.Connection:
    connection = connect(address, timeout_seconds=seconds)
    try:
        connection.execute("begin immediate")
    except BaseException:
        connection.close()
        raise
    return connection


def _writes(process: psutil.Process, path: Path) -> bool:
    try:
        if "verify" in process.cmdline():
            return False  # a verifier writes its canaries; it is no part of the load
        return any(file.path == str(path) and "+" in file.mode for file in process.open_files())
    except psutil.Error:
        return False
