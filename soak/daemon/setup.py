"""What a run was made of, for those who read of it later: versions, servers, settings, and how to do it again."""

from __future__ import annotations

import platform
import shlex

import msgspec

import soak
from soak.configuration import Configuration
from soak.daemon.plan import without_secrets
from soak.daemon.run_identity import RunIdentity
from soak.errors import SoakError
from soak.masking import mask
from soak.report.outcome import Setting, Setup
from soak.servers.inspect import inspect

_SAID_OTHERWISE = frozenset(
    {"data_dir", "seed", "stores.names", "stores.namespace", "http.host", "http.port", "log.level", "log.format"}
)
"""Settings that change nothing in what happens, or that have flags of their own."""
_RULES = "faults.rules"
INSPECT_SECONDS_MAX = 5.0


def setup_of(configuration: Configuration, beginning: RunIdentity, servers: dict[str, str]) -> Setup:
    """Put together what is known when the servers are up."""
    given = [
        Setting(key=leaf.key, value=mask(leaf.text), origin=leaf.origin)
        for leaf in configuration.leaves()
        if leaf.origin != "default" and leaf.value is not None
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
        reproduce=_reproduce(configuration, beginning, given),
    )


async def servers_told(beginning: RunIdentity, addresses: dict[str, str]) -> dict[str, str]:
    """Say of each server under test whose it is, and which version it says it is."""
    plan = beginning.plan
    told = {}
    for kind, address in sorted(addresses.items()):
        given = plan.given.get(kind)
        told[kind] = f"started here ({plan.testbed})" if given is None else f"given, {without_secrets(given)}"
        try:
            telemetry = (await inspect(kind, address, timeout_seconds=INSPECT_SECONDS_MAX)).telemetry
        except (OSError, SoakError):
            continue  # it is only for the report
        if version := telemetry.get("version") or telemetry.get("server_version"):
            told[kind] = f"version {version}, {told[kind]}"
    return told


def _reproduce(configuration: Configuration, beginning: RunIdentity, given: list[Setting]) -> str:
    words = ["soak", "run", "--seed", str(beginning.seed)]
    words += [word for store in beginning.plan.names for word in ("--store", store)]
    for one in given:
        if one.key not in _SAID_OTHERWISE and not one.key.startswith(_RULES):
            words += ["--set", f"{one.key}={one.value}"]
    if rules := configuration.settings.faults.rules:
        told = [rule.model_dump(exclude_defaults=True) for rule in rules]
        words += ["--set", f"{_RULES}={msgspec.json.encode(told).decode()}"]
    return shlex.join(words)
