"""The JSON Schema of a result, made from the classes that hold it: `python -m soak.report.schema` writes it anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from soak.report import outcome
from soak.report.outcome import Outcome

PATH = Path(__file__).with_name("result.schema.json")
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def make() -> dict[str, Any]:
    """Return the schema of what `--json`, `soak report --format json` and `result.json` hold."""
    return {
        "$schema": DIALECT,
        "title": f"The result of a soak, schema {outcome.SCHEMA}",
        **msgspec.json.schema(Outcome),
    }


def encoded() -> bytes:
    return msgspec.json.format(msgspec.json.encode(make()), indent=2) + b"\n"


if __name__ == "__main__":
    PATH.write_bytes(encoded())
