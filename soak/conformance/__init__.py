"""Tells the author of a web service what is missing before it can be soaked."""
