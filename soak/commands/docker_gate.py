"""`soak docker-gate`: the Docker engine's socket, for the few verbs and the few containers that faults need."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from soak.errors import ExitCode
from soak.servers.docker.gate import ENGINE_SOCKET, DockerGate

DESCRIPTION = (
    "Listen on a socket of its own and let inspect, logs, start, stop, kill, pause and unpause through to the Docker\n"
    "engine, for the containers that are named and no others. Give a soak this socket as DOCKER_HOST in place of the\n"
    "engine's own, with which anything can be done to the machine."
)
EPILOG = """\
examples:
  soak docker-gate --container soak-redis --container soak-postgres --listen /run/soak/docker.sock
  DOCKER_HOST=unix:///run/soak/docker.sock soak run --redis redis://redis:6379 …"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--container", metavar="NAME", action="append", default=[], help="a container to let through; may be repeated"
    )
    parser.add_argument("--listen", metavar="PATH", type=Path, required=True, help="the socket to listen on")
    parser.add_argument(
        "--docker", metavar="PATH", type=Path, default=ENGINE_SOCKET, help=f"the engine's socket ({ENGINE_SOCKET})"
    )


def execute(arguments: argparse.Namespace) -> ExitCode:
    asyncio.run(_serve(DockerGate(arguments.container, arguments.listen, arguments.docker), arguments.container))
    return ExitCode.PASS


async def _serve(gate: DockerGate, names: list[str]) -> None:
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    await gate.open()
    try:
        sys.stdout.write(f"listening for containers {', '.join(names)}\n")
        sys.stdout.flush()
        await over.wait()
    finally:
        await gate.close()
