"""Rules of faults for a run, and runs with faults on a schedule."""

from __future__ import annotations

import json
from typing import Any

LONG_HOLD = "300s"


def rule(fault: str, target: str, every: str = "2s", hold: str = "500ms") -> dict[str, str]:
    return {"fault": fault, "target": target, "every": every, "hold": hold}


def scheduled(*rules: dict[str, str]) -> tuple[str, ...]:
    return ("--set", f"faults.rules={json.dumps(rules)}", "--set", "faults.healthy_min=1s")


def under_way(status: dict[str, Any], name: str) -> bool:
    return any(active.startswith(name) for active in status["faults_active"])
