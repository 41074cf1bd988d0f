"""Servers that already run: asked, and broken only as far as their operator allows."""

from soak.testbed.external.bed import ExternalTestbed
from soak.testbed.external.command import OperatorCommand

__all__ = ["ExternalTestbed", "OperatorCommand"]
