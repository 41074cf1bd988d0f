"""What several end-to-end tests look at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.browser.windows import browsing


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Return a Chromium; each module has one."""
    with browsing() as found:
        yield found
