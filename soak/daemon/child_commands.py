"""How the daemon's children are called, and which environment they get."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import soak
from soak.configuration import ENVIRONMENT_PREFIX, as_environment
from soak.errors import UsageError
from soak.servers.ports import HOST, free_port
from soak.settings import SoakSettings

SUPERVISED_VARIABLE = "SOAK_SUPERVISED"
LOCUSTFILE = Path("locustfiles") / "sessions.py"


def verifier_command(data_dir: Path) -> list[str]:
    return [sys.executable, "-m", "soak", "verify", "--data-dir", str(data_dir), "--supervised"]


def load_command(settings: SoakSettings, data_dir: Path) -> list[str]:
    """Return the command of a Locust that joins the run in this folder, without its web page."""
    load = settings.load
    command = [
        *(sys.executable, "-m", "locust", "--locustfile", str(find_locustfile()), "--headless", "--only-summary"),
        *("--users", str(load.users + load.browser_users), "--spawn-rate", str(load.spawn_rate)),
        *("--stop-timeout", str(math.ceil(load.drain)), "--data-dir", str(data_dir)),
    ]
    if load.processes > 1:
        # Locust would take 5557 on every interface, which another one may already have.
        port = str(free_port())
        command += ["--processes", str(load.processes), "--master-bind-host", HOST, "--master-bind-port", port]
        command += ["--master-host", HOST, "--master-port", port]
    return command


def find_locustfile() -> Path:
    """Return the locust file that belongs to this soak."""
    package = Path(soak.__file__).resolve().parent
    for root in (package.parent, package):
        if (root / LOCUSTFILE).is_file():
            return root / LOCUSTFILE
    raise UsageError(f"{LOCUSTFILE} is not beside the package {package}; run with --no-load and start Locust yourself")


def child_environment(settings: SoakSettings, data_dir: Path) -> dict[str, str]:
    """Return our environment with the effective settings in place of those it had."""
    absolute = settings.model_copy(update={"data_dir": data_dir})
    # Locust reads its own variables and would change what is run.
    kept = {name: value for name, value in os.environ.items() if not name.startswith((ENVIRONMENT_PREFIX, "LOCUST_"))}
    import_path = [str(Path(soak.__file__).resolve().parent.parent), *filter(None, [kept.get("PYTHONPATH")])]
    return {
        **kept,
        **as_environment(absolute),
        SUPERVISED_VARIABLE: "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(import_path),
    }
