"""The servers a soak runs against, as local processes from wheels: no Docker, no root, no network."""

from soak.testbed.local import LocalTestbed
from soak.testbed.lock import DataFolderLock
from soak.testbed.server import Server, ServerEvent, ServerState

__all__ = ["DataFolderLock", "LocalTestbed", "Server", "ServerEvent", "ServerState"]
