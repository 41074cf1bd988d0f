"""The cells inside a Markdown file: what is between two marks is replaced, the rest stays."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path

from soak.errors import UsageError
from soak.proc.files import write_whole
from soak.scenarios.analyses.judgement import TrialResult
from soak.scenarios.analyses.table import markdown_lines

BEGIN, END = "<!-- analysis -->", "<!-- /analysis -->"


def check(path: Path) -> None:
    """Check before anything is measured that the file has the marks; raises `UsageError`."""
    _parts(path)


def write_into(path: Path, cells: Sequence[TrialResult], seconds: float, command: str) -> None:
    """Put the table, and how it was made, between the marks of a file."""
    before, after = _parts(path)
    today = time.strftime("%Y-%m-%d", time.gmtime())
    made = f"Measured on {today}, on {platform.system()} with {os.cpu_count()} cores, by:"
    lines = [BEGIN, made, "", "```", command, "```", "", *markdown_lines(cells, seconds), END]
    write_whole(path, (before + "\n".join(lines) + after).encode(), mode=0o644, is_synced=False)


def _parts(path: Path) -> tuple[str, str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--into {path}: it cannot be read ({error}); name a Markdown file that is there") from None
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise UsageError(f"--into {path}: it has no lines {BEGIN} and {END}; put them where the table belongs")
    return before, after
