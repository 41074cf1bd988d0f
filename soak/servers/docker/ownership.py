"""Labels say who owns a container, network or volume; what has no owner any more is removed.

A container and a network belong to the process that made them. A volume belongs to a data folder: it is kept while
a state file there still names it, so that a soak can be resumed after its daemon was killed.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from soak.errors import UsageError
from soak.proc.tree import created_seconds, is_same_process
from soak.servers import state
from soak.servers.docker.engine import FAILURES
from soak.servers.servers import FOLDER_NAME

OWNER_LABEL = "soak.owner"
"""The process: its number, when it was created, and since when its machine runs."""
HOST_LABEL = "soak.host"
IDENTITY_LABEL = "soak.identity"
FOLDER_LABEL = "soak.folder"
SERVER_LABEL = "soak.server"
STOP_SECONDS_MAX = 10
DOCKER_FOLDER = "docker"
"""Below the folder of servers: what servers in Docker keep there."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def labels(identity: str, folder: Path) -> dict[str, str]:
    """Return the labels of what this process makes for the servers of this data folder."""
    own = os.getpid()
    return {
        OWNER_LABEL: f"{own}:{created_seconds(own)}:{_boot()}",
        HOST_LABEL: os.uname().nodename,
        IDENTITY_LABEL: identity,
        FOLDER_LABEL: str(folder),
    }


def is_owned_by_another(found: dict[str, str]) -> bool:
    """Return whether a living process other than this one owns what has these labels."""
    return _is_alive(found.get(OWNER_LABEL, "")) and not found[OWNER_LABEL].startswith(f"{os.getpid()}:")


def of(identity: str) -> dict[str, str]:
    """Return the filter for everything of one data folder."""
    return {"label": f"{IDENTITY_LABEL}={identity}"}


def remove_leftovers(client: Any) -> int:
    """Remove what processes of this machine that are gone left behind; returns how many things that were."""
    removed = 0
    here = {"label": f"{HOST_LABEL}={os.uname().nodename}"}
    for container in client.containers.list(all=True, filters=here, ignore_removed=True):
        if not _is_alive(container.labels.get(OWNER_LABEL, "")):
            remove_container(container, politely=_is_wanted(container.labels))
            removed += 1
    for network in client.networks.list(filters=here):
        if not _is_alive((network.attrs.get("Labels") or {}).get(OWNER_LABEL, "")):
            remove(network)
            removed += 1
    for volume in client.volumes.list(filters=here):
        if not _is_wanted(volume.attrs.get("Labels") or {}):
            remove(volume)
            removed += 1
    return removed


def remove_container(container: Any, *, politely: bool) -> None:
    """Remove a container, ended as an operator does where its data is still wanted."""
    if politely:
        with contextlib.suppress(*FAILURES):
            if container.status == "paused":
                container.unpause()
            container.stop(timeout=STOP_SECONDS_MAX)
    with contextlib.suppress(*FAILURES):
        # The volumes that its image asks for go with it; ours has a name and stays.
        container.remove(force=True, v=True)


def remove(thing: Any) -> None:
    """Remove a network or volume, if nobody uses it."""
    with contextlib.suppress(*FAILURES):
        thing.remove()


def _is_alive(owner: str) -> bool:
    try:
        pid, created, boot = owner.split(":")
        return boot == _boot() and is_same_process(int(pid), float(created))
    except ValueError:
        return False


def _is_wanted(found: dict[str, str]) -> bool:
    """Return whether the data folder still knows these servers, also when its run has been put aside there."""
    folder = Path(found.get(FOLDER_LABEL, "/nowhere"))
    folders = [folder / FOLDER_NAME, *folder.glob(f"runs/*/{FOLDER_NAME}*")]
    return any(_names(one / DOCKER_FOLDER, found.get(IDENTITY_LABEL, "")) for one in folders)


def _names(folder: Path, identity: str) -> bool:
    try:
        return state.load(folder).identity == identity
    except UsageError:
        return True  # there is something that cannot be read: rather keep too much


def _boot() -> str:
    """Return the id of this boot of the machine."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
