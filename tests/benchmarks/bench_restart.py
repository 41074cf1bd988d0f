"""How soon a soak judges again after a kill -9: of the verifier, of the load, of the daemon with `soak run` after it.

Run it: `python -m tests.benchmarks.bench_restart [store]`. Wall time; on a busy machine it says little, so it
prints how busy that was.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from tests.support.benchmark_report import machine
from tests.support.checking import RunningCheck, child, new_folder, processes_of, total, wait_until

WORDS = ("--users", "24", "--set", "load.think=100ms", "--set", "load.spawn_rate=100", "--duration", "10m")
MORE = 100
"""So many messages more must be verified before it judges again."""


def seconds_after_kill(check: RunningCheck, name: str) -> float:
    status = check.status()
    os.kill(child(status, name)["pid"], signal.SIGKILL)
    before, killed = total(status, "acknowledged"), time.monotonic()
    # What was acknowledged before the kill may still be verified after it.
    check.until(lambda now: total(now, "verified") >= before + MORE)
    return time.monotonic() - killed


def main(store: str) -> None:
    words = ("--store", store, *WORDS)
    print(f"restart, {store} ({machine()})")
    with new_folder() as folder:
        # As on a machine where soak is installed: a process that is started again does not compile its modules again.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
        with RunningCheck(folder, *words) as check:
            began = time.monotonic()
            status = check.until_verified(MORE)
            print(f"first {MORE} messages verified after the start  {time.monotonic() - began:5.1f} s")
            for name in ("verifier", "load"):
                time.sleep(3)
                print(f"judges again after a kill of the {name:8}     {seconds_after_kill(check, name):5.1f} s")
            time.sleep(3)
            status = check.status()
        wait_until(lambda: not processes_of(folder))
        check, began = RunningCheck(folder, *words), time.monotonic()
        try:
            check.until_verified(total(status, "acknowledged") + MORE)
            print(f"judges again after a kill of the daemon       {time.monotonic() - began:5.1f} s")
            check.end()
        finally:
            check.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "redis-list")
