"""The command that begins the same run anew: its seed, and every setting that is not as it is by default."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

import msgspec

from soak.configuration import NO_FILE, Configuration, Leaf, read
from soak.duration import format_seconds_exactly
from soak.masking import mask
from soak.settings import FaultRule
from soak.thresholds import thresholds_in

COMMAND_DEFAULTS: dict[str, dict[str, object]] = {
    "run": {"faults.preset": "auto"},
    "check": {"duration": "60s", "http.port": 0},
}
"""Where the commands that begin a run differ from the defaults of the settings."""
_LEFT_OUT = frozenset(
    {
        *("data_dir", "seed", "stores.names", "stores.namespace", "http.host", "http.port", "log.level", "log.format"),
        *("otlp.endpoint", "otlp.interval", "otlp.token"),
    }
)
"""Settings that change nothing in what happens, or that are written in another way."""
_RULES, _THRESHOLDS = "faults.rules", "thresholds"


def reproduce(configuration: Configuration, seed: int, stores: list[str]) -> str:
    """Return the command; passwords have to be put in."""
    words = ["soak", configuration.command, "--seed", str(seed), *_repeated("--store", stores)]
    for leaf in changed(configuration):
        if leaf.key in _LEFT_OUT or leaf.key.startswith((f"{_RULES}.", f"{_THRESHOLDS}.")):
            continue
        flag, text = configuration.flags.get(leaf.key), mask(leaf.text)
        # A flag that is there already says another setting: --redis is a version, or a topology.
        is_free = flag is not None and flag not in words
        words += [str(flag), text] if is_free else ["--set", f"{leaf.key}={text}"]
    words += _rules(configuration.settings.faults.rules)
    limits = thresholds_in(configuration.settings.thresholds)
    words += _repeated("--threshold", [f"{one.store}.{one.name}={one.text}".lstrip(".") for one in limits])
    return shlex.join(words)


def changed(configuration: Configuration) -> Iterator[Leaf]:
    """Yield the settings that are not as the command has them by default."""
    plain = read(config=NO_FILE, environ={}, command_defaults=COMMAND_DEFAULTS[configuration.command])
    defaults = {leaf.key: leaf.text for leaf in plain.leaves()}
    for leaf in configuration.leaves():
        if leaf.value is not None and defaults.get(leaf.key) != leaf.text:
            yield leaf


def _rules(rules: list[FaultRule]) -> list[str]:
    texts = [_rule(rule.model_dump(exclude_defaults=True)) for rule in rules]
    if all(text is not None for text in texts):
        return _repeated("--fault", [text for text in texts if text is not None])
    values = [rule.model_dump(exclude_defaults=True) for rule in rules]
    return ["--set", f"{_RULES}={msgspec.json.encode(values).decode()}"]


def _rule(rule: Mapping[str, object]) -> str | None:
    """Write a rule as a flag has it; None where a flag cannot say it."""
    parameters = rule.get("parameters", {})
    own = {key: value for key, value in rule.items() if key not in {"fault", "target", "parameters"}}
    if "fault" not in rule or "," in str(rule.get("cron", "")) or not isinstance(parameters, dict):
        return None
    if own.keys() & parameters.keys():
        return None  # in a flag, what both have is the fault's
    options = [f"{key}={_text(value)}" for key, value in {**own, **parameters}.items()]
    return f"{rule['fault']}:{rule['target']}:{','.join(options)}"


def _text(value: object) -> str:
    return format_seconds_exactly(value) if isinstance(value, float) else str(value)


def _repeated(flag: str, values: list[str]) -> list[str]:
    return [word for value in values for word in (flag, value)]
