"""Browsers, and what is looked at with them."""
