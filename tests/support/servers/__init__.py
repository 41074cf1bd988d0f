"""Servers that are broken, lie, or are set back afterwards."""
