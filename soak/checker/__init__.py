"""The judgement, pure: no clock, no socket, no log. The ledger's records and reads go in, findings come out.

One lost message, from the read to the verdict, in six files:

1. `session.py`: `SessionChecker.observe` takes a full read.
2. `judge.py`: `judge` compares it with what is expected.
3. `expected_session.py`: what the ledger said and earlier reads have shown.
4. `retention.py`: `absences` parts what may rightly be gone from what is missing.
5. `second_look.py`: `look_again` holds a later read against what was missing: lost, late, or excused by a fault.
6. `events.py`: `report_losses` counts it once, and says so.
"""
