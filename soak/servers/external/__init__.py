"""Servers that already run: asked, and broken only as far as their operator allows."""
