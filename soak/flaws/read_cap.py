"""A limit that nobody knew of."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.flaws.flaw import Flaw, Load
from soak.flaws.served import same_service

FLAW = Flaw(
    name="read_cap",
    incident="the read silently stops at 1,000 messages and returns the oldest",
    code="messages = index.query(limit=1000)[-n:], a page size of 1,000 that nobody knew of, and no second page.",
    mocks="Test conversations are shorter than any limit, and then the first page is the whole.",
    user="The assistant remembered the first weeks very well, and nothing since.",
    kinds=frozenset({Kind.WINDOW, Kind.LOST}),
    causes=frozenset({Cause.SWALLOWED_ERROR, Cause.UNKNOWN}),
    setups=same_service("read_cap"),
    # One session in each store, in which is talked without a pause: the limit is a thousand messages away.
    load=Load(
        users=2,
        session_messages=20_000,
        think_seconds=0.0,
        recall_share=0.0,
        reread_share=0.0,
        mix="short",
    ),
    patience_seconds=60.0,
)
