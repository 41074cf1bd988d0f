"""The same words are not the same message."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.flaws.flaw import GONE, Flaw, Load
from soak.flaws.served import same_service

FLAW = Flaw(
    name="content_dedup",
    incident='"continue" said twice is stored once',
    code="if the hash of role and content is known, skip it: a cure for double clicks.",
    mocks="Every message of a test is another one.",
    user="Said 'yes' a second time; the assistant waited for an answer.",
    kinds=GONE,
    causes=frozenset({Cause.SWALLOWED_ERROR, Cause.UNKNOWN}),
    setups=same_service("content_dedup"),
    load=Load(mix="short"),
)
