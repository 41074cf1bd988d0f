"""What those who listen to a page, or see it badly, need of it: names, an order of headings, contrast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CONTRAST_MIN = 4.5
CONTRAST_LARGE_MIN = 3.0
_LOOK = Path(__file__).with_name("legible.js").read_text()


def _look(page: Any, what: str) -> Any:
    return page.evaluate(f"{_LOOK.strip()}.{what}()")


def nameless_controls(page: Any) -> list[str]:
    """Return the controls that a screen reader could not name."""
    found: list[str] = _look(page, "namelessControls")
    return found


def heading_levels(page: Any) -> list[int]:
    found: list[int] = _look(page, "headingLevels")
    return found


def landmarks(page: Any) -> dict[str, int]:
    found: dict[str, int] = _look(page, "landmarks")
    return found


def faint_texts(page: Any) -> list[dict[str, Any]]:
    """Return the texts whose contrast is below what WCAG asks for at level AA."""
    return [
        one
        for one in _look(page, "texts")
        if one["contrast"] < (CONTRAST_LARGE_MIN if one["isLarge"] else CONTRAST_MIN)
    ]


def overflow_pixels(page: Any) -> int:
    """Return by how much the page is wider than its window."""
    found: int = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
    return found
