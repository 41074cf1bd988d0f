"""`soak conformance`: the contract suite as a front end for web services, and the contract as an OpenAPI document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def document() -> dict[str, Any]:
    """Return the contract of the http store as an OpenAPI document."""
    read: dict[str, Any] = json.loads(Path(__file__).with_name("memory.openapi.json").read_text(encoding="utf-8"))
    return read
