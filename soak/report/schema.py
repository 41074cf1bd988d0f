"""The JSON schemas of the result and of `/status`, made from their classes.

`python -m soak.report.schema` writes them.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from soak.api.status import SoakStatus
from soak.report import outcome
from soak.report.outcome import RunOutcome

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PACKAGE = Path(__file__).parents[1]
RESULT_FILE = _PACKAGE / "report" / "result.schema.json"
DOCUMENTS: dict[Path, tuple[str, type[msgspec.Struct]]] = {
    RESULT_FILE: (f"The result of a soak, schema {outcome.SCHEMA}", RunOutcome),
    _PACKAGE / "api" / "status.schema.json": ("The status of a running soak, as /status answers", SoakStatus),
}
"""By file, title and class. The result is what `--json`, `soak report --format json` and `result.json` hold."""


def encode_schema(title: str, kind: type[msgspec.Struct]) -> bytes:
    schema = {"$schema": DIALECT, "title": title, **msgspec.json.schema(kind)}
    return msgspec.json.format(msgspec.json.encode(schema), indent=2) + b"\n"


if __name__ == "__main__":
    for path, (title, kind) in DOCUMENTS.items():
        path.write_bytes(encode_schema(title, kind))
