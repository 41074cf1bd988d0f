"""Servers that already run: asked, and broken only as far as their operator allows."""

from soak.servers.external.bed import ExternalTestbed
from soak.servers.external.command import OperatorCommand

__all__ = ["ExternalTestbed", "OperatorCommand"]
