"""Simulated chat sessions for Locust: `locust -f locustfiles/sessions.py`.

Joins the soak that runs in --data-dir, or starts an embedded one for its own lifetime. What a participant does is in
`soak.load`; copy this file to add users of your own beside it.

`python locustfiles/sessions.py --help` shows Locust's options and soak's. `locust --help` shows only Locust's own: it
prints them before it reads any locustfile.
"""

from __future__ import annotations

from locust import events
from locust.argument_parser import get_parser

from soak.load.locust_events import register
from soak.load.locust_user import ChatUser

__all__ = ["ChatUser"]

register(events)

if __name__ == "__main__":
    get_parser().print_help()
