"""Servers in Docker containers: the official images, or others by setting."""
