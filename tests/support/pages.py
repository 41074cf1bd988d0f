"""The README and the pages of docs/, taken apart: marked blocks, commands, tables."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.paths import ROOT

DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted(DOCS.glob("*.md")),
]


def text_of(page: str | Path) -> str:
    """Return a page by its path in the repository."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(marker: str) -> list[tuple[str, str]]:
    """Return what follows the colon of each such marker on any page, with the block after it."""
    pattern = re.compile(rf"<!-- {marker}:? ?([^>]*?) ?-->\n```[a-z]+\n(.*?)```", re.DOTALL)
    return [found for page in PAGES for found in pattern.findall(text_of(page))]


def commands(marker: str) -> list[str]:
    """Return the commands that are to be run in this way, each once, however many pages show it."""
    found = [block for what, block in blocks("test") if what == marker]
    return [*dict.fromkeys(line for block in found for line in block.splitlines() if line)]


def table(heading: str, page: str) -> list[list[str]]:
    """Return the rows of the first table with this first column, without backquotes."""
    body = re.search(rf"^\| {heading} \|.*?\n\|[-| ]+\n((?:\|.*\n)+)", text_of(page), re.MULTILINE)
    assert body is not None, f"{page} has no table of {heading}"
    return [[cell.strip().replace("`", "") for cell in row.strip("|").split("|")] for row in body[1].splitlines()]


def shell_lines(text: str) -> list[str]:
    """Return every line that a page shows to be typed into a shell, continued lines joined."""
    shown = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [line for block in shown for line in block.replace("\\\n", " ").splitlines() if line.strip()]
