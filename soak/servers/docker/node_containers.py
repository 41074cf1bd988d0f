"""Nodes of a group as containers: on this machine's network, and on the folders that a process would use.

A node keeps the loopback address, the ports and the files that it has as a process. So all that holds for groups of
processes holds here: which node calls, where a link can be cut, whose folder is whose. The engine has to be on this
machine for that.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import IO, Any

import docker.errors
from docker.types import Mount

from soak.errors import ServerUnreachableError
from soak.proc.tree import created_seconds, is_same_process
from soak.servers.docker.container import PROCESSES_MAX, DockerSite
from soak.servers.docker.engine import FAILURES, missing_image, one_line
from soak.servers.docker.ownership import SERVER_LABEL
from soak.servers.process_backend import Program
from soak.servers.unprivileged import Account

_LOG_VARIABLE = "SOAK_LOG"
_WRITE_TO_LOG = ["sh", "-c", f'exec "$@" >>"${_LOG_VARIABLE}" 2>&1', "sh"]
_ACCOUNTS = "/etc/passwd"
"""PostgreSQL looks up the name of who runs it."""
_END_SECONDS_MAX = 10
_SIGNALLED = 128
_UNKNOWN_EXIT = 255


class ContainedProgram:
    """The first process of a container, seen from this machine."""

    stdin: IO[bytes] | None = None

    def __init__(self, container: Any) -> None:
        self._container = container
        self.pid = int(container.attrs["State"]["Pid"])
        self._created = created_seconds(self.pid) if self.pid else 0.0
        self._exit: int | None = None

    def poll(self) -> int | None:
        if self._exit is None and not is_same_process(self.pid, self._created):
            self._exit = self._ask_exit()
        return self._exit

    def send_signal(self, sig: int, /) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def _ask_exit(self) -> int:
        try:
            status = int(self._container.wait(timeout=_END_SECONDS_MAX)["StatusCode"])
        except FAILURES:
            return _UNKNOWN_EXIT
        return _SIGNALLED - status if _SIGNALLED < status < _UNKNOWN_EXIT else status


class NodeContainers:
    """Starts the programs of nodes in containers of one image."""

    brings_programs = True

    def __init__(self, site: DockerSite, image: str) -> None:
        self._site = site
        self._image = image

    async def start(self, program: Program) -> ContainedProgram:
        try:
            return await asyncio.to_thread(self._start, program)
        except docker.errors.ImageNotFound as error:
            raise ServerUnreachableError(missing_image(program.server, self._image)) from error
        except FAILURES as error:
            raise ServerUnreachableError(
                f"{program.server} cannot be started from image {self._image} ({one_line(error)}); "
                "see what the Docker engine says"
            ) from error

    def _start(self, program: Program) -> ContainedProgram:
        client, site = self._site.client, self._site
        image = client.images.get(self._image)
        command, user = Path(program.argv[0]).name, program.account or Account(os.geteuid(), os.getegid())
        name = site.name(f"{program.server}-{command}")
        program.log_path.touch()
        user.own(program.log_path)
        with contextlib.suppress(docker.errors.NotFound):
            client.containers.get(name).remove(force=True, v=True)
        # The signal for when we are gone is left out: the next start ends and removes what a killed owner leaves.
        container = client.containers.create(
            image,
            [_server_of(image, command), *map(str, program.argv[1:])],
            entrypoint=_WRITE_TO_LOG,
            environment={**program.environment, _LOG_VARIABLE: str(program.log_path)},
            labels={**site.labels, SERVER_LABEL: program.server},
            mem_limit=site.memory,
            memswap_limit=site.memory,  # the same: no swap
            mounts=[
                *(Mount(str(folder), str(folder), type="bind") for folder in dict.fromkeys(program.folders)),
                Mount(_ACCOUNTS, _ACCOUNTS, type="bind", read_only=True),
            ],
            name=name,
            nano_cpus=int(site.cpus * 1e9),
            network_mode="host",
            pids_limit=PROCESSES_MAX,
            user=f"{user.uid}:{user.gid}",
            working_dir=str(program.cwd),
        )
        container.start()
        container.reload()
        return ContainedProgram(container)


def _server_of(image: Any, program: str) -> str:
    """Return the name that a Redis has in this image, which may be another one's than its version says."""
    usual = (image.attrs["Config"].get("Cmd") or [""])[0]
    return str(usual) if program.endswith("-server") and usual.endswith("-server") else program
