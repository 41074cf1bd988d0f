"""Puts the rooms together: starts servers, supervises load and verifier, tells how it goes, drains at the end."""
