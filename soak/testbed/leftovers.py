"""What soaks that were killed left on this machine, besides their data folders."""

from __future__ import annotations

from soak.errors import ServerUnreachableError
from soak.testbed.power_cut import release_abandoned


def remove_leftovers() -> list[str]:
    """Remove it, and tell what was done. What belongs to somebody who lives is left alone."""
    # Containers first: they may hold disks.
    lines = [_remove_containers(), _release_disks()]
    return [line for line in lines if line]


def _remove_containers() -> str:
    # Imported only where it is used: the client of Docker is a heavy one.
    from soak.testbed.docker import ownership  # noqa: PLC0415
    from soak.testbed.docker.engine import FAILURES, connect, one_line  # noqa: PLC0415

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
