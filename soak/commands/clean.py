"""`soak clean`: remove what a run left on servers that go on without it, or what killed soaks left here."""

from __future__ import annotations

import argparse
import asyncio
import sys

from soak import join
from soak.commands.flags import NAMESPACE, SERVERS, STORE, Flag, add_flags, read_configuration
from soak.daemon.outcome_builder import clean_up
from soak.daemon.plan import addresses, setting_of
from soak.errors import ExitCode, ServerUnreachableError, UsageError
from soak.servers.power_cut import release_abandoned
from soak.stores import registry

DESCRIPTION = (
    "Remove everything that a run wrote under its namespace, and nothing else. A run that passes does so itself;\n"
    "after a violation the data is kept for inspection. With --leftovers: end and remove what killed soaks left on\n"
    "this machine (containers, mounts, loop devices). Data folders stay, so that runs can be resumed."
)
EPILOG = """\
examples:
  soak clean --namespace soak_r1a2b3c4d --store redis-list --redis redis://staging:6379/3
  soak clean --leftovers"""

_TIMEOUT = Flag("--timeout", "stores.timeout", "TIME", "limit for every single operation on a store")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--leftovers", action="store_true", help="remove what killed soaks left on this machine")
    add_flags(parser, (NAMESPACE, STORE, *SERVERS, _TIMEOUT))


def execute(arguments: argparse.Namespace) -> ExitCode:
    configuration = read_configuration(arguments)
    if arguments.leftovers:
        for line in _remove_leftovers():
            sys.stdout.write(f"{line}\n")
        return ExitCode.PASS
    settings = configuration.settings
    if settings.stores.namespace is None or configuration.origin("stores.names") is None:
        raise UsageError("say what to remove: --namespace and --store, as the summary of the run named them")
    context = join.store_context(settings.stores, addresses(settings), settings.stores.namespace)
    for name in settings.stores.names:
        missing = [kind for kind in registry.find(name).needs if kind not in context.servers]
        if missing:
            raise UsageError(f"store {name} is on a {missing[0]} server; give its address as {setting_of(missing[0])}")
    for name in settings.stores.names:
        if problem := asyncio.run(clean_up(name, context)):
            raise ServerUnreachableError(problem)
        sys.stdout.write(f"{name}: {settings.stores.namespace} is removed\n")
    return ExitCode.PASS


def _remove_leftovers() -> list[str]:
    """Remove what soaks that were killed left on this machine, and tell what was done.

    Whatever belongs to a living process is left alone.
    """
    # Containers first: they may hold disks.
    lines = [_remove_containers(), _release_disks()]
    return [line for line in lines if line]


def _remove_containers() -> str:
    # Imported only where it is used: the client of Docker is a heavy one.
    from soak.servers.docker import ownership  # noqa: PLC0415
    from soak.servers.docker.engine import FAILURES, connect, one_line  # noqa: PLC0415

    try:
        client = connect()
    except ServerUnreachableError:
        return "docker: no engine answers, so there is nothing to remove"
    try:
        removed = ownership.remove_leftovers(client)
    except FAILURES as error:
        return f"docker: not all could be removed ({one_line(error)})"
    finally:
        client.close()
    return f"docker: {removed} containers, networks and volumes of killed soaks removed"


def _release_disks() -> str:
    return f"disks: {release_abandoned()} loop devices of killed soaks released"
