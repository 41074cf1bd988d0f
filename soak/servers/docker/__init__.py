"""Servers in Docker containers: the official images, or others by setting."""

from soak.servers.docker.bed import DockerTestbed

__all__ = ["DockerTestbed"]
