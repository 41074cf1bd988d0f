"""Makes `locust -f FILE --help` show the options that FILE adds.

Locust prints its help before it looks into the locustfile, so options added there are missing from it. The one thing it
does import before is a module named `locust_plugins`; one that calls this function mends it.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence

from locust.util.load_locustfile import load_locustfile

_HELP = frozenset({"-h", "--help"})
_FILE = frozenset({"-f", "--locustfile"})


def load_locustfile_before_help(argv: Sequence[str]) -> None:
    """Load the locustfile of this command line when help is asked for, so that its options are known in time."""
    if _HELP.isdisjoint(argv):
        return
    sys.path.insert(0, "")
    for path in _locustfiles(argv):
        load_locustfile(path)


def _locustfiles(argv: Sequence[str]) -> list[str]:
    for flag, value in itertools.pairwise(argv):
        if flag in _FILE:
            return value.split(",")
    joined = (word.partition("=") for word in argv)
    return [path for flag, _, value in joined if flag in _FILE for path in value.split(",") if path]
