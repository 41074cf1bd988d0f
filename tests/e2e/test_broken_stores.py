"""A store that cannot work says so in one line, and the run does not wait for its duration to say it."""

from __future__ import annotations

import pytest

from soak.errors import ExitCode
from tests.support.checking import checking
from tests.support.stores.broken import TypoInAppend, TypoInHistory

pytestmark = [pytest.mark.long, pytest.mark.slow]

WORDS = ("--users", "6", "--set", "load.think=100ms", "--duration", "10m")


@pytest.mark.parametrize(
    ("store", "method", "offset", "said"),
    [
        (TypoInAppend, "append", 1, "AttributeError: 'TypoInAppend' object has no attribute '_row'"),
        (TypoInHistory, "history", 2, "NameError: name 'sesion' is not defined"),
    ],
)
def test_a_typo_ends_the_check_with_the_line_that_has_it(store: type, method: str, offset: int, said: str) -> None:
    name = f"tests.support.stores.broken:{store.__name__}"
    with checking("--store", name, *WORDS) as check:
        told = check.wait()
        output = check.output
    assert (check.process.returncode, told["verdict"]) == (ExitCode.USAGE, "inconclusive"), output
    line = getattr(store, method).__code__.co_firstlineno + offset
    assert told["reasons"][0].startswith(f"{name}: {method} raised {said}")
    assert told["reasons"][0].endswith(f"(broken.py:{line})")
    assert f"draining: {told['reasons'][0]}" in output, "it ends for this, and not when its time is over"
    result = told["result"]
    (error,) = [one for one in result["store_errors"] if one["operation"] == method]
    assert (error["nature"], error["line"]) == ("defect", told["reasons"][0])
    assert error["count"] >= 3
