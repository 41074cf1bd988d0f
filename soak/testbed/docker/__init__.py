"""Servers in Docker containers: the official images, or others by setting."""

from soak.testbed.docker.bed import DockerTestbed

__all__ = ["DockerTestbed"]
