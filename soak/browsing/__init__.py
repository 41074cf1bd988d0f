"""Participants in a real browser: the chat's page as the way to a memory."""
