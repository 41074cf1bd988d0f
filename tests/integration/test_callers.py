"""Who calls a front is known by the process behind the connection."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from soak.servers.callers import CLIENTS, Address, CallersByProcess
from soak.servers.ports import HOST

if TYPE_CHECKING:
    from pathlib import Path

CALL = "import socket, sys, time; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); time.sleep(60)"
IN_A_CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"


async def test_a_caller_is_the_node_in_whose_folder_it_works_also_as_a_new_child_of_one(tmp_path: Path) -> None:
    folder = tmp_path / "nodes" / "postgres-1" / "data"
    folder.mkdir(parents=True)
    callers = CallersByProcess(tmp_path / "nodes")
    addresses: asyncio.Queue[tuple[Address, Address]] = asyncio.Queue()

    taken = []

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(writer)
        await addresses.put((writer.get_extra_info("peername"), writer.get_extra_info("sockname")))

    server = await asyncio.start_server(take, HOST, 0)
    port = str(server.sockets[0].getsockname()[1])
    started = []
    try:
        for words, cwd, name in (
            ([CALL, port], folder, "postgres-1"),
            ([IN_A_CHILD, CALL, port], folder.parent, "postgres-1"),
            ([CALL, port], tmp_path, CLIENTS),
        ):
            started.append(subprocess.Popen([sys.executable, "-c", *words], cwd=cwd, start_new_session=True))
            async with asyncio.timeout(30):
                assert await callers.name_of(*await addresses.get()) == name
        _, writer = await asyncio.open_connection(HOST, int(port))
        gone = await addresses.get()
        writer.transport.abort()
        deadline = time.monotonic() + 10
        while await callers.name_of(*gone) is not None:
            assert time.monotonic() < deadline, "it has gone, and is nobody"
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for writer in taken:
            writer.close()
        server.close()


async def test_an_older_connection_from_the_same_port_is_not_taken_for_the_caller(tmp_path: Path) -> None:
    callers = CallersByProcess(tmp_path)
    fronts = [await asyncio.start_server(lambda _, writer: writer.close(), HOST, 0) for _ in range(2)]
    try:
        addresses: list[Address] = [front.sockets[0].getsockname() for front in fronts]
        with socket.socket() as old, socket.socket() as new:
            for one in (old, new):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            old.bind((HOST, 0))
            caller = old.getsockname()
            old.connect(addresses[0])
            old.close()
            new.bind(caller)
            new.connect(addresses[1])
            assert await callers.name_of(caller, addresses[1]) == CLIENTS
            assert await callers.name_of(caller, addresses[0]) is None
    finally:
        for front in fronts:
            front.close()
