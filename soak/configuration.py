"""Reading the settings: flags over environment (`SOAK_LOAD__USERS=10`) over `soak.toml` over defaults.

Every wrong key and value is reported at once, one line each, with the place it came from.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from soak.duration import format_seconds_exactly, parse_seconds
from soak.errors import UsageError
from soak.masking import mask
from soak.servers.kinds import KINDS
from soak.settings import SoakSettings
from soak.suggestion import did_you_mean, nearest

ENVIRONMENT_PREFIX = "SOAK_"
NESTED_DELIMITER = "__"
FILE_NAME = "soak.toml"
NO_FILE = Path(os.devnull)
"""Named as configuration file it means: read none, not even one that lies here."""
CONFIG_VARIABLE = "SOAK_CONFIG"
SETTINGS_VARIABLE = "SOAK_SETTINGS"
"""The effective settings as JSON, from the daemon to its children."""
NOT_SETTINGS = frozenset({CONFIG_VARIABLE, SETTINGS_VARIABLE, "SOAK_REQUIRE_ALL", "SOAK_STORM", "SOAK_SUPERVISED"})
"""Variables that begin like settings and are none."""

COMMAND_DEFAULT = "this command's default"

KeyPath = tuple[str, ...]


class Layer(NamedTuple):
    """What one source says: a nested tree, and for each of its leaves the words for where it stands."""

    values: dict[str, Any]
    places: dict[KeyPath, str]

    def place_of(self, path: KeyPath) -> str | None:
        """Name the place that says something at this path, below it or above it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return next((place for key, place in self.places.items() if key[: len(path)] == path), None)


class Leaf(NamedTuple):
    """One effective setting and where it came from; secrets are already masked."""

    key: str
    value: object
    origin: str
    is_duration: bool = False

    @property
    def text(self) -> str:
        """The value as one would write it."""
        if self.value is None:
            return "-"
        values = self.value if isinstance(self.value, list) else [self.value]
        shown = (format_seconds_exactly(float(str(value))) if self.is_duration else str(value) for value in values)
        return ",".join(shown)


class Configuration(NamedTuple):
    """The effective settings, and where each of them came from."""

    settings: SoakSettings
    layers: tuple[Layer, ...]
    flags: Mapping[str, str] = MappingProxyType({})
    """By key: the flag that sets it, where it has one."""
    command: str = "run"
    """The command that was given these settings."""

    def origin(self, key: str) -> str | None:
        """Say where a setting was given, or None where the default holds."""
        path = tuple(key.split("."))
        return next((place for layer in self.layers if (place := layer.place_of(path)) is not None), None)

    def leaves(self) -> list[Leaf]:
        return [
            Leaf(_dotted(path), value, _origin(self.layers, path) or "default", is_duration(path))
            for path, value in _walk(self.settings, ())
        ]


NOT_OF_THE_RUN = frozenset({"data_dir", "http", "log", "report"})
"""Sections about where a daemon listens and writes, which the next one may do elsewhere."""
_RULES = "faults.rules"
_LOGINS = ("verifier.redis_login", "verifier.postgres_login")
_MAY_CHANGE = frozenset(
    {
        "duration",
        "servers.http_token",
        "ledger.url",
        "verifier.shards",
        "verifier.shards_elsewhere",
        *_LOGINS,
        *(kind.setting for kind in KINDS.values() if kind.schemes),
    }
)
"""A resumed run may have another duration, and more verifiers. Servers are compared elsewhere, without passwords."""


def saved(settings: SoakSettings) -> dict[str, Any]:
    """Return the settings of a run for resuming it: what is not the default, and no secret."""
    values: dict[str, Any] = settings.model_dump(mode="json", exclude_defaults=True, exclude=set(NOT_OF_THE_RUN))
    # Commands differ in it, so what is the default of one is a choice to the next.
    values.setdefault("faults", {})["preset"] = settings.faults.preset
    for section in ("servers", "ledger", "verifier"):
        for name, secret in getattr(settings, section):
            if isinstance(secret, SecretStr):
                values[section].pop(name)
                address = secret.get_secret_value()
                if "://" in address and mask(address) == address:
                    values[section][name] = address
    return values


def as_saved(configuration: Configuration, values: Mapping[str, Any]) -> tuple[Configuration, list[str]]:
    """Return the configuration with what a run was begun with where nothing else is given, and what is given otherwise.

    Each difference is a line: `load.users = 10, not 20`.
    """
    begun = SoakSettings.model_validate(values)
    was = {leaf.key: leaf for leaf in Configuration(begun, ()).leaves()}
    changed = [
        f"{leaf.key} = {was[leaf.key].text if leaf.key in was else '-'}, not {leaf.text}"
        for leaf in configuration.leaves()
        if leaf.origin not in {"default", COMMAND_DEFAULT}
        and leaf.key not in _MAY_CHANGE
        and leaf.key.partition(".")[0] not in NOT_OF_THE_RUN
        and (leaf.key not in was or was[leaf.key].value != leaf.value)
    ]
    if not changed and configuration.origin(_RULES) and configuration.settings.faults.rules != begun.faults.rules:
        changed = [f"{len(begun.faults.rules)} {_RULES}, not {len(configuration.settings.faults.rules)}"]
    layer = Layer({}, {})
    for path, value in _walk_values(values, ()):
        _put(layer, path, value, "the run that is resumed")
    layers = (*configuration.layers[:-1], layer, *configuration.layers[-1:])
    return configuration._replace(settings=_Sources(*layers).plain(), layers=layers), changed


class ConfigurationError(UsageError):
    """Some settings are wrong: each on a line of its own."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


def read(
    flags: Mapping[str, object] | None = None,
    *,
    assignments: Sequence[str] = (),
    config: Path | None = None,
    command_defaults: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    places: Mapping[str, str] | None = None,
) -> Configuration:
    """Read the whole tree. Flags and command defaults are values by dotted key, assignments KEY=VALUE."""
    environ = os.environ if environ is None else environ
    layers = (
        _from_assignments(assignments),
        _from_flags(flags or {}, places or {}),
        _from_environment(environ),
        _from_daemon(environ),
        _from_file(_config_path(config, environ)),
        _from_flags(command_defaults or {}, dict.fromkeys(command_defaults or {}, COMMAND_DEFAULT)),
    )
    try:
        return Configuration(_Sources(*layers).plain(), layers)
    except ValidationError as error:
        raise ConfigurationError(list(_lines(error, layers))) from None


_ELSEWHERE: dict[str, Any] = {
    "servers": True,
    "contract": True,
    "otlp": True,
    "ledger": {"url"},
    "verifier": {login.partition(".")[2] for login in _LOGINS},
}
"""Settings that reach child processes by the join file."""


def as_environment(settings: SoakSettings) -> dict[str, str]:
    """Return the variables that give a child process the same settings; addresses reach it by the join file."""
    text = settings.model_dump_json(exclude=_ELSEWHERE)
    return {CONFIG_VARIABLE: str(NO_FILE), SETTINGS_VARIABLE: text}


class _LayerSource(PydanticBaseSettingsSource):
    def __init__(self, settings_cls: type[BaseSettings], layer: Layer) -> None:
        super().__init__(settings_cls)
        self._layer = layer

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        del field
        return self._layer.values.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        return self._layer.values


class _Sources(SoakSettings, BaseSettings):  # type: ignore[misc]  # two config types, one holds the other
    """The tree as pydantic-settings fills it; `SoakSettings` itself reads nothing on its own."""

    def __init__(self, *layers: Layer) -> None:
        BaseSettings.__init__(self, layers=layers)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del env_settings, dotenv_settings, file_secret_settings
        layers: tuple[Layer, ...] = init_settings()["layers"]
        return tuple(_LayerSource(settings_cls, layer) for layer in layers)

    def plain(self) -> SoakSettings:
        return SoakSettings.model_construct(**{name: getattr(self, name) for name in SoakSettings.model_fields})


# Sources ---------------------------------------------------------------------------------------------------


def _from_flags(flags: Mapping[str, object], places: Mapping[str, str]) -> Layer:
    layer = Layer({}, {})
    for key, value in flags.items():
        # What a flag says of one store must not be taken for what a file says of another.
        *section, name = key.split(".")
        for path, below in _walk_values({name: value}, tuple(section)):
            _put(layer, path, below, places.get(key, f"--{key}"))
    return layer


def _from_assignments(assignments: Sequence[str]) -> Layer:
    layer = Layer({}, {})
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        try:
            path = tuple(_only_path(tomllib.loads(f"{key.strip()} = 0"))) if separator else ()
        except tomllib.TOMLDecodeError:
            path = ()
        if not path:
            raise UsageError(f"--set {mask(assignment)!r} is not understood; write --set load.users=10")
        _put(layer, path, _from_text(path, text.strip()), f"--set {key.strip()}")
    return layer


def _from_environment(environ: Mapping[str, str]) -> Layer:
    layer = Layer({}, {})
    for name in sorted(environ):
        # A variable that is set but empty is how compose files and shells say "not given".
        if not name.startswith(ENVIRONMENT_PREFIX) or name in NOT_SETTINGS or not environ[name]:
            continue
        path = tuple(name[len(ENVIRONMENT_PREFIX) :].lower().split(NESTED_DELIMITER))
        if path[0] == "contract" or (path[0] == "thresholds" and len(path) > 2):
            # Shells allow no dash in a name, the stores' names have them.
            path = (path[0], *(part.replace("_", "-") for part in path[1:2]), *path[2:])
        _put(layer, path, _from_text(path, environ[name]), f"environment {name}")
    return layer


def _from_daemon(environ: Mapping[str, str]) -> Layer:
    layer = Layer({}, {})
    for path, value in _walk_values(json.loads(environ.get(SETTINGS_VARIABLE) or "{}"), ()):
        _put(layer, path, value, "the daemon")
    return layer


def _config_path(given: Path | None, environ: Mapping[str, str]) -> Path | None:
    named = given or (Path(environ[CONFIG_VARIABLE]) if environ.get(CONFIG_VARIABLE) else None)
    if named == NO_FILE:
        return None
    if named is not None:
        if not named.is_file():
            raise UsageError(f"configuration file {named} does not exist; name another with --config")
        return named
    found = Path(FILE_NAME)
    return found if found.is_file() else None


def _from_file(path: Path | None) -> Layer:
    layer = Layer({}, {})
    if path is None:
        return layer
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}{_line_of(error)}: not valid TOML: {_without_position(error)}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not valid TOML: it is not UTF-8 ({error.reason} at byte {error.start})") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    for leaf_path, value in _walk_values(values, ()):
        _put(layer, leaf_path, value, str(path))
    return layer


def _line_of(error: tomllib.TOMLDecodeError) -> str:
    found = re.search(r"at line (\d+), column (\d+)", str(error))
    return f" line {found[1]}, column {found[2]}" if found else " at its end"


def _without_position(error: tomllib.TOMLDecodeError) -> str:
    text = re.sub(r"\s*\(at [^)]*\)", "", str(error))
    return text[:1].lower() + text[1:]


def _from_text(path: KeyPath, text: str) -> object:
    """Read a list as JSON or separated by commas; any other value stays text, which the tree converts."""
    if not _is_list(path):
        return text
    if text.startswith("["):
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return text
    return [part.strip() for part in text.split(",") if part.strip()]


def _is_list(path: KeyPath) -> bool:
    declared = _annotation(path)
    return get_origin(getattr(declared, "__origin__", declared)) is list or get_origin(declared) is list


def _annotation(path: KeyPath) -> Any:
    """Return the type that the tree declares at a path, with its validators, if it declares one."""
    found: Any = SoakSettings
    for part in path:
        plain = get_args(found)[0] if get_origin(found) is Annotated else found
        if get_origin(plain) is list and part.isdigit():
            found = get_args(plain)[0]
            continue
        if not (isinstance(found, type) and issubclass(found, BaseModel)) or part not in found.model_fields:
            return None
        field = found.model_fields[part]
        found = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    return found


def is_duration(path: KeyPath) -> bool:
    """Say whether the setting at a path is a time, which people write as 90s or 8h."""
    return _is_seconds(_annotation(path))


def choices(path: KeyPath) -> list[str]:
    """Return the words that the setting at a path may be, where it is one of a few."""
    declared = _annotation(path)
    return [str(choice) for choice in get_args(declared)] if get_origin(declared) is Literal else []


def _is_seconds(annotation: Any) -> bool:
    if getattr(annotation, "func", None) is parse_seconds:
        return True
    return any(_is_seconds(part) for part in (*get_args(annotation), *getattr(annotation, "__metadata__", ())))


def _put(layer: Layer, path: KeyPath, value: object, place: str) -> None:
    tree = layer.values
    for part in path[:-1]:
        below = tree.setdefault(part, {})
        if not isinstance(below, dict):
            below = tree[part] = {}
        tree = below
    tree[path[-1]] = value
    layer.places[path] = place


# Wrong keys and values -------------------------------------------------------------------------------------


def _lines(error: ValidationError, layers: tuple[Layer, ...]) -> Iterator[str]:
    seen = set()
    for details in error.errors(include_url=False):
        path = tuple(str(part) for part in details["loc"])
        line = f"{_origin(layers, path) or 'settings'}: {_complaint(details, path)}"
        if line not in seen:
            seen.add(line)
            yield line


def _complaint(details: ErrorDetails, path: KeyPath) -> str:
    key = _dotted(path)
    if details["type"] == "extra_forbidden":
        siblings = _siblings(path[:-1])
        near = nearest(path[-1], siblings)
        hint = f"did you mean {'.'.join((*path[:-1], near))}?" if near else f"known here: {', '.join(siblings)}"
        return f"{key} is not a setting; {hint}"
    if details["type"] == "model_type":
        return f"{key} is a section; name a setting in it, such as {key}.{_siblings(path)[0]}"
    shown = _shown(path, details["input"])
    hint = did_you_mean(shown, choices(path)) if details["type"] == "literal_error" else ""
    return f"{key} = {shown}: {_what_is_allowed(details)}{hint and f'; {hint}'}"


def _shown(path: KeyPath, given: object) -> str:
    text = given.get_secret_value() if isinstance(given, SecretStr) else str(given)
    if path[0] == "servers" or path == ("ledger", "url") or ".".join(path) in _LOGINS:
        return _without_secret(text)
    return text


_PLAIN_WORDS = {
    "too_short": "should not be empty",
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "should be a whole number"),
    **dict.fromkeys(("float_parsing", "float_type"), "should be a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "should be true or false"),
}
"""What pydantic says in the words of a parser, by the type of the error."""


def _what_is_allowed(details: ErrorDetails) -> str:
    if (plain := _PLAIN_WORDS.get(details["type"])) is not None:
        return plain
    message = details["msg"]
    if message.startswith("Value error, "):
        return message.removeprefix("Value error, ")
    if message.startswith("Input should be "):
        allowed = message.removeprefix("Input should be ").replace("greater than or equal to", "at least")
        return "should be " + allowed.replace("less than or equal to", "at most")
    return message[:1].lower() + message[1:]


def _siblings(path: KeyPath) -> list[str]:
    section = _annotation(path)
    return list(section.model_fields)


def _origin(layers: tuple[Layer, ...], path: KeyPath) -> str | None:
    return next((place for layer in layers if (place := layer.place_of(path)) is not None), None)


# Walking the tree ------------------------------------------------------------------------------------------


def _walk(value: object, path: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    if isinstance(value, BaseModel):
        for name in (*type(value).model_fields, *(value.model_extra or {})):
            yield from _walk(getattr(value, name), (*path, name))
    elif isinstance(value, dict) and value:
        for name, below in value.items():
            yield from _walk(below, (*path, str(name)))
    elif isinstance(value, list) and any(isinstance(one, BaseModel) for one in value):
        for number, below in enumerate(value):
            yield from _walk(below, (*path, str(number)))
    elif isinstance(value, SecretStr):
        yield path, _without_secret(value.get_secret_value())
    else:
        yield path, str(value) if isinstance(value, Path) else value


def _without_secret(text: str) -> str:
    """Show of an address all but its password, and of a token nothing."""
    return mask(text) if "://" in text else "***"


def _walk_values(values: Mapping[str, object], path: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _walk_values(value, (*path, name))
        else:
            yield (*path, name), value


def _only_path(tree: Mapping[str, object]) -> Iterator[str]:
    for name, value in tree.items():
        yield name
        if isinstance(value, dict):
            yield from _only_path(value)


def _dotted(path: KeyPath) -> str:
    return ".".join(map(_quoted, path))


def _quoted(part: str) -> str:
    return part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else f'"{part}"'
