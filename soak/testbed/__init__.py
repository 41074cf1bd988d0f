"""The servers a soak runs against: local processes from wheels, containers, or servers that already run."""

from soak.testbed.bed import BedKind, Testbed
from soak.testbed.local import LocalTestbed
from soak.testbed.lock import DataFolderLock
from soak.testbed.server import Server, ServerEvent, ServerState

__all__ = ["BedKind", "DataFolderLock", "LocalTestbed", "Server", "ServerEvent", "ServerState", "Testbed"]
