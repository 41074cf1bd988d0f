"""Writes the dashboards: `python -m grafana.generate`. With `--check` it only says whether it would change them."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

with warnings.catch_warnings():
    # Its classic schema is what Grafana 11 reads; the later one is read from Grafana 12 on.
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana import faults, itself, overview, store

from grafana_foundation_sdk.cog.encoder import JSONEncoder

FOLDER = Path(__file__).parent / "dashboards"


def dashboards() -> dict[str, str]:
    """Return the text of every dashboard by the name of its file."""
    return {
        f"{name}.json": _text(made)
        for name, made in {
            "overview": overview.make(),
            "faults": faults.make(),
            "store": store.make(),
            "itself": itself.make(),
        }.items()
    }


def _text(made: Any) -> str:
    whole = json.loads(JSONEncoder().encode(made))
    return json.dumps({"id": None, **whole}, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main(words: list[str]) -> int:
    made = dashboards()
    if words == ["--check"]:
        there = {path.name: path.read_text() for path in FOLDER.glob("*.json")}
        changed = sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))
        for name in changed:
            sys.stdout.write(f"{FOLDER / name} is not what the code makes; run: make dashboards\n")
        return int(bool(changed))
    if words:
        sys.stderr.write(f"soak: {' '.join(words)} is not understood; give nothing, or --check\n")
        return 2
    for path in FOLDER.glob("*.json"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
