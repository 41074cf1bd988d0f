"""The servers a soak runs against: local processes from wheels, containers, or servers that already run."""

from soak.servers.bed import BedKind, Testbed
from soak.servers.local import LocalTestbed
from soak.servers.lock import DataFolderLock
from soak.servers.server import Server, ServerEvent, ServerState

__all__ = ["BedKind", "DataFolderLock", "LocalTestbed", "Server", "ServerEvent", "ServerState", "Testbed"]
