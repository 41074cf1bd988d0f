"""JSON that several threads read at once."""

from __future__ import annotations

import subprocess
import sys

from tests.support.paths import ROOT

AT_ONCE = """
import sys, threading
import msgspec
from soak.json_input import decode_json

sys.setswitchinterval(1e-6)
for number in range(150):
    inner = msgspec.defstruct("Inner", [(f"i{at}", "int | None", None) for at in range(20)])
    outer = msgspec.defstruct("Outer", [(f"o{at}", inner | None, None) for at in range(20)])
    together = threading.Barrier(4)

    def read():
        together.wait()
        decode_json(b'{"o19": {"i19": 1}}', type=outer | None)

    threads = [threading.Thread(target=read) for _ in range(4)]
    [one.start() for one in threads]
    [one.join() for one in threads]
print("alive")
"""


def test_a_type_that_several_threads_meet_first_at_once_crashes_nothing() -> None:
    # In a process of its own: it was killed by the system in the middle of a soak, when a page asked for two stories.
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE], capture_output=True, text=True, timeout=120, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
