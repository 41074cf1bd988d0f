"""What a test needs of the machine. Where it is missing, the test is skipped, or fails where nothing may be missing."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def all_required() -> bool:
    """Whether nothing may be missing here, as in CI."""
    return os.environ.get("SOAK_REQUIRE_ALL") == "1"


def missing(reason: object) -> NoReturn:
    """Skip the test that needs what is not here, or fail it."""
    if all_required():
        pytest.fail(f"{reason}, and SOAK_REQUIRE_ALL is set")
    pytest.skip(str(reason))


def installed(program: str, hint: str = "") -> str:
    """Return where a program of this machine is; a test that needs it ends here if it is not there."""
    return shutil.which(program) or missing(f"{program} is not installed{hint}")
