"""An error, returned as an empty history."""

from __future__ import annotations

from soak.checker.causes import Cause
from soak.checker.kinds import Kind
from soak.flaws.flaw import GONE, Flaw, WrongFrom
from soak.flaws.served import same_service
from soak.scenarios.scenario import ScenarioFault
from soak.servers.kinds import REDIS

# Of the server behind the service, which itself is well all the time.
FLAW = Flaw(
    name="empty_on_error",
    incident='the read fails and the store answers "no memory"',
    code="except Exception: return []. And a circuit breaker that says the same for as long as it is open.",
    mocks="The test of the error path asserts that an empty list comes back. It does.",
    user="Greeted as a new customer, told their story again; ten seconds later everything was known twice.",
    # What was "not there" for a moment comes back: then it was only late.
    kinds=GONE | {Kind.STALE},
    causes=frozenset({Cause.SWALLOWED_ERROR}),
    setups=same_service(
        "empty_on_error", ScenarioFault(fault="connection_refused", target=REDIS.name, hold_seconds=0.7)
    ),
    wrong_from=WrongFrom.FAULT_STARTED,
    heals=True,
)
