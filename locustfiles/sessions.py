"""Simulated chat sessions for Locust: `locust -f locustfiles/sessions.py`.

Joins the soak that runs in --data-dir, or starts an embedded one for its own lifetime. What a participant does is in
`soak.load`; copy this file to add users of your own beside it.
"""

from __future__ import annotations

from locust import events

from soak.load.locust_events import register
from soak.load.locust_user import ChatUser

__all__ = ["ChatUser"]

register(events)
