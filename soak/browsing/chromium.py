"""Where Playwright and a Chromium are on this machine; neither is needed for anything but browser users."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from soak.errors import UsageError

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium(configured: Path | None = None) -> Path:
    """Return the program; raises `UsageError` with what to install where it or Playwright is missing."""
    if importlib.util.find_spec("playwright") is None:
        raise UsageError("browser users need Playwright; install it with: pip install 'soak[browser]'")
    if configured is not None:
        if (named := shutil.which(configured)) is None:
            raise UsageError(f"load.browser names {configured}, which cannot be run; name a Chromium, or leave it out")
        return Path(named)
    found = next((path for program in PROGRAMS if (path := shutil.which(program)) is not None), None)
    if found is None:
        raise UsageError(
            "browser users need a Chromium, and none is on the path; install one (Debian: apt install chromium), "
            "or name it in load.browser"
        )
    return Path(found)
