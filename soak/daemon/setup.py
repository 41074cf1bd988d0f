"""What a run was made of, for those who read of it later: versions, servers, settings, and how to do it again."""

from __future__ import annotations

import platform
import shlex

import soak
from soak.configuration import Configuration
from soak.daemon.beginning import Beginning
from soak.daemon.plan import without_secrets
from soak.errors import SoakError
from soak.masking import mask
from soak.report.outcome import Setting, Setup
from soak.testbed.bed import Testbed

_NOT_FOR_ANOTHER_RUN = frozenset({"data_dir", "seed", "http.host", "http.port", "log.level", "log.format"})
"""Settings that say where and how it is shown, and change nothing in what happens."""


def setup_of(configuration: Configuration, beginning: Beginning, servers: dict[str, str]) -> Setup:
    """Put together what is known when the servers are up."""
    given = [
        Setting(key=leaf.key, value=mask(leaf.text), origin=leaf.origin)
        for leaf in configuration.leaves()
        if leaf.origin != "default"
    ]
    return Setup(
        version=soak.__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        seed=beginning.seed,
        namespace=beginning.namespace,
        stores=beginning.plan.names,
        servers=servers,
        settings=given,
        reproduce=_reproduce(beginning, given),
    )


async def servers_told(beginning: Beginning, testbed: Testbed) -> dict[str, str]:
    """Say of each server whose it is, and which version it says it is."""
    plan = beginning.plan
    told = {kind: f"given, {without_secrets(address)}" for kind, address in plan.given.items()}
    told |= dict.fromkeys(plan.embedded, f"started here ({plan.testbed})")
    for kind in plan.embedded:
        try:
            version = (await testbed.telemetry(kind)).get("version")
        except (OSError, SoakError, LookupError):
            continue  # it is only for the report
        if version:
            told[kind] += f", version {version}"
    return dict(sorted(told.items()))


def _reproduce(beginning: Beginning, given: list[Setting]) -> str:
    words = ["soak", "run", "--seed", str(beginning.seed)]
    words += [word for store in beginning.plan.names for word in ("--store", store)]
    for one in given:
        if one.key not in _NOT_FOR_ANOTHER_RUN and one.key != "stores.names" and _is_plain(one.value):
            words += ["--set", f"{one.key}={one.value}"]
    return shlex.join(words)


def _is_plain(value: str) -> bool:
    """Whether a value can be said on a command line; tables and lists of rules are for soak.toml."""
    return not value.startswith(("{", "[")) and value != "-"
