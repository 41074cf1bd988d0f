"""Statuses for tests: only what a test is about has to be given."""

from __future__ import annotations

from typing import Any

import msgspec

from soak.api.status import NO_TOTALS, ChildStatus, SoakStatus, VerifierStatus

_STORE: dict[str, Any] = {"acknowledged": 0, "verified": 0, "released": 0, "violations": 0, "tolerated": 0}
_CANARY: dict[str, Any] = {"detected": 0, "missed": 0, "early": 0, "last_detected_wall_seconds": 0.0}
_FINDING: dict[str, Any] = {
    **dict.fromkeys(("id", "run", "store", "cause", "headline"), ""),
    "kind": "lost",
    **dict.fromkeys(("count", "open", "healed", "sessions", "first_wall_seconds", "last_wall_seconds"), 0),
    "acknowledged": None,
    "share": None,
    "sessions_at_least": False,
    "example": {
        **dict.fromkeys(("id", "session", "message", "detail"), ""),
        "at_wall_seconds": 0.0,
        "rank": 0,
        "has_evidence": False,
    },
}
_ERROR: dict[str, Any] = {
    **dict.fromkeys(("store", "operation", "type", "text", "place"), ""),
    **dict.fromkeys(("count", "first_wall_seconds", "last_wall_seconds"), 0),
}


_DEFAULTS: dict[str, dict[str, Any]] = {
    "by_store": _STORE,
    "canaries": _CANARY,
    "findings": _FINDING,
    "store_errors": _ERROR,
}
_STATUS: dict[str, Any] = {
    "state": "following",
    "ledger_reachable": True,
    "load_held_back": False,
    "tried": {"text": ""},
    **dict.fromkeys(("run",), ""),
    **dict.fromkeys(("at_us", "at_wall_seconds", "turns", "ledger_lag_seconds", "unread", "sessions_live"), 0),
    **dict.fromkeys(("oldest_unverified_seconds", "longest_unverified_seconds", "last_sweep_wall_seconds"), 0),
    **dict.fromkeys(("suspicions_open", "state_bytes", "restarts", "faults_total"), 0),
    **{name: [] for name in ("by_store", "measured", "violations_by", "findings", "store_errors", "broken_stores")},
    **{name: [] for name in ("faults_active", "canaries", "recovering", "fault_failures", "operations", "recoveries")},
    **{name: [] for name in ("events", "warnings")},
    **{name: {} for name in ("totals", "recalls", "contracts", "configurations")},
}


def verifier_status(**changes: Any) -> VerifierStatus:
    """Make a verifier's status of partial values, as JSON would hold them."""
    filled: dict[str, Any] = {
        name: [{**_DEFAULTS[name], **one} for one in value] if name in _DEFAULTS else value
        for name, value in {**_STATUS, **changes}.items()
    }
    filled["totals"] = {**msgspec.to_builtins(NO_TOTALS), **filled["totals"]}
    return msgspec.convert(filled, VerifierStatus)


def soak_status(verifier: dict[str, Any] | None = None, **changes: Any) -> SoakStatus:
    """Make the status of a running soak; `verifier` holds partial values."""
    status = SoakStatus(
        run="r1",
        phase="running",
        verdict="undecided",
        stores=["redis-list"],
        seed="1",
        namespace="soak_r1",
        data_dir="/data",
        http_address="http://127.0.0.1:1",
        uptime_seconds=1.0,
        remaining_seconds=None,
        children=[ChildStatus(name="verifier", state="running", pid=7, restarts=0, last_exit=None)],
        servers=[],
        faults_active=[],
        not_ready=[],
        warnings=[],
        verifier=None if verifier is None else verifier_status(**verifier),
    )
    return msgspec.structs.replace(status, **changes)
